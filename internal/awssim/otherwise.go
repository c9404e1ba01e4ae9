package awssim

// Otherwise are things about PCS that no documentation says, in the other sense than the
// simulator has them. POST /_sim/otherwise takes it.
type Otherwise struct {
	MixedScaling bool `json:"mixed_scaling"` // a minimum between 0 and the maximum is taken
	AnySize      bool `json:"any_size"`      // a maximum above the block's size is taken
	LateChecks   bool `json:"late_checks"`   // what does not suit is taken, and ends in CREATE_FAILED

	// These are for who plays Slurm's part beside the simulator.
	KeepsScheduled  bool `json:"keeps_scheduled"`  // GROUP-scheduled stays after the start
	DropsForeign    bool `json:"drops_foreign"`    // Slurm reservations of others are deleted
	ReplacesDrained bool `json:"replaces_drained"` // the instance of a drained node is replaced
}

// SetOtherwise replaces them all.
func (s *Sim) SetOtherwise(o Otherwise) { s.do(func() { s.otherwise = o }) }

// Otherwise is what was set.
func (s *Sim) Otherwise() (o Otherwise) {
	s.do(func() { o = s.otherwise })
	return o
}
