package capacity

import "time"

// Orphan is an instance of ours that no node of Slurm stands for: nothing uses it, nothing
// would end it, and it is paid for.
type Orphan struct {
	Instance string `json:"instance"`
	// Node is what it was launched for.
	Node string `json:"node"`
	// Reservation is where it holds a place; "" if in none.
	Reservation string `json:"reservation,omitempty"`
	// Why is what Slurm says of the node, such as "powered down".
	Why string `json:"why"`
	// Since is AWS's time when a pass first saw it so.
	Since time.Time `json:"since"`
}
