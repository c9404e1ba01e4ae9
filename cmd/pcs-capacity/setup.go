package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/ec2/groups"
	"github.com/pcs-capacity/pcs-capacity/internal/check"
	"github.com/pcs-capacity/pcs-capacity/internal/facts"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// SetupCmd makes a reservation usable in a cluster.
type SetupCmd struct {
	Provider    capacity.Provider `enum:"pcs,ec2,none," default:"" help:"Who launches the nodes: pcs, or ec2 for self-managed Slurm. Default: that of the queue in the settings, else pcs. With none, another program launches the nodes, and there is nothing to set up."`
	Reservation string            `help:"Reservation to make usable, cr-…." xor:"what" predictor:"reservation" placeholder:"CR"`
	OnDemand    string            `help:"Instead of --reservation, with pcs: instance type of nodes on demand, for whose jobs capacity is held. Needs --max-nodes, and max_instances of [reserve] in the settings." xor:"what" placeholder:"TYPE"`
	Cluster     string            `help:"PCS cluster, by name or id. Default: the settings, else the only one of the region."`
	Queue       string            `help:"PCS queue, which is the Slurm partition; created if it does not exist." required:"" predictor:"partition"`
	NodeGroup   string            `help:"Base name of the node groups: NAME-a and NAME-b take blocks in turn. With ec2: the nodes are NAME-1, NAME-2, …. Default: that of the settings, else the name of the queue." predictor:"node-group" placeholder:"NAME"`

	Like          string   `help:"Node group of the cluster to copy AMI, instance profile, security groups, volumes and user data from. Default: the only other one, or the only one with a queue. With ec2: launch template, as ID[:VERSION] or NAME[:VERSION]." placeholder:"NODE_GROUP"`
	AMI           string   `help:"AMI, instead of that of --like." placeholder:"AMI" name:"ami"`
	SubnetIDs     []string `help:"Subnets. Default: those of the node group, else those of --like and of the cluster that are in the reservation's zone; with ec2, those of the settings." placeholder:"SUBNET" name:"subnet-ids"`
	EFA           string   `help:"Network interfaces of a type with EFA: efa gives each an address, as PCS documents; efa-only only the first, as EC2 recommends; none uses no EFA. Default: that of the node group, else efa." placeholder:"MODE" name:"efa" enum:"efa,efa-only,none," default:""`
	InstallHooks  string   `help:"With pcs, what nodes install as they boot: cli_filter, the script without which srun fails in their jobs; or the package, by the https:// or s3:// URL of a .deb or .rpm. Default: that of the node group, else nothing." placeholder:"WHAT"`
	MaxNodes      *int     `help:"Number of nodes. Default: as many as the node group has in the reservation, else its full size." placeholder:"N"`
	AllowAccounts []string `help:"Slurm accounts that may use the queue, if its settings do not name them yet." placeholder:"ACCOUNT"`
	Spare         string   `help:"Queue to make over the same nodes, which lends them to anybody: jobs of --queue take them back. Default: that of the settings." predictor:"partition" placeholder:"NAME"`
	Dynamic       *bool    `help:"Start nodes only for jobs. Default: the node group's setting, else all nodes of a paid block are up from the first minute." negatable:""`
	DryRun        bool     `help:"Show the plan, check what can be checked, and change nothing."`
}

func (SetupCmd) Help() string {
	return `Shows its plan and asks before it changes anything. If something is in the way, it shows
only that, and creates nothing. It can be run again at any time: what already exists is
left as it is. Run it where sync runs, as root: settings, state_dir, Slurm and, on PCS,
this host's submit filter are checked first.`
}

// AfterApply runs before the settings are read.
func (*SetupCmd) AfterApply(g *Globals) error {
	g.WritesConfig = true
	return nil
}

