// Package explain says why a job, a node or a partition is in its state, and what to do. `pcs-capacity explain` and
// `when` call it: begin with [OfJob] (job.go), [OfNode] and [OfPartition] (here), or [When] (when.go).
//
// It reads the snapshot that sync wrote, Slurm, and the hooks' records. It does not call AWS, so every user of the
// cluster can run it. The reasons are package capacity's: a job is judged again, as at its submission.
package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Explanation is one screen.
type Explanation struct {
	Subject string `json:"subject"` // names the explained thing: "job 7", "node gpu-1", "partition gpu"
	// Code is stable, for scripts: its state, or that of the verdict that keeps a job from starting.
	Code capacity.Code `json:"code"`
	// Answer is a sentence for people. Advice says what to do.
	Answer string `json:"answer"`
	Facts  []Fact `json:"facts"`
	Advice string `json:"advice"`
}

// Fact is one fact behind the answer.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func (e *Explanation) add(name, format string, args ...any) {
	if value := fmt.Sprintf(format, args...); value != "" {
		e.Facts = append(e.Facts, Fact{name, value})
	}
}

// nothingToDo begins the advice where there is nothing to do.
const nothingToDo = "Nothing to do"

// What keeps jobs waiting for which capacity must be held, and the advice.
const (
	syncIsDown = "sync, which holds capacity for jobs, does not run or does not reach AWS"
	runSync    = "Administrators: keep `pcs-capacity sync --watch` running."
)

func newExplanation(subject string) Explanation {
	return Explanation{Subject: subject, Facts: []Fact{}}
}

// answer sets the answer, a sentence that begins with the subject. {} in do is the subject's name.
func (e *Explanation) answer(code capacity.Code, do, format string, args ...any) {
	kind, name, _ := strings.Cut(e.Subject, " ")
	e.Code = code
	e.Advice = strings.ReplaceAll(do, "{}", name)
	e.Answer = strings.ToUpper(kind[:1]) + e.Subject[1:] + " " + fmt.Sprintf(format, args...)
}

func (e *Explanation) addAge(snap *capacity.Snapshot, now time.Time) {
	if snap.IsStale(now) {
		e.add("as of", "%s ago: is `pcs-capacity sync --watch` running?",
			capacity.FormatUTC(snap.TakenAt)+", "+capacity.FormatDuration(now.Sub(snap.TakenAt)))
	}
}

func formatTime(t, now time.Time) string {
	if t.Before(now) {
		return fmt.Sprintf("%s, %s ago", capacity.FormatUTC(t), capacity.FormatUntil(now.Sub(t)))
	}
	return fmt.Sprintf("%s, in %s", capacity.FormatUTC(t), capacity.FormatUntil(t.Sub(now)))
}

func describeWindow(id string, w capacity.Window, now time.Time) string {
	switch {
	case w.Start.After(now) && w.Unbounded():
		return fmt.Sprintf("%s opens at %s", id, formatTime(w.Start, now))
	case w.Start.After(now):
		return fmt.Sprintf("%s opens at %s; jobs must end by %s", id, formatTime(w.Start, now),
			capacity.FormatUTC(w.Fence))
	case w.Unbounded():
		return id + " is open, without an end"
	case !w.Fence.After(now):
		return fmt.Sprintf("%s: jobs had to end by %s", id, formatTime(w.Fence, now))
	}

	return fmt.Sprintf("%s is open; jobs must end by %s", id, formatTime(w.Fence, now))
}

// OfCode writes the page of a code.
func OfCode(m capacity.Meaning) Explanation {
	e := Explanation{Subject: "code " + string(m.Code), Code: m.Code, Answer: m.Text, Advice: m.Do}

	var by []string
	for _, at := range m.At {
		by = append(by, shownBy[at])
	}

	e.add("who acts", "%s", m.Who())
	e.add("shown by", "%s", strings.Join(by, "; "))

	if m.More != "" {
		e.add("more", "docs/%s", m.More)
	}

	return e
}

// shownBy names the programs that show a code.
var shownBy = map[capacity.Place]string{
	capacity.AtSubmission: "sbatch, srun and salloc, fit",
	capacity.AtLaunch:     "a node's Reason, a job's AdminComment, resume.log",
	capacity.AtPass:       "sync, status",
	capacity.AtSetup:      "setup, teardown, check",
	capacity.AtNotice:     "[notify]",
	capacity.AtStale:      "sbatch, as a warning, where sync does not run",
	capacity.AtExplain:    "explain, when",
	capacity.AtNever:      "explain, when, as a reason for which a job can never start",
}

