package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// OfNode says what a node waits for. guards are our active Slurm reservations over it, and expand lists the names in
// a hostlist.
func OfNode(n capacity.Node, settings capacity.Settings, guards []capacity.Guard, snap *capacity.Snapshot,
	records []state.Record, expand func(string) ([]string, error), now time.Time) Explanation {
	e := about("node " + n.Name)
	state := n.Word()
	e.fact("state", "%s", state)
	part, _, named, _ := settings.PlaceOf(n.Name)
	place, ours := snap.Place(named)
	if !ours {
		e.say(Unmanaged, "Ask Slurm: `scontrol show node {}`.", "belongs to no partition that pcs-capacity manages.")
		return e
	}
	e.fact("partition", "%s, slot %s", part.Name, named)
	standing := snap.Standing(place, now)
	for _, t := range standing.Current {
		e.fact("reservation", "%s", window(t.Reservation.ID, t.Window, now))
	}
	if next := standing.Next; next.Reservation.ID != "" {
		e.fact("next", "%s", window(next.Reservation.ID, next.Window, now))
	}
	e.fact("reason", "%s", n.Reason)
	failed := false
	for _, r := range slices.Backward(records) {
		if names, err := expand(r.Nodes); err == nil && slices.Contains(names, n.Name) {
			e.fact("last "+r.Hook, "%s: %s", capacity.FormatUTC(r.At), strings.TrimSpace(r.Code+": "+r.Message))
			failed = r.Hook == "resume" && r.Code != string(capacity.OK)
			break
		}
	}
	down := slices.Contains([]string{"powered-down", "powering-down", "power-down"}, state)
	code, where := slotWords(standing, now)
	giveBack := "`" + capacity.GiveBack(n.Name, n.Out(), part.Provider) + "`."
	switch {
	case strings.HasPrefix(state, "power") && !down:
		e.say(Boots, nothing+".", "is booting.")
	case !n.Up() && !down && (strings.HasPrefix(n.Reason, "Not responding") || strings.HasPrefix(n.Reason, "Node unexpectedly rebooted")):
		e.say(Broken, "See `journalctl -u pcs-capacity-slurmd` there, or have it launched anew: "+giveBack,
			"takes no jobs: its slurmd has died, or its instance has.")
	case !n.Up() && !down:
		e.say(Broken, "Repair what the reason names, then run "+giveBack, "takes no jobs: its state is %s.", state)
	case code == NoCapacity:
		e.say(code, "Give the node group its next reservation in the settings, or take the partition out of them.",
			"takes no jobs: %s.", where)
	case code != Open:
		e.say(code, nothing+".", "takes no jobs: %s.", where)
	case slices.ContainsFunc(guards, func(g capacity.Guard) bool { return g.Kind == capacity.GuardSurplus }):
		e.say(Surplus, nothing+".", "takes no jobs: its slot has more nodes than instances, or than `max_nodes`.")
	case down && failed:
		e.say(LaunchFailed, nothing+" yet. If it fails again and again, see `pcs-capacity status`.",
			"is powered down: its last launch failed. It is launched again when a job needs it.")
	case down:
		e.say(PoweredDown, nothing+".", "is powered down; it is launched when a job needs it.")
	default:
		e.say(Runs, nothing+".", "is up and takes jobs.")
	}
	e.age(snap, now)
	return e
}

// OfPartition says whether a partition takes jobs. troubles are problems that somebody should look at.
func OfPartition(p capacity.Partition, waiting int, troubles []capacity.Problem, snap *capacity.Snapshot,
	now time.Time) Explanation {
	e := about("partition " + p.Name)
	order := []string{Open, WaitsToOpen, Fenced, NodesOut, NotKnown, NoCapacity}
	best, where := NoCapacity, ""
	for _, at := range capacity.Places([]capacity.Partition{p}) {
		code, words := slotWords(snap.Standing(at, now), now)
		out := 0
		for _, o := range at.Slot.Out {
			out += o.Count
			e.fact("nodes", "%s", o)
		}
		if code == Open && out > 0 && out >= at.Slot.Count {
			code, words = NodesOut, words+", and none of its nodes gets jobs"
		}
		if where == "" || slices.Index(order, code) < slices.Index(order, best) {
			best, where = code, words
		}
		e.fact("slot "+at.Slot.Name, "%s", words)
	}
	e.fact("jobs that wait", "%d", waiting)
	trouble := false
	for _, t := range troubles {
		name := "note"
		if t.Severity != capacity.Note {
			name, trouble = "trouble", true
		}
		e.fact(name, "%s", t.Text())
	}
	do := nothing + "."
	switch {
	case best == NodesOut:
		do = "Repair what the reasons name, then give the nodes back; `pcs-capacity status` has the command."
	case best == NoCapacity:
		do = "Give it its next reservation: `pcs-capacity offerings` shows what is for sale, `pcs-capacity setup` adds it."
	case trouble:
		do = "See the lines marked 'trouble'."
	case waiting > 0:
		do += " `pcs-capacity explain JOB` says what a job waits for."
	}
	takes := "starts no job now"
	if best == Open {
		takes = "takes jobs"
	}
	e.say(best, do, "%s: %s.", takes, where)
	e.age(snap, now)
	return e
}

func slotWords(at capacity.Standing, now time.Time) (code, words string) {
	w := at.Window
	words = window(at.Reservation.ID, w, now)
	switch {
	case !at.Group.PurchaseOption.Reserved():
		return Open, "nodes are launched on demand"
	case at.Unknown:
		return NotKnown, "EC2 did not describe its reservation when it was last asked"
	case at.Reservation.ID == "" && at.Last.Unbounded():
		return NoCapacity, "it has no reservation"
	case at.Reservation.ID == "":
		return NoCapacity, "its last reservation has ended"
	case w.Start.After(now):
		return WaitsToOpen, words
	case !w.Unbounded() && !w.Fence.After(now):
		if next := at.Next.Reservation.ID; next != "" {
			words += fmt.Sprintf("; %s opens at %s", next, capacity.FormatUTC(at.Next.Window.Start))
		}
		return Fenced, words
	}
	return Open, words
}
