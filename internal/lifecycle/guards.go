package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/facts"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// decideFences gives each slot the Slurm reservations that it needs now. Without AWS it deletes only duplicates:
// unknown does not mean gone.
func decideFences(s View) (actions []Action, problems []capacity.Problem) {
	var want []capacity.SlurmReservation

	keep := map[string]bool{} // slots to leave as they are, because nothing is known about them
	untilUp := map[string]bool{}
	for _, v := range s.slotStates() {
		nodes := s.guardedNodes(v)

		// Unknown is not gone: its guards stay as they are (R8). Those of held nodes follow what is held: decidePlaces.
		if v.Unknown || len(nodes) == 0 && v.Reservation.ID != "" || v.LaunchesHeld() {
			keep[v.Slot.Name] = true
			continue
		}

		untilUp[v.Slot.Name] = s.opensWhenUp(v.Turn)

		for _, r := range s.wantedGuards(v, nodes) {
			want = append(want, s.keepTimes(r.ShiftTimes(s.slurmOffset())))
		}
	}

	todo, problems := s.diffGuards(want, s.Cluster.Reservations, keep, s.isObsolete)
	for _, g := range todo {
		g.untilUp = untilUp[g.r.Guard().Slot]

		if g.do != "delete" || !s.NoAWS {
			actions = append(actions, g.action(-s.slurmOffset()))
		}
	}

	return actions, problems
}

// guardedNodes returns the nodes of a slot that need guards. One of PCS without a reservation and out of all partitions
// is about to be deleted: nothing can start there.
func (s View) guardedNodes(v capacity.SlotState) []string {
	nodes := s.Cluster.SlotNodes(v.Slot.Name)
	if v.Reservation.ID == "" && v.Partition.Provider == capacity.ProviderPCS && !s.Cluster.inPartition("", nodes) {
		return nil
	}

	return nodes
}

// checkUnusedNodes reports nodes that others launch and that max_nodes closes to jobs.
func checkUnusedNodes(s View) (problems []capacity.Problem) {
	for _, v := range s.slotStates() {
		if v.Partition.Provider.Launches() || v.Reservation.ID == "" {
			continue
		}

		nodes := s.Cluster.SlotNodes(v.Slot.Name)

		closed := s.surplusNodes(v, nodes)
		if len(closed) == 0 {
			continue
		}

		about := aboutNodes(v.Slot.Name, closed)
		about.Partition = v.Partition.Name
		problems = append(problems, capacity.Problemf(capacity.NodesUnused, about,
			fmt.Sprintf("set max_nodes = %d in the settings to use them", len(nodes)),
			"slot %s has %d nodes, but max_nodes limits jobs to %d; no job starts on %s", v.Slot.Name, len(nodes),
			len(nodes)-len(closed), about.Node))
	}

	return problems
}

// guardChange changes a Slurm reservation of ours: a fence, a wait, or the guard over surplus nodes.
type guardChange struct {
	do       string // create, update, replace, delete
	r        capacity.SlurmReservation
	old      string // the name to delete once the replacement exists; "" except for replace
	occupied bool   // the replacement's name must be freed first
	untilUp  bool   // a wait that sync removes when the nodes are up
}

// action makes the change. toAWS turns the times of its text into AWS's.
func (g guardChange) action(toAWS time.Duration) Action {
	of := g.r.Guard()
	code := g.do + "-" + string(of.Kind)

	return newAction(code, aboutNodes(of.Slot, g.r.Nodes), g.text(toAWS), func(ctx context.Context, w World) error {
		// The guard that should replace this one could not be placed: without this one the slot would stand open.
		if g.do == "delete" && w.Outcome.Open[of.Slot] {
			return errMoot
		}

		err := g.carryOut(ctx, w)
		if err != nil {
			w.Outcome.Open[of.Slot] = true
		}

		return err
	})
}

