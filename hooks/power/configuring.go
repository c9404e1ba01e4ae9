package power

import (
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hook"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// configuring is the machine for one compute node group.
type configuring struct {
	at          place
	reservation string // "" if it was set up for none
	snap        *capacity.Snapshot
	now         time.Time
	step        step
	failure     *Failure
}

const stepConfigure step = "configure"

func (s configuring) next(a Answer) (configuring, []capacity.Effect) {
	switch s.step {
	case "":
		e, refused := s.decide()
		if refused != nil {
			return s.record(refused, "")
		}
		s.step = stepConfigure
		return s, []capacity.Effect{e}
	case stepConfigure:
		if a.Changed {
			return s.record(a.Failure, "configured compute node group "+s.at.slot)
		}
		return s.record(a.Failure, "compute node group "+s.at.slot+" is as it should be")
	}
	return s, nil
}

// decide chooses the reservation and the subnets that the group must match.
func (s configuring) decide() (Configure, *Failure) {
	if s.reservation == "" {
		return Configure{}, failed("compute node group %s was set up for no reservation; run `pcs-capacity setup`", s.at.slot)
	}
	p, _ := s.snap.Partition(s.at.partition.Name)
	g := p.Groups[slices.IndexFunc(p.Groups, func(g capacity.NodeGroup) bool { return g.Name == s.at.group.Name })]
	r, known := s.snap.Reservation(s.reservation)
	if !known {
		return Configure{}, refusal(capacity.ReservationNotKnown,
			"reservation %s of compute node group %s is not in the settings of partition %s, or EC2 does not describe it",
			s.reservation, s.at.slot, p.Name)
	}
	for _, m := range capacity.Match(r, g, s.now) {
		if m.Code != capacity.WrongSize { // a group may be smaller or larger than its block
			return Configure{}, refusal(capacity.Mismatched, "%s", m.Text())
		}
	}
	g.Subnets = slices.DeleteFunc(slices.Clone(g.Subnets), func(s capacity.Subnet) bool { return s.AZID != r.AZID })
	return Configure{Slot: s.at.slot, Reservation: r, Group: g}, nil
}

func (s configuring) record(failure *Failure, done string) (configuring, []capacity.Effect) {
	s.step, s.failure = stepOver, failure
	record := state.Record{At: s.now, Hook: "resume", Partition: s.at.partition.Name, Reservation: s.reservation,
		Code: string(capacity.OK), Message: done}
	if failure != nil {
		record.Code, record.EC2Code, record.Message = failure.Code, failure.EC2Code, hook.OneLine(failure.message())
	}
	return s, []capacity.Effect{Tell{Records: []state.Record{record}}}
}
