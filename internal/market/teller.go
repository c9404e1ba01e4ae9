package market

import (
	"fmt"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Teller shows progress to a person, in sentences.
type Teller interface {
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

// Customer is who buys.
type Customer interface {
	Teller
	// ConfirmFee asks whether the fee of an offering is accepted; nil means yes.
	ConfirmFee(o capacity.Offering) error
}

// Mistake is an error in the request: nothing was sent, and the same request will fail again.
type Mistake struct{ error }

func (m Mistake) Unwrap() error { return m.error }

func mistake(format string, args ...any) error { return Mistake{fmt.Errorf(format, args...)} }

// firstLine returns an error in one line; some of the SDK's errors have several.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