func (g guardChange) carryOut(ctx context.Context, w World) error {
	r := g.r
	if now := w.MachineTime(); r.Start.Before(now) { // Slurm refuses a start in the past
		r.Start = now
	}

	switch g.do {
	case "create":
		return w.Slurm.CreateReservation(ctx, r)
	case "update":
		return w.Slurm.UpdateReservation(ctx, r)
	case "delete":
		return w.Slurm.DeleteReservation(ctx, r.Name)
	}
	// A stop between the two calls would leave neither guard until the next pass.
	ctx = context.WithoutCancel(ctx)
	if g.occupied {
		if err := w.Slurm.DeleteReservation(ctx, r.Name); err != nil {
			return err
		}
	}

	if err := w.Slurm.CreateReservation(ctx, r); err != nil {
		return err
	}

	return w.Slurm.DeleteReservation(ctx, g.old)
}

// text is for people; toAWS turns its times into AWS's.
func (g guardChange) text(toAWS time.Duration) string {
	nodes := hostlist.Compress(g.r.Nodes)
	r := g.r.ShiftTimes(toAWS)

	what := r.Name

	var does, undone string
	switch r.Guard().Kind {
	case capacity.GuardWait:
		what = "the wait " + r.Name
		undone = "jobs can start on " + nodes
		does = fmt.Sprintf("no job starts on %s before %s", nodes, capacity.FormatUTC(r.End))
		if g.untilUp {
			does = fmt.Sprintf(
				"no job starts on %s until they are up, or until %s at the latest",
				nodes,
				capacity.FormatUTC(r.End),
			)
		}
	case capacity.GuardSurplus:
		undone = "jobs can use " + nodes + " again"
		does = "no job starts on " + nodes + ": the reservation has too few instances, or max_nodes allows no more nodes"
		if of := r.Guard(); of.Block == "" {
			does = "no job starts on " + nodes + " before capacity is held for it"
		}
	case capacity.GuardFence:
		what = "the fence " + r.Name
		undone = "no reservation needs it"

		does = fmt.Sprintf("no job runs on %s after %s", nodes, capacity.FormatUTC(r.Start))
		if !r.IsInfinite() {
			does += fmt.Sprintf(" until %s, when the next block opens", capacity.FormatUTC(r.End))
		}
	}

	verb := map[string]string{"create": "place", "update": "move", "replace": "move", "delete": "remove"}[g.do]
	if g.do == "delete" {
		does = undone
	}

	return fmt.Sprintf("%s %s: %s", verb, what, does)
}

// aboutSlot returns a slot and the reservation that has it.
func aboutSlot(v capacity.SlotState) capacity.Subject {
	return capacity.Subject{
		Partition:   v.Partition.Name,
		Slot:        v.Slot.Name,
		Reservation: v.Reservation.ID,
	}
}

func aboutNodes(slot string, nodes []string) capacity.Subject {
	return capacity.Subject{Slot: slot, Node: hostlist.Compress(nodes)}
}

// sameTime is the difference below which two times count as equal: the offset between the clocks is only known to the
// second (HTTP's Date header).
const sameTime = 5 * time.Second

// newGuard returns a Slurm reservation of ours over nodes of a slot, for an EC2 reservation: root's, over running jobs
// too.
func (s View) newGuard(
	kind capacity.GuardKind, v capacity.SlotState, block string, nodes []string, start, end time.Time,
) capacity.SlurmReservation {
	return capacity.SlurmReservation{
		Name: capacity.Guard{
			Kind:  kind,
			Slot:  v.Slot.Name,
			Block: block,
			Owner: s.Owner,
		}.String(),
		Nodes:   nodes,
		Start:   start,
		End:     end,
		Flags:   v.Partition.Provider.GuardFlags(),
		Users:   []string{"root"},
		Comment: "pcs-capacity sync maintains this and recreates it if deleted; " + s.OwnerIs,
	}
}

