package capacity

import "errors"

// Outcome is what an answer of EC2 says about a call that makes something: whether that is
// there now, and what to try next if it is not.
type Outcome int

const (
	// Done: it is there.
	Done Outcome = iota
	// NoRoom: EC2 refused it, for want of room where the call was sent; another place may do.
	NoRoom
	// TokenUsed: EC2 refused it for its ClientToken alone; another token may do.
	TokenUsed
	// Refused: EC2 refused it, or has not seen the call.
	Refused
	// Unknown: it may be there.
	Unknown
	// NotTried: EC2 was not asked, for want of time or by a decision of our own.
	NotTried
)

// ErrRefused is a call that EC2 refused for certain, or has never seen, for another reason than
// those of ErrNoRoom and ErrTokenUsed.
var ErrRefused = errors.New("refused")

// OutcomeOf is what the error of a launch or a hold says.
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

// Nothing reports whether nothing came of the call, for certain.
func (o Outcome) Nothing() bool {
	return o == NoRoom || o == TokenUsed || o == Refused || o == NotTried
}
