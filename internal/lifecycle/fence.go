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
	fencePrefix = "pcs-capacity-fence-"
	waitPrefix  = "pcs-capacity-wait-"
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
	named := strings.HasPrefix(r.Name, fencePrefix) || strings.HasPrefix(r.Name, waitPrefix)
	return named && !strings.HasSuffix(r.Name, "-scheduled") &&
		slices.Contains(r.Flags, "MAINT") && slices.Contains(r.Flags, "IGNORE_JOBS") &&
		len(r.Users) == 1 && r.Users[0] == "root"
}

// SlotOf is the slot that a Slurm reservation of ours is for; the second value is false
// for one that is not ours.
func SlotOf(r Reservation) (slot string, isOurs bool) { return slotOf(r.Name), ours(r) }

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
		if v.last.Unbounded() {
			return nil
		}
		// Everything has ended: the slot stays closed, or the queue would be let loose
		// on nodes that cannot be launched any more.
		start := v.last.Fence
		if start.After(now) { // a block that never opened, such as payment-failed
			start = now
		}
		return []Reservation{reservation(fencePrefix+v.slot.Name, nodes, start, time.Time{})}
	}
	var want []Reservation
	if v.partition.Provider == capacity.ProviderEC2 && v.window.Start.After(now) {
		want = append(want, reservation(waitPrefix+v.slot.Name, nodes, now, v.window.Start))
	}
	if v.window.Unbounded() {
		return want
	}
	var end time.Time
	if v.next.ID != "" && !v.next.Start.IsZero() {
		// Until its end, instances of the old block still disappear.
		end = v.next.Start
		if v.window.End.After(end) {
			end = v.window.End
		}
	}
	return append(want, reservation(fencePrefix+v.slot.Name, nodes, v.window.Fence, end))
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
		case strings.HasPrefix(r.Name, fencePrefix) || strings.HasPrefix(r.Name, waitPrefix):
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
			todo = append(todo, step{do, w, slotOf(w.Name)})
		}
	}
	for _, r := range have {
		if ours(r) && !wantedNames[r.Name] && !keep[slotOf(r.Name)] {
			todo = append(todo, step{"delete", r, slotOf(r.Name)})
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
	sameEnd := have.endless() && want.endless() || !have.endless() && !want.endless() && near(want.End, have.End)
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

func slotOf(name string) string {
	return strings.TrimPrefix(strings.TrimPrefix(name, fencePrefix), waitPrefix)
}
