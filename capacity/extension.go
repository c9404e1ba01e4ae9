package capacity

import "time"

// Extension is one that was bought for a block: From the end before to the end after it.
type Extension struct {
	OfferingID string
	From, To   time.Time
	// State is EC2's of the payment, one of those below; the end moves only when it is paid.
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
