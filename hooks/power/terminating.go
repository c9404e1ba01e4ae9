package power

import (
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// terminating is the machine that terminates the instances of nodes and records it. It finds them by their tags and
// in our records, because EC2 may not show a new instance by its tags yet. Nodes without an instance need nothing.
//
// A slow call must not hit a newer launch of the same nodes. Slurm powers a node up again no earlier than
// SuspendTimeout (30 s by default) after it called SuspendProgram, and only if it considers the node powered down. So
// an instance launched after this call belongs to a newer launch and is left alone.
type terminating struct {
	cluster string // the value of our mark
	nodes   []string
	called  time.Time // the machine's

	at      step
	records []state.Record
	ids     []string
	failure *Failure
}

const (
	stepInstances step = "ask for instances"
	stepTerminate step = "terminate"

	// clockSlack covers the error in comparing EC2's launch times, which have whole seconds, with the time of the call,
	// corrected by a Date header: both are off by less than a second.
	clockSlack = 2 * time.Second
	// unseenTime is how long EC2 may not show an instance by its tags: EC2 Developer Guide,
	// "Eventual consistency", names five minutes for what depends on a change.
	unseenTime = 5 * time.Minute
)

func (s terminating) next(a Answer) (terminating, []capacity.Effect) {
	switch s.at {
	case "":
		s.at = stepRecords
		return s, []capacity.Effect{AskRecords{}}
	case stepRecords:
		s.records, s.at = a.Records, stepInstances
		return s, []capacity.Effect{AskInstances{}}
	case stepInstances:
		if a.Failure != nil {
			return s.record(a)
		}
		return s.terminate(a)
	case stepTerminate:
		return s.record(a)
	}
	return s, nil
}

func (s terminating) terminate(a Answer) (terminating, []capacity.Effect) {
	called := s.called.Add(a.Offset)
	seen := map[string]bool{}
	var effects []capacity.Effect
	for _, i := range a.Instances {
		seen[i.ID] = true
		switch {
		case i.Tags[capacity.TagCluster] != s.cluster || i.Ended() || !slices.Contains(s.nodes, i.Tags[capacity.TagNode]):
		case i.Launched.After(called.Add(clockSlack)):
			effects = append(effects, Note{Text: "left alone: launched after this call: " + i.ID, Alarm: true})
		default:
			s.ids = append(slices.Clip(s.ids), i.ID)
		}
	}
	recorded := s.recorded(called)
	for id := range recorded {
		if seen[id] {
			delete(recorded, id)
			continue
		}
		s.ids = append(slices.Clip(s.ids), id)
	}
	if s.at = stepOver; len(s.ids) == 0 {
		return s, append(effects, Note{Text: "no instance to terminate"})
	}
	slices.Sort(s.ids)
	s.at = stepTerminate
	return s, append(effects,
		Terminate{Instances: s.ids, Nodes: s.nodes, Why: "Slurm powers the nodes down", Recorded: recorded})
}

// recorded returns the instances that our records name for the nodes, launched within unseenTime before the call and
// not terminated since, with the times of the records.
func (s terminating) recorded(called time.Time) map[string]time.Time {
	found := map[string]time.Time{}
	for _, r := range s.records {
		switch {
		case r.At.Before(called.Add(-unseenTime)) || r.At.After(called):
		case r.Hook == "suspend" && r.Code == string(capacity.OK):
			for _, id := range r.Instances {
				delete(found, id)
			}
		case r.Hook == "resume":
			of, err := hostlist.Expand(r.Nodes)
			if err != nil {
				continue
			}
			for i, id := range r.Instances {
				// A failed launch is terminated whole, and its record may have fewer instances than nodes; otherwise they are
				// in the order of the nodes.
				mine := r.Code != string(capacity.OK) &&
					slices.ContainsFunc(of, func(n string) bool { return slices.Contains(s.nodes, n) })
				if mine || len(of) == len(r.Instances) && slices.Contains(s.nodes, of[i]) {
					found[id] = r.At
				}
			}
		}
	}
	return found
}

func (s terminating) record(a Answer) (terminating, []capacity.Effect) {
	s.at, s.failure = stepOver, a.Failure
	record := state.Record{
		At:        s.called.Add(a.Offset),
		Hook:      "suspend",
		Nodes:     hostlist.Compress(s.nodes),
		Instances: s.ids,
		Code:      string(capacity.OK),
		Message:   "terminated",
	}
	if f := a.Failure; f != nil {
		record.Code, record.EC2Code, record.Message = string(capacity.FailedOtherwise), f.EC2Code, f.message()
	}
	return s, []capacity.Effect{Tell{Records: []state.Record{record}}}
}
