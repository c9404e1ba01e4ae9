package capacity

import "time"

// Extension is a purchased extension of a block, from the old end (From) to the new one.
type Extension struct {
	OfferingID string
	From, To   time.Time
	// State is EC2's state of the payment, one of those below. The block's end moves only once the extension is paid.
	State     string
	Purchased time.Time
	Fee       Money
}

// The states of an extension.
const (
	ExtensionPending = "payment-pending"
	ExtensionFailed  = "payment-failed"
	ExtensionPaid    = "payment-succeeded"
)
