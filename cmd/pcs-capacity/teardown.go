package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/ec2/groups"
	"github.com/pcs-capacity/pcs-capacity/internal/facts"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// TeardownCmd removes what setup made.
type TeardownCmd struct {
	Provider  capacity.Provider `enum:"pcs,ec2,none," default:"" help:"Who launches the nodes: pcs, ec2, or none. Default: that of the partition in the settings, else pcs if they name a cluster."`
	Cluster   string            `help:"PCS cluster, by name or id. Default: the settings."`
	Queue     string            `help:"PCS queue, which is the Slurm partition." required:"" predictor:"partition"`
	NodeGroup string            `help:"Only this node group: a base name (NAME), or on PCS one of its two (NAME-a). Default: all of the queue, and the queue itself." predictor:"node-group" placeholder:"NAME"`
	Force     bool              `help:"Continue even if jobs run there; they end with their nodes."`
	DryRun    bool              `help:"Show the plan, and change nothing."`
}

func (TeardownCmd) Help() string {
	return `Undoes setup: drains the nodes, removes the settings and the fences, takes the node groups
out of the queue and deletes them with their instances, then the queue and the launch
templates. With provider ec2, it removes the settings, the fences, the instances and the
launch template; hooks install then removes the nodes from slurm.conf. With provider none,
it removes the settings and the fences; nodes and jobs stay as they are. It shows its plan
and asks before it changes anything. What does not carry pcs-capacity's tag is left alone.
The reservation itself stays: a Capacity Block is paid for. It can be killed and run again
at any time.`
}

func (c *TeardownCmd) Run(ctx context.Context, g *Globals, t *terminal.Terminal, cfg *maybeConfig, aws *ec2.Client,
	pcsClient *pcs.Client,
) error {
	change := clusterChange{
		g:        g,
		t:        t,
		dryRun:   c.DryRun,
		question: "Tear this down?",
		doing:    "tearing down",
		nothing:  "Nothing is left to remove for queue " + c.Queue,
		outcome:  "nothing was removed",
	}

	change.setup = setup.Setup{
		PCS:    pcsClient,
		EC2:    aws,
		Slurm:  setup.SlurmClient{Client: slurm.New(cfg.Cluster)},
		Groups: groups.From(aws.Shared()),
	}
	change.plan = func(ctx context.Context, cfg *maybeConfig) (*setup.Plan, error) {
		request, err := c.request(ctx, cfg)
		if err != nil {
			return nil, err
		}

		return change.setup.PlanTeardown(ctx, request)
	}
	plan, err := change.run(ctx, cfg)
	if err == nil && change.applied && cfg.Found {
		_, err = firstPass(ctx, g, t, aws, pcsClient, nil)
	}

	if err != nil {
		return err
	}

	if there := plan.OurQueues(); plan.Done() && len(there) > 0 && !slices.Contains(there, c.Queue) {
		return fmt.Errorf(
			"queues of pcs-capacity are %s; check the name, unless %s has been torn down before",
			strings.Join(there, ", "),
			c.Queue,
		)
	}

	for _, work := range plan.ByHand {
		t.Say("Left to do: %s", work)
	}

	if after, err := readConfigIfAny(g); err == nil && change.applied {
		for _, work := range checkTopology(ctx, after) {
			t.Say("Left to do: %s", work)
		}
	}

	if change.applied {
		printPaid(ctx, t, aws, plan.Reservations())
	}

	return nil
}

// checkTopology says which nodes Slurm's topology has that are gone, and what keeps slurmctld from starting without them;
// nothing on another host than slurmctld's.
func checkTopology(ctx context.Context, cfg *maybeConfig) []string {
	site, err := readSite()
	if err != nil || cfg.Cluster != "" {
		return nil
	}

	version := slurmVersion(ctx, cfg.Config)

	stale, _ := site.CheckTopology(cfg.Domain(), version)

	return append(stale, site.CheckBlocks(cfg.Domain(), version)...)
}

// printPaid says which reservations stay, and are paid.
func printPaid(ctx context.Context, t *terminal.Terminal, aws *ec2.Client, ids []string) {
	found, _, err := aws.Reservations(ctx, ids)
	if err != nil { // teardown is done; this is only said beside it
		return
	}

	for _, r := range found {
		switch {
		case !r.IsLiveAt(aws.Now()):
		case r.End.IsZero():
			t.Say("%s stays, and is paid for until it is cancelled.", r.ID)
		default:
			t.Say("%s stays, and is paid for until %s.", r.ID, t.Time(r.End))
		}
	}
}

// request completes what is asked for from the settings.
func (c *TeardownCmd) request(ctx context.Context, cfg *maybeConfig) (setup.Request, error) {
	request := setup.Request{
		Provider:  c.Provider,
		Cluster:   c.Cluster,
		Queue:     c.Queue,
		NodeGroup: c.NodeGroup,
		Force:     c.Force,
	}
	if cfg.Found {
		request.Config = cfg.Config
	}

	if p, found := cfg.Partition(c.Queue); request.Provider == "" {
		switch {
		case found:
			request.Provider = p.Provider
		case cfg.Found && c.Cluster == "" && cfg.Cluster == "": // a run that was cut off has taken the partition out
			request.Provider = capacity.ProviderEC2
		}
	}

	onEC2 := request.Provider == capacity.ProviderEC2
	switch {
	case onEC2 && (c.Cluster != "" || cfg.Cluster != ""):
		return request, usage(
			"with provider ec2 there is no PCS cluster, and %q is one; leave it out, or name other settings with "+
				"--config",
			cmp.Or(c.Cluster, cfg.Cluster),
		)
	case onEC2:
		var err error

		request.Mark, err = facts.SlurmMark(ctx, cfg.Config, false)
		return request, err
	case request.Provider.IsGuest():
	case c.Cluster == "" && cfg.Cluster == "":
		return request, usage(
			"--cluster: no PCS cluster is named here or in the settings; add --cluster NAME, or --provider ec2 for " +
				"self-managed Slurm",
		)
	}

	return request, nil
}