// OfNode says what a node waits for. surplus: a guard of ours over nodes beyond the instances has it.
func OfNode(
	n capacity.Node,
	settings capacity.Settings,
	surplus bool,
	snap *capacity.Snapshot,
	records []state.Record,
	now time.Time,
) Explanation {
	e := newExplanation("node " + n.Name)
	e.add("state", "%s", n.ShortState())
	part, _, named, _ := settings.FindNode(n.Name)

	place, ours := snap.FindSlot(named)
	if !ours {
		e.answer(
			capacity.NotManaged,
			"Ask Slurm: `scontrol show node {}`.",
			"belongs to no partition that pcs-capacity manages.",
		)

		return e
	}

	e.add("partition", "%s, slot %s", part.Name, named)

	standing := snap.SlotState(place, now)
	for _, t := range standing.Current {
		e.add("reservation", "%s", describeWindow(t.Reservation.ID, t.Window, now))
	}

	if next := standing.Next; next.Reservation.ID != "" {
		e.add("next", "%s", describeWindow(next.Reservation.ID, next.Window, now))
	}

	e.add("reason", "%s", n.Reason)

	last, found := lastRecord(n.Name, records)
	failed := last.Hook == "resume" && last.Code != string(capacity.OK)
	if found {
		e.add("last "+last.Hook, "%s: %s",
			capacity.FormatUTC(last.At), strings.TrimSpace(last.Code+": "+last.Message))
	}

	// Slurm's own states first: a node that boots or is broken says nothing about its reservation.
	down := n.PoweredDown() || n.PoweringDown()
	broken := !n.IsUp() && !down
	slurmdDied := strings.HasPrefix(n.Reason, "Not responding") ||
		strings.HasPrefix(n.Reason, "Node unexpectedly rebooted")

	code, where := describeSlot(standing, now)
	giveBack := "`" + capacity.ReturnCommand(n.Name, n.OutState(), part.Provider) + "`."
	switch {
	case n.IsBooting():
		e.answer(capacity.Boots, nothingToDo+".", "is booting.")
	case n.IsUp() && place.Slot.Opening.Has(n.Name):
		e.answer(capacity.WaitsToOpen, nothingToDo+".", "is up: %s.",
			place.Slot.Opening.Describe(standing.Reservation.ID))
	case broken && slurmdDied:
		e.answer(
			capacity.NotUsable,
			"See `journalctl -u pcs-capacity-slurmd` there, or have it launched again: "+giveBack,
			"takes no jobs: its slurmd has died, or its instance has.",
		)
	case broken:
		e.answer(
			capacity.NotUsable,
			"Fix what the reason names, then run "+giveBack,
			"takes no jobs: its state is %s.",
			n.ShortState(),
		)
	case code == capacity.NoReservation:
		e.answer(code, "Give the node group its next reservation in the settings, or remove the partition from them.",
			"takes no jobs: %s.", where)
	case code != capacity.TakesJobs:
		e.answer(code, nothingToDo+".", "takes no jobs: %s.", where)
	case surplus && place.LaunchesHeld():
		e.answer(capacity.WaitsForHold, nothingToDo+": sync holds capacity when a job waits for nodes.",
			"takes no jobs: no capacity is held for it.")
	case surplus:
		e.answer(capacity.SurplusNode, nothingToDo+".",
			"takes no jobs: its slot has more nodes than instances, or than `max_nodes`.")
	case down && failed:
		e.answer(capacity.LaunchFailed, nothingToDo+" yet. If it fails again and again, see `pcs-capacity status`.",
			"is powered down: its last launch failed. It is launched again when a job needs it.")
	case down:
		e.answer(capacity.PoweredDown, nothingToDo+".", "is powered down; it is launched when a job needs it.")
	default:
		e.answer(capacity.Runs, nothingToDo+".", "is up and takes jobs.")
	}

	e.addAge(snap, now)

	return e
}

// lastRecord returns the last record of a node.
func lastRecord(node string, records []state.Record) (last state.Record, found bool) {
	// Records are in the order of time: the last one that names the node counts.
	for _, r := range slices.Backward(records) {
		names, err := hostlist.Expand(r.Nodes)
		if err == nil && slices.Contains(names, node) {
			return r, true
		}
	}

	return state.Record{}, false
}