func (c *SetupCmd) Run(ctx context.Context, g *Globals, t *terminal.Terminal, cfg *maybeConfig, ec2 *ec2.Client,
	pcsClient *pcs.Client,
) error {
	change := clusterChange{
		g:        g,
		t:        t,
		dryRun:   c.DryRun,
		question: "Apply this plan?",
		doing:    "applying the plan",
		nothing:  "Everything is set up already",
		outcome:  "nothing was created",
	}
	change.setup = setup.Setup{
		PCS:    pcsClient,
		EC2:    ec2,
		Slurm:  setup.SlurmClient{Client: slurm.New(cfg.Cluster)},
		Groups: groups.From(ec2.Shared()),
		Fence: func(ctx context.Context) error { // its node groups are ours to set up
			_, failed, err := pass(ctx, g, ec2, pcsClient, false)
			return errors.Join(err, failed)
		},
	}
	change.plan = func(ctx context.Context, cfg *maybeConfig) (*setup.Plan, error) {
		if err := c.setDefaults(cfg); err != nil {
			return nil, err
		}

		readOverTime(ctx, cfg.Config)

		request, err := c.request(ctx, cfg)
		if err != nil {
			return nil, err
		}

		plan, err := change.setup.Plan(ctx, request)
		if err == nil && facts.IsNewMark(request.Mark) {
			plan.Add(
				capacity.Problem{
					Severity: capacity.Note,
					Sentence: fmt.Sprintf(
						"names contain %s until the cluster gets its id, when the plan is applied",
						request.Mark,
					),
				},
			)
		}

		if err == nil && len(plan.Mismatches()) == 0 {
			err = c.checkHost(ctx, cfg, plan)
		}

		return plan, err
	}

	made, err := change.run(ctx, cfg)
	if err != nil || c.DryRun {
		return err
	}

	return c.finish(ctx, g, t, ec2, pcsClient, made)
}

// checkHost adds to a plan what keeps it from being carried out on this host.
func (c *SetupCmd) checkHost(ctx context.Context, cfg *maybeConfig, plan *setup.Plan) error {
	hooks, err := readHooks(ctx, cfg)
	if err != nil {
		return err
	}

	sources := facts.Surveyor{Host: facts.Host{Config: cfg.Config, Hooks: hooks}, Slurm: slurm.New(cfg.Cluster)}
	sources.Filter, _ = findFilter() // whether it runs is tried
	newQueue := slices.ContainsFunc(plan.Steps(),
		func(s setup.Step) bool { return s.What == setup.WhatQueue && s.Verb == setup.Create })
	plan.Add(check.Host(sources.ReadHost(ctx, plan.Cluster), newQueue)...)

	return nil
}

// setDefaults fills in what was not named: who launches the nodes, the node group.
func (c *SetupCmd) setDefaults(cfg *maybeConfig) (err error) {
	queue, known := cfg.Partition(c.Queue)
	if c.Provider == "" {
		c.Provider = capacity.ProviderPCS
		if known && c.Cluster == "" {
			c.Provider = queue.Provider
		}
	}

	if c.NodeGroup == "" {
		c.NodeGroup, err = setup.NodeGroupOf(cfg.Config, c.Queue)
		if err != nil {
			return usageError{err}
		}
	}

	return nil
}

func (c *SetupCmd) request(ctx context.Context, cfg *maybeConfig) (setup.Request, error) {
	r := setup.Request{
		Provider:      c.Provider,
		Cluster:       c.Cluster,
		Queue:         c.Queue,
		NodeGroup:     c.NodeGroup,
		Reservation:   c.Reservation,
		InstanceType:  c.OnDemand,
		Like:          c.Like,
		AMI:           c.AMI,
		SubnetIDs:     c.SubnetIDs,
		InstallHooks:  c.InstallHooks,
		EFA:           capacity.EFAMode(c.EFA),
		AllowAccounts: c.AllowAccounts,
		Spare:         c.Spare,
		ConfigPath:    cfg.Path,
	}
	if c.MaxNodes != nil {
		r.MaxNodes = *c.MaxNodes
		if r.MaxNodes < 1 {
			return r, usage(
				"--max-nodes=%d: use at least 1; the default is the node group's size in the reservation, else all "+
					"of it",
				r.MaxNodes,
			)
		}
	}

	if cfg.Found {
		p, _ := cfg.Partition(c.Queue)
		r.Config, r.Dynamic = cfg.Config, p.Group(c.NodeGroup).Dynamic
	}

	if c.Dynamic != nil {
		r.Dynamic = *c.Dynamic
	}

	if err := setup.CheckInstallHooks(c.InstallHooks); err != nil {
		return r, usageError{err}
	}

	onEC2 := c.Provider == capacity.ProviderEC2
	switch {
	case c.Reservation == "" && c.OnDemand == "" && !c.Provider.IsGuest():
		return r, usage("name --reservation, or --on-demand with an instance type")
	case c.Provider.IsGuest():
		return r, usage(
			"with provider none another program launches the nodes, so there is nothing to set up; write "+
				"[[partition]] name = %q, provider = \"none\" and its node_group into the settings, then run "+
				"`pcs-capacity check`",
			c.Queue,
		)
	case onEC2 && c.Cluster != "":
		return r, usage("--cluster names a PCS cluster, and with --provider ec2 there is none; leave one of them out")
	case onEC2 && c.OnDemand != "":
		return r, usage("--on-demand is for PCS; with --provider ec2 write the node group into the settings: see " +
			"docs/holding.md")
	case onEC2 && c.InstallHooks != "":
		return r, usage("--install-hooks is for PCS; with --provider ec2 Slurm runs the submit filter on its controller")
	}

	if !onEC2 {
		return r, nil
	}

	client := slurm.New(cfg.Cluster)

	conf, err := client.Config(ctx)
	if err != nil {
		slog.Warn("cannot tell where nodes get slurm.conf from", "error", err)
	}

	r.ConfServer = conf.ConfServer

	if r.Spare != "" {
		r.Preemption = conf.Preemption

		r.Partitions, err = client.Partitions(ctx)
		if err != nil {
			return r, fmt.Errorf("asking Slurm how it preempts jobs, for --spare: %w", err)
		}
	}

	if cfg.Cluster == "" {
		r.Mark, err = facts.SlurmMark(ctx, cfg.Config, !c.DryRun)
		return r, err
	}

	return r, nil
}

