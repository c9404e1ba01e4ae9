package main

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/permissions"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// IAMPolicyCmd prints what to allow.
type IAMPolicyCmd struct {
	Role    string `arg:"" enum:"admin,sync,sync-roll-over,hooks,hooks-reserve,hooks-pcs,node" help:"Who gets the policy: admin, sync, sync-roll-over, hooks, hooks-reserve, hooks-pcs or node."`
	Cluster string `help:"Cluster whose things may be changed: the PCS cluster's name, or ClusterName of slurm.conf. Default: cluster of the settings, else every cluster." placeholder:"NAME"`

	NodeRole string `help:"Role of the nodes that the hooks launch, with its path. Default: any." placeholder:"NAME"`
}

// Help is shown below the flags.
func (IAMPolicyCmd) Help() string {
	return `Prints an IAM policy, as JSON, and asks AWS nothing:

  admin          for who runs pcs-capacity: all commands, purchases included
  sync           for the node that runs pcs-capacity sync --watch
  sync-roll-over the same, where a partition of the settings has roll_over
  hooks          for the controller of self-managed Slurm
  hooks-reserve  the same, where [reserve] is enabled in the settings
  hooks-pcs      for a site that calls pcs-capacity-resume for a PCS cluster by itself
  node           for compute nodes on which jobs print a host file with topology --job

What changes something is bound to pcs-capacity's tag with the cluster's name, where AWS
lets it be. The policies of hooks allow launches into the reservations that the settings list,
and into those with the tags that they select by: print them again when another one is listed.
docs/permissions.md says what each action is for, and what is lost without it.`
}

// Run prints it.
func (c *IAMPolicyCmd) Run(g *Globals, t *terminal.Terminal, cfg *maybeConfig) error {
	at := permissions.Place{
		Partition: capacity.AWSPartitionOf(g.region(cfg.Config)),
		Cluster:   cmp.Or(c.Cluster, cfg.Cluster),
		NodeRole:  c.NodeRole,
	}
	at.Reservations, at.Selects = launchedInto(cfg.Domain())
	role := permissions.Role(c.Role)
	if (role == permissions.Hooks || role == permissions.HooksReserve) && len(at.Reservations)+len(at.Selects) == 0 {
		t.Say("The settings list no reservation of a partition with provider ec2: launches into every one are allowed.")
	}
	if (role == permissions.Hooks || role == permissions.HooksReserve) && slices.Equal(at.Reservations, []string{"*"}) {
		t.Say(
			"The settings select a resource group, which IAM cannot bound launches by: launches into every reservation are allowed.",
		)
	}
	out := json.NewEncoder(t.Out)
	out.SetIndent("", "  ")
	return out.Encode(permissions.Policy(at, role.Programs()))
}

// launchedInto are the reservations that the power hooks launch into, by id or tags, each
// once and in order. IAM knows no groups, so a resource group stands for every reservation.
func launchedInto(s capacity.Settings) (ids []string, selects []capacity.Select) {
	for _, p := range s.Partitions {
		for _, g := range p.Groups {
			if !p.Provider.Launches() {
				continue
			}
			ids = append(ids, g.ReservationIDs...)
			if g.Select != nil && g.Select.Group != "" {
				return []string{"*"}, nil
			}
			same := func(other capacity.Select) bool { return maps.Equal(other.Tags, g.Select.Tags) }
			if g.Select != nil && !slices.ContainsFunc(selects, same) {
				selects = append(selects, *g.Select)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), selects
}
