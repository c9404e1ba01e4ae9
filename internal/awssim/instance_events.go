package awssim

import (
	"slices"
	"time"
)

// InstanceEventKind is the kind of event of an instance.
type InstanceEventKind string

const (
	Launched   InstanceEventKind = "launched"    // RunInstances has taken effect; the instance is pending
	Terminated InstanceEventKind = "terminated"  // it is shutting down, for any reason
	HostFailed InstanceEventKind = "host-failed" // its host is dead; EC2 still calls it running
)

// InstanceEvent is a change of one instance.
type InstanceEvent struct {
	Kind     InstanceEventKind
	At       time.Time // simulated
	Reason   string    // of a termination: EC2's state reason code
	Instance Instance  // a copy, as it was at the event
}

// Instance is an instance as listeners and tests see it.
type Instance struct {
	ID             string            `json:"id"`
	Region         string            `json:"region"`
	Zone           string            `json:"zone"`
	Type           string            `json:"type"`
	State          string            `json:"state"` // pending, running, shutting-down, terminated
	PrivateIP      string            `json:"private_ip"`
	SubnetID       string            `json:"subnet_id"`
	ImageID        string            `json:"image_id"`
	ReservationID  string            `json:"capacity_reservation_id,omitempty"`
	BlockID        string            `json:"capacity_block_id,omitempty"`
	Lifecycle      string            `json:"lifecycle,omitempty"` // capacity-block, interruptible-capacity-reservation or empty
	LaunchID       string            `json:"launch_id"`           // EC2's r-… of the RunInstances call
	AMILaunchIndex int               `json:"ami_launch_index"`
	LaunchTime     time.Time         `json:"launch_time"`
	UserData       string            `json:"user_data,omitempty"` // base64, as in the request
	Tags           map[string]string `json:"tags,omitempty"`
	HostFailed     bool              `json:"host_failed,omitempty"`
	// Actions are the scripts that a node of PCS has run at its boot: "nodeBootstrapped mount".
	Actions []string `json:"lifecycle_actions,omitempty"`
	// NoContact is why the node never comes up in Slurm, though EC2 calls the instance running; "" if it does.
	NoContact string `json:"no_contact,omitempty"`
}

// emit queues an event for OnInstance and tells the in-process services now. Called with mu held.
func (s *Sim) emit(kind InstanceEventKind, reason string, i *instance) {
	ev := InstanceEvent{Kind: kind, At: s.now, Reason: reason, Instance: i.view()}
	for _, f := range s.instanceHooks {
		f(ev)
	}
	s.pending = append(s.pending, func() {
		s.mu.Lock()
		listeners := slices.Clone(s.onInstance)
		s.mu.Unlock()
		for _, f := range listeners {
			f(ev)
		}
	})
}

// deliverEvents calls the listeners, in order, without the lock.
func (s *Sim) deliverEvents() {
	defer s.stopped.Done()
	for {
		s.mu.Lock()
		calls := s.pending
		s.pending = nil
		s.mu.Unlock()
		for _, call := range calls {
			call()
		}
		select {
		case <-s.stop:
			return
		case <-s.deliver:
		}
	}
}