// finish makes the first pass with the new settings and says what users can do now.
func (c *SetupCmd) finish(ctx context.Context, g *Globals, t *terminal.Terminal, aws *ec2.Client, pcsClient *pcs.Client,
	plan *setup.Plan,
) error {
	// What Slurm does not know yet on self-managed Slurm is the next step, and no problem.
	next := func(p capacity.Problem) bool {
		return c.Provider == capacity.ProviderEC2 &&
			(p.Code == capacity.NoPartition && slices.Contains([]string{c.Queue, c.Spare}, p.About.Partition) ||
				p.Code == capacity.NoNodes)
	}

	complete, err := firstPass(ctx, g, t, aws, pcsClient, next)
	if err != nil {
		return err
	}

	if !complete {
		return errReported
	}

	cfg, err := readConfig(g)
	if err != nil {
		return err
	}

	readOverTime(ctx, cfg)

	queue, _ := cfg.Partition(c.Queue)
	nodes := max(1, queue.Group(c.NodeGroup).MaxNodes)

	until := ""
	if !plan.Reservation.End.IsZero() {
		until = ", until " + t.Time(plan.Reservation.End)
	}

	from := plan.Reservation.ID
	without := "fences do not follow extensions"
	if c.OnDemand != "" {
		from = "On-Demand capacity, which sync holds for each job"
		without = "no capacity is held, and no job starts"
	}

	t.Say("Queue %s is set up with %d × %s of %s%s.", c.Queue, nodes, plan.Reservation.InstanceType, from, until)

	if plan.Reservation.State != capacity.StateActive && !plan.Reservation.Start.IsZero() {
		t.Say("The block opens at %s; jobs submitted before then wait for it.", t.Time(plan.Reservation.Start))
	}

	if c.Provider == capacity.ProviderEC2 {
		t.Say(
			"Tell Slurm about the nodes, on its controller. This shows the lines for slurm.conf and restarts " +
				"slurmctld:\n  pcs-capacity hooks install",
		)
	}

	if queue.Spare != "" {
		t.Say("Jobs of queue %s run on its nodes while nobody in %s needs them.", queue.Spare, c.Queue)
	}

	t.Say("%s", submitHint(plan.Reservation, cfg.Domain().Timing, c.Queue, nodes, aws.Now()))

	if _, runs, _ := state.Dir(cfg.StateDir).Watcher(); !runs {
		t.Say("Start the service on one host. Without it, %s:\n  %s", without, watchCommand(g, cfg))
	}

	return nil
}

// submitHint says what users can do with a reservation that has been set up.
func submitHint(r capacity.Reservation, timing capacity.Timing, queue string, nodes int, now time.Time) string {
	if w := timing.Window(r); !w.Unbounded() && !w.Fence.After(now) {
		return fmt.Sprintf(
			"No more jobs start in %s: they had to end by %s. Jobs in %s wait for its next reservation.",
			r.ID,
			capacity.FormatUTC(w.Fence),
			queue,
		)
	}

	return fmt.Sprintf("Users can submit:\n  sbatch --partition=%s --nodes=%d train.sh", queue, nodes)
}
