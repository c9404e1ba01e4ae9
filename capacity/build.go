package capacity

import (
	"cmp"
	"slices"
	"time"
)

// Facts holds what a pass read from AWS.
type Facts struct {
	// Reservations may come in any order and twice. A node group that selects by tags gets the ones with those tags. An
	// id of the settings or of a group that is not listed here is one that EC2 does not describe.
	Reservations []Reservation
	// Remembered has the ids of those that EC2 did not describe this time; they are taken from Before.
	Remembered map[string]bool
	Subnets    []Subnet
	// Platforms of the launch templates' images, by the templates' names in the settings.
	Platforms map[string]ImagePlatform
	// Held is the reservation of each PCS compute node group, by the group's name: "" for a group without one. A group
	// that does not exist, or was not read, has no entry.
	Held map[string]string
	// Before is the last snapshot; nil if it is lost. Only then count our fences in Slurm, and our running instances
	// with their nodes' tags (see placement).
	Before    *Snapshot
	Fences    []SlurmReservation
	Instances []Instance
	Now       time.Time // AWS's time; zero stands for the time of Before
}

// Build makes the snapshot from the settings and what was seen of AWS. All else stays as it was Before, Slurm's facts
// above all, until the caller has read it anew.
func Build(s Settings, facts Facts) *Snapshot {
	was := cmp.Or(facts.Before, &Snapshot{})

	// Slurm's facts stay until they are read anew, so a pass without Slurm loses nothing.
	copied := *was
	snap := &copied
	snap.Cluster = s.Cluster
	snap.Submit = s.Submit
	snap.Timing = s.Timing
	snap.Timing.OverTime = was.Timing.OverTime
	snap.ReserveOff = s.Reserve.MaxInstances == 0

	// These belong to the pass that found them.
	snap.Problems = nil
	snap.Former = nil
	snap.Missing = nil

	snap.Reservations = []Reservation{}
	listed := map[string]bool{}
	for _, r := range facts.Reservations {
		if !listed[r.ID] {
			listed[r.ID] = true
			snap.Reservations = append(snap.Reservations, r)
		}
	}

	snap.Partitions = []Partition{}

	// Before the loop: slots of all groups are filled by what they had.
	where := placementOf(s, facts, snap)
	for _, p := range s.Partitions {
		before, _ := was.Partition(p.Name)
		out := Partition{
			Name:          p.Name,
			Provider:      p.Provider,
			AllowAccounts: p.AllowAccounts,
			MinTime:       p.MinTime,
			OnEnd:         p.OnEnd,
			MaxTime:       before.MaxTime,
			QOS:           before.QOS,
			ResumeTimeout: before.ResumeTimeout,
			Spare:         Spare{Name: p.Spare},
		}
		if before.Spare.Name == p.Spare {
			out.Spare = before.Spare
		}

		for _, g := range p.Groups {
			out.Groups = append(out.Groups, g.build(p.Provider, facts, where, snap, was))
		}

		snap.Partitions = append(snap.Partitions, out)
	}

	return snap
}

// build makes the node group of a snapshot. snap has the reservations already; was is the snapshot before.
func (g GroupSettings) build(p Provider, facts Facts, where placement, snap, was *Snapshot) NodeGroup {
	group := NodeGroup{
		Name:           g.Name,
		InstanceType:   g.InstanceType,
		OtherTypes:     g.OtherTypes,
		PurchaseOption: g.PurchaseOption,
		MaxNodes:       g.MaxNodes,
		Dynamic:        g.Dynamic,
		OpenTest:       g.OpenTest,
		OpenTestLimit:  g.OpenTestLimit,
		Subnets:        []Subnet{},
	}

	// On PCS, setup has compared the platform of a reservation, and only PCS launches.
	if template := g.imageTemplate(p, snap.Cluster); template != "" {
		image := facts.Platforms[template]
		group.Platform = image.Platform
		group.PlatformOf = image.Template
	}

	if g.Reserve == ReservePerJob {
		group.Reserve = g.Reserve
	}

	for _, id := range g.SubnetIDs {
		if i := slices.IndexFunc(facts.Subnets, func(s Subnet) bool { return s.ID == id }); i >= 0 {
			group.Subnets = append(group.Subnets, facts.Subnets[i])
		}
	}

	ids := g.reservations(snap)
	if !g.PurchaseOption.IsReserved() {
		group.ReuseIDs = ids
		ids = nil
	}

	group.Slots = fillSlots(p, g.SlotNames(p), ids, where, snap)
	for i := range group.Slots {
		slot := &group.Slots[i]

		at, known := was.FindSlot(slot.Name)
		if !known {
			continue
		}

		group.GPUs = at.Group.GPUs
		group.CPUs = at.Group.CPUs
		slot.Nodes = at.Slot.Nodes
		slot.Count = at.Slot.Count
		slot.Feature = at.Slot.Feature
		slot.Out = at.Slot.Out
		slot.Opening = at.Slot.Opening
		slot.Holding = at.Slot.Holding
		slot.PoweredUp = at.Slot.PoweredUp
	}

	return group
}

