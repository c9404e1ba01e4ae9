package lifecycle

import (
	"cmp"
	"context"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/metrics"
	"github.com/pcs-capacity/pcs-capacity/internal/notify"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Sources are what a pass reads and changes.
type Sources struct {
	World
	Settings capacity.Settings
	// Poll is the longest time between two passes of Watch.
	Poll time.Duration
	// Local is the folder that slurmctld reads; "" if slurmctld is not on this host.
	Local state.Dir
	// Held returns, of the named compute node groups of PCS, those that exist, each with the reservation that it was set
	// up for; "" if for none. Nil when no partition has provider pcs.
	Held func(ctx context.Context, groups []string) (map[string]string, error)
	// OursOnly: this pass ignores jobs of partitions that are not ours, except those of AlsoOurs.
	OursOnly bool
	// AlsoOurs are partitions that had jobs on our nodes in the last pass: a partition that loses its nodes keeps its
	// running jobs.
	AlsoOurs []string
	// RollOver sets up and removes slots on PCS; nil if no partition rolls over by itself, and for a Look.
	RollOver RollOver
	// Made lists the things with our tag for a cluster, by its mark, and the cluster's id if it is on PCS; nil for
	// none. With OldLeftovers this pass does not call it.
	Made         func(ctx context.Context, mark string) (made []capacity.Made, cluster string, err error)
	OldLeftovers bool
	// Owner marks the Slurm reservations of these settings, and OwnerIs describes it for people.
	Owner, OwnerIs string
	// Offline is why AWS cannot be asked at all; nil if it can.
	Offline error
	// DryRun: the pass reports what it would do, and writes nothing.
	DryRun bool
	// After is what the site runs after a pass; nil for nothing. Its errors are problems.
	After func(ctx context.Context, snap *capacity.Snapshot, report Report) []error
}

// RollOver goes on to give a block its compute node group on PCS, or to remove one: see [setup.RollOver]. Both say
// which steps they began.
type RollOver interface {
	SetUp(ctx context.Context, partition string, group capacity.NodeGroup, block capacity.Reservation, anew bool) (did []string, err error)
	Remove(ctx context.Context, partition, slot string) (did []string, err error)
}

// From makes the sources that the settings call for.
func From(cfg *config.Config, aws *ec2.Client, pcsClient *pcs.Client) Sources {
	local := state.Dir(cfg.LocalDir)
	if cfg.Cluster != "" {
		local = "" // PCS has no job_submit
	}
	for _, p := range cfg.Partitions {
		for _, g := range p.Groups {
			if aws != nil && g.PurchaseOption.Bought() {
				aws.ExpectBlocks()
			}
		}
	}
	owner := state.OwnerOf(state.Dir(cfg.StateDir), cfg.Path)
	client := slurm.New(cfg.Cluster)
	s := Sources{
		World:    World{Slurm: client, EC2: aws, State: state.Dir(cfg.StateDir), MachineTime: time.Now},
		Settings: cfg.Domain(),
		Owner:    owner.ID,
		OwnerIs:  owner.String(),
		Poll:     cfg.Timing.Poll.Duration,
		Local:    local,
		After:    after(cfg),
	}
	s.Held = func(ctx context.Context, groups []string) (map[string]string, error) {
		return pcsClient.Slots(ctx, cfg.Cluster, groups)
	}
	s.Made = func(ctx context.Context, mark string) ([]capacity.Made, string, error) {
		return made(ctx, cfg, aws, pcsClient, mark)
	}
	if s.Settings.RollsOver("") {
		s.RollOver = &setup.RollOver{
			Setup:  setup.Setup{PCS: pcsClient, EC2: aws, Slurm: setup.InSlurm{Client: client}},
			Config: cfg,
		}
	}
	return s
}

// made is what carries our tag for the cluster of the settings, with the id of one of PCS. With an error it is nil.
func made(ctx context.Context, cfg *config.Config, aws *ec2.Client, pcsClient *pcs.Client,
	mark string) (all []capacity.Made, id string, err error) {
	if cfg.Cluster != "" {
		cluster, err := pcsClient.Cluster(ctx, cfg.Cluster)
		if err != nil {
			return nil, "", err
		}
		mark, id = cluster.Name, cluster.ID // the settings may have the id
		if all, err = pcsClient.Made(ctx, cluster); err != nil {
			return nil, "", err
		}
	}
	templates, err := aws.MadeTemplates(ctx, mark, pcs.TemplateName(mark, ""))
	if err != nil || cfg.Cluster == "" {
		return templates, id, err
	}
	return append(all, templates...), id, nil
}

// WithoutAWS are the sources of a machine that cannot ask AWS at all, for the reason.
func WithoutAWS(cfg *config.Config, region string, reason error) Sources {
	s := From(cfg, nil, nil)
	s.Offline, s.EC2, s.RollOver, s.Made = reason, offline{region: region}, nil, nil
	return s
}

// offline is an EC2 that nobody asks: see Sources.Offline.
type offline struct {
	EC2
	region string
}

func (o offline) Region() string                                 { return o.region }
func (o offline) Untold() []string                               { return nil }
func (o offline) Offset() time.Duration                          { return 0 }
func (o offline) Explain(err error) (words string, general bool) { return err.Error(), true }

// Follower gives the sources of one pass after the other, from settings that may change.
type Follower struct {
	// Path is where the settings are.
	Path string
	// Region and Profile are those of the command line; "" leaves them to the settings and
	// to the AWS SDK's own chain.
	Region, Profile string

	region string // that of the clients, as it was asked for
	aws    *ec2.Client
	pcs    *pcs.Client
}

// Sources reads the settings. It makes new clients of AWS when the region has changed,
// or on renew.
func (f *Follower) Sources(ctx context.Context, renew bool) (Sources, error) {
	cfg, err := config.Load(f.Path)
	if err != nil {
		return Sources{}, err
	}
	if region := cmp.Or(f.Region, cfg.Region); renew || f.aws == nil || region != f.region {
		aws, err := ec2.New(ctx, ec2.Options{Region: region, Profile: f.Profile})
		if err != nil {
			return Sources{}, err
		}
		f.region, f.aws, f.pcs = region, aws, pcs.From(aws.Shared())
	}
	return From(cfg, f.aws, f.pcs), nil
}

// The times of notices: how long before a fence people are told of it, how long nodes of an open block may have no job,
// and how long before its fence the last block of a slot must have one that follows.
const (
	fenceNear = time.Hour
	idleAfter = 30 * time.Minute
	successor = 14 * 24 * time.Hour
)

// tellTime bounds each delivery of a notice.
const tellTime = 10 * time.Second

// after is what the settings want to be done after a pass; nil for nothing.
func after(cfg *config.Config) func(context.Context, *capacity.Snapshot, Report) []error {
	tells := cfg.Notify.Command != "" || cfg.Notify.Webhook != ""
	if cfg.Metrics.File == "" && !tells {
		return nil
	}
	return func(ctx context.Context, snap *capacity.Snapshot, report Report) (errs []error) {
		if tells {
			due := NoticeSettings{FenceNear: fenceNear, IdleAfter: idleAfter, Successor: successor, Lost: capacity.StaleAfter}
			errs = Tell(state.Dir(cfg.StateDir), snap, report, due, func(n Notice) error { return Notify(ctx, cfg, n) })
		}
		if cfg.Metrics.File != "" {
			if err := metrics.Write(cfg.Metrics.File, Metrics(snap, report)); err != nil {
				errs = append(errs, err)
			}
		}
		return errs
	}
}

// Notify delivers a notice where the settings want it.
func Notify(ctx context.Context, cfg *config.Config, n Notice) error {
	return notify.Target{Command: cfg.Notify.Command, Webhook: cfg.Notify.Webhook, Timeout: tellTime}.Deliver(ctx, n)
}
