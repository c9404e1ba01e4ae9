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
	e := Explanation{Subject: "node " + n.Name, Facts: []Fact{}, Advice: "Nothing to do."}
	state := n.Word()
	e.fact("state", "%s", state)
	part, _, named, _ := settings.PlaceOf(n.Name)
	place, ours := snap.Place(named)
	guarded := func(kind capacity.GuardKind) bool {
		return slices.ContainsFunc(guards, func(g capacity.Guard) bool { return g.Kind == kind })
	}
	if !ours {
		e.say(Unmanaged, "Node %s belongs to no partition that pcs-capacity manages.", n.Name)
		e.advise("Ask Slurm: `scontrol show node %s`.", n.Name)
		return e
	}
	e.fact("partition", "%s, slot %s", part.Name, named)
	standing := snap.Standing(place, now)
	e.standing(standing, now)
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
	switch {
	case strings.HasPrefix(state, "power") && !down:
		e.say(Boots, "Node %s is booting.", n.Name)
	case !n.Up() && !down:
		e.say(Broken, "Node %s takes no jobs: its state is %s.", n.Name, state)
		e.advise("Repair what the reason names, then run `%s`.", capacity.GiveBack(n.Name, n.Out(), part.Provider))
		if strings.HasPrefix(n.Reason, "Not responding") || strings.HasPrefix(n.Reason, "Node unexpectedly rebooted") {
			e.Answer = fmt.Sprintf("Node %s takes no jobs: its slurmd has died, or its instance has.", n.Name)
			e.advise("See `journalctl -u pcs-capacity-slurmd` there, or have it launched anew: `%s`.", capacity.GiveBack(n.Name, n.Out(), part.Provider))
		}
	case code != Open:
		e.say(code, "Node %s takes no jobs: %s.", n.Name, where)
	case guarded(capacity.GuardSurplus):
		e.say(Surplus, "Node %s takes no jobs: its slot has more nodes than instances, or than `max_nodes`.", n.Name)
	case down && failed:
		e.say(LaunchFailed, "Node %s is powered down: its last launch failed. It is launched again when a job needs it.", n.Name)
		e.Advice = "Nothing to do yet. If it fails again and again, see `pcs-capacity status`."
	case down:
		e.say(PoweredDown, "Node %s is powered down; it is launched when a job needs it.", n.Name)
	default:
		e.say(Runs, "Node %s is up and takes jobs.", n.Name)
	}
	if e.Code == NoCapacity {
		e.Advice = "Give the node group its next reservation in the settings, or take the partition out of them."
	}
	e.age(snap, now)
	return e
}

// OfPartition says whether a partition takes jobs. troubles are problems that somebody should look at.
func OfPartition(p capacity.Partition, waiting int, troubles []capacity.Problem, snap *capacity.Snapshot,
	now time.Time) Explanation {
	e := Explanation{Subject: "partition " + p.Name, Code: NoCapacity, Facts: []Fact{}, Advice: "Nothing to do."}
	order := []string{Open, WaitsToOpen, Fenced, NodesOut, NotKnown, NoCapacity}
	where := ""
	for _, at := range capacity.Places([]capacity.Partition{p}) {
		code, words := slotWords(snap.Standing(at, now), now)
		if code == Open && allOut(*at.Slot) {
			code, words = NodesOut, words+", and none of its nodes gets jobs"
		}
		for _, o := range at.Slot.Out {
			e.fact("nodes", "%s", o)
		}
		if where == "" || slices.Index(order, code) < slices.Index(order, e.Code) {
			e.Code, where = code, words
		}
		e.fact("slot "+at.Slot.Name, "%s", words)
	}
	switch e.Code {
	case Open:
		e.Answer = fmt.Sprintf("Partition %s takes jobs: %s.", p.Name, where)
	default:
		e.Answer = fmt.Sprintf("Partition %s starts no job now: %s.", p.Name, where)
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
	switch {
	case e.Code == NodesOut:
		e.Advice = "Repair what the reasons name, then give the nodes back; `pcs-capacity status` has the command."
	case e.Code == NoCapacity:
		e.Advice = "Give it its next reservation: `pcs-capacity offerings` shows what is for sale, `pcs-capacity setup` adds it."
	case trouble:
		e.Advice = "See the lines marked 'trouble'."
	case waiting > 0:
		e.Advice = "Nothing to do. `pcs-capacity explain JOB` says what a job waits for."
	}
	e.age(snap, now)
	return e
}

func allOut(slot capacity.Slot) bool {
	out := 0
	for _, o := range slot.Out {
		out += o.Count
	}
	return out > 0 && out >= slot.Count
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

func (e *Explanation) standing(s capacity.Standing, now time.Time) {
	for _, t := range s.Current {
		e.fact("reservation", "%s", window(t.Reservation.ID, t.Window, now))
	}
	if s.Next.Reservation.ID != "" {
		e.fact("next", "%s", window(s.Next.Reservation.ID, s.Next.Window, now))
	}
}
