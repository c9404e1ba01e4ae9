package site

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// Site holds what was read of a cluster. What was not found is zero; what could not be read has its error.
type Site struct {
	Provider capacity.Provider // launches the nodes in question; "" stands for PCS
	Region   string
	Now      time.Time // AWS's time
	// Inventory is the PCS cluster with its node groups and queues. On self-managed Slurm it has the mark alone, as the
	// cluster's name.
	pcs.Inventory
	// Known are the reservations that EC2 described, Unknown its errors for others.
	Known   map[string]capacity.Reservation
	Unknown map[string]error
	Running map[string]int      // counts the instances of node groups, by their id
	Inside  []capacity.Instance // the instances in the reservation in question
	VPC     []ec2.Subnet        // all subnets of the nodes' VPC
	Slots   []Slot              // those of the queue in question
	// Waiting counts the jobs that wait in the queue; SlurmErr is why Slurm does not tell.
	Waiting  int
	SlurmErr error
}

// Slot is a slot with everything of ours that is there: setup asks whether it is free, teardown removes it.
type Slot struct {
	Name          string                  // of the node group, and of its nodes' feature in Slurm
	Base          string                  // the node group in the settings
	Group         *pcs.NodeGroup          // nil while the slot has no node group
	ReservationID string                  // the value of our tag; "" if there is none
	Owned         bool                    // the node group has our tag
	Instances     int                     // how many the node group has
	Template      capacity.LaunchTemplate // of the slot's name; zero if there is none
	Uses          capacity.LaunchTemplate // that our node group launches with
	Nodes         []string                // from the settings and from the tags of instances
	Slurm         SlurmSlot
}

// OnEC2 reports whether the cluster is self-managed Slurm, where our ResumeProgram launches nodes.
func (s *Site) OnEC2() bool { return s.Provider.Launches() }

// Owns reports whether tags carry our mark for the cluster (R9).
func (s *Site) Owns(tags map[string]string) bool { return s.Cluster.Owns(tags) }

// ReadCluster reads the PCS cluster by name or id, by default the only one of the region, or says which there are.
func (s *Site) ReadCluster(
	ctx context.Context, aws *pcs.Client, cluster string,
) (missing *capacity.Problem, err error) {
	what := "no cluster is given"
	fix := "name it with --cluster: "
	if cluster != "" {
		s.Inventory, err = aws.Inventory(ctx, cluster)
		if err == nil || !pcs.IsNotFound(err) {
			return nil, err
		}

		what = fmt.Sprintf("there is no PCS cluster %q in %s (%s)", cluster, aws.Region(),
			pcs.Code(err))
		fix = "use one of "
	}

	clusters, err := aws.Clusters(ctx)
	if err != nil {
		return nil, err
	}

	var names []string
	for _, c := range clusters {
		names = append(names, c.Name)
	}

	fix += strings.Join(names, ", ")
	switch {
	case cluster == "" && len(names) == 1:
		return s.ReadCluster(ctx, aws, names[0])
	case len(names) == 0:
		fix = "check --region; there is no PCS cluster in " + aws.Region() + ". For self-managed Slurm add " +
			"--provider ec2"
	}

	no := capacity.Problemf("cluster", capacity.Subject{}, fix, "%s", what)

	return &no, nil
}

// ClusterProblems finds what keeps a PCS cluster from launching into reservations of a kind.
func (s *Site) ClusterProblems(kinds ...capacity.Kind) (all capacity.Problems) {
	c := s.Cluster
	if what, fix := c.NotActive(); what != "" {
		all.Add(capacity.Problemf("cluster-status", capacity.Subject{}, fix, "%s", what))
	}
	// Versions have two digits on each side of the dot, so text comparison works.
	if slices.ContainsFunc(kinds, capacity.Kind.IsBlock) && c.SlurmVersion < "24.05" {
		all.Add(capacity.Problemf("slurm-version", capacity.Subject{}, "use a cluster with a newer Slurm",
			"cluster %s has Slurm %s, but PCS needs 24.05 for Capacity Blocks", c.Name, c.SlurmVersion))
	}

	return all
}

// NoTemplateProblem returns the problem of a node group of ours that somebody has changed so.
func NoTemplateProblem(g pcs.NodeGroup) capacity.Problem {
	return capacity.Problemf(capacity.NoLaunchTemplate, capacity.Subject{},
		"delete it in PCS, and run `pcs-capacity setup` for it again",
		"node group %s has no launch template of its own, so PCS launches it into no reservation", g.Name)
}

