// Package check judges what package facts has read of a cluster: it finds everything that would keep reserved capacity
// from being used, in the settings, in AWS, in Slurm and in the files between them, each with its fix. It reads and
// changes nothing. One failure hides no other that can be seen without it.
//
// [Survey] judges a whole site, for `pcs-capacity check`. Setup and roll over ask about what they are about to make:
// [Host], [Cluster], [Launch], [Trial].
package check

import (
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/facts"
)

// findings collects what judgements say, each about the check that it is of: an administrator's problem keeps something
// from working; a note may be intended, or could not be checked.
type findings struct{ capacity.Problems }

func (f *findings) problem(check string, severity capacity.Severity, p capacity.Problem) {
	p.About.Check = check
	p.Severity = severity
	f.Add(p)
}

func (f *findings) ok(check, what string, args ...any) {
	f.problem(check, capacity.Good, capacity.Problemf("", capacity.Subject{}, "", what, args...))
}

func (f *findings) warn(check, fix, what string, args ...any) {
	f.problem(check, capacity.Note, capacity.Problemf("", capacity.Subject{}, fix, what, args...))
}

func (f *findings) fail(check, fix, what string, args ...any) {
	f.problem(check, capacity.Admin, capacity.Problemf("", capacity.Subject{}, fix, what, args...))
}

// failText adds a failure in words that end with their remedy, "what; fix". fix is the remedy for words without one.
func (f *findings) failText(check, words, fix string) {
	what, remedy := splitRemedy(words, fix)
	f.fail(check, remedy, "%s", what)
}

// splitRemedy splits such words; fix is the remedy of words without one.
func splitRemedy(words, fix string) (what, remedy string) {
	if at := strings.LastIndex(words, "; "); at >= 0 {
		return words[:at], words[at+2:]
	}

	return words, fix
}

// Settings returns the problems of settings that cannot be read; err has a line for each.
func Settings(path string, err error) capacity.Problems {
	var f findings
	for line := range strings.SplitSeq(err.Error(), "\n") {
		f.failText("settings", line, "fix "+path)
	}

	return f.Problems
}

// survey carries the judgements: each adds what it finds, and depends on no other.
type survey struct{ *facts.Survey }

// Survey returns all findings, in the order in which a person would fix them. Judgements about a part that could not be
// read are left out: another one says why.
func Survey(of *facts.Survey) capacity.Problems {
	var f findings

	s := survey{of}
	judge := func(all ...func(*findings)) {
		for _, one := range all {
			one(&f)
		}
	}
	judge(s.checkSettings, s.checkSecrets, s.checkCredentials)

	if s.AWSErr == nil {
		judge(s.checkClock, s.checkCluster, s.checkPermissions, s.checkReservations, s.checkTemplates, s.checkLaunches)
	}

	if judge(s.checkCommands); s.Commands.Err == nil {
		judge(s.checkSlurmctld, s.checkRights, s.checkListing)
	}

	if s.Commands.Err == nil && s.Slurmctld != nil && s.listErr() == nil {
		judge(s.checkSoftLimits, s.checkReservedJobs, s.checkOverTime, s.checkStaticNodes, s.checkPowerSettings,
			s.checkSrunWait, s.checkAstray, s.checkParallelCluster, s.checkPartitions, s.checkHookCommands)
	}

	judge(s.checkHooks, s.checkState)

	return f.Problems
}

// checkSettings judges whether the settings have anything.
func (s survey) checkSettings(f *findings) {
	f.ok("settings", "%s is valid; partitions: %d", s.Config.Path, len(s.Config.Partitions))

	if len(s.Config.Partitions) == 0 {
		f.warn("settings", "run `pcs-capacity setup`, or add a [[partition]]", "the settings have no partition")
	}
}

// checkSecrets judges whether others than root and SlurmUser can read one.
func (s survey) checkSecrets(f *findings) {
	for _, err := range s.Exposed {
		what, fix, _ := strings.Cut(err.Error(), "; ")
		f.warn("secrets", fix, "%s", what)
	}
}