// reservations returns the ids of a node group: first those of the settings in their order, then those it selects, by
// start.
func (g GroupSettings) reservations(snap *Snapshot) []string {
	ids := slices.Clone(g.ReservationIDs)

	var chosen []Reservation
	for _, r := range snap.Reservations {
		if g.Select.Matches(r) {
			chosen = append(chosen, r)
		}
	}

	slices.SortStableFunc(chosen, func(a, b Reservation) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.ID, b.ID))
	})

	for _, r := range chosen {
		ids = append(ids, r.ID)
	}

	return ids
}

// placement says where reservations already are. While it is live, a reservation in which nodes may run never leaves
// its slot, whatever begins, ends or joins the settings. A reservation that jobs wait for stays where their
// constraints point.
type placement struct {
	holds map[string]string // the reservation that has each slot, by the slot's name
	slots map[string]string // the slot of every other reservation, by the reservation's id
}

// placementOf learns where reservations are. On PCS it reads the reservation of each compute node group. With
// provider ec2 it reads the last snapshot or, if that is lost, Slurm's fences and the reservations of the nodes'
// instances. snap has the reservations as they are now.
func placementOf(s Settings, facts Facts, snap *Snapshot) placement {
	at := placement{holds: map[string]string{}, slots: map[string]string{}}
	if facts.Before != nil {
		for _, p := range AllSlots(slices.Concat(facts.Before.Former, facts.Before.Partitions)) {
			at.learn(facts, p, snap)
		}
	} else {
		at.learnFences(facts, snap)

		for _, i := range facts.Instances {
			id := i.Tags[TagReservation]
			if _, _, slot, ok := s.FindNode(i.Tags[TagNode]); ok && id != "" && !i.Ended() {
				at.holds[slot] = id
				at.slots[id] = slot
			}
		}
	}

	// PCS's word counts more than our memory.
	for slot, id := range facts.Held {
		at.holds[slot] = id
	}

	return at
}

// learnFences adds the slots of fences in Slurm. Of two open reservations of a slot, the one that has it ends first. One
// that has not begun has no nodes.
func (at placement) learnFences(facts Facts, snap *Snapshot) {
	byStart := func(a, b SlurmReservation) int { return a.Start.Compare(b.Start) }
	for _, f := range slices.SortedFunc(slices.Values(facts.Fences), byStart) {
		g := f.Guard()

		r, known := snap.Reservation(g.Block)
		if !known || !r.IsLiveAt(facts.Now) {
			continue
		}

		at.slots[g.Block] = g.Slot
		if at.holds[g.Slot] == "" && !r.Start.After(facts.Now) {
			at.holds[g.Slot] = g.Block
		}
	}
}

// learn adds a slot of the last snapshot.
func (at placement) learn(facts Facts, in SlotRef, snap *Snapshot) {
	before := facts.Before
	for _, t := range before.Turns(in) {
		// A waiting reservation has no nodes, and may move to a slot in which it need not wait.
		if !t.IsWaiting(before.TakenAt) {
			at.slots[t.Reservation.ID] = in.Slot.Name
		}
	}

	if in.Partition.Provider.Configures() {
		if facts.Held == nil { // PCS did not answer
			at.holds[in.Slot.Name] = in.Slot.Occupant
		}

		return
	}

	// Memory ends nothing (R8): it keeps the slot until EC2 shows that it has ended.
	occupant, known := snap.Reservation(in.Slot.Occupant)
	lasts := facts.Remembered[occupant.ID] && occupant.State.IsLive() || occupant.IsLiveAt(facts.Now)
	if known && lasts {
		at.holds[in.Slot.Name] = occupant.ID
		return
	}

	// The reservation that had the slot then keeps it while it is live. The next one has had the slot since that one
	// ended: its fence has opened, and jobs have started behind it.
	for _, when := range []time.Time{before.TakenAt, facts.Now} {
		standing := before.SlotState(in, when)
		id := standing.Reservation.ID
		if id == "" || standing.Window.Start.After(when) {
			continue
		}

		if r, known := snap.Reservation(id); known && r.IsLiveAt(when) {
			at.holds[in.Slot.Name] = id
			return
		}
	}
}

