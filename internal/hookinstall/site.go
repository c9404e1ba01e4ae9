package hookinstall

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// SlurmConf holds what slurm.conf and gres.conf say themselves, without our files: slurmctld takes the
// last line of a key, and does not start with two lines of a node or a partition.
type SlurmConf struct {
	Path   string            // the path of slurm.conf
	values map[string]string // by key in lower case, as Slurm compares them
	// nodes have a line; partitions have one, of which the options are kept in lower case.
	nodes      map[string]bool
	partitions map[string]string
	gresNodes  map[string]bool // they have a line in gres.conf
	Included   bool            // slurm.conf includes our file
}

// ReadSlurmConf reads slurm.conf at a path, the gres.conf beside it if there is one, and what they include. It fails on
// names of nodes that cannot be told apart.
func ReadSlurmConf(conf string) (SlurmConf, error) {
	if _, err := os.Stat(conf); err != nil {
		return SlurmConf{}, err
	}

	all, included, err := readLines(conf, IncludeFile)
	if err != nil {
		return SlurmConf{}, err
	}

	s, err := parseLines(all)
	s.Path = conf
	s.Included = included
	if err != nil {
		return s, err
	}

	// A node with a line about GPUs gets none of ours beside it.
	gres, _, err := readLines(s.sibling("gres.conf"), GresFile)
	for _, line := range gres {
		if nodes := optionValue(line, "nodename"); nodes != "" &&
			(optionValue(line, "name") == "gpu" || optionValue(line, "autodetect") != "") {
			err = errors.Join(err, addNames(nodes, s.gresNodes))
		}
	}

	return s, err
}

// parseLines reads lines of slurm.conf.
func parseLines(all []string) (SlurmConf, error) {
	s := SlurmConf{
		values:     map[string]string{},
		nodes:      map[string]bool{},
		partitions: map[string]string{},
		gresNodes:  map[string]bool{},
	}
	for _, line := range all {
		key, value, _ := strings.Cut(line, "=")

		key = strings.ToLower(strings.TrimSpace(key))
		value = strings.TrimSpace(value)
		first, rest, _ := strings.Cut(value, " ")
		switch key {
		case "nodename":
			if err := addNames(first, s.nodes); err != nil {
				return s, err
			}
		case "partitionname":
			s.partitions[first] = strings.ToLower(rest)
		default:
			s.values[key] = strings.Trim(value, `"`)
		}
	}

	return s, nil
}

// readLines reads those of a file of Slurm's configuration, a blank between two words, with those of the files that it
// includes, but for ours. A missing one is Slurm's to report.
func readLines(conf, ours string) (all []string, included bool, err error) {
	err = walk(conf, ours, func(_, line string) {
		if words := strings.Fields(line); !strings.EqualFold(words[0], "include") {
			all = append(all, line)
		} else if len(words) > 1 && filepath.Base(words[1]) == ours {
			included = true
		}
	})

	return all, included, err
}

// continued stands where a line goes on in the next one of its file.
const continued = "\x00"

// walk visits those lines, with FILE:NUMBER of each, and also the lines that include files.
func walk(conf, ours string, visit func(place, line string)) error {
	var add func(path string, depth int) error

	add = func(path string, depth int) error {
		text, _, err := read(path)
		number := 1

		// A line that goes on in the next one keeps the number of its first.
		for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", continued)) {
			place := fmt.Sprintf("%s:%d", path, number)
			number += 1 + strings.Count(line, continued)

			line, _, _ = strings.Cut(strings.ReplaceAll(line, continued, " "), "#")

			words := strings.Fields(line)
			if len(words) == 0 {
				continue
			}

			visit(place, strings.Join(words, " "))

			// Files that include each other end at some depth.
			if len(words) == 1 || !strings.EqualFold(words[0], "include") || filepath.Base(words[1]) == ours ||
				depth == 8 {
				continue
			}

			name := words[1]
			if !filepath.IsAbs(name) {
				name = filepath.Join(filepath.Dir(conf), name)
			}

			if err := add(name, depth+1); err != nil {
				return err
			}
		}

		return err
	}

	return add(conf, 0)
}

// optionValue returns the value of a key in a line, "" if it is not there.
func optionValue(line, key string) string {
	for word := range strings.FieldsSeq(line) {
		if k, value, _ := strings.Cut(word, "="); strings.EqualFold(k, key) {
			return value
		}
	}

	return ""
}

// addNames adds the names of a hostlist, but for that of lines which hold for those after them.
func addNames(list string, names map[string]bool) error {
	all, err := hostlist.Expand(list)
	for _, name := range all {
		if name != "DEFAULT" {
			names[name] = true
		}
	}

	return err
}

func (s SlurmConf) sibling(name string) string { return filepath.Join(filepath.Dir(s.Path), name) }

// value returns the value of a key; "" if there is none, or if it is a program of ours by hand.
func (s SlurmConf) value(key string) string {
	// A site that has named our program in slurm.conf has none of its own for us to call.
	value := s.values[strings.ToLower(key)]
	if strings.HasPrefix(filepath.Base(value), "pcs-capacity-") {
		return ""
	}

	return value
}

func (s SlurmConf) list(key string) []string {
	return strings.FieldsFunc(s.value(key), func(r rune) bool { return r == ',' })
}

// eachSetting calls do with each setting in a text of ours.
func eachSetting(text string, do func(key, value string)) {
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && !strings.HasPrefix(key, "#") && key != "NodeName" && key != "PartitionName" {
			do(key, value)
		}
	}
}

// recordedLines returns the lines for our file that keep what slurm.conf says itself of the keys in a text of ours.
func (s SlurmConf) recordedLines(text string) (kept string) {
	eachSetting(text, func(key, _ string) {
		if theirs := s.value(key); theirs != "" {
			kept += slurm.SiteLine(key, theirs)
		}
	})

	return kept
}

// conflicts says what slurm.conf says otherwise than when our file was written.
func (s SlurmConf) conflicts(ours string) (sentences []string) {
	eachSetting(ours, func(key, value string) {
		if is := s.value(key); is != slurm.SiteValue(ours, key) {
			now := key + "=" + is
			if is == "" {
				now = "no " + key
			}

			sentences = append(sentences, fmt.Sprintf(
				"slurm.conf has %s, but %s has %s; run `pcs-capacity hooks install`, which merges the two", now,
				IncludeFile, value))
		}
	})

	return sentences
}