// wantedGuards returns the Slurm reservations that a slot needs now, in AWS's time. The wait comes before the fence, so
// there is no gap when one follows the other.
func (s View) wantedGuards(v capacity.SlotState, nodes []string) (want []capacity.SlurmReservation) {
	id := v.Reservation.ID
	switch {
	case len(nodes) == 0:
		return nil
	case id == "":
		return s.closingGuards(v, nodes)
	}

	want = append(want, s.waits(v, nodes)...)

	if !v.Window.Unbounded() {
		// The fence lasts until the next turn begins: until then, instances of the old block still terminate.
		want = append(want, s.newGuard(capacity.GuardFence, v, id, nodes, v.Window.Fence, v.Next.Window.Start))
	}
	// The next block is guarded before it opens: nothing may start on its nodes until then.
	if next := v.Next; !next.Window.Unbounded() {
		want = append(want,
			s.newGuard(capacity.GuardFence, v, next.Reservation.ID, nodes, next.Window.Fence, time.Time{}))
	}

	if surplus := s.surplusNodes(v, nodes); len(surplus) > 0 {
		want = append(want, s.newGuard(capacity.GuardSurplus, v, id, surplus, s.Now, time.Time{}))
	}

	return want
}

// surplusNodes returns the nodes that jobs are kept from: the last ones and, where we launch, those of failed hosts.
// They stay the same while jobs come and go. Where others launch, only they know which nodes have the instances, so
// there surplusNodes closes only nodes beyond max_nodes.
func (s View) surplusNodes(v capacity.SlotState, nodes []string) []string {
	n := countLaunchable(v, nodes)
	if v.Partition.Provider.Launches() {
		return slices.Concat(s.Cluster.lostNodes(v, nodes[:n]), nodes[n:])
	}

	if places, _ := countInstances(v); v.Group.MaxNodes == 0 || places < v.Group.MaxNodes {
		return nil
	}

	return nodes[n:]
}

// countInstances returns the number of a slot's nodes that have instances, 0 if EC2 does not say, and of those on hosts
// that have not failed.
func countInstances(v capacity.SlotState) (all, usable int) {
	for _, t := range v.Current {
		if t.Reservation.Size() == 0 { // EC2 may report size 0 for a block that has not opened
			return 0, 0
		}

		all += t.Reservation.Size()
		usable += t.Reservation.UsableSize()
	}

	if v.Group.MaxNodes > 0 && all > 0 {
		all = min(all, v.Group.MaxNodes)
		usable = min(usable, v.Group.MaxNodes)
	}

	return all, usable
}

// countLaunchable returns the number of a slot's nodes, the first ones, that have instances.
func countLaunchable(v capacity.SlotState, nodes []string) int {
	if places, _ := countInstances(v); places > 0 {
		return min(places, len(nodes))
	}
	return len(nodes)
}

// closingGuards closes nodes that cannot be launched, so the queue does not start jobs there: the nodes of a slot whose
// reservations have all ended, or which never had one.
func (s View) closingGuards(v capacity.SlotState, nodes []string) []capacity.SlurmReservation {
	start := v.Last.Fence

	// PCS itself keeps jobs from such nodes, and on-demand nodes need no reservation.
	if v.Last.Unbounded() && (v.Partition.Provider.Configures() || !v.Group.PurchaseOption.IsReserved()) {
		return nil
	}

	if v.Last.Unbounded() || start.After(s.Now) { // a block that never opened, such as payment-failed
		start = s.Now
	}

	return []capacity.SlurmReservation{s.newGuard(capacity.GuardFence, v, v.LastID, nodes, start, time.Time{})}
}

