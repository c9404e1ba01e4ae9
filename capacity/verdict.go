package capacity

import "time"

// ofAWS reports whether a refusal depends on what AWS said, so that it may be out of
// date. A known end of a reservation stays one: see soften.
func (c Code) ofAWS() bool {
	return c == NoMatchingCapacity || c == NoReservation || c == TooManyNodes || c == NodesNotUsable
}

// Verdict is the answer to a job. Message is one sentence for the user that says
// what to do; it is there when the job is refused.
type Verdict struct {
	Refused bool   `json:"refused,omitempty"`
	Code    Code   `json:"code"`
	Message string `json:"message,omitempty"`
	// NotBefore is when a job that is refused now may be tried again; zero if nobody knows.
	NotBefore time.Time `json:"not_before,omitzero"`
	Warnings  []string  `json:"warnings,omitempty"`
	Edits     Edits     `json:"edits,omitzero"`
}

// Edits are changes to a job before it is submitted; a zero field is no change.
type Edits struct {
	TimeLimit  Limit  `json:"time_limit,omitzero"`
	TimeMin    Limit  `json:"time_min,omitzero"`
	Comment    string `json:"comment,omitempty"`
	Constraint string `json:"constraint,omitempty"`
}

func refuse(code Code, message string) Verdict {
	return Verdict{Refused: true, Code: code, Message: message}
}
