package main

import (
	"fmt"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/permissions"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// IAMPolicyCmd prints what to allow.
type IAMPolicyCmd struct {
	Role string `arg:"" enum:"admin,sync,hooks" help:"Who gets the policy: admin, sync or hooks."`
}

func (IAMPolicyCmd) Help() string {
	return `Prints an IAM policy as JSON, without calling AWS:

  admin  for whoever runs pcs-capacity: all commands, purchases included
  sync   for the node that runs pcs-capacity sync --watch, and for pcs-capacity-resume on PCS
  hooks  for the controller of self-managed Slurm

Actions that change something require pcs-capacity's tag with the settings' cluster, where AWS
allows such a condition. docs/permissions.md says what you can remove.`
}

func (c *IAMPolicyCmd) Run(g *Globals, t *terminal.Terminal, cfg *maybeConfig) error {
	_, err := fmt.Fprint(t.Out, permissions.Policy(c.Role, capacity.AWSPartitionOf(g.region(cfg.Config)), cfg.Cluster))
	return err
}
