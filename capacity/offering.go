package capacity

import (
	"time"
)

// Extension describes a purchased extension of a block, from the old end (From) to the new one.
type Extension struct {
	OfferingID string    `json:"offering_id"`
	From       time.Time `json:"from"`
	To         time.Time `json:"to"`
	// State is EC2's state of the payment, one of those below. The block's end moves only once the extension is paid.
	State     string    `json:"state"`
	Purchased time.Time `json:"purchased"`
	Fee       Money     `json:"fee"`
}

// The states of an extension.
const (
	ExtensionPending = "payment-pending"
	ExtensionFailed  = "payment-failed"
	ExtensionPaid    = "payment-succeeded"
)

// Offering describes a Capacity Block that EC2 has for sale.
type Offering struct {
	ID           string `json:"id"`
	InstanceType string `json:"instance_type"`
	Count        int    `json:"count"`
	Region       string `json:"region"`
	// AZ is the buying account's name of the zone; EC2 gives no zone id here, so AZID is looked up.
	AZ   string `json:"az"`
	AZID string `json:"az_id"`
	// Start and End give the exact length; EC2's duration fields only approximate it.
	Start   time.Time `json:"start"`
	End     time.Time `json:"end"`
	Fee     Money     `json:"fee"` // the price of the whole block, charged at once
	Tenancy string    `json:"tenancy,omitempty"`
	// UltraServerType and UltraServerCount are set only for UltraServer blocks.
	UltraServerType  string `json:"ultraserver_type,omitempty"`
	UltraServerCount int    `json:"ultraserver_count,omitempty"`
}

// Duration returns the time from start to end.
func (o Offering) Duration() time.Duration { return o.End.Sub(o.Start) }

// Reservation returns the reservation that the offering becomes once bought and paid.
func (o Offering) Reservation(id string) Reservation {
	return Reservation{
		ID:           id,
		Kind:         CapacityBlock,
		State:        StateScheduled,
		InstanceType: o.InstanceType,
		Region:       o.Region,
		AZ:           o.AZ,
		AZID:         o.AZID,
		Total:        o.Count,
		UltraServer:  o.UltraServerType != "",
		Start:        o.Start,
		End:          o.End,
	}
}
