package lifecycle

import (
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// sameTime bounds by how much two times may differ and still be the same: the offset
// between the clocks is only known to the second (HTTP's Date header).
const sameTime = 5 * time.Second

// endless is from which length on a Slurm reservation counts as one without an end:
// Slurm turns Duration=infinite into 365 days.
const endless = 300 * 24 * time.Hour

// ours reports whether a Slurm reservation carries our mark (R9). PCS's own
// (<node-group>-scheduled) and ParallelCluster's (pcluster-*) are never ours.
func ours(r Reservation) bool {
	return named(r) && !strings.HasSuffix(r.Name, "-scheduled") &&
		slices.Contains(r.Flags, "MAINT") && slices.Contains(r.Flags, "IGNORE_JOBS") &&
		len(r.Users) == 1 && r.Users[0] == "root"
}

func named(r Reservation) bool {
	_, ok := guardOf(r.Name)
	return ok
}

// SlotOf is the slot that a Slurm reservation of ours is for; the second value is false
// for one that is not ours.
func SlotOf(r Reservation) (slot string, isOurs bool) {
	return r.guard().slot, ours(r)
}

// reservation makes one of ours: root's, for maintenance, over whatever runs there.
func reservation(name string, nodes []string, start, end time.Time) Reservation {
	return Reservation{Name: name, Nodes: nodes, Start: start, End: end, Flags: []string{"MAINT", "IGNORE_JOBS"}, Users: []string{"root"}}
}

// guard is what a Slurm reservation of the slot is for, on behalf of a reservation of EC2.
func (v slotView) guard(kind, block string) guard {
	return guard{kind: kind, slot: v.slot.Name, block: block, owner: v.owner}
}

// wanted is which Slurm reservations a slot needs now, in AWS's time. The wait comes
// before the fence, so that no moment is left open when one follows the other.
func (v slotView) wanted(nodes []string, now time.Time) []Reservation {
	if len(nodes) == 0 {
		return nil
	}
	if v.current.ID == "" {
		return v.fenced(nodes, now)
	}
	id := v.current.ID
	var want []Reservation
	if v.partition.Provider == capacity.ProviderEC2 && v.window.Start.After(now) {
		want = append(want, reservation(v.guard("wait", id).String(), nodes, now, v.window.Start))
	}
	if !v.window.Unbounded() {
		// Until its end, instances of the old block still disappear: the next turn begins then.
		want = append(want, reservation(v.guard("fence", id).String(), nodes, v.window.Fence, v.next.Window.Start))
	}
	// What opens next is guarded before it does: nothing of ours may run at that moment.
	if next := v.next; next.Reservation.ID != "" && !next.Window.Unbounded() {
		want = append(want, reservation(v.guard("fence", next.Reservation.ID).String(), nodes, next.Window.Fence, time.Time{}))
	}
	if surplus := v.surplus(nodes); len(surplus) > 0 {
		want = append(want, reservation(v.guard("surplus", id).String(), surplus, now, time.Time{}))
	}
	for _, c := range v.closed {
		g := v.guard("health", id)
		g.node = c.node
		want = append(want, reservation(g.String(), []string{c.node}, now, c.until))
	}
	return want
}

// surplus are the nodes that jobs are kept from: the last ones, and where we launch those of
// failed hosts. They stay the same ones while jobs come and go. Which nodes of a PCS compute
// node group have the instances, PCS alone says: there only what is beyond max_nodes is closed.
func (v slotView) surplus(nodes []string) []string {
	if v.partition.Provider == capacity.ProviderEC2 {
		return slices.Concat(v.lost, nodes[v.launchable(nodes):])
	}
	if v.group.MaxNodes == 0 || v.places < v.group.MaxNodes {
		return nil
	}
	return nodes[v.launchable(nodes):]
}

// launchable is how many of a slot's nodes, the first ones, there are instances for.
func (v slotView) launchable(nodes []string) int {
	if v.places == 0 {
		return len(nodes)
	}
	return min(v.places, len(nodes))
}

// fenced keeps the queue from being let loose on nodes that cannot be launched: those of
// a slot where everything has ended, or which never had a reservation.
func (v slotView) fenced(nodes []string, now time.Time) []Reservation {
	start := v.last.Fence
	if v.last.Unbounded() {
		if v.partition.Provider != capacity.ProviderEC2 || v.group.PurchaseOption == capacity.OnDemand {
			return nil
		}
		start = now
	}
	if start.After(now) { // a block that never opened, such as payment-failed
		start = now
	}
	return []Reservation{reservation(v.guard("fence", v.lastID).String(), nodes, start, time.Time{})}
}

// shift moves a reservation into another clock.
func (r Reservation) shift(d time.Duration) Reservation {
	r.Start = r.Start.Add(d)
	if !r.End.IsZero() {
		r.End = r.End.Add(d)
	}
	return r
}

// steering is what the steps of a pass depend on beside the reservations.
type steering struct {
	owner string
	// takeOver: those of another owner become ours.
	takeOver bool
	// keep are slots that are left as they are: nothing is known about them.
	keep map[string]bool
	// known are the slots of the settings, or of those before.
	known map[string]bool
	// mayGo reports whether a fence has nothing to guard any more.
	mayGo func(guard) bool
	now   time.Time
}

// steps brings the Slurm reservations that are there to those that are wanted; all
// times are in Slurm's clock. It also says what it leaves alone that has one of our names.
func (s steering) steps(want, have []Reservation) (todo []ChangeGuard, left []capacity.Problem) {
	mine, theirs := map[guard][]Reservation{}, map[guard][]Reservation{}
	taken := map[string]bool{}
	var places []guard // in the order of have
	for _, r := range have {
		g := r.guard()
		switch {
		case !named(r):
		case !ours(r):
			taken[r.Name] = true
			left = append(left, capacity.Problemf(capacity.NameTaken, capacity.Subject{}, "",
				"Slurm reservation %s has a name of pcs-capacity's but was not made by it (flags %s, users %s); it is left alone: rename or delete it",
				r.Name, strings.Join(r.Flags, ","), strings.Join(r.Users, ",")))
		case g.owner == s.owner:
			mine[g.place()] = append(mine[g.place()], r)
			places = append(places, g.place())
		case g.owner == "" || s.takeOver:
			theirs[g.place()] = append(theirs[g.place()], r)
			places = append(places, g.place())
		}
	}
	wanted := map[guard]bool{}
	drop := func(r Reservation) { todo = append(todo, ChangeGuard{Do: "delete", R: r, Slot: r.guard().slot}) }
	for _, w := range want {
		place := w.guard().place()
		wanted[place] = true
		all := mine[place]
		if len(all) == 0 {
			all = theirs[place]
			if len(all) == 0 {
				place.block = "" // as older versions named it
				all = theirs[place]
			}
			delete(theirs, place)
		}
		delete(mine, w.guard().place())
		if len(all) == 0 {
			if !taken[w.Name] {
				todo = append(todo, ChangeGuard{Do: "create", R: w, Slot: place.slot})
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
		if s.keep[place.slot] {
			continue
		}
		for _, r := range mine[place] {
			if place.kind != "fence" || s.mayGo(place) {
				drop(r)
			}
		}
		for _, r := range theirs[place] {
			switch {
			case place.kind != "fence" || wanted[place] || place.block != "" && s.mayGo(place) || place.block == "" && s.known[place.slot]:
				drop(r)
			case place.block == "" && r.guard().owner == "":
				left = append(left, capacity.Problemf(capacity.OlderVersion, capacity.Subject{Slot: place.slot}, "",
					"Slurm reservation %s is an older version's, and the settings have no slot %s; it is left alone: run sync with the settings that have it, or `scontrol delete ReservationName=%s`",
					r.Name, place.slot, r.Name))
			default:
				// Made anew: Slurm shows flags that it takes from nobody.
				anew := reservation(r.guard().of(s.owner).String(), r.Nodes, r.Start, r.End)
				todo = append(todo, ChangeGuard{Do: "replace", R: anew, Slot: place.slot, Old: r.Name})
			}
		}
		delete(mine, place)
		delete(theirs, place)
	}
	// What closes a slot comes before what opens it.
	order := []string{"create", "update", "replace", "delete"}
	slices.SortStableFunc(todo, func(a, b ChangeGuard) int { return slices.Index(order, a.Do) - slices.Index(order, b.Do) })
	return todo, left
}

// change brings the one of several for one place that needs the least to what is wanted; rest
// are to go when that is done.
func (s steering) change(w Reservation, all []Reservation, taken map[string]bool) (st ChangeGuard, rest []Reservation) {
	best, do := 0, ""
	for i, r := range all {
		d := difference(w, r, true, s.now)
		if r.guard().owner != s.owner {
			d = "replace"
		}
		if easier := []string{"", "update", "replace"}; i == 0 || slices.Index(easier, d) < slices.Index(easier, do) {
			best, do = i, d
		}
	}
	there := all[best]
	rest = slices.Delete(slices.Clone(all), best, best+1)
	st = ChangeGuard{Do: do, R: w, Slot: w.guard().slot}
	st.R.Active = there.Active
	if do != "replace" {
		st.R.Name = there.Name
		return st, rest
	}
	g := w.guard()
	g.second = there.Name == w.Name
	st.R.Name, st.Old = g.String(), there.Name
	if taken[st.R.Name] {
		return ChangeGuard{}, nil
	}
	rest = slices.DeleteFunc(rest, func(r Reservation) bool {
		st.Occupied = st.Occupied || r.Name == st.R.Name
		return r.Name == st.R.Name
	})
	return st, rest
}

// difference says what has to be done to a reservation; "" for nothing. One that has
// started cannot get another start ("Reservation already started"), nor other nodes
// with certainty: it is deleted and created again.
func difference(want, have Reservation, exists bool, now time.Time) string {
	if !exists {
		return "create"
	}
	if !have.End.IsZero() && !have.End.After(now) {
		return "replace" // ended; Slurm still lists it for a while
	}
	started := have.Active || !have.Start.After(now)
	sameStart := near(want.Start, have.Start) || started && !want.Start.After(now)
	sameNodes := slices.Equal(sorted(want.Nodes), sorted(have.Nodes))
	sameEnd := have.endless() == want.endless() && (have.endless() || near(want.End, have.End))
	switch {
	case sameStart && sameNodes && sameEnd:
		return ""
	case started && !(sameStart && sameNodes):
		return "replace"
	}
	return "update"
}

func (r Reservation) endless() bool { return r.End.IsZero() || r.End.Sub(r.Start) >= endless }

func near(a, b time.Time) bool { return a.Sub(b).Abs() <= sameTime }

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }
