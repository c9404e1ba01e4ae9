package capacity

import "time"

// Code is a stable reason for a verdict, for scripts, records and tests.
type Code string

// The codes of verdicts.
const (
	OK                  Code = "ok"
	NotManaged          Code = "not-managed"           // no partition of the job is ours
	BadComment          Code = "bad-comment"           // a key of ours with a value that cannot be right
	AccountNotAllowed   Code = "account-not-allowed"   // allow_accounts of the partition
	GroupNotAllowed     Code = "group-not-allowed"     // allow_groups of the partition
	WrongPartition      Code = "wrong-partition"       // the named reservation belongs to another partition
	UnknownReservation  Code = "unknown-reservation"   // the named reservation belongs to no partition
	NoMatchingCapacity  Code = "no-matching-capacity"  // no reservation has the named instance type or subnet
	CannotHold          Code = "cannot-hold"           // capacity=reserve where nothing is held for jobs
	NoReservation       Code = "no-reservation"        // all reservations have ended or failed
	ReservationNotKnown Code = "reservation-not-known" // EC2 did not describe it on the last pass
	NotOpen             Code = "not-open"              // the reservation is not active (yet, or any more), or another one has its slot
	NoPlace             Code = "no-place"              // the reservation is too small for the job, which another one is not
	TooManyNodes        Code = "too-many-nodes"        // more nodes than the largest reservation
	NodesNotUsable      Code = "nodes-not-usable"      // it names nodes that never get an instance, or excludes too many
	TooLong             Code = "too-long"              // the time limit crosses the fence
	Mismatched          Code = "mismatch"              // the reservation does not fit the node group (AZ, type)
)

// ofAWS reports whether a refusal depends on what AWS said, so that it may be out of
// date. A known end of a reservation stays one: see soften.
func (c Code) ofAWS() bool {
	return c == NoMatchingCapacity || c == NoReservation || c == TooManyNodes || c == NodesNotUsable
}

// Job reports whether a refusal is for what the job asks or who submitted it, which only its
// owner can change.
func (c Code) Job() bool {
	switch c {
	case BadComment, AccountNotAllowed, GroupNotAllowed, WrongPartition, UnknownReservation, NoMatchingCapacity, CannotHold, TooManyNodes, NodesNotUsable, TooLong:
		return true
	}
	return false
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
