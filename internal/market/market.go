// Package market is the use case of finding and buying capacity.
//
//   - Search asks for blocks for sale, in one region or several, and for alternatives
//     instead; FitQuestion asks first whether there is a reservation already.
//   - Buyer buys blocks and extensions, each at most once (R3). Each purchase is
//     an Intent, on disk before the call is sent. The call is sent a single time, and as
//     long as the outcome of an earlier run is not known, nothing is bought.
//
// It knows no command line and no terminal: it takes plain parameters, reports its progress to a Reporter, shows a
// purchase and its outcome to a Customer, and returns its findings. Its messages name the flags of pcs-capacity. What
// is decided reads no clock and makes no call: which offer is best (offers.go), what was bought before (earlier.go),
// whether a block can be extended (extendable.go), what comes next (next.go).
package market

import (
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

// Customer sees what is about to be bought, accepts its fee, and hears what came of it.
type Customer interface {
	Reporter
	// Show presents what would be bought. With p.Ask it returns the fee that the customer accepts; one of another amount
	// or currency buys nothing, and neither does an error.
	Show(p Preview) (accepted capacity.Money, err error)
	// Report is called with the outcome. Until it has returned nil, the purchase counts as unreported, and the next run
	// takes it up.
	Report(r Result) error
}

// Preview has what is about to be bought: a block, or an extension of one.
type Preview struct {
	Offering  capacity.Offering
	OrderedAs string               // the id of the order, if EC2 has the block under another one; "" else
	Extended  capacity.Reservation // the block to extend; zero for a new one
	History   []capacity.Extension // the extensions that it had before
	Account   string               // the account that buys; "" if unknown
	Now       time.Time            // AWS's time
	Ask       bool                 // nobody has accepted the fee yet
}

// Result has the outcome of a purchase: a block, or an extension of one.
type Result struct {
	Intent      Intent
	Reservation capacity.Reservation // the block; it has only an id until EC2 shows it
	Extension   capacity.Extension   // zero for a new block
	BoughtNow   bool                 // false if an earlier run or another machine bought it
	DryRun      bool                 // EC2 would take the purchase, and nothing was bought
}

// firstLine returns an error in one line; some of the SDK's errors have several.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
