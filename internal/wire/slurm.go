// Package wire shows Slurm, EC2 and PCS to the power hooks as those want to see
// them, and does what both hook programs begin with.
package wire

import (
	"context"
	"net/netip"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/hooks"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Slurm shows Slurm to hooks.
type Slurm struct{ *slurm.Client }

var _ hooks.Slurm = Slurm{}

// Jobs are all jobs that slurmctld knows.
func (s Slurm) Jobs(ctx context.Context) ([]hooks.Job, error) {
	jobs, err := s.Client.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]hooks.Job, len(jobs))
	for i, j := range jobs {
		nodes, err := slurm.Expand(j.Nodes)
		if err != nil {
			return nil, err
		}
		all[i] = hooks.Job{ID: j.ID, Shown: j.DisplayID(), Account: j.Account, Comment: j.Comment, Nodes: nodes, Restarts: j.Restarts,
			TimeLimit: capacity.Limit{Set: j.TimeLimit.Set, Unlimited: j.TimeLimit.Infinite, Minutes: j.TimeLimit.Minutes},
			Allocated: j.State == "RUNNING" || j.State == "SUSPENDED", Completing: j.Completing(), AdminHeld: j.Reason == "JobHeldAdmin", Batch: j.Batch}
	}
	return all, nil
}

// GivenUp are those of the nodes that did not boot within ResumeTimeout.
func (s Slurm) GivenUp(ctx context.Context, nodes []string) ([]string, error) {
	all, err := s.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	var givenUp []string
	for _, n := range all {
		if n.GivenUp() && slices.Contains(nodes, n.Name) {
			givenUp = append(givenUp, n.Name)
		}
	}
	return givenUp, nil
}

// SetAddresses sets the addresses of nodes; a node's host name is its own.
func (s Slurm) SetAddresses(ctx context.Context, ips map[string]netip.Addr) error {
	addresses := map[string]slurm.Address{}
	for node, ip := range ips {
		addresses[node] = slurm.Address{IP: ip}
	}
	return s.Client.SetAddresses(ctx, addresses)
}

// Expand gives the names of a hostlist.
func (Slurm) Expand(hostlist string) ([]string, error) { return slurm.Expand(hostlist) }

// Hostlist is the sorted hostlist of names.
func (Slurm) Hostlist(names []string) string { return slurm.Compress(names) }