// diffGuards turns the existing Slurm reservations into the wanted ones; all times are in Slurm's clock. It also
// reports reservations with one of our names that it leaves alone. isObsolete reports whether a fence has nothing left
// to guard.
func (s View) diffGuards(
	want, have []capacity.SlurmReservation, keep map[string]bool, mayGo func(capacity.Guard) bool,
) (todo []guardChange, left []capacity.Problem) {
	mine := map[capacity.Guard][]capacity.SlurmReservation{}
	taken := map[string]bool{}

	var places []capacity.Guard // in the order of have
	for _, r := range have {
		g, named := capacity.ParseGuard(r.Name)
		switch {
		case !named:
		case !r.IsOurs():
			taken[r.Name] = true
			left = append(left, capacity.Problemf(capacity.NameTaken, capacity.Subject{}, "",
				"Slurm reservation %s has a name that pcs-capacity uses, but pcs-capacity did not create it "+
					"(flags %s, users %s); it is left alone: rename or delete it",
				r.Name, strings.Join(r.Flags, ","), strings.Join(r.Users, ",")))
		case g.Owner == s.Owner:
			mine[g.Key()] = append(mine[g.Key()], r)
			places = append(places, g.Key())
		}
	}

	for _, w := range want {
		place := w.Guard().Key()
		all := mine[place]
		delete(mine, place)

		switch {
		case len(all) > 0:
			todo = append(todo, diffGuard(w, all, taken, s.SlurmNow())...)
		case !taken[w.Name]:
			todo = append(todo, guardChange{do: "create", r: w})
		}
	}

	for _, place := range places {
		for _, r := range mine[place] {
			if !keep[place.Slot] && (place.Kind != "fence" || mayGo(place)) {
				todo = append(todo, guardChange{do: "delete", r: r})
			}
		}

		delete(mine, place)
	}
	// First close slots, then open them.
	order := []string{"create", "update", "replace", "delete"}
	slices.SortStableFunc(todo,
		func(a, b guardChange) int { return slices.Index(order, a.do) - slices.Index(order, b.do) })

	return todo, left
}

// diffGuard picks, of several Slurm reservations for one place, the one that needs the smallest change; the rest are
// deleted after that.
func diffGuard(
	w capacity.SlurmReservation, all []capacity.SlurmReservation, taken map[string]bool, now time.Time,
) (todo []guardChange) {
	easier := []string{"", "update", "replace"}
	cost := func(r capacity.SlurmReservation) int { return slices.Index(easier, requiredChange(w, r, now)) }

	there := slices.MinFunc(all, func(a, b capacity.SlurmReservation) int { return cost(a) - cost(b) })

	st := guardChange{do: easier[cost(there)], r: w}
	st.r.Active = there.Active
	st.r.Name = there.Name

	// The new one is made under the other of two names before the old one goes, so the nodes are never open.
	if st.do == "replace" {
		g := w.Guard()

		g.Second = there.Name == w.Name
		st.r.Name = g.String()
		st.old = there.Name

		// A foreign reservation has the second name: better the old guard than none.
		if taken[st.r.Name] {
			return nil
		}
	}

	for _, r := range all {
		switch {
		case r.Name == there.Name:
		case st.old != "" && r.Name == st.r.Name:
			st.occupied = true
		default:
			todo = append(todo, guardChange{do: "delete", r: r})
		}
	}

	if st.do != "" {
		todo = append(todo, st)
	}

	return todo
}

// requiredChange returns the change that a reservation needs; "" for none. One that has started cannot get another
// start ("Reservation already started"): it is deleted and created again. It can get other nodes (seen on 22.05, 24.11
// and 26.05: those with jobs too, and over a restart of slurmctld).
func requiredChange(want, have capacity.SlurmReservation, now time.Time) string {
	if !have.End.IsZero() && !have.End.After(now) {
		return "replace" // ended; Slurm still lists it for a while
	}

	if want.IsMaintenance() != have.IsMaintenance() {
		return "replace" // the partition has another provider now
	}

	started := have.Active || !have.Start.After(now)

	// One that has started needs no other start, as long as the wanted one is past, too.
	sameStart := isNear(want.Start, have.Start) || started && !want.Start.After(now)
	sameNodes := slices.Equal(sorted(want.Nodes), sorted(have.Nodes))
	sameEnd := have.IsInfinite() == want.IsInfinite() && (have.IsInfinite() || isNear(want.End, have.End))
	switch {
	case sameStart && sameNodes && sameEnd:
		return ""
	case started && !sameStart:
		return "replace"
	}

	return "update"
}

