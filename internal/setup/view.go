package setup

import (
	"fmt"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/facts"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// view is a site as read for a request. What was not found is zero, with a problem.
type view struct {
	facts.Site
	request       Request      // with the default settings where there are none, and their cluster where it names none
	unattended    bool         // as Setup says
	partitionFile settingsFile // the partition's file in conf.d
	findings                   // of the reading

	running map[string]int // counts the instances of our node groups, by the group's id
	slots   []Slot         // setup's are those of the node group, teardown's those that go
	jobs    QueueJobs      // of the queue
}

// inspection is all that setup decides on. Nothing changes it once inspect has returned it.
type inspection struct {
	view
	waits bool // setup waits for fences

	reservation    capacity.Reservation
	absent         error                           // why EC2 has no such reservation
	group          capacity.ReservationGroup       // of nodes on demand
	hasGroup       bool                            // it exists
	known          map[string]capacity.Reservation // those that EC2 describes: also of the slots and the settings
	inside         []capacity.Instance             // the instances in the reservation
	vpc            []ec2.Subnet                    // all subnets of the nodes' VPC
	like           pcs.NodeGroup                   // the node group that is copied from
	source         capacity.LaunchTemplate         // the launch template of like; zero without one
	chosen         []ec2.Subnet                    // the requested subnets, or the candidates
	unknownSubnets []string                        // requested ids that no subnet of the VPC has
	users          users                           // of the reservation, others than the node group
	userData       []byte                          // in the form that PCS wants; nil if there is none
	nodeScript     string                          // describes the user data of provider ec2
	// launch is that of the nodes, with the wanted Template, which has no id yet; zero if none is planned.
	launch facts.Launch
}

// findings are problems, and notes, which stop nothing.
type findings struct{ capacity.Problems }

func (f *findings) problem(code capacity.Code, fix, message string, args ...any) {
	f.Add(capacity.Problemf(code, capacity.Subject{}, fix, message, args...))
}

func (f *findings) warn(message string, args ...any) {
	f.Add(capacity.Problem{Severity: capacity.Note, Sentence: fmt.Sprintf(message, args...)})
}

func (f *findings) hasProblems() bool { return len(f.Texts(capacity.Admin)) > 0 }

func (v *view) newSlot(name string) Slot {
	slot := Slot{Name: name}
	if g, found := v.Group(name); found && g.Name == name {
		slot.Group = &g
		slot.Owned = v.Owns(g.Tags)
		if slot.Owned {
			slot.ReservationID = g.Tags[capacity.TagReservation]
		}

		slot.Instances = v.running[g.ID]
	}

	return slot
}

func (v *view) slotNodes() map[string][]string {
	nodes := map[string][]string{}
	for i := range v.slots {
		nodes[v.slots[i].Name] = v.slots[i].Nodes
	}

	return nodes
}

// settings returns those of the queue, entry those of its node group; zero if there are none.
func (v *view) settings() capacity.PartitionSettings {
	p, _ := v.request.Config.Partition(v.request.Queue)
	return p
}

func (v *view) entry() capacity.GroupSettings {
	return v.settings().Group(v.request.NodeGroup)
}

// settingsFile is the file in conf.d for the partition.
type settingsFile struct {
	path string
	// owned: setup wrote it, or may; err is why that is not known.
	owned bool
	err   error
}

// newSlots returns what the inventory says of the slots. A node group of provider ec2 stands for its slots.
func (v *view) newSlots() (slots []Slot) {
	group := capacity.GroupSettings{Name: v.request.NodeGroup}
	if v.onDemand() {
		group.PurchaseOption = capacity.OnDemand
	}

	for _, name := range group.SlotNames(v.Provider) {
		slots = append(slots, v.newSlot(name))
	}

	return slots
}

// onDemand reports whether the nodes get no reservation, and capacity is held for their jobs.
func (v *view) onDemand() bool { return v.request.InstanceType != "" }

// groupName names the Capacity Reservation group of nodes on demand.
func (v *view) groupName() string { return capacity.HoldGroupName(v.Cluster.Name, v.request.NodeGroup) }

// IsLive reports whether a reservation is open or may still open, over whether it has ended. One that EC2 does not
// describe is neither: it may only be missing from this answer.
func (in *inspection) IsLive(id string) (live, over bool) {
	r, known := in.known[id]
	live = known && r.State.IsLive() && (r.End.IsZero() || r.End.After(in.Now))
	return live, known && !live
}
