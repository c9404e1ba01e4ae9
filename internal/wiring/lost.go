package wiring

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// listKeys are settings with several values, which install merges.
var listKeys = []string{"JobSubmitPlugins", "SlurmctldParameters", "PrivateData", "GresTypes", "SuspendExcNodes"}

// Word is one value of a list that Slurm does not take: slurm.conf and the file that it includes
// both have the list, and Slurm takes the later one.
type Word struct {
	Key, Word string
	// Ours: it is in our file, and slurm.conf has the list after that.
	Ours bool
}

func (w Word) String() string {
	if w.Ours {
		return fmt.Sprintf("%s has %s=%s, and a later line of slurm.conf overrides it", IncludeFile, w.Key, w.Word)
	}
	return fmt.Sprintf("slurm.conf has %s=%s, and %s overrides it", w.Key, w.Word, IncludeFile)
}

// Lost are the words that Slurm does not take. ours is the text of IncludeFile.
func Lost(site Conf, ours string) (lost []Word) {
	if !site.Included {
		return nil
	}
	include, _ := parse(ours) // our own text includes nothing, and names its nodes as Slurm does
	for _, key := range listKeys {
		theirs, ours := site.list(key), include.list(key)
		if len(theirs) == 0 || len(ours) == 0 {
			continue
		}
		later := site.later[strings.ToLower(key)]
		if later {
			theirs, ours = ours, theirs
		}
		for _, word := range theirs {
			if !slices.Contains(ours, word) {
				lost = append(lost, Word{key, word, later})
			}
		}
	}
	return lost
}

// Unread are values of lists in slurm.conf or in our file that slurmctld runs without.
func Unread(site Conf, ours string, running slurm.Config) (unread []string) {
	if !site.Included {
		return nil
	}
	include, _ := parse(ours) // our own text includes nothing, and names its nodes as Slurm does
	for key, has := range map[string][]string{"JobSubmitPlugins": running.JobSubmitPlugins, "SlurmctldParameters": running.SlurmctldParameters, "PrivateData": running.PrivateData} {
		words := include.list(key)
		if len(words) == 0 || site.later[strings.ToLower(key)] {
			words = site.list(key)
		}
		for _, word := range words {
			if word != "none" && !slices.Contains(has, strings.TrimPrefix(word, "job_submit/")) {
				unread = append(unread, fmt.Sprintf("slurmctld runs without %s=%s", key, word))
			}
		}
	}
	slices.Sort(unread)
	return unread
}
