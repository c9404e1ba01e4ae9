package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
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

// Rolling is a node group that a pass sets up for a block, has set up, or removes.
type Rolling struct {
	Partition string
	Slot      string // Slot has the block; "" before it has one
	Block     capacity.Reservation
	Ready     bool          // the nodes are in the partition
	Over      bool          // the block has ended, so its slot is removed
	Setback   state.Setback // why it does not go on; zero if it does

	group capacity.NodeGroup // gets the block
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

// findRollings returns the node groups of partitions that roll over by themselves, if there is something to do or to
// report, and the blocks for which others lack one.
func findRollings(s View) (all []Rolling, lack []capacity.Problem) {
	for _, part := range s.Snap.Partitions {
		for _, g := range part.Groups {
			if !part.Provider.Configures() {
				continue
			}

			found := s.groupRollings(part, g)
			if s.Settings.RollsOver(part.Name) && g.PurchaseOption.IsBlock() {
				all = append(all, found...)
				continue
			}

			for _, r := range found {
				if r.Ready || r.Over || r.Slot != "" {
					continue
				}

				// Where the settings do not ask for it, setting up is an administrator's decision.
				fix := "run " + setUpAgain(r.Block.ID, part.Name, g.Name)
				lack = append(lack, capacity.Problemf(capacity.NoNodeGroup, r.about(), fix,
					"reservation %s has no compute node group yet", r.Block.ID))
			}
		}
	}

	return all, lack
}

// groupRollings returns the slots of one node group that have their block, the block that is next to be set up, and the
// slots of ended blocks.
func (s View) groupRollings(part capacity.Partition, g capacity.NodeGroup) []Rolling {
	ready := s.readySlots(part, g)

	all := ready
	if next := s.nextBlock(g, ready); next.Block.ID != "" {
		next.Partition = part.Name
		all = append(all, next)
	}

	// The last slot stays: its fence explains why jobs wait, and the next slot replaces it.
	if len(ready) == 0 {
		return all
	}

	return append(all, s.endedSlots(part.Name, g)...)
}

// readySlots returns the slots of a node group whose block is open, or will be, and whose nodes are in the partition,
// and in its spare one.
func (s View) readySlots(part capacity.Partition, g capacity.NodeGroup) (all []Rolling) {
	for _, slot := range g.Slots {
		lacks := func(partition string) bool {
			return !s.Cluster.inPartition(partition, s.Cluster.SlotNodes(slot.Name))
		}

		r, known := s.Snap.Reservation(slot.Occupant)
		if known && r.IsLiveAt(s.Now) && !slices.ContainsFunc(part.SlurmNames(), lacks) {
			all = append(all, Rolling{
				Partition: part.Name,
				Slot:      slot.Name,
				Block:     r,
				Ready:     true,
			})
		}
	}

	return all
}

// nextBlock returns the block that gets a slot of the node group next; zero for none. One block at a time, the earliest
// first: each takes PCS minutes.
func (s View) nextBlock(g capacity.NodeGroup, ready []Rolling) Rolling {
	slotOf := map[string]string{} // by block
	hasFree := false
	for _, slot := range g.Slots {
		if slot.Occupant != "" {
			slotOf[slot.Occupant] = slot.Name
		} else if len(s.Cluster.SlotNodes(slot.Name)) == 0 {
			hasFree = true
		}
	}

	next := Rolling{group: g}
	for _, slot := range g.Slots {
		for _, id := range slot.ReservationIDs {
			r, known := s.Snap.Reservation(id)
			hasSlot := slotOf[id] != "" || hasFree
			isReady := slices.ContainsFunc(ready, func(o Rolling) bool { return o.Block.ID == id })
			if !known || !hasSlot || isReady || !s.canSetUp(g, r) {
				continue
			}

			if next.Block.ID == "" || r.Start.Before(next.Block.Start) {
				next.Block = r
				next.Slot = slotOf[id]
			}
		}
	}

	return next
}

// endedSlots returns the slots of ended blocks whose nodes are all down: removing the node group of a node that is up
// would cut its job.
func (s View) endedSlots(partition string, g capacity.NodeGroup) (all []Rolling) {
	for _, slot := range g.Slots {
		r, known := s.Snap.Reservation(slot.Occupant)
		up := s.Cluster.filterNodes(s.Cluster.SlotNodes(slot.Name), capacity.Node.IsUp)
		if known && !r.IsLiveAt(s.Now) && len(up) == 0 {
			all = append(all, Rolling{
				Partition: partition,
				Slot:      slot.Name,
				Block:     r,
				Over:      true,
			})
		}
	}

	return all
}

// canSetUp reports whether a compute node group can be made for a reservation: PCS takes it, and its fence is ahead.
func (s View) canSetUp(g capacity.NodeGroup, r capacity.Reservation) bool {
	w := s.Snap.Timing.Window(r)
	usable := r.State == capacity.StateScheduled || r.State == capacity.StateActive // PCS takes no other

	return g.PurchaseOption.CanUse(r.Kind) && usable && (w.Unbounded() || w.Fence.After(s.Now))
}

func checkSetbacks(s View) (problems []capacity.Problem) {
	for _, r := range s.Rolling {
		if r.Setback.Problem != "" {
			problems = append(problems, capacity.Problemf(capacity.RollOverFailed, r.about(), "",
				"%s; sync tries it again every %s", r.Setback.Problem, capacity.FormatDuration(rollOverPause)))
		}
	}

	return problems
}

// checkNodeGroups reports the compute node groups that PCS could not create, update or delete, except those of which a
// roll over says so.
func checkNodeGroups(s View) (problems []capacity.Problem) {
	for _, at := range capacity.AllSlots(s.Snap.Partitions) {
		name := at.Slot.Name

		words, failed := s.FailedGroups[name]
		said := slices.ContainsFunc(s.Rolling,
			func(r Rolling) bool { return r.Slot == name && r.Setback.Problem != "" })
		if !failed || said {
			continue
		}

		about := capacity.Subject{
			Partition:   at.Partition.Name,
			Slot:        name,
			Reservation: at.Slot.Occupant,
		}
		fix := "remove the cause, and run " + setUpAgain(cmp.Or(about.Reservation, "ID"), about.Partition, at.Group.Name)
		if strings.HasPrefix(words, "DELETE_FAILED") {
			fix = capacity.DeleteAgain(about.Partition, name)
		}

		problems = append(problems, capacity.Problemf(capacity.NodeGroupFailed, about, fix,
			"PCS node group %s is %s", name, words))
	}

	return problems
}

// setUpAgain is the command that makes or mends the compute node group of a block.
func setUpAgain(block, queue, group string) string {
	return fmt.Sprintf("`pcs-capacity setup --reservation %s --queue %s --node-group %s`", block, queue, group)
}

// rollOver sets up the next blocks and removes the slots of ended ones, as setup and teardown do, and keeps why it
// cannot go on: a problem until it is over, but no failure of the pass, which has done all that jobs need now.
func (p *pass) rollOver(ctx context.Context) {
	if p.RollOver == nil || p.view.NoAWS {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, rollOverTime)
	defer cancel()

	left := map[string]state.Setback{}
	for i := range p.view.Rolling {
		r := &p.view.Rolling[i]
		if !r.Ready && !p.view.Now.Before(r.Setback.Tried.Add(rollOverPause)) {
			p.continueRollOver(ctx, r)
		}

		if r.Setback.Problem != "" {
			left[r.key()] = r.Setback
		}
	}

	if !p.DryRun && len(left)+len(p.view.Setbacks) > 0 {
		if err := p.State.Setbacks().Save(left); err != nil {
			p.addFailure(capacity.StateFile, err)
			p.fail(err)
		}
	}
}

func (p *pass) continueRollOver(ctx context.Context, r *Rolling) {
	a := Action{Code: "set-up-slot", About: r.about()}
	text := fmt.Sprintf("set up %s in partition %s", r.Block.ID, r.Partition)
	if r.Over {
		a.Code = "remove-slot"
		text = fmt.Sprintf("remove compute node group %s of %s, which has ended", r.Slot, r.Block.ID)
	}

	if p.DryRun {
		p.recordDone(a, text, nil)
		return
	}

	var (
		did []string
		err error
	)
	if r.Over {
		did, err = p.RollOver.Remove(ctx, r.Partition, r.Slot)
	} else {
		did, err = p.RollOver.SetUp(ctx, r.Partition, r.group, r.Block, r.Setback.Problem != "")
	}

	for _, step := range did {
		p.recordDone(a, text+": "+step, nil)
	}

	before := r.Setback
	r.Setback = state.Setback{}
	if err != nil {
		words, _ := p.EC2.Explain(err)

		r.Setback = state.Setback{
			Since:   p.view.nowInSeconds(),
			Tried:   p.view.nowInSeconds(),
			Problem: "cannot " + text + ": " + words,
		}
		if before.Problem == r.Setback.Problem {
			r.Setback.Since = before.Since
		}
	}
}
