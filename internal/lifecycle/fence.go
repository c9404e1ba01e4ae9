package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// The names of our Slurm reservations, before the name of the slot.
const (
	fencePrefix   = "pcs-capacity-fence-"
	waitPrefix    = "pcs-capacity-wait-"
	surplusPrefix = "pcs-capacity-surplus-"
	healthPrefix  = "pcs-capacity-health-" // and, after the slot, a point and the node
)

// slotOf is the slot of a Slurm reservation that has one of our names.
func slotOf(name string) (slot string, ok bool) {
	for _, prefix := range []string{fencePrefix, waitPrefix, surplusPrefix} {
		if slot, ok := strings.CutPrefix(name, prefix); ok {
			return slot, true
		}
	}
	if rest, ok := strings.CutPrefix(name, healthPrefix); ok {
		slot, _, ok := strings.Cut(rest, ".")
		return slot, ok
	}
	return "", false
}

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
	_, ok := slotOf(r.Name)
	return ok
}

// SlotOf is the slot that a Slurm reservation of ours is for; the second value is false
// for one that is not ours.
func SlotOf(r Reservation) (slot string, isOurs bool) {
	slot, _ = slotOf(r.Name)
	return slot, ours(r)
}

// reservation makes one of ours: root's, for maintenance, over whatever runs there.
func reservation(name string, nodes []string, start, end time.Time) Reservation {
	return Reservation{Name: name, Nodes: nodes, Start: start, End: end, Flags: []string{"MAINT", "IGNORE_JOBS"}, Users: []string{"root"}}
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
	var want []Reservation
	if v.partition.Provider == capacity.ProviderEC2 && v.window.Start.After(now) {
		want = append(want, reservation(waitPrefix+v.slot.Name, nodes, now, v.window.Start))
	}
	if !v.window.Unbounded() {
		// Until its end, instances of the old block still disappear: the next turn begins then.
		want = append(want, reservation(fencePrefix+v.slot.Name, nodes, v.window.Fence, v.next.Window.Start))
	}
	// Nothing can be launched for the last nodes, nor for those of failed hosts, so that jobs
	// are kept from them. They stay the same ones while jobs come and go.
	if surplus := slices.Concat(v.lost, nodes[v.launchable(nodes):]); v.partition.Provider == capacity.ProviderEC2 && len(surplus) > 0 {
		want = append(want, reservation(surplusPrefix+v.slot.Name, surplus, now, time.Time{}))
	}
	for _, c := range v.closed {
		want = append(want, reservation(healthName(v.slot.Name, c.node), []string{c.node}, now, c.until))
	}
	return want
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
	return []Reservation{reservation(fencePrefix+v.slot.Name, nodes, start, time.Time{})}
}

// shift moves a reservation into another clock.
func (r Reservation) shift(d time.Duration) Reservation {
	r.Start = r.Start.Add(d)
	if !r.End.IsZero() {
		r.End = r.End.Add(d)
	}
	return r
}

// step is one change to a Slurm reservation.
type step struct {
	do   string // create, update, replace, delete
	r    Reservation
	slot string
}

// steps brings the Slurm reservations that are there to those that are wanted; all
// times are in Slurm's clock. Slots in keep are left as they are: nothing is known
// about them. It also names foreign reservations that have one of our names.
func steps(want, have []Reservation, keep map[string]bool, now time.Time) (todo []step, foreign []string) {
	mine := map[string]Reservation{}
	taken := map[string]bool{}
	for _, r := range have {
		switch {
		case ours(r):
			mine[r.Name] = r
		case named(r):
			taken[r.Name] = true
			foreign = append(foreign, fmt.Sprintf("Slurm reservation %s has a name of pcs-capacity's but was not made by it (flags %s, users %s); it is left alone: rename or delete it",
				r.Name, strings.Join(r.Flags, ","), strings.Join(r.Users, ",")))
		}
	}
	wantedNames := map[string]bool{}
	for _, w := range want {
		wantedNames[w.Name] = true
		if taken[w.Name] {
			continue
		}
		there, ok := mine[w.Name]
		if do := difference(w, there, ok, now); do != "" {
			w.Active = ok && there.Active
			slot, _ := slotOf(w.Name)
			todo = append(todo, step{do, w, slot})
		}
	}
	for _, r := range have {
		if slot, _ := slotOf(r.Name); ours(r) && !wantedNames[r.Name] && !keep[slot] {
			todo = append(todo, step{"delete", r, slot})
		}
	}
	// What closes a slot comes before what opens it.
	order := []string{"create", "update", "replace", "delete"}
	slices.SortStableFunc(todo, func(a, b step) int { return slices.Index(order, a.do) - slices.Index(order, b.do) })
	return todo, foreign
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
