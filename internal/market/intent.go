package market

import (
	"cmp"
	"fmt"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// IntentKind is the kind of an intent.
type IntentKind string

// The kinds of intent.
const (
	BuyBlock    IntentKind = "purchase"
	ExtendBlock IntentKind = "extension"
)

// Phase is the progress of an intent.
type Phase string

// The phases.
const (
	// Sending: the outcome is unknown. The call may or may not have reached EC2, and EC2
	// must be asked before anything is bought.
	Sending Phase = "sending"
	// Bought: EC2 has made it, but the command was killed before its end, and nobody may know. The next run takes it
	// up.
	Bought Phase = "bought"
	// Done: bought, and reported.
	Done Phase = "done"
	// Failed: refused by EC2, never made, or not paid for. Code and Message have the reason.
	Failed Phase = "failed"
)

// Intent is a decision to buy or extend a Capacity Block. It is on disk before the call is sent: whatever
// happens then, the next run knows that money may have been spent.
type Intent struct {
	ID    string     `json:"id"` // unique; a purchased reservation carries it as a tag
	Kind  IntentKind `json:"kind"`
	Phase Phase      `json:"phase"`
	At    time.Time  `json:"at"` // AWS's time of the decision, taken just before the call
	// SettledAt is AWS's time after which a purchase that EC2 does not show was not made.
	SettledAt time.Time         `json:"settled_at,omitzero"`
	Account   string            `json:"account,omitempty"` // the id of the AWS account; "" if unknown
	Region    string            `json:"region"`
	Offering  capacity.Offering `json:"offering,omitzero"` // the offering bought
	// OrderedAs is the requested id, if EC2 sold the same block under another one, Offering's; "" else.
	OrderedAs   string         `json:"ordered_as,omitempty"`
	Platform    string         `json:"platform,omitempty"` // that of the image that will run; "" for an extension
	Fee         capacity.Money `json:"fee"`
	Reservation string         `json:"reservation,omitempty"` // the reservation bought or extended
	// Asked is the requested length of an extension, which EC2 does not always sell.
	Asked capacity.Duration `json:"asked,omitzero"`
	// OldEnd and NewEnd are an extension's: the block's end without and with it.
	OldEnd time.Time `json:"old_end,omitzero"`
	NewEnd time.Time `json:"new_end,omitzero"`
	// Code is EC2's error code when the call failed; Message has the details.
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

// String returns the intent in a sentence.
func (i Intent) String() string {
	if i.Kind == ExtendBlock {
		return fmt.Sprintf("extension %s of %s by offering %s", i.ID, i.Reservation, i.Offering.ID)
	}
	return fmt.Sprintf("%s %s of offering %s", i.Kind, i.ID, i.Offering.ID)
}

// orderedID returns the id of the offering under which the purchase was ordered.
func (i Intent) orderedID() string { return cmp.Or(i.OrderedAs, i.Offering.ID) }

// alias names, after the offering's id, the other id under which somebody ordered the same block.
func (i Intent) alias(id string) string {
	if id == i.Offering.ID {
		return ""
	}
	return fmt.Sprintf(" (the same block as %s)", id)
}

// boughtAs names the purchase made under it.
func (i Intent) boughtAs() string {
	if i.Kind == ExtendBlock {
		return "and extends " + i.Reservation
	}
	return "as " + i.Reservation
}