// checkDueFences tells of fences that Slurm does not have as status shows them, such as after a change of the settings.
func checkDueFences(s View) (due []capacity.Problem) {
	for _, v := range s.Snap.SlotStates(s.Now) {
		if v.Reservation.ID == "" || v.Window.Unbounded() || v.Former || len(s.Cluster.SlotNodes(v.Slot.Name)) == 0 {
			continue
		}

		about := aboutSlot(v)

		there, found := s.Cluster.fence(v.Slot.Name, v.Reservation.ID)
		has := s.toAWSTime(there.Start)
		want := v.Window.Fence
		switch {
		case !found:
			due = append(due, capacity.Problemf(capacity.FenceDue, about, "",
				"Slurm has no fence for %s on slot %s yet; sync places it at %s", v.Reservation.ID, v.Slot.Name,
				capacity.FormatUTC(want)))
		case has.Sub(want).Abs() >= time.Minute: // times are told in minutes, and the clocks differ by seconds
			due = append(due, capacity.Problemf(capacity.FenceDue, about, "",
				"Slurm still has the fence for %s on slot %s at %s; sync moves it to %s", v.Reservation.ID, v.Slot.Name,
				formatMinute(has), formatMinute(want)))
		}
	}

	return due
}

func formatMinute(t time.Time) string { return capacity.FormatUTC(t.Round(time.Minute)) }

func isNear(a, b time.Time) bool { return a.Sub(b).Abs() <= sameTime }

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }

// isObsolete reports whether a fence has nothing left to guard. Its name says what it guards: it goes when EC2 says
// that this has ended or no longer ends, or when it never gets this slot because another reservation has it; never
// because the settings do not name it, for they may be the wrong settings.
func (s View) isObsolete(g capacity.Guard) bool {
	if g.Block == "" {
		return true
	}

	r, known := s.Snap.Reservation(g.Block)
	if since, missing := s.Snap.Missing[g.Block]; !known {
		return missing && s.Now.Sub(since) >= facts.MissingFor
	}

	if !r.IsLiveAt(s.Now) || r.End.IsZero() && !r.Kind.IsBlock() {
		return true
	}

	isNever := func(t capacity.Turn) bool { return t.Reservation.ID == g.Block && t.Never }
	for _, v := range s.slotStates() {
		if v.Slot.Name == g.Slot {
			if slices.ContainsFunc(s.Snap.Turns(v.SlotRef), isNever) {
				return true
			}

			continue
		}

		has := v.Reservation.ID == g.Block || v.Next.Reservation.ID == g.Block
		if has && !v.Former && slices.Contains(v.Slot.ReservationIDs, g.Block) {
			return true // the settings have it in another slot
		}
	}

	return false
}

// checkKeptFences reports the fences that stay although the settings do not name their reservations.
func checkKeptFences(s View) (problems []capacity.Problem) {
	for _, r := range s.Cluster.Reservations {
		g := r.Guard()
		if !r.IsOurs() || g.Kind != capacity.GuardFence || g.Owner != s.Owner || s.isObsolete(g) {
			continue
		}

		at, there := s.Snap.FindSlot(g.Slot)
		named := there && slices.Contains(at.Slot.ReservationIDs, g.Block) &&
			!(at.Slot.Unnamed && at.Slot.Occupant == g.Block)
		about := capacity.Subject{Slot: g.Slot, Reservation: g.Block}
		if block, known := s.Snap.Reservation(g.Block); known && !named && block.IsLiveAt(s.Now) {
			problems = append(problems, capacity.Problemf(capacity.ReservationUnnamed, about, "",
				"the settings no longer name reservation %s for slot %s; its fence stays until it ends at %s, or "+
					"until `scontrol delete ReservationName=%s`",
				g.Block, g.Slot, capacity.FormatUTC(block.End), r.Name))
		} else if since, missing := s.Snap.Missing[g.Block]; missing && !known {
			problems = append(problems, capacity.Problemf(capacity.ReservationMissing, about, "",
				"EC2 has not described reservation %s since %s; its fence %s stays until %s",
				g.Block, capacity.FormatUTC(since), r.Name, capacity.FormatUTC(since.Add(facts.MissingFor))))
		}
	}

	return problems
}
