package capacity

// Subject is what an action or a problem is about; an unused field is "".
type Subject struct {
	Partition   string `json:"partition,omitzero"`
	Slot        string `json:"slot,omitzero"`
	Node        string `json:"node,omitzero"` // a node, or a hostlist
	Job         string `json:"job,omitzero"`  // as squeue shows it: 12_3
	Instance    string `json:"instance,omitzero"`
	Reservation string `json:"reservation,omitzero"`
}
