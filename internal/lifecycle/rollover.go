package lifecycle

import (
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

const (
	// rollOverPause is the pause after a failure: most failures need a person.
	rollOverPause = 5 * time.Minute
	// rollOverTime is the time for all node groups together, some dozens of calls.
	rollOverTime = 30 * time.Second
)

// Rolling is a node group that is to be set up for a block, has been set up, or is to be removed.
type Rolling struct {
	Partition string
	// Slot has the block; "" before it has one.
	Slot  string
	Block capacity.Reservation
	// Ready: the nodes are in the partition. Over: the block has ended, and its slot is to be removed.
	Ready, Over bool
	// Setback is why it does not go on; zero if it does.
	Setback state.Setback

	group capacity.NodeGroup
}

// key identifies the work in setbacks.
func (r Rolling) key() string {
	if r.Over {
		return "remove " + r.Slot
	}
	return "set up " + r.Block.ID
}

func (r Rolling) about() capacity.Subject {
	return capacity.Subject{Partition: r.Partition, Slot: r.Slot, Reservation: r.Block.ID}
}

// rollings returns the node groups of partitions that roll over by themselves, if there is something to do or to
// report.
func rollings(s Seen) []Rolling {
	var all []Rolling
	for _, settings := range s.Settings.Partitions {
		part, _ := s.Snap.Partition(settings.Name)
		if !settings.RollOver {
			continue
		}
		for _, g := range part.Groups {
			if g.PurchaseOption.Bought() {
				all = append(all, s.rollingsOf(part, g)...)
			}
		}
	}
	return all
}

func (s Seen) rollingsOf(part capacity.Partition, g capacity.NodeGroup) (all []Rolling) {
	holds := map[string]string{}
	var ready []string // blocks that are open or will be
	free := false
	for _, slot := range g.Slots {
		nodes := s.Cluster.SlotNodes(slot.Name)
		free = free || slot.Holds == "" && len(nodes) == 0
		if slot.Holds == "" {
			continue
		}
		holds[slot.Holds] = slot.Name
		if r, known := s.Snap.Reservation(slot.Holds); known && r.LiveAt(s.Now) && s.Cluster.inPartition(part.Name, nodes) {
			ready = append(ready, r.ID)
			all = append(all, Rolling{Partition: part.Name, Slot: slot.Name, Block: r, Ready: true})
		}
	}
	var next capacity.Reservation
	for _, slot := range g.Slots {
		for _, id := range slot.ReservationIDs {
			r, known := s.Snap.Reservation(id)
			payable := r.State == capacity.StateScheduled || r.State == capacity.StateActive // PCS takes no other
			if !known || !r.Kind.Bought() || !payable || !s.Snap.Timing.Window(r).Fence.After(s.Now) ||
				slices.Contains(ready, id) ||
				holds[id] == "" && !free {
				continue
			}
			if next.ID == "" || r.Start.Before(next.Start) {
				next = r
			}
		}
	}
	if next.ID != "" {
		all = append(all, Rolling{Partition: part.Name, Slot: holds[next.ID], Block: next, group: g})
	}
	if len(ready) == 0 {
		return all // the last slot stays: its fence explains why jobs wait, and the next slot replaces it
	}
	for _, slot := range g.Slots {
		up := func(n capacity.Node) bool { return n.Up() }
		if r, known := s.Snap.Reservation(slot.Holds); known && !r.LiveAt(s.Now) &&
			!slices.ContainsFunc(s.Cluster.shown(s.Cluster.SlotNodes(slot.Name)), up) {
			all = append(all, Rolling{Partition: part.Name, Slot: slot.Name, Block: r, Over: true})
		}
	}
	return all
}

// setbackProblems reports setbacks; Look uses it too.
func setbackProblems(s Seen) (problems []capacity.Problem) {
	for _, r := range s.Rolling {
		if r.Setback.Problem != "" {
			problems = append(problems, capacity.Problemf(capacity.RollOverFailed, r.about(), "",
				"%s; sync tries it again every %s", r.Setback.Problem, capacity.FormatDuration(rollOverPause)))
		}
	}
	return problems
}

// rollOver sets up the next blocks and removes the slots of ended ones.
func rollOver(s Seen) (effects []capacity.Effect) {
	for _, r := range s.Rolling {
		if !r.Ready && !s.Now.Before(r.Setback.Tried.Add(rollOverPause)) {
			effects = append(effects, r.effect())
		}
	}
	return effects
}

// learnRolling updates the setbacks with the results of the roll overs.
func learnRolling(rolling []Rolling, results []Result, now time.Time) []Rolling {
	rolling = slices.Clone(rolling)
	for _, result := range results {
		var tried Rolling
		switch e := result.Effect.(type) {
		case SetUpSlot:
			tried = e.Rolling
		case RemoveSlot:
			tried = e.Rolling
		}
		for i := range rolling {
			r := &rolling[i]
			if r.Partition != tried.Partition || r.key() != tried.key() {
				continue
			}
			before := r.Setback
			if r.Setback = (state.Setback{}); result.Setback == "" {
				continue
			}
			r.Setback = state.Setback{Since: now, Tried: now, Problem: r.doing() + ": " + result.Setback}
			if before.Problem == r.Setback.Problem {
				r.Setback.Since = before.Since
			}
		}
	}
	return rolling
}

// doing is the roll over's sentence.
func (r Rolling) doing() string { return r.effect().Sentence(capacity.Did) }

// answer is setup's: the steps that it began, and the setback.
func (r Rolling) answer(did []string, setback string) Answer {
	answer := Answer{Messages: []string{}, Setback: setback}
	for _, sentence := range did {
		answer.Messages = append(answer.Messages, r.doing()+": "+sentence)
	}
	return answer
}

func (r Rolling) effect() capacity.Effect {
	if r.Over {
		return RemoveSlot{r}
	}
	return SetUpSlot{r}
}

// inPartition reports whether any of the nodes is in a partition.
func (c *Cluster) inPartition(name string, nodes []string) bool {
	for _, part := range c.Partitions {
		if part.Name == name && slices.ContainsFunc(nodes, func(n string) bool { return slices.Contains(part.Nodes, n) }) {
			return true
		}
	}
	return false
}

// inNone reports whether no partition has any of the nodes.
func (c *Cluster) inNone(nodes []string) bool {
	in := func(part capacity.SlurmPartition) bool { return c.inPartition(part.Name, nodes) }
	return !slices.ContainsFunc(c.Partitions, in)
}