// fillSlots distributes the reservations of a node group over its slots. A reservation that has a slot keeps it. The
// others follow by start: each stays in its former slot if it need not wait there; else it takes the slot in which it
// begins first, and of several such slots the emptiest.
func fillSlots(p Provider, names, ids []string, where placement, snap *Snapshot) []Slot {
	slots, rest := occupySlots(p, names, ids, where, snap)

	// By start, so that an earlier block never waits for a later one; ended ones come last.
	slices.SortStableFunc(rest, func(a, b string) int {
		x, _ := snap.Reservation(a)
		y, _ := snap.Reservation(b)
		return cmp.Or(rank(!snap.lasts(a))-rank(!snap.lasts(b)), x.Start.Compare(y.Start))
	})

	for _, id := range rest {
		i := snap.bestSlot(slots, id, where.slots[id])
		slots[i].ReservationIDs = append(slots[i].ReservationIDs, id)
	}

	ended := func(id string) int {
		r, known := snap.Reservation(id)
		return rank(known && !r.State.IsLive())
	}
	for _, slot := range slots {
		slices.SortStableFunc(slot.ReservationIDs, func(a, b string) int {
			return cmp.Or(rank(a != slot.Occupant)-rank(b != slot.Occupant), ended(a)-ended(b),
				slices.Index(ids, a)-slices.Index(ids, b))
		})
	}

	return slots
}

// occupySlots makes the slots, each with the reservation that has it already. rest are the other ids.
func occupySlots(p Provider, names, ids []string, where placement, snap *Snapshot) (slots []Slot, rest []string) {
	rest = slices.Clone(ids)
	for _, name := range names {
		slot := Slot{Name: name}
		id := where.holds[name]
		r, known := snap.Reservation(id)
		live := known && r.State.IsLive()

		// On PCS the compute node group itself names its reservation; elsewhere the settings do.
		if id != "" && (p.Configures() || live && slices.Contains(rest, id)) {
			slot.Occupant = id
			slot.ReservationIDs = []string{id}
			slot.Unnamed = live && !slices.Contains(ids, id)
			rest = slices.DeleteFunc(rest, func(other string) bool { return other == id })
		}

		slots = append(slots, slot)
	}

	return slots, rest
}

// lasts reports whether a reservation still counts when its neighbours are placed: it may exist, or it has ended and
// its neighbours stay where they are.
func (s *Snapshot) lasts(id string) bool {
	r, known := s.Reservation(id)
	return !known || r.State.IsLive() || r.State == StateExpired && !r.End.IsZero()
}

// bestSlot returns the index of the slot for a reservation that none holds; already names the slot it had, if any.
func (s *Snapshot) bestSlot(slots []Slot, id, already string) int {
	var first Turn

	best := 0
	for i, slot := range slots {
		slot.ReservationIDs = append(slices.Clone(slot.ReservationIDs), id)
		turns := s.turns(SlotRef{Slot: &slot}, slot.ReservationIDs, func(r Reservation) bool { return s.lasts(r.ID) })

		t := turns[slices.IndexFunc(turns, func(t Turn) bool { return t.Reservation.ID == id })]
		over := !t.Unknown && !t.Reservation.State.IsLive()
		if slot.Name == already && (over || t.Behind == "") {
			return i
		}

		fuller := len(slot.ReservationIDs) - 1 - len(slots[best].ReservationIDs)
		if i == 0 || cmp.Or(rank(t.Never)-rank(first.Never), t.Window.Start.Compare(first.Window.Start), fuller) < 0 {
			best = i
			first = t
		}
	}

	return best
}
