// Package setup makes reserved capacity usable in a PCS cluster: a launch template, a
// compute node group, a queue and the settings. For self-managed Slurm it makes a launch
// template and the settings; what slurm.conf has to say follows from these.
//
// Plan reads AWS, Slurm and settings (inspect.go) into a value, decides from it what is wanted (want.go), and returns
// the missing steps and every obstacle; it changes nothing. PlanTeardown does so with what is left (remains.go). Apply
// carries out a plan; it can be killed and run again at any point (R5). Only things with our tag are changed (R9).
package setup

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// Request holds the arguments of setup and teardown.
type Request struct {
	Provider capacity.Provider // launches the nodes; "" stands for PCS
	Mark     string            // identifies a self-managed cluster; on PCS it is the cluster's name
	Cluster  string            // a PCS cluster, by name or id; "" takes it from Config
	Queue    string            // the PCS queue or Slurm partition
	// NodeGroup is the base name of the slots, or the prefix of the Slurm node names. Teardown takes one slot, too, and
	// "" for the queue with all of its node groups.
	NodeGroup   string
	Reservation string // the id of the reservation, setup only
	// InstanceType is for nodes on demand, instead of Reservation: on PCS capacity is held for each of their jobs.
	InstanceType string

	// Like names the model for AMI, instance profile, security groups and user data: the name or id of a node group,
	// with provider ec2 a launch template, as ID[:VERSION] or NAME[:VERSION].
	Like string
	AMI  string // "" for that of Like
	// ConfServer is the HOST[:PORT] that slurmd of provider ec2 gets slurm.conf from, unless an
	// earlier run wrote one; "" for nodes that have the file.
	ConfServer string
	// InstallHooks is what nodes of PCS install as they boot: cli_filter, or the URL of a package; "" for what those of
	// the node group do.
	InstallHooks string
	// EFA selects the network interfaces of a type with EFA, whatever Like has; "" for the node
	// group's present ones, else capacity.EFA.
	EFA capacity.EFAMode
	// SubnetIDs default to the node group's present subnets in the reservation, else to subnets of
	// Like and of the cluster in its Availability Zone.
	SubnetIDs []string

	// Spare names the queue or partition through which the nodes are lent; "" for none, or that of the settings.
	// Preemption and Partitions are Slurm's, needed with provider ec2 only.
	Spare      string
	Preemption capacity.Preemption
	Partitions []capacity.SlurmPartition

	AllowAccounts []string // the Slurm accounts that may use the queue, if the settings name none

	// MaxNodes is at most the size of the reservation; 0 for the node group's present number,
	// else for all that others leave.
	MaxNodes int
	Dynamic  bool // starts nodes for jobs. By default all nodes are up from the first minute.

	Force bool // Force has teardown go on while jobs run, which end with their nodes

	// ConfigPath is the path of config.toml, present or future. Config has its settings, nil when there is no file yet.
	ConfigPath string
	Config     *config.Config
}

// Plan holds the steps of setup or teardown.
type Plan struct {
	Cluster pcs.Cluster `json:"cluster"` // the PCS cluster; for self-managed Slurm only its name is set, to the mark
	// Queue and ByHand are teardown's, Slot and Reservation setup's.
	Queue       string               `json:"queue,omitempty"`
	Slot        string               `json:"slot,omitempty"` // the node group for the reservation
	Reservation capacity.Reservation `json:"reservation,omitzero"`
	// Actions are in the order in which they must be made: wherever a run stops, no queue lacks its fence or settings.
	Actions []Step    `json:"steps"`
	trial   ec2.Trial // the launch of a node, for the dry run
	// Problems are all obstacles, notes, which stop nothing, and EC2's answer to a dry run that it would take.
	capacity.Problems `json:"problems"`
	// ByHand lists work left for the administrator, a sentence each.
	ByHand []string `json:"by_hand,omitzero"`

	seen *view // by teardown
}

// Steps returns the steps for display, without their actions.
func (p *Plan) Steps() []Step {
	lines := slices.Clone(p.Actions)
	for i := range lines {
		lines[i].Do = nil
	}

	return lines
}

// Mismatches returns the obstacles. A plan with obstacles is not applied.
func (p *Plan) Mismatches() capacity.Problems {
	return slices.DeleteFunc(slices.Clone(p.Problems),
		func(m capacity.Problem) bool { return m.Severity != capacity.Admin })
}

// Done reports whether no step is left.
func (p *Plan) Done() bool {
	return len(p.Mismatches()) == 0 && !slices.ContainsFunc(p.Actions, func(s Step) bool { return s.Verb != Nothing })
}

// withoutNil replaces the plan's nil lists with empty ones: null would mean "unknown" in JSON.
func (p *Plan) withoutNil() *Plan {
	for _, list := range []*[]string{&p.Cluster.SubnetIDs, &p.Cluster.SecurityGroupIDs} {
		*list = append([]string{}, *list...)
	}

	p.Actions = append([]Step{}, p.Actions...)
	p.Problems = append(capacity.Problems{}, p.Problems...)
	p.Cluster.Failures = append(pcs.Failures{}, p.Cluster.Failures...)

	return p
}

func mismatchError(mismatches capacity.Problems) error {
	return errors.New(strings.Join(mismatches.Texts(capacity.Admin), "\n"))
}

// NodeGroupOf returns the node group of a queue where nobody names one: the one that the settings have,
// else one of the queue's name. c may be nil.
func NodeGroupOf(c *config.Config, queue string) (string, error) {
	var names []string

	p, _ := c.Partition(queue)
	for _, g := range p.Groups {
		names = append(names, g.Name)
	}

	switch {
	case len(names) == 0 || slices.Contains(names, queue):
		return queue, nil
	case len(names) == 1:
		return names[0], nil
	}

	return "", fmt.Errorf("queue %s has several node groups; add --node-group with one of %s", queue,
		strings.Join(names, ", "))
}