// ReadReservations reads those reservations that were not read yet, and the time.
func (s *Site) ReadReservations(ctx context.Context, aws *ec2.Client, ids []string) error {
	if s.Known == nil {
		s.Known = map[string]capacity.Reservation{}
		s.Unknown = map[string]error{}
	}

	found, missing, err := aws.Reservations(ctx, slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		_, is := s.Known[id]
		return is || id == "" || s.Unknown[id] != nil
	}))
	for _, r := range found {
		s.Known[r.ID] = r
	}

	for _, m := range missing {
		s.Unknown[m.ID] = m.Err
	}

	s.Now = aws.Now() // not before EC2's answer, which tells the time

	return err
}

// ReadRunning counts the instances of node groups by the tag that PCS writes on them.
func (s *Site) ReadRunning(ctx context.Context, aws *ec2.Client, groups []string) error {
	s.Running = map[string]int{}

	found, err := aws.FindInstances(ctx, capacity.InstanceQuery{Tags: map[string][]string{pcs.TagNodeGroupID: groups}})
	if err != nil {
		return fmt.Errorf("looking for instances of node groups %s: %w", strings.Join(groups, ", "), err)
	}

	for _, i := range found {
		s.Running[i.Tags[pcs.TagNodeGroupID]]++
	}

	return nil
}

// IsAbsent reports whether EC2 says that an id is of nothing, or cannot be one.
func IsAbsent(err error) bool {
	code := ec2.Code(err)
	return strings.HasPrefix(code, "Invalid") &&
		(strings.Contains(code,
			"NotFound") || strings.Contains(code, "Malformed") || strings.HasSuffix(code, ".Unavailable"))
}

// IsLive reports whether a reservation is open or may still open, over whether it has ended. One that EC2 does not
// describe is neither: it may only be missing from this answer.
func (s *Site) IsLive(id string) (live, over bool) {
	r, known := s.Known[id]
	live = known && r.State.IsLive() && (r.End.IsZero() || r.End.After(s.Now))
	return live, known && !live
}

// HasReservation reports whether the slot was set up for the reservation, or half of it was before a run was cut off:
// the tag is written first, the template follows.
func (s Slot) HasReservation(reservationID string) bool {
	return s.Owned && reservationID != "" && s.ReservationID == reservationID
}

// LaunchesInto reports whether the node group's launch template has the reservation. The tag alone proves nothing: a
// killed run may have written it first.
func (s Slot) LaunchesInto(reservationID string) bool {
	return s.Owned && reservationID != "" && s.Uses.ReservationID == reservationID
}

// HasFailed reports whether PCS could not create the node group in an earlier run of ours: then it is made anew.
func (s Slot) HasFailed() bool { return s.Owned && s.Group.Status == pcs.CreateFailed }

// SlurmSlot is a slot in Slurm.
type SlurmSlot struct {
	Nodes        []string
	Jobs         []string // the ids of jobs on nodes of the slot, as squeue shows them
	Reservations []string // the names of our Slurm reservations for the slot
}

// Fenced reports whether the fence for an EC2 reservation stands on the slot.
func (s SlurmSlot) Fenced(reservationID string) bool {
	return slices.ContainsFunc(s.Reservations, func(name string) bool {
		g, ours := capacity.ParseGuard(name)
		return ours && g.Kind == capacity.GuardFence && g.Block == reservationID
	})
}

// SlurmState is the state of a cluster in Slurm.
type SlurmState struct {
	Nodes        []capacity.Node
	Partitions   []capacity.SlurmPartition
	Reservations []capacity.SlurmReservation
	Jobs         []capacity.Job
}

// Slots returns the slots by name, each with the nodes whose names tell it, and more that do not; and how many jobs
// wait in a partition. Partitions count as well as nodes, of which Slurm may hide those that are powered down.
func (s SlurmState) Slots(partition string, more map[string][]string) (slots map[string]SlurmSlot, waiting int) {
	var names []string
	for _, n := range s.Nodes {
		names = append(names, n.Name)
	}

	for _, p := range s.Partitions {
		names = append(names, p.Nodes...)
	}

	slots = map[string]SlurmSlot{}
	for name, nodes := range more {
		slot := SlurmSlot{}
		for _, node := range names {
			of, named := capacity.SlotOf(node)
			if (named && of == name || slices.Contains(nodes, node)) && !slices.Contains(slot.Nodes, node) {
				slot.Nodes = append(slot.Nodes, node)
			}
		}

		for _, r := range s.Reservations {
			if r.IsOurs() && r.Guard().Slot == name {
				slot.Reservations = append(slot.Reservations, r.Name)
			}
		}

		for _, j := range s.Jobs {
			if j.Active() && !j.Pending() &&
				slices.ContainsFunc(j.Nodes, func(node string) bool { return slices.Contains(slot.Nodes, node) }) {
				slot.Jobs = append(slot.Jobs, j.Shown)
			}
		}

		slots[name] = slot
	}

	for _, j := range s.Jobs {
		if j.Pending() && j.Partition == partition {
			waiting++
		}
	}

	return slots, waiting
}