// OfPartition says whether a partition takes jobs. troubles are problems that somebody should look at.
func OfPartition(
	p capacity.Partition, waiting int, troubles []capacity.Problem, snap *capacity.Snapshot, now time.Time,
) Explanation {
	e := newExplanation("partition " + p.Name)

	if p.Spare.Name != "" {
		e.add("lends to", "partition %s, whose jobs are requeued when its own need nodes", p.Spare.Name)
	}

	if p.Lender != "" {
		e.add("borrows from", "partition %s, whose jobs take nodes back", p.Lender)
	}

	order := []capacity.Code{
		capacity.TakesJobs,
		capacity.WaitsForHold,
		capacity.WaitsToOpen,
		capacity.Fenced,
		capacity.NodesOutOfService,
		capacity.ReservationNotKnown,
		capacity.NoReservation,
	}

	best := capacity.NoReservation
	where := ""
	for _, at := range capacity.AllSlots([]capacity.Partition{p}) {
		code, words := describeSlot(snap.SlotState(at, now), now)

		if at.LaunchesHeld() && snap.IsStale(now) {
			code = capacity.WaitsForHold
			words = syncIsDown
		}

		out := 0
		for _, o := range at.Slot.Out {
			out += o.Count
			e.add("nodes", "%s", o)
		}

		// Open, but of no use to a job.
		if code == capacity.TakesJobs && out > 0 && out >= at.Slot.Count {
			code = capacity.NodesOutOfService
			words += ", and none of its nodes accepts jobs"
		}

		// A partition is as good as the best of its slots.
		if where == "" || slices.Index(order, code) < slices.Index(order, best) {
			best = code
			where = words
		}

		e.add("slot "+at.Slot.Name, "%s", words)
	}

	e.add("pending jobs", "%d", waiting)

	trouble := false
	for _, t := range troubles {
		name := "note"
		if t.Severity != capacity.Note {
			name = "problem"
			trouble = true
		}

		e.add(name, "%s", t.Text())
	}

	do := nothingToDo + "."
	switch {
	case best == capacity.NodesOutOfService:
		do = "Fix what the reasons name, then return the nodes to service; `pcs-capacity status` has the command."
	case best == capacity.WaitsForHold:
		do = runSync
	case best == capacity.NoReservation:
		do = "Give it its next reservation: `pcs-capacity offerings` shows what is for sale, " +
			"`pcs-capacity setup` adds it."
	case trouble:
		do = "See the lines marked 'problem'."
	case waiting > 0:
		do += " `pcs-capacity explain JOB` says what a job waits for."
	}

	takes := "starts no job now"
	if best == capacity.TakesJobs {
		takes = "takes jobs"
	}

	e.answer(best, do, "%s: %s.", takes, where)
	e.addAge(snap, now)

	return e
}

func describeSlot(at capacity.SlotState, now time.Time) (code capacity.Code, words string) {
	w := at.Window
	words = describeWindow(at.Reservation.ID, w, now)
	switch {
	case at.LaunchesHeld():
		words = "nodes are launched on demand, once capacity is held for a job"
		if held := at.DescribeHolding(); held != "" {
			words += ": " + held
		}

		return capacity.TakesJobs, words
	case !at.Group.PurchaseOption.IsReserved():
		return capacity.TakesJobs, "nodes are launched on demand"
	case at.Unknown:
		return capacity.ReservationNotKnown, "EC2 did not describe its reservation when it was last asked"
	case at.Reservation.ID == "" && at.Last.Unbounded():
		return capacity.NoReservation, "it has no reservation"
	case at.Reservation.ID == "":
		return capacity.NoReservation, "its last reservation has ended"
	case w.Start.After(now):
		return capacity.WaitsToOpen, words
	case !w.Unbounded() && !w.Fence.After(now):
		if next := at.Next.Reservation.ID; next != "" {
			words += fmt.Sprintf("; %s opens at %s", next, capacity.FormatUTC(at.Next.Window.Start))
		}

		return capacity.Fenced, words
	}

	if o := at.Slot.Opening; o != nil {
		words = o.Describe(at.Reservation.ID)
		if o.Count >= at.Slot.Count {
			return capacity.WaitsToOpen, words
		}
	}

	return capacity.TakesJobs, words
}
