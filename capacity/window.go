package capacity

import (
	"time"
)

// Timing sets the time between the events at the end of a reservation. Package config documents defaults and their
// sources.
type Timing struct {
	DrainMargin Duration `json:"drain_margin"` // the time between the fence and EC2's first termination
	// BootAllowance is the longest time that powering up a node may take. It counts only for node groups whose nodes
	// start on demand.
	BootAllowance Duration `json:"boot_allowance"`
	// ReclaimLead is how long before EndDate EC2 starts to terminate a block's instances. With UltraServers it starts
	// twice as early: 60 minutes instead of 30 (EC2 User Guide, "Capacity Blocks").
	ReclaimLead Duration `json:"reclaim_lead"`
	// OverTime is how much longer than its limit Slurm lets a job run (OverTimeLimit). It is no setting.
	OverTime Duration `json:"over_time,omitzero"`
}

// Window says when a reservation can be used: [Start, Reclaim), with no job left at Fence. In a window without an end,
// Fence, Reclaim and End are zero.
type Window struct {
	Start   time.Time `json:"start,omitzero"`
	Fence   time.Time `json:"fence,omitzero"`
	Reclaim time.Time `json:"reclaim,omitzero"`
	End     time.Time `json:"end,omitzero"`
}

// Unbounded reports whether the window has no end.
func (w Window) Unbounded() bool { return w.End.IsZero() }

// Window computes the window of r. What Slurm lets jobs run over their limits is taken off here, and so off every limit
// that is set or allowed: Slurm itself compares limits with the start of the fence. EC2 terminates a block's instances
// before its EndDate, but lets an ODCR's instances continue on demand after it, so an ODCR has no reclaim lead.
func (t Timing) Window(r Reservation) Window {
	w := Window{Start: r.Start}
	if r.End.IsZero() {
		return w
	}

	lead := time.Duration(0)
	if r.Kind.IsBlock() {
		lead = t.ReclaimLead.Duration
		if r.UltraServer {
			lead *= 2
		}
	}

	w.End = r.End
	w.Reclaim = r.End.Add(-lead)
	w.Fence = w.Reclaim.Add(-t.DrainMargin.Duration - t.OverTime.Duration)

	return w
}

// FitLimit returns the time limit, in whole minutes, that ends a job at the fence, for a job that has run for elapsed
// at now: floor((fence - now + elapsed) / minute), at most maxTime. Slurm counts a limit from the job's start, boot not
// included.
func FitLimit(now, fence time.Time, elapsed time.Duration, maxTime Limit) int {
	minutes := max(0, int((fence.Sub(now)+elapsed)/time.Minute))
	if maxTime.Bounded() {
		minutes = min(minutes, maxTime.Minutes)
	}

	return minutes
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Duration is a time.Duration in the form of FormatExact and ParseDuration: in configuration, in JSON and on the
// command line.
type Duration struct{ time.Duration }

// String writes FormatExact's form.
func (d Duration) String() string { return FormatExact(d.Duration) }

// MarshalText writes FormatExact's form.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what ParseDuration reads.
func (d *Duration) UnmarshalText(text []byte) (err error) {
	d.Duration, err = ParseDuration(string(text))
	return err
}

// extensionPayment bounds how long EC2 takes to bill an extension; until then the block's end stays (EC2 User Guide,
// "Extend Capacity Blocks").
const extensionPayment = 12 * time.Hour

// ExtendBy returns when an extension must be bought, so that it is paid before jobs reach the fence.
func (w Window) ExtendBy() time.Time { return w.Fence.Add(-extensionPayment) }
