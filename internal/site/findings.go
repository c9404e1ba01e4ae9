// Package site is what a cluster has, and what is wrong with it: everything that would keep reserved capacity from
// being used, in the settings, in AWS, in Slurm and in the files between them. It changes nothing. One failure hides
// no other that can be seen without it. setup asks it about what it is about to make.
package site

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Status is the outcome of a check.
type Status string

// The outcomes. Fail keeps something from working; Warn may be intended, or could not be checked.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Finding is the outcome of one check.
type Finding struct {
	Check  string `json:"check"` // stable, for scripts: credentials, permission, reservation, slurmctld, …
	Status Status `json:"status"`
	// Code is that of capacity.Codes, where the finding is a problem that others find as well.
	Code capacity.Code `json:"code,omitzero"`
	// What is a sentence, Fix its remedy; "" if there is none.
	What string `json:"what"`
	Fix  string `json:"fix,omitempty"`
}

// Findings are the outcomes of several checks.
type Findings []Finding

func (f *Findings) ok(check, what string, args ...any) {
	*f = append(*f, Finding{Check: check, Status: OK, What: fmt.Sprintf(what, args...)})
}

func (f *Findings) warn(check, fix, what string, args ...any) {
	*f = append(*f, Finding{Check: check, Status: Warn, What: fmt.Sprintf(what, args...), Fix: fix})
}

func (f *Findings) fail(check, fix, what string, args ...any) {
	*f = append(*f, Finding{Check: check, Status: Fail, What: fmt.Sprintf(what, args...), Fix: fix})
}

// problem adds a problem, with its code, as the finding of a check.
func (f *Findings) problem(check string, status Status, p capacity.Problem) {
	*f = append(*f, Finding{Check: check, Status: status, Code: p.Code, What: p.Sentence, Fix: p.Fix})
}

// failWords is FromWords as the next finding.
func (f *Findings) failWords(check, words, fix string) {
	*f = append(*f, FromWords(check, words, fix))
}

// FromWords is a failure in words that end with their remedy, "what; fix". fix is the remedy for words without one.
func FromWords(check, words, fix string) Finding {
	if at := strings.LastIndex(words, "; "); at >= 0 {
		words, fix = words[:at], words[at+2:]
	}
	return Finding{Check: check, Status: Fail, What: words, Fix: fix}
}

// Failed reports whether a check failed.
func (f Findings) Failed() bool {
	return slices.ContainsFunc(f, func(one Finding) bool { return one.Status == Fail })
}

// judgements are about a survey, in the order in which a person would fix what they find. Each is by itself and reads
// nothing; those of a part that is not known are left out, for which another one says why.
var judgements = []struct {
	known func(*Survey) bool
	judge []func(*Survey, *Findings)
}{
	{always, []func(*Survey, *Findings){(*Survey).partitioned, (*Survey).credentials}},
	{func(s *Survey) bool { return s.AWSErr == nil }, []func(*Survey, *Findings){(*Survey).clock, (*Survey).cluster, (*Survey).permission,
		(*Survey).reservations, (*Survey).templates, (*Survey).launched}},
	{always, []func(*Survey, *Findings){(*Survey).commands}},
	{func(s *Survey) bool { return s.Commands.Err == nil }, []func(*Survey, *Findings){(*Survey).slurmctld, (*Survey).rights, (*Survey).listing}},
	{(*Survey).lists, []func(*Survey, *Findings){(*Survey).softLimits, (*Survey).overTime, (*Survey).staticNodes, (*Survey).powerSettings, (*Survey).shortWaits,
		(*Survey).astray, (*Survey).parallelClusterFences, (*Survey).ourPartitions, (*Survey).hookPrograms}},
	{always, []func(*Survey, *Findings){(*Survey).hooks, (*Survey).state}},
}

func always(*Survey) bool { return true }

// Judge returns all findings.
func (s *Survey) Judge() (f Findings) {
	for _, part := range judgements {
		if part.known(s) {
			for _, judge := range part.judge {
				judge(s, &f)
			}
		}
	}
	return f
}

// partitioned judges whether the settings have anything.
func (s *Survey) partitioned(f *Findings) {
	f.ok("settings", "%s: %s", s.Config.Path, count(len(s.Config.Partitions), "partition"))
	if len(s.Config.Partitions) == 0 {
		f.warn("settings", "run `pcs-capacity setup`, or add a [[partition]]", "the settings have no partition")
	}
}

// onPCS and onEC2 report whether any partition is launched so.
func (s *Survey) onPCS() bool { return s.Config.Cluster != "" }

func (s *Survey) onEC2() bool {
	return slices.ContainsFunc(s.Settings.Partitions, func(p capacity.PartitionSettings) bool { return p.Provider.Launches() })
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
