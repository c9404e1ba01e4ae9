package awssim

import "strings"

// Otherwise are things about PCS that no documentation says, in the other sense than the
// simulator has them. POST /_sim/otherwise takes it.
type Otherwise struct {
	MixedScaling bool `json:"mixed_scaling"` // a minimum between 0 and the maximum is taken
	AnySize      bool `json:"any_size"`      // a maximum above the block's size is taken
	LateChecks   bool `json:"late_checks"`   // wrong values are taken, and end in CREATE_FAILED
	OneAtATime   bool `json:"one_at_a_time"` // while a node group or a queue changes, no other one of its cluster does

	// These are for the program that plays Slurm's part.
	KeepsScheduled  bool `json:"keeps_scheduled"`  // GROUP-scheduled stays after the start
	DropsForeign    bool `json:"drops_foreign"`    // Slurm reservations of others are deleted
	ReplacesDrained bool `json:"replaces_drained"` // the instance of a drained node is replaced
	// RelaunchesFenced: static nodes in maintenance are ended and launched anew, over and over, as by ParallelCluster
	// 3.8.0 to 3.15.1.
	RelaunchesFenced bool `json:"relaunches_fenced"`
}

// busy refuses a change of a cluster's node groups and queues while PCS is at work on one.
func (s *Sim) busy(cl *pcsCluster) error {
	if !s.otherwise.OneAtATime {
		return nil
	}
	const terminal = " ACTIVE CREATE_FAILED UPDATE_FAILED DELETE_FAILED "
	for _, g := range cl.groups {
		if !strings.Contains(terminal, " "+g.Status+" ") {
			return pcsNotActive(kindGroup, g.ID, g.Status)
		}
	}
	for _, q := range cl.queues {
		if !strings.Contains(terminal, " "+q.Status+" ") {
			return pcsNotActive(kindQueue, q.ID, q.Status)
		}
	}
	return nil
}

// SetOtherwise replaces them all.
func (s *Sim) SetOtherwise(o Otherwise) { s.do(func() { s.otherwise = o }) }

// Otherwise is what was set.
func (s *Sim) Otherwise() (o Otherwise) {
	s.do(func() { o = s.otherwise })
	return o
}
