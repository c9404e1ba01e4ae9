package lifecycle

import (
	"fmt"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// This file decides which of our ODCRs no longer serve a purpose (R4).

// Needless is an ODCR of ours that no longer serves a purpose.
type Needless struct {
	capacity.Reservation
	// Why says why.
	Why string
	// PerHour is the hourly cost of its free places; unknown without a price in the settings.
	PerHour      capacity.Money
	PriceUnknown bool
	// Err is why the cancellation failed.
	Err error
}

// String says for people what became of the ODCR.
func (n Needless) String() string {
	text := fmt.Sprintf("%s, %d × %s in %s: %s", n.ID, n.Total, n.InstanceType, n.AZID, n.Why)
	if n.Err == nil {
		return text
	}
	cost := "at a price that is not in the settings"
	if !n.PriceUnknown {
		cost = "for up to " + n.PerHour.String() + " an hour"
	}
	return fmt.Sprintf(
		"%s; it could not be cancelled, so its %d free places are paid %s until EC2 ends it, within an hour of %s",
		text, n.Available, cost, capacity.FormatUTC(n.End))
}

// Held is what was read about this cluster's ODCRs.
type Held struct {
	Mark string
	// Ledger is what hooks and commands have recorded, as far as it was readable.
	Ledger []capacity.Held
	Err    error
	// ODCRs are those that EC2 shows. Gone are ids of the ledger that EC2 shows as ended.
	ODCRs []capacity.Reservation
	Gone  []string
	// Booting are the runs of jobs whose allocated nodes still boot; nil if unknown.
	Booting map[capacity.JobRun]bool
	Now     time.Time
}

// heldForNothing cancels the ODCRs that no longer serve a purpose.
func heldForNothing(h Held, settings capacity.Settings) (effects []capacity.Effect) {
	unheard := map[string]bool{}
	for _, e := range h.Ledger {
		unheard[e.Token] = e.ReservationID == ""
	}
	for _, r := range h.ODCRs {
		if why := r.Needless(h.Mark, h.Booting, unheard, h.Now); why != "" {
			cost, known := settings.Reserve.Cost(r.InstanceType, r.Available, time.Hour)
			effects = append(effects, Release{Needless{Reservation: r, Why: why, PerHour: cost, PriceUnknown: !known}})
		}
	}
	return effects
}

// unheld returns the ledger's entries for which EC2 shows nothing, although it should by now.
func (h Held) unheld() []capacity.Held {
	return slices.DeleteFunc(slices.Clone(h.Ledger), func(e capacity.Held) bool {
		return !e.Since.Before(h.Now.Add(-capacity.LaunchTime)) ||
			slices.ContainsFunc(h.ODCRs, func(r capacity.Reservation) bool {
				return r.ID == e.ReservationID || r.Tags[capacity.TagToken] == e.Token
			})
	})
}

// released returns the tokens and ids in the ledger whose ODCRs are gone, or never existed.
func (h Held) released(results []Result) (names []string) {
	for _, r := range results {
		if e, ok := r.Effect.(Release); ok && r.Err == nil {
			names = append(names, e.ID, e.Tags[capacity.TagToken])
		}
	}
	for _, e := range h.unheld() {
		if e.ReservationID == "" {
			names = append(names, e.Token)
		}
	}
	return append(names, h.Gone...)
}
