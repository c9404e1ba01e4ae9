package capacity

// Interface is a network interface of an instance, or of a launch template.
type Interface struct {
	Card   int `json:"card"`
	Device int `json:"device"`
	// Type is EC2's InterfaceType: interface, efa, efa-only.
	Type string `json:"type"`
}
