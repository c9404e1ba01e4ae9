package awssim

import "time"

// extensionOffering is an extension for sale.
type extensionOffering struct {
	id  string
	res *reservation
	d   time.Duration
}

// extension is one that was bought.
type extension struct {
	offering  *extensionOffering
	purchased time.Time
	status    string
	start     time.Time
	end       time.Time
	fee       string
}

func (res *reservation) lendStatus() string { return "active" }
