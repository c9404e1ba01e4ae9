package lifecycle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// interruptionNotice is the time between EC2's interruption notice and the termination of an interruptible
// reservation's instance: EC2 User Guide, "Monitor interruptible Capacity Reservations".
const interruptionNotice = "2 minutes"

// interruptions gets jobs off the nodes that EC2 interrupts, and powers the nodes down. Every job is told; a job that
// ends with its nodes is also told in its AdminComment, where explain reads it.
func interruptions(seen Seen) []capacity.Effect {
	byNode := seen.TakenBack
	var effects []capacity.Effect
	requeued := map[string]bool{}
	for _, j := range seen.Jobs {
		f, on := earliestFence(j, byNode)
		if !on || !j.Allocated() {
			continue
		}
		nodes := slices.DeleteFunc(slices.Clone(j.Nodes), func(n string) bool { _, ok := byNode[n]; return !ok })
		why := fmt.Sprintf("EC2 takes %s of reservation %s back within %s", hostlist.Compress(nodes), f.reservation,
			interruptionNotice)
		tell := TellJob{Slot: f.slot, Job: j.Shown, That: "EC2 takes its nodes back", Deaf: !j.Running()}
		onEnd := f.atEnd(j, seen.Marks[j.Shown])
		if !j.Requeues() || onEnd == capacity.StopAtEnd {
			ends := "; this job ends then: save your work"
			if !j.Requeues() {
				ends = "; this job ends then and cannot be requeued: save your work"
			}
			tell.Text = "pcs-capacity: " + why + ends
			note := fmt.Sprintf("pcs-capacity: interrupted at %s: %s", capacity.FormatUTC(seen.Now), why+ends)
			effects = append(effects, tell, TellOwner{Job: j, Text: note, Quiet: true})
			continue
		}
		e := InterruptJob{Slot: f.slot, Job: j, Hold: onEnd == capacity.HoldAtEnd}
		verb := requeueVerb(e.Hold, capacity.Did)
		e.Note = fmt.Sprintf("%s at %s: %s", verb, capacity.FormatUTC(seen.Now), why)
		if e.Hold {
			e.Note += "; release it to go on"
		}
		tell.Text = "pcs-capacity: " + why + "; this job is " + verb + " now"
		effects = append(effects, tell)
		if whole, _, _ := strings.Cut(j.Shown, "+"); !requeued[whole] { // a het job's components are requeued together
			requeued[whole] = true
			effects = append(effects, e)
		}
	}
	bySlot := map[string][]string{}
	for _, n := range seen.Cluster.Nodes {
		if f, ok := byNode[n.Name]; ok && n.Up() {
			bySlot[f.slot] = append(bySlot[f.slot], n.Name)
		}
	}
	for _, slot := range slices.Sorted(maps.Keys(bySlot)) {
		effects = append(effects,
			PowerDown{Slot: slot, Nodes: bySlot[slot], Reason: capacity.TakenBack, Why: "EC2 takes the instances back"})
	}
	return effects
}
