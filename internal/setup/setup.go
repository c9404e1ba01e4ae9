// Package setup makes reserved capacity usable in a PCS cluster: a launch template, a
// compute node group, a queue and the settings. For self-managed Slurm it makes a launch
// template and the settings; what slurm.conf has to say follows from these.
//
// Plan reads what there is (inspect.go) and says what is missing, and everything that
// is in the way; it changes nothing. Apply does it, and can be killed and run again at
// any point (R5). Only what carries our tag is changed (R9).
package setup

import (
	"context"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// Setup makes reserved capacity usable in a cluster.
type Setup struct {
	PCS *pcs.Client
	EC2 *ec2.Client
	// Slurm is asked by teardown, and by setup on PCS: without it no fence is waited for.
	Slurm Slurm
	// Fence places the fences that the settings call for, as a pass of sync does; nil where
	// passes are made anyway.
	Fence func(ctx context.Context) error
	// Poll is the time between two looks at something that PCS is at work on; 0 for one that grows.
	Poll time.Duration
	// Patience is how long the nodes of a new node group may take to appear in Slurm; 0 for the
	// default of 5 minutes.
	Patience time.Duration
	// Unattended is for sync, which has a pass to end: PCS is not waited for (pcs.ErrAtWork), the
	// files of settings, Slurm's reservations and launch templates stay as they are when things
	// go, and so does a node group that has instances. Network interfaces are of the kind that
	// the copied template has.
	Unattended bool
	// cluster and block are what a roll over has read in the same pass; nil otherwise.
	cluster *pcs.Cluster
	block   *capacity.Reservation

	// Progress is told what happens to a thing: create, update, delete, drain, wait, done.
	// nil if nobody listens.
	Progress func(what, name, status string)
}

// Request is what setup is asked for.
type Request struct {
	// Provider is who launches the nodes; "" stands for PCS.
	Provider capacity.Provider
	// Mark is that of the cluster of self-managed Slurm; on PCS it is the cluster's name.
	Mark string
	// Cluster is a PCS cluster, by name or id; "" takes it from Config.
	Cluster string
	// Queue is the PCS queue or Slurm partition.
	Queue string
	// NodeGroup is the base name of the slots, or the prefix of the Slurm node names.
	NodeGroup   string
	Reservation string

	// Like is what to take AMI, instance profile, security groups and user data from: the
	// name or id of a node group, with provider ec2 a launch template, as ID[:VERSION] or
	// NAME[:VERSION]. The fields below override it; empty ones do not.
	Like string
	// AMI is an image, or pcs.GPUImage.
	AMI string
	// InstanceProfile is an ARN; with provider ec2 a name will do, and nodes need none.
	InstanceProfile string
	SecurityGroups  []string
	UserData        []byte
	// InstallFrom is where nodes install the package from at their first boot: an https:// or
	// s3:// URL, or a path, of a .deb or .rpm; "" for nodes that have it, or do without.
	InstallFrom string
	// ConfServer is the HOST[:PORT] that slurmd of provider ec2 gets slurm.conf from; "" for
	// nodes that have the file.
	ConfServer string
	// RootVolume is the size and type of what nodes boot from, in GiB and in EC2's words;
	// Device is not looked at.
	RootVolume capacity.RootVolume
	// EFA is which network interfaces a type with EFA gets, whatever Like has; "" for those that
	// the node group has, else capacity.EFA.
	EFA capacity.EFAMode
	// SubnetIDs; when empty, those that the node group has in the reservation, else those of Like
	// and of the cluster that are in its Availability Zone.
	SubnetIDs []string

	// DropUnknown allows an update of a node group or queue of which PCS says more than
	// this program can express.
	DropUnknown bool

	// AllowAccounts are the Slurm accounts that may use the queue, for a partition whose
	// settings do not say; empty leaves it to them.
	AllowAccounts []string

	// MaxNodes is at most the size of the reservation; 0 for as many as the node group has in it,
	// else what others leave of it.
	MaxNodes int
	// Dynamic starts nodes for jobs. By default all nodes are up from the first minute.
	Dynamic bool

	// ConfigPath is where config.toml is or will be. Config is what it says, nil when
	// there is no such file yet.
	ConfigPath string
	Config     *config.Config
}

// Plan is what setup will do.
type Plan struct {
	// Cluster is the PCS cluster; of self-managed Slurm it has nothing but the mark, as its name.
	Cluster pcs.Cluster `json:"cluster"`
	// Slot is the node group that the reservation goes to.
	Slot        string               `json:"slot,omitempty"`
	Reservation capacity.Reservation `json:"reservation"`
	Effects     Effects              `json:"steps"`
	// DryRun is EC2's answer to a dry run of a launch, where it would take it; "" if it was not asked.
	DryRun string `json:"dry_run,omitempty"`
	// trial is the launch of a node, for the dry run.
	trial ec2.Trial
	// underWay: EC2 shows a change of the cluster, which may be dead.
	underWay bool
	// Mismatches are everything that is in the way. With any, nothing is applied.
	Mismatches []capacity.Problem `json:"mismatches"`
	// Warnings keep nothing from being done.
	Warnings []string `json:"warnings"`
	// Snippet is the [[partition.node_group]] to add by hand, when the partition is
	// written in a file that is not ours.
	Snippet string `json:"snippet,omitempty"`
}

// Steps are the lines of the plan.
func (p *Plan) Steps() []Step { return p.Effects.Steps() }

// UnderWay reports whether a change of the cluster was under way: this one, another, or a dead one.
func (p *Plan) UnderWay() bool { return p.underWay }

// Done reports whether there is nothing left to do.
func (p *Plan) Done() bool {
	for _, s := range p.Steps() {
		if s.Action != Nothing {
			return false
		}
	}
	return len(p.Mismatches) == 0
}

// Plan reads what there is and says what to do. It changes nothing. An error means
// that something could not be read; what is in the way is in Plan.Mismatches.
func (s Setup) Plan(ctx context.Context, r Request) (*Plan, error) {
	in, err := s.inspect(ctx, r)
	if err != nil {
		return nil, err
	}
	p := decide(*in)
	_, p.underWay = in.templates[in.changeTemplate()]
	s.try(ctx, p)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p.Cluster = listedCluster(p.Cluster)
	p.Mismatches, p.Warnings = listed(p.Mismatches), listed(p.Warnings)
	return p, nil
}

// listed makes a list that JSON shows as [] where there is nothing in it: for programs,
// nothing is not the same as not known.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func listedCluster(c pcs.Cluster) pcs.Cluster {
	c.SubnetIDs, c.SecurityGroupIDs, c.Failures = listed(c.SubnetIDs), listed(c.SecurityGroupIDs), listed(c.Failures)
	return c
}

// Refusal is the error of Apply for a plan that something is in the way of.
type Refusal struct{ Mismatches []capacity.Problem }

func (r *Refusal) Error() string {
	var parts []string
	for _, m := range r.Mismatches {
		parts = append(parts, m.Text())
	}
	return strings.Join(parts, "\n")
}
