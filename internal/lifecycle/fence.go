package lifecycle

import (
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// sameTime is the difference below which two times count as equal: the offset between the clocks is only known to the
// second (HTTP's Date header).
const sameTime = 5 * time.Second

// guard is the purpose of a Slurm reservation of the slot, for an EC2 reservation.
func (v slotView) guard(kind capacity.GuardKind, block string) capacity.Guard {
	return capacity.Guard{Kind: kind, Slot: v.slot.Name, Block: block, Owner: v.owner}
}

// reservation builds one of our Slurm reservations: root's, over running jobs too.
func (v slotView) reservation(of capacity.Guard, nodes []string, start, end time.Time) capacity.SlurmReservation {
	return capacity.SlurmReservation{
		Name:  of.String(),
		Nodes: nodes,
		Start: start,
		End:   end,
		Flags: v.partition.Provider.GuardFlags(),
		Users: []string{"root"},
	}
}

// wanted returns the Slurm reservations that a slot needs now, in AWS's time. The wait comes before the fence, so
// there is no gap when one follows the other.
func (v slotView) wanted(nodes []string, now time.Time) []capacity.SlurmReservation {
	if len(nodes) == 0 {
		return nil
	}
	if v.current.ID == "" {
		return v.fenced(nodes, now)
	}
	id := v.current.ID
	var want []capacity.SlurmReservation
	if !v.partition.Provider.Configures() && v.window.Start.After(now) {
		want = append(want, v.reservation(v.guard("wait", id), nodes, now, v.window.Start))
	}
	if !v.window.Unbounded() {
		// The fence lasts until the next turn begins: until then, instances of the old block still terminate.
		want = append(want, v.reservation(v.guard("fence", id), nodes, v.window.Fence, v.next.Window.Start))
	}
	// The next block is guarded before it opens: nothing may start on its nodes until then.
	if next := v.next; !next.Window.Unbounded() {
		want = append(want, v.reservation(v.guard("fence", next.Reservation.ID), nodes, next.Window.Fence, time.Time{}))
	}
	if surplus := v.surplus(nodes); len(surplus) > 0 {
		want = append(want, v.reservation(v.guard("surplus", id), surplus, now, time.Time{}))
	}
	return want
}

// surplus returns the nodes that jobs are kept from: the last ones and, where we launch, those of failed hosts. They
// stay the same while jobs come and go. Where others launch, only they know which nodes have the instances, so there
// surplus closes only nodes beyond max_nodes.
func (v slotView) surplus(nodes []string) []string {
	if v.partition.Provider.Launches() {
		return slices.Concat(v.lost, nodes[v.launchable(nodes):])
	}
	if v.group.MaxNodes == 0 || v.places < v.group.MaxNodes {
		return nil
	}
	return nodes[v.launchable(nodes):]
}

// launchable is the number of a slot's nodes, the first ones, that have instances.
func (v slotView) launchable(nodes []string) int {
	if v.places == 0 {
		return len(nodes)
	}
	return min(v.places, len(nodes))
}

// fenced closes nodes that cannot be launched, so the queue does not start jobs there: the nodes of a slot whose
// reservations have all ended, or which never had one.
func (v slotView) fenced(nodes []string, now time.Time) []capacity.SlurmReservation {
	start := v.last.Fence
	if v.last.Unbounded() {
		if v.partition.Provider.Configures() || !v.group.PurchaseOption.Reserved() {
			return nil
		}
		start = now
	}
	if start.After(now) { // a block that never opened, such as payment-failed
		start = now
	}
	return []capacity.SlurmReservation{v.reservation(v.guard("fence", v.lastID), nodes, start, time.Time{})}
}

// steering is what the steps of a pass depend on in addition to the reservations.
type steering struct {
	owner string
	// keep are slots to leave as they are, because nothing is known about them.
	keep map[string]bool
	// mayGo reports whether a fence has nothing left to guard.
	mayGo func(capacity.Guard) bool
	now   time.Time
}

// steps turns the existing Slurm reservations into the wanted ones; all times are in Slurm's clock. It also reports
// reservations with one of our names that it leaves alone.
func (s steering) steps(want, have []capacity.SlurmReservation) (todo []ChangeGuard, left []capacity.Problem) {
	mine := map[capacity.Guard][]capacity.SlurmReservation{}
	taken := map[string]bool{}
	var places []capacity.Guard // in the order of have
	for _, r := range have {
		g, named := capacity.ParseGuard(r.Name)
		switch {
		case !named:
		case !r.Ours():
			taken[r.Name] = true
			left = append(left, capacity.Problemf(capacity.NameTaken, capacity.Subject{}, "",
				"Slurm reservation %s has a name of pcs-capacity's but was not made by it (flags %s, users %s); it is left alone: rename or delete it",
				r.Name, strings.Join(r.Flags, ","), strings.Join(r.Users, ",")))
		case g.Owner == s.owner:
			mine[g.Place()] = append(mine[g.Place()], r)
			places = append(places, g.Place())
		}
	}
	drop := func(r capacity.SlurmReservation) {
		todo = append(todo, ChangeGuard{Do: "delete", R: r, Slot: r.Guard().Slot})
	}
	for _, w := range want {
		place := w.Guard().Place()
		all := mine[place]
		delete(mine, place)
		if len(all) == 0 {
			if !taken[w.Name] {
				todo = append(todo, ChangeGuard{Do: "create", R: w, Slot: place.Slot})
			}
			continue
		}
		st, rest := s.change(w, all, taken)
		if st.Do != "" {
			todo = append(todo, st)
		}
		for _, r := range rest {
			drop(r)
		}
	}
	for _, place := range places {
		if s.keep[place.Slot] {
			continue
		}
		for _, r := range mine[place] {
			if place.Kind != "fence" || s.mayGo(place) {
				drop(r)
			}
		}
		delete(mine, place)
	}
	// First close slots, then open them.
	order := []string{"create", "update", "replace", "delete"}
	slices.SortStableFunc(todo,
		func(a, b ChangeGuard) int { return slices.Index(order, a.Do) - slices.Index(order, b.Do) })
	return todo, left
}

// change picks, of several Slurm reservations for one place, the one that needs the smallest change; rest are deleted
// after that.
func (s steering) change(w capacity.SlurmReservation, all []capacity.SlurmReservation,
	taken map[string]bool) (st ChangeGuard, rest []capacity.SlurmReservation) {
	best, do := 0, ""
	for i, r := range all {
		d := difference(w, r, true, s.now)
		if easier := []string{"", "update", "replace"}; i == 0 || slices.Index(easier, d) < slices.Index(easier, do) {
			best, do = i, d
		}
	}
	there := all[best]
	rest = slices.Delete(slices.Clone(all), best, best+1)
	st = ChangeGuard{Do: do, R: w, Slot: w.Guard().Slot}
	st.R.Active = there.Active
	if do != "replace" {
		st.R.Name = there.Name
		return st, rest
	}
	g := w.Guard()
	g.Second = there.Name == w.Name
	st.R.Name, st.Old = g.String(), there.Name
	if taken[st.R.Name] {
		return ChangeGuard{}, nil
	}
	occupies := func(r capacity.SlurmReservation) bool { return r.Name == st.R.Name }
	st.Occupied = slices.ContainsFunc(rest, occupies)
	return st, slices.DeleteFunc(rest, occupies)
}

// difference is the change that a reservation needs; "" for none. One that has started cannot get another start
// ("Reservation already started"), and not reliably other nodes: it is deleted and created again.
func difference(want, have capacity.SlurmReservation, exists bool, now time.Time) string {
	if !exists {
		return "create"
	}
	if !have.End.IsZero() && !have.End.After(now) {
		return "replace" // ended; Slurm still lists it for a while
	}
	if want.Maintenance() != have.Maintenance() {
		return "replace" // the partition has another provider now
	}
	started := have.Active || !have.Start.After(now)
	sameStart := near(want.Start, have.Start) || started && !want.Start.After(now)
	sameNodes := slices.Equal(sorted(want.Nodes), sorted(have.Nodes))
	sameEnd := have.Infinite() == want.Infinite() && (have.Infinite() || near(want.End, have.End))
	switch {
	case sameStart && sameNodes && sameEnd:
		return ""
	case started && !(sameStart && sameNodes):
		return "replace"
	}
	return "update"
}

func near(a, b time.Time) bool { return a.Sub(b).Abs() <= sameTime }

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }
