// Package explain says why a job, a node or a partition is in its state, and what to do. It reads the snapshot that
// sync wrote, Slurm, and the hooks' records. It does not call AWS, so every user of the cluster can run it.
package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Explanation is one screen.
type Explanation struct {
	// Subject names the explained thing: "job 7", "node gpu-1", "partition gpu".
	Subject string `json:"subject"`
	// Code is stable, for scripts: one of the codes below, or that of the verdict that keeps a job from ever starting.
	Code string `json:"code"`
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

// The codes.
const (
	Unmanaged    = "not-managed"      // pcs-capacity has nothing to do with it
	Runs         = "runs"             // it has its nodes
	Boots        = "boots"            // its nodes boot
	Ended        = "ended"            // the job is over
	Held         = "held"             // its owner, or an administrator, has to release it
	LaunchFailed = "launch-failed"    // nodes could not be launched, and it is tried again
	WaitsToBegin = "waits-to-begin"   // --begin
	WaitsToOpen  = "waits-to-open"    // no block is open yet
	BehindFence  = "behind-the-fence" // too little is left of the open block, and it waits for the next
	NextBlock    = "next-block"       // the block has ended, and it waits for the next
	Constrained  = "constrained"      // its constraint keeps it from the reservation that would take it
	WaitsForHost = "hosts-failed"     // fewer hosts are usable than it asks for
	WaitsInQueue = "waits-in-queue"   // there is a block for it; Slurm decides when its turn is
	NodesOut     = "nodes-out"        // too few nodes are left of those that are drained, down or failed
	WaitsByRule  = "waits-by-rule"    // there is a block for it; a dependency or a limit of Slurm's keeps it back
	NotKnown     = "reservation-not-known"
	Open         = "open"
	Fenced       = "fenced"
	NoCapacity   = "no-reservation"
	Surplus      = "surplus"
	PoweredDown  = "powered-down"
	Broken       = "not-usable"
)

func (e *Explanation) fact(name, format string, args ...any) {
	if value := fmt.Sprintf(format, args...); value != "" {
		e.Facts = append(e.Facts, Fact{name, value})
	}
}

// nothing begins the advice where there is nothing to do.
const nothing = "Nothing to do"

func about(subject string) Explanation { return Explanation{Subject: subject, Facts: []Fact{}} }

// say answers with a sentence that begins with the subject. {} in do is the subject's name.
func (e *Explanation) say(code, do, format string, args ...any) {
	kind, name, _ := strings.Cut(e.Subject, " ")
	e.Code, e.Advice = code, strings.ReplaceAll(do, "{}", name)
	e.Answer = strings.ToUpper(kind[:1]) + e.Subject[1:] + " " + fmt.Sprintf(format, args...)
}

func (e *Explanation) age(snap *capacity.Snapshot, now time.Time) {
	if snap.Stale(now) {
		e.fact("as of", "%s ago: is `pcs-capacity sync --watch` running?",
			capacity.FormatUTC(snap.TakenAt)+", "+capacity.FormatDuration(now.Sub(snap.TakenAt)))
	}
}

func at(t, now time.Time) string {
	if t.Before(now) {
		return fmt.Sprintf("%s, %s ago", capacity.FormatUTC(t), capacity.FormatUntil(now.Sub(t)))
	}
	return fmt.Sprintf("%s, in %s", capacity.FormatUTC(t), capacity.FormatUntil(t.Sub(now)))
}

func window(id string, w capacity.Window, now time.Time) string {
	switch {
	case w.Start.After(now) && w.Unbounded():
		return fmt.Sprintf("%s opens at %s", id, at(w.Start, now))
	case w.Start.After(now):
		return fmt.Sprintf("%s opens at %s; jobs must be gone by %s", id, at(w.Start, now), capacity.FormatUTC(w.Fence))
	case w.Unbounded():
		return id + " is open, without an end"
	case !w.Fence.After(now):
		return fmt.Sprintf("%s: jobs had to be gone by %s", id, at(w.Fence, now))
	}
	return fmt.Sprintf("%s is open; jobs must be gone by %s", id, at(w.Fence, now))
}

// OfCode is the page of a code.
func OfCode(m capacity.Meaning) Explanation {
	e := Explanation{Subject: "code " + string(m.Code), Code: string(m.Code), Answer: m.Text, Advice: m.Do}
	var by []string
	for _, at := range m.At {
		by = append(by, shownBy[at])
	}
	e.fact("who acts", "%s", m.Who())
	e.fact("shown by", "%s", strings.Join(by, "; "))
	if m.More != "" {
		e.fact("more", "docs/%s", m.More)
	}
	return e
}

// shownBy names the programs that show a code.
var shownBy = map[string]string{
	"submission": "sbatch, srun and salloc, fit",
	"launch":     "a node's Reason, a job's AdminComment, resume.log",
	"pass":       "sync, status",
	"setup":      "setup, teardown, check",
	"notice":     "[notify]",
}
