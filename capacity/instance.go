package capacity

import "time"

// Launch is one launch of instances, which succeeds whole or not at all.
type Launch struct {
	// ClientToken makes a repetition of the request the same launch; at most 64
	// characters.
	ClientToken string
	// LaunchTemplate is an id or a name, with ":VERSION" for one that is not the
	// template's default version.
	LaunchTemplate string
	InstanceType   string
	SubnetID       string
	// ReservationID is where the instances go; "" with Kind OnDemand.
	ReservationID string
	Kind          Kind
	// Count is the number of instances.
	Count int
	// Tags are written on the instances and their volumes.
	Tags map[string]string
}

// Instance is an EC2 instance.
type Instance struct {
	ID, PrivateIP string
	// ReservationID is the reservation that it runs in; "" if none.
	ReservationID string
	// State is EC2's, verbatim.
	State string
	// LaunchIndex counts the instances of one launch from 0.
	LaunchIndex int
	// Launched is when, in whole seconds of AWS's time.
	Launched time.Time
	Tags     map[string]string
}

// Ended reports whether the instance is on its way out, or gone.
func (i Instance) Ended() bool { return i.State == "shutting-down" || i.State == "terminated" }
