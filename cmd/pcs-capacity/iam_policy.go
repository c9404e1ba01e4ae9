package main

import (
	"cmp"
	"encoding/json"

	"github.com/pcs-capacity/pcs-capacity/internal/permissions"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// IAMPolicyCmd prints what to allow.
type IAMPolicyCmd struct {
	Role    string `arg:"" enum:"admin,sync,hooks,hooks-reserve,hooks-pcs,node" help:"Who gets the policy: admin, sync, hooks, hooks-reserve, hooks-pcs or node."`
	Cluster string `help:"Cluster whose things may be changed: the PCS cluster's name, or ClusterName of slurm.conf. Default: cluster of the settings, else every cluster." placeholder:"NAME"`

	NodeRole string `help:"Role of the nodes that the hooks launch, with its path. Default: any." placeholder:"NAME"`
}

// Help is shown below the flags.
func (IAMPolicyCmd) Help() string {
	return `Prints an IAM policy, as JSON, and asks AWS nothing:

  admin          for who runs pcs-capacity: all commands, purchases included
  sync           for the node that runs pcs-capacity sync --watch
  hooks          for the controller of self-managed Slurm
  hooks-reserve  the same, where [reserve] is enabled in the settings
  hooks-pcs      for a site that calls pcs-capacity-resume for a PCS cluster by itself
  node           for compute nodes on which jobs print a host file with topology --job

What changes something is bound to pcs-capacity's tag with the cluster's name, where AWS
lets it be. docs/permissions.md says what each action is for, and what is lost without it.`
}

// Run prints it.
func (c *IAMPolicyCmd) Run(g *Globals, t *terminal.Terminal, cfg *maybeConfig) error {
	at := permissions.Place{Partition: permissions.PartitionOf(g.region(cfg.Config)), Cluster: cmp.Or(c.Cluster, cfg.Cluster), NodeRole: c.NodeRole}
	out := json.NewEncoder(t.Out)
	out.SetIndent("", "  ")
	return out.Encode(permissions.Policy(at, permissions.Role(c.Role).Programs()))
}
