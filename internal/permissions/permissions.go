// Package permissions says what each program asks of AWS, and why: the one list behind
// docs/permissions.md and `pcs-capacity iam-policy`. Tests run every program under exactly
// that, and with each action taken away.
package permissions

import "slices"

// Program is a command of pcs-capacity, or a program that Slurm calls.
type Program string

// The programs that ask AWS anything. Resume and Suspend are those of self-managed Slurm;
// ResumePCS is pcs-capacity-resume for partitions with provider pcs.
const (
	List      Program = "list"
	Offerings Program = "offerings"
	Fit       Program = "fit"
	Timeline  Program = "timeline"
	Purchase  Program = "purchase"
	Extend    Program = "extend"
	Reserve   Program = "reserve"
	Release   Program = "release"
	Setup     Program = "setup"
	Teardown  Program = "teardown"
	Wire      Program = "hooks install"
	Check     Program = "check"
	Status    Program = "status"
	Topology  Program = "topology"
	HostFile  Program = "topology --job"
	Sync      Program = "sync"
	Resume    Program = "resume"
	Suspend   Program = "suspend"
	ResumePCS Program = "resume, PCS"
	// RollingOver is what Sync asks for besides where a partition has roll_over.
	RollingOver Program = "sync, roll over"
	// Holding is Resume where [reserve] is enabled.
	Holding Program = "resume, reserve"
)

// Programs are all of them, in the order of the documentation.
var Programs = []Program{List, Offerings, Fit, Timeline, Purchase, Extend, Reserve, Release, Setup, Teardown, Wire, Check, Status, Topology, HostFile, Sync, RollingOver, Resume, Holding, Suspend, ResumePCS}

// Role is somebody who runs some of the programs.
type Role string

// The roles.
const (
	Admin Role = "admin" // a person, or CI
	Loop  Role = "sync"  // the service on one node with Slurm's administrator rights
	// LoopRollOver is Loop where a partition has roll_over.
	LoopRollOver Role = "sync-roll-over"
	Hooks        Role = "hooks" // the controller of self-managed Slurm
	// HooksReserve are Hooks where [reserve] is enabled.
	HooksReserve Role = "hooks-reserve"
	// Node is a compute node, whose jobs print a host file. All else there asks AWS nothing.
	Node Role = "node"
	// HooksPCS is for sites that call pcs-capacity-resume for a PCS cluster by themselves.
	HooksPCS Role = "hooks-pcs"
)

// Programs are what somebody in the role runs.
func (r Role) Programs() []Program {
	switch r {
	case Admin:
		return []Program{List, Offerings, Fit, Timeline, Purchase, Extend, Reserve, Release, Setup, Teardown, Wire, Check, Status, Topology, HostFile, Sync}
	case Loop:
		return []Program{Status, Sync}
	case LoopRollOver:
		return []Program{Status, Sync, RollingOver}
	case Hooks:
		return []Program{Resume, Suspend}
	case HooksReserve:
		return []Program{Holding, Suspend}
	case Node:
		return []Program{HostFile}
	case HooksPCS:
		return []Program{ResumePCS}
	}
	return nil
}

// Effect is what a program does without an action.
type Effect int

// The effects.
const (
	Unused  Effect = iota // it does not ask for it
	Lessens               // it names the action, and goes on with what is left
	Stops                 // it names the action and fails, with exit status 1
)

// Action is one action of IAM.
type Action struct {
	Name string
	// Why says what its answer, or its deed, is for.
	Why string

	stops, lessens programs
	// grants are where it is granted; nothing stands for everywhere, to every program.
	grants []grant
}

type programs = []Program

// grant is a part of where an action is granted.
type grant struct {
	to programs // nil for all
	scope
}

// Effect is what the program does without the action.
func (a Action) Effect(p Program) Effect {
	switch {
	case slices.Contains(a.stops, p):
		return Stops
	case slices.Contains(a.lessens, p):
		return Lessens
	}
	return Unused
}

// Of are the actions that any of the programs asks for.
func Of(programs ...Program) []string {
	var names []string
	for _, a := range Actions {
		if a.usedBy(programs) {
			names = append(names, a.Name)
		}
	}
	return names
}

func (a Action) usedBy(programs []Program) bool {
	return slices.ContainsFunc(programs, func(p Program) bool { return a.Effect(p) != Unused })
}
