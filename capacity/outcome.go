package capacity

import "errors"

// Outcome is what EC2's answer to a create call means: whether the thing exists now, and what to try next if it does
// not.
type Outcome int

const (
	// Done: it exists.
	Done Outcome = iota
	// NoRoom: EC2 refused the call for lack of room in this place; another place may do.
	NoRoom
	// TokenUsed: EC2 refused the call only for its ClientToken; another token may do.
	TokenUsed
	// Refused: EC2 refused the call, or never saw it.
	Refused
	// Unknown: it may exist.
	Unknown
	// NotTried: EC2 was not called, because time was short or we decided against it.
	NotTried
)

// ErrRefused: EC2 certainly refused a call, or never saw it, for a reason other than those of ErrNoRoom and
// ErrTokenUsed.
var ErrRefused = errors.New("refused")

// OutcomeOf classifies the error of a launch or of creating an ODCR.
func OutcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Done
	case errors.Is(err, ErrNoRoom):
		return NoRoom
	case errors.Is(err, ErrTokenUsed):
		return TokenUsed
	case errors.Is(err, ErrRefused):
		return Refused
	}
	return Unknown
}

// Nothing reports whether the call certainly created nothing.
func (o Outcome) Nothing() bool {
	return o == NoRoom || o == TokenUsed || o == Refused || o == NotTried
}
