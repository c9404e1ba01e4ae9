package awssim

import (
	"strings"
	"time"
)

// Otherwise are things about PCS and EC2 that no documentation says, in the other sense than the
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

	// These are EC2's.
	NoBlocks       bool `json:"no_blocks"`       // the quota for blocks is 0
	PlainPurchases bool `json:"plain_purchases"` // a purchase of a block takes no tags
	OneInterface   bool `json:"one_interface"`   // a launch has one network interface
	LongHolds      bool `json:"long_holds"`      // an ODCR lasts an hour or more
	NoTopology     bool `json:"no_topology"`     // the topology of a new ODCR is an error
	SlowHolds      bool `json:"slow_holds"`      // a new ODCR takes no launch for a minute
	SlowTags       bool `json:"slow_tags"`       // a new instance is not found by its tags for a minute
	OtherFullCode  bool `json:"other_full_code"` // a full ODCR is told as want of capacity in the zone
	TakesMore      bool `json:"takes_more"`      // what a full ODCR has no place for runs on demand
	TokensShow     bool `json:"tokens_show"`     // the token of a terminated instance answers that instance
	TokensRenew    bool `json:"tokens_renew"`    // the token of a terminated instance launches anew
	SlowPlaces     bool `json:"slow_places"`     // the place of a terminated instance is not free for 6 minutes
	SlowCancels    bool `json:"slow_cancels"`    // a cancelled ODCR shows as active for a minute
}

// slow is the delay of what is slow, but for places.
const slow = time.Minute

// slowPlace is how long the place of a terminated instance is not free.
const slowPlace = 6 * time.Minute

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
