package capacity

import "time"

// Timing is how much time is left between the things that happen at the ends of a
// reservation. Defaults and their sources are written down in package config.
type Timing struct {
	// DrainMargin is between the fence and EC2's first termination.
	DrainMargin Duration `json:"drain_margin"`
	// BootAllowance is what powering a node up may take. It is counted only for
	// node groups whose nodes start on demand.
	BootAllowance Duration `json:"boot_allowance"`
	// ReclaimLead is how long before EndDate EC2 starts to terminate the instances
	// of a block; ReclaimLeadUltraServer the same for UltraServers.
	ReclaimLead            Duration `json:"reclaim_lead"`
	ReclaimLeadUltraServer Duration `json:"reclaim_lead_ultraserver"`
}

// Window is when a reservation can be used: [Start, Reclaim), with no job left at
// Fence. In an open window (no End) Fence, Reclaim and End are zero.
type Window struct {
	Start   time.Time `json:"start,omitzero"`
	Fence   time.Time `json:"fence,omitzero"`
	Reclaim time.Time `json:"reclaim,omitzero"`
	End     time.Time `json:"end,omitzero"`
}

// Unbounded reports whether the window has no end.
func (w Window) Unbounded() bool { return w.End.IsZero() }

// Room is the time from the earliest start at or after now until the fence;
// negative when the fence has passed. Only for windows that are not Unbounded.
func (w Window) Room(now time.Time) time.Duration {
	return w.Fence.Sub(later(now, w.Start))
}

// Window computes the window of r. EC2 terminates the instances of a block before
// its EndDate, but leaves those of an ODCR running on demand after it, so an ODCR
// with an end has no lead.
func (t Timing) Window(r Reservation) Window {
	w := Window{Start: r.Start}
	if r.End.IsZero() {
		return w
	}
	var lead time.Duration
	if r.Kind.Bought() {
		lead = t.ReclaimLead.Duration
		if r.UltraServer {
			lead = t.ReclaimLeadUltraServer.Duration
		}
	}
	w.End = r.End
	w.Reclaim = r.End.Add(-lead)
	w.Fence = w.Reclaim.Add(-t.DrainMargin.Duration)
	return w
}

// FitLimit is the time limit in whole minutes that ends a job at the fence, for a
// job that has run for elapsed at now: floor((fence - now + elapsed) / minute), at
// most maxTime. Slurm counts a limit from the job's start, boot not included.
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

// Duration is a time.Duration that is written and read as Span and ParseSpan do, in
// configuration, in JSON and on the command line.
type Duration struct{ time.Duration }

// String writes what Span does.
func (d Duration) String() string { return FormatExact(d.Duration) }

// MarshalText writes what Span does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what ParseSpan does.
func (d *Duration) UnmarshalText(text []byte) (err error) {
	d.Duration, err = ParseDuration(string(text))
	return err
}
