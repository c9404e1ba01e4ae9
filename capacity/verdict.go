package capacity

import "time"

// ofAWS reports whether a refusal depends on AWS's answers, which may be out of date. A reservation's known end is
// never out of date: see soften.
func (c Code) ofAWS() bool {
	return c == NoMatchingCapacity || c == NoReservation || c == TooManyNodes || c == NodesNotUsable
}

// Verdict is the answer to a job. Message tells the user what to do; a refusal always has one.
type Verdict struct {
	Refused bool   `json:"refused,omitempty"`
	Code    Code   `json:"code"`
	Message string `json:"message,omitempty"`
	// NotBefore is the earliest time at which to try a refused job again; zero if unknown.
	NotBefore time.Time `json:"not_before,omitzero"`
	Warnings  []string  `json:"warnings,omitempty"`
	Edits     Edits     `json:"edits,omitzero"`
}

// Edits are changes to a job before it is submitted; a zero field changes nothing.
type Edits struct {
	TimeLimit  Limit  `json:"time_limit,omitzero"`
	TimeMin    Limit  `json:"time_min,omitzero"`
	Constraint string `json:"constraint,omitempty"`
}

func refuse(code Code, message string) Verdict {
	return Verdict{Refused: true, Code: code, Message: message}
}
