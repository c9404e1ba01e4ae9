package capacity

import (
	"errors"
	"maps"
	"slices"
	"time"
)

// Launch is one RunInstances call for Count instances. If there is less room, EC2 launches as many as fit, at least
// Least; otherwise none.
type Launch struct {
	// ClientToken makes a repeated request the same launch; at most 64 characters. EC2 binds it to the request: see
	// ErrTokenUsed.
	ClientToken string
	// LaunchTemplate is an id or a name, with ":VERSION" unless the default version is meant.
	LaunchTemplate string
	InstanceType   string
	SubnetID       string
	// ReservationID is where the instances go; "" with Kind OnDemand.
	ReservationID string
	Kind          Kind
	// Fresh: the reservation was created just now, so parts of EC2 may not know it yet.
	Fresh bool
	// PlacementGroup is the reservation's placement group; "" leaves the choice to the launch template.
	PlacementGroup string
	// Count is the number of instances. Least is the least acceptable number; 0 stands for Count.
	Count, Least int
	// Tags are written on the instances and their volumes.
	Tags map[string]string
}

// ErrTokenUsed: EC2 refused a launch, or an ODCR, only for its ClientToken. Either the instances of the launch that
// used the token have terminated, or that launch, which may have failed, asked for something else. Another token may
// succeed.
var ErrTokenUsed = errors.New("the client token belongs to another launch")

// ErrNoRoom: EC2 refused a launch, or an ODCR, for lack of room: the reservation is full or not open, or the subnet
// has no free address. Another place may have room.
var ErrNoRoom = errors.New("there is no room for the launch")

// Instance is an EC2 instance.
type Instance struct {
	ID, PrivateIP string
	// Type is the instance type, SubnetID the subnet.
	Type, SubnetID string
	// ReservationID is the reservation that the instance runs in; "" if none.
	ReservationID string
	// State is EC2's state, verbatim.
	State string
	// LaunchIndex counts the instances of one launch from 0 (AmiLaunchIndex).
	LaunchIndex int
	// Launched is the launch time, in whole seconds of AWS's time.
	Launched time.Time
	Tags     map[string]string
}

// Ended reports whether the instance is terminating or terminated.
func (i Instance) Ended() bool { return i.State == "shutting-down" || i.State == "terminated" }

// Node is the Slurm node that one of our instances was launched for; "" if its tags do not say. In a launch of
// several nodes, LaunchIndex selects the node. expand lists the names in a hostlist.
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

// WithNodes adds the node's tag to each instance whose tags name a node. It expands the hostlist of a launch once,
// not once for each instance.
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
