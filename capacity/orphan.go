package capacity

import "time"

// Orphan is an instance of ours without a Slurm node: nothing uses it, nothing would end it, and it is paid for.
type Orphan struct {
	Instance string `json:"instance"`
	// Node is the node that the instance was launched for.
	Node string `json:"node"`
	// Reservation is the reservation whose place it takes; "" if none.
	Reservation string `json:"reservation,omitempty"`
	// Why is Slurm's state of the node, such as "powered down".
	Why string `json:"why"`
	// Since is when a pass first found the instance orphaned, in AWS's time.
	Since time.Time `json:"since"`
}
