// Package market is the use case of finding and buying capacity.
//
//   - Search asks for blocks for sale, in one region or several, and for alternatives
//     instead; FitQuestion asks first whether there is a reservation already.
//   - Buyer buys blocks and extensions, each at most once (R3). Each purchase is
//     an Intent, on disk before the call is sent. The call is sent a single time, and as
//     long as the outcome of an earlier run is not known, nothing is bought.
//
// It knows no command line and no terminal: it takes plain parameters, reports its progress to a Reporter, and returns
// its findings. Its messages name the flags of pcs-capacity.
package market

import (
	"fmt"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Reporter shows progress to a person, in sentences.
type Reporter interface {
	Say(format string, args ...any)
	// Time writes a time as the reader wants it.
	Time(at time.Time) string
	// Start begins the report on work that may take long.
	Start(what string) Progress
}

// Progress reports the progress of some work. Goroutines may share it.
type Progress interface {
	// Now shows the current step; Say adds a sentence that stays.
	Now(what string)
	Say(format string, args ...any)
	// Done ends it.
	Done()
}

// Customer confirms the fee, and is told what happens.
type Customer interface {
	Reporter
	// ConfirmFee asks whether the fee of an offering is accepted; nil means yes.
	ConfirmFee(o capacity.Offering) error
}

// firstLine returns an error in one line; some of the SDK's errors have several.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// accept makes sure that somebody has accepted the very fee of an offering: fee, else the customer, who
// is asked. In a dry run nobody has to.
func accept(c Customer, fee capacity.Money, o capacity.Offering, dryRun bool) error {
	switch {
	case fee != (capacity.Money{}):
		if fee != o.Fee { // the currency too
			return fmt.Errorf(
				"offering %s: its fee is %s, not the %s of --confirm-fee; nothing was bought",
				o.ID,
				o.Fee,
				fee,
			)
		}

		return nil
	case dryRun:
		return nil
	}

	return c.ConfirmFee(o)
}
