package capacity

import (
	"errors"
	"maps"
	"slices"
	"time"
)

// Launch is one launch of instances: of Count, or of as many as there is room for down to
// Least, or of none.
type Launch struct {
	// ClientToken makes a repetition of the request the same launch; at most 64
	// characters. It is bound to the request: see ErrTokenUsed.
	ClientToken string
	// LaunchTemplate is an id or a name, with ":VERSION" for one that is not the
	// template's default version.
	LaunchTemplate string
	InstanceType   string
	SubnetID       string
	// ReservationID is where the instances go; "" with Kind OnDemand.
	ReservationID string
	Kind          Kind
	// Fresh: the reservation has just been made, so that EC2 may not know it everywhere.
	Fresh bool
	// PlacementGroup is that of the reservation; "" leaves it to the launch template.
	PlacementGroup string
	// Count is the number of instances; Least is the least of them, 0 stands for Count.
	Count, Least int
	// Tags are written on the instances and their volumes.
	Tags map[string]string
}

// ErrTokenUsed is a launch, or a hold, that EC2 refused for its ClientToken alone: the
// instances of the launch that used it have terminated, or that launch, which may have
// failed, asked for something else. It takes another token.
var ErrTokenUsed = errors.New("the client token belongs to another launch")

// ErrNoRoom is a launch, or a hold, that EC2 refused because it has no room for it where it
// was sent: the reservation is full, or not open, or the subnet has no address left. Another
// place may have.
var ErrNoRoom = errors.New("there is no room for the launch")

// Instance is an EC2 instance.
type Instance struct {
	ID, PrivateIP string
	// Type and SubnetID say where it runs.
	Type, SubnetID string
	// ReservationID is the reservation that it runs in; "" if none.
	ReservationID string
	// State is EC2's, verbatim.
	State string
	// LaunchIndex counts the instances of one launch from 0.
	LaunchIndex int
	// Launched is when, in whole seconds of AWS's time.
	Launched time.Time
	Tags     map[string]string
	// Interfaces are its network interfaces.
	Interfaces []Interface
}

// Ended reports whether the instance is on its way out, or gone.
func (i Instance) Ended() bool { return i.State == "shutting-down" || i.State == "terminated" }

// Node is the Slurm node that an instance of ours was launched for; "" if its tags do not
// say. One of a launch of several nodes is known by its place in the launch. expand
// gives the names of a hostlist.
func (i Instance) Node(expand func(hostlist string) ([]string, error)) string {
	if node := i.Tags[TagNode]; node != "" {
		return node
	}
	nodes, err := expand(LaunchedNodes(i.Tags))
	if err != nil || i.LaunchIndex >= len(nodes) {
		return ""
	}
	return nodes[i.LaunchIndex]
}

// WithNodes are instances with the tag of the node in each that has one. The list of a launch
// is expanded once, not for each of its instances.
func WithNodes(instances []Instance, expand func(hostlist string) ([]string, error)) []Instance {
	named := slices.Clone(instances)
	type list struct {
		names []string
		err   error
	}
	known := map[string]list{}
	once := func(hostlist string) ([]string, error) {
		l, ok := known[hostlist]
		if !ok {
			l.names, l.err = expand(hostlist)
			known[hostlist] = l
		}
		return l.names, l.err
	}
	for i, in := range named {
		if node := in.Node(once); node != "" && in.Tags[TagNode] == "" {
			named[i].Tags = maps.Clone(in.Tags)
			named[i].Tags[TagNode] = node
		}
	}
	return named
}
