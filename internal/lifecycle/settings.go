package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/notify"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// From makes the sources that the settings call for.
func From(cfg *config.Config, aws *ec2.Client, pcsClient *pcs.Client) Sources {
	local := state.Dir(cfg.LocalDir)
	if cfg.Cluster != "" {
		local = "" // PCS has no job_submit
	}
	for _, p := range cfg.Partitions {
		for _, g := range p.Groups {
			if aws != nil && g.PurchaseOption.BuysBlocks() {
				aws.ExpectBlocks()
			}
		}
	}
	owner := state.OwnerOf(state.Dir(cfg.StateDir), cfg.Path)
	s := Sources{
		Settings:  cfg.Domain(),
		Owner:     owner.ID,
		OwnerIs:   owner.String(),
		KeepOwner: owner.Keep,
		Poll:      cfg.Timing.Poll.Duration,
		State:     state.Dir(cfg.StateDir),
		Local:     local,
		EC2:       aws,
		PCS:       pcsCluster{pcsClient, cfg.Cluster},
		Slurm: slurmctld{
			Client:     slurm.New(cfg.Cluster),
			PCSCluster: cfg.Cluster,
			State:      state.Dir(cfg.StateDir),
			Keeper:     owner.String(),
		},
		MachineTime: time.Now,
		After:       after(cfg, nil),
		Health: HealthCommand{
			Path:    cfg.Health.Open,
			Timeout: cfg.Health.Timeout.Duration,
			Tries:   cfg.Health.Tries,
		},
	}
	s.Made = func(ctx context.Context, mark string) ([]capacity.Made, string, error) {
		return made(ctx, cfg, aws, pcsClient, mark)
	}
	if s.Settings.RollsOver("") {
		s.RollOver = setup.RollOver{
			Setup:  setup.Setup{PCS: pcsClient, EC2: aws, Slurm: setup.InSlurm{Client: slurm.New(cfg.Cluster)}},
			Config: cfg,
		}
	}
	return s
}

// made is what carries our tag for the cluster of the settings, with the id of one of PCS.
func made(
	ctx context.Context,
	cfg *config.Config,
	aws *ec2.Client,
	pcsClient *pcs.Client,
	mark string,
) (all []capacity.Made, id string, err error) {
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
	return append(all, templates...), id, err
}

// Follower gives the sources of one pass after the other, from settings that may change.
type Follower struct {
	// Path is where the settings are.
	Path string
	// Region and Profile are those of the command line; "" leaves them to the settings and
	// to the AWS SDK's own chain.
	Region, Profile string
	// Queues has messages delivered beside the passes, until Close.
	Queues bool

	queue  *notify.Queue
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
	s := From(cfg, f.aws, f.pcs)
	if f.Queues {
		if f.queue == nil {
			f.queue = notify.NewQueue()
		}
		s.After = after(cfg, f.queue)
	}
	return s, nil
}

// Close ends what is being delivered.
func (f *Follower) Close() {
	if f.queue != nil {
		f.queue.Close()
		f.queue = nil
	}
}

// WithoutAWS are the sources of a machine that cannot ask AWS at all: every question is
// answered with the reason.
func WithoutAWS(cfg *config.Config, region string, reason error) Sources {
	s := From(cfg, nil, nil)
	s.EC2, s.PCS, s.RollOver, s.Made = noAWS{region, reason}, noAWS{region, reason}, nil, nil
	return s
}

// OthersOwn reports that the cluster of the settings belongs to other settings. A Slurm that does not answer is none
// of its business.
func OthersOwn(ctx context.Context, cfg *config.Config) []capacity.Problem {
	reservations, err := slurm.New(cfg.Cluster).Reservations(ctx)
	if err != nil {
		return nil
	}
	if err := otherOwner(&Cluster{Reservations: reservations}, From(cfg, nil, nil)); err != nil {
		return []capacity.Problem{capacity.Problemf(capacity.OtherOwner, capacity.Subject{},
			"use the settings and the state_dir of the cluster's owner, or run `pcs-capacity sync --take-over` first", "%v", err)}
	}
	return nil
}

// slurmctld shows Slurm to the control loop.
type slurmctld struct {
	*slurm.Client
	// PCSCluster is the name or id of the PCS cluster; "" for self-managed Slurm.
	PCSCluster string
	// State is where hooks write down the cluster's mark.
	State state.Dir
	// Keeper is who keeps the Slurm reservations, for their comments.
	Keeper string
}

// wallsTimeout is how long slurmdbd may take to answer: a pass does without.
const wallsTimeout = 5 * time.Second

// Look reads the state of the cluster.
func (s slurmctld) Look(ctx context.Context) (*Cluster, error) {
	// Side by side: each is a process, which takes longer to start than slurmctld to answer.
	var cfg slurm.Config
	var nodes []capacity.Node
	var partitions []capacity.SlurmPartition
	var reservations []capacity.SlurmReservation
	var errs [4]error
	var reads sync.WaitGroup
	reads.Go(func() { cfg, errs[0] = s.Config(ctx) })
	reads.Go(func() { nodes, errs[1] = s.Nodes(ctx) })
	reads.Go(func() { partitions, errs[2] = s.Partitions(ctx) })
	reads.Go(func() { reservations, errs[3] = s.Reservations(ctx) })
	reads.Wait()
	if err := cmp.Or(errs[:]...); err != nil {
		return nil, err
	}
	c := &Cluster{
		Version:          cfg.Version.String(),
		TimeMinCollapses: cfg.Version.TimeMinCollapses(),
		KillWait:         cfg.KillWait,
		NoRequeue:        cfg.NoRequeue,
		Accounting:       cfg.Accounting(),
		ShowsPoweredDown: cfg.ShowsPoweredDown(),
		Nodes:            nodes,
		Partitions:       partitions,
		Reservations:     reservations,
	}
	if c.Mark, c.MarkErr = s.mark(cfg); s.PCSCluster == "" {
		c.Name = cfg.ClusterName
	}
	if cfg.ChecksLimits() {
		ctx, cancel := context.WithTimeout(ctx, wallsTimeout)
		defer cancel()
		c.Walls, c.WallsErr = s.Client.Walls(ctx, cfg.ClusterName)
	}
	return c, nil
}

// Jobs are those of [slurm.Client.JobsOf].
func (s slurmctld) Jobs(
	ctx context.Context, partitions []string, wanted func(capacity.Job) bool,
) (live, ended []capacity.Job, err error) {
	return s.JobsOf(ctx, partitions, wanted)
}

// CreateReservation creates a Slurm reservation.
func (s slurmctld) CreateReservation(ctx context.Context, r capacity.SlurmReservation) error {
	return s.Client.CreateReservation(ctx, s.kept(r))
}

// UpdateReservation changes a Slurm reservation.
func (s slurmctld) UpdateReservation(ctx context.Context, r capacity.SlurmReservation) error {
	return s.Client.UpdateReservation(ctx, s.kept(r))
}

// DeleteReservation deletes a Slurm reservation, if it is there.
func (s slurmctld) DeleteReservation(ctx context.Context, name string) error {
	return s.DropReservation(ctx, name)
}

// Resume takes DRAIN off nodes that have it.
func (s slurmctld) Resume(ctx context.Context, nodes []string) error {
	if err := s.Client.Resume(ctx, nodes); !errors.Is(err, slurm.ErrNodeState) {
		return err
	}
	return nil
}

// SubmitCheck submits a job that runs a program on a node.
func (s slurmctld) SubmitCheck(ctx context.Context, c NodeCheck) (job string, err error) {
	return s.Client.SubmitCheck(ctx, slurm.Check(c))
}

// CheckTime is how long such a job may take.
func (slurmctld) CheckTime(timeout time.Duration) time.Duration { return slurm.CheckTime(timeout) }

// Hostlist folds node names.
func (slurmctld) Hostlist(names []string) string { return slurm.Compress(names) }

// Expand gives the names of a hostlist.
func (slurmctld) Expand(hostlist string) ([]string, error) { return slurm.Expand(hostlist) }

func (s slurmctld) kept(r capacity.SlurmReservation) capacity.SlurmReservation {
	r.Comment = "pcs-capacity sync keeps this; it is made again when deleted; " + s.Keeper
	return r
}

// pcsCluster is a cluster of PCS, by name or id.
type pcsCluster struct {
	*pcs.Client
	name string
}

func (p pcsCluster) Held(ctx context.Context, groups []string) (map[string]string, error) {
	return p.Slots(ctx, p.name, groups)
}

// noAWS answers every question with the reason why AWS cannot be asked.
type noAWS struct {
	region string
	err    error
}

func (n noAWS) Explain(err error) (words string, general bool) {
	return err.Error(), true
}
func (n noAWS) Region() string        { return n.region }
func (n noAWS) Untold() []string      { return nil }
func (n noAWS) Offset() time.Duration { return 0 }
func (n noAWS) Reservations(context.Context, []string) ([]capacity.Reservation, []capacity.Missing, error) {
	return nil, nil, n.err
}
func (n noAWS) InstancesByTag(context.Context, map[string][]string) ([]capacity.Instance, error) {
	return nil, n.err
}
func (n noAWS) InstancesByID(context.Context, []string) ([]capacity.Instance, error) {
	return nil, n.err
}
func (n noAWS) InstancesByClusterName(context.Context, string) ([]capacity.Instance, error) {
	return nil, n.err
}
func (n noAWS) ReservationsByTag(context.Context, map[string]string) ([]capacity.Reservation, error) {
	return nil, n.err
}
func (n noAWS) GroupMembers(context.Context, string) ([]string, error) { return nil, n.err }
func (n noAWS) KnownSubnets(context.Context, []string) ([]capacity.Subnet, []capacity.Missing, error) {
	return nil, nil, n.err
}
func (n noAWS) ImagePlatform(context.Context, string) (capacity.ImagePlatform, error) {
	return capacity.ImagePlatform{}, n.err
}
func (n noAWS) Holds(context.Context, string) ([]capacity.Reservation, error) { return nil, n.err }
func (n noAWS) Release(context.Context, string) error                         { return n.err }
func (n noAWS) Terminate(context.Context, []string) error                     { return n.err }
func (n noAWS) Held(context.Context, []string) (map[string]string, error)     { return nil, n.err }

// mark is the mark of the cluster, or why it is not known.
//
// sync ends what has this mark, so it takes only what a hook made on the controller: from
// there, or, where it runs elsewhere, from what that hook wrote down.
func (s slurmctld) mark(cfg slurm.Config) (string, error) {
	if s.PCSCluster != "" {
		return s.PCSCluster, nil
	}
	kept, keptErr := s.State.KnownMark()
	if name, _ := capacity.CutClusterMark(kept); keptErr == nil && name != cfg.ClusterName {
		kept, keptErr = "", fmt.Errorf("the cluster's mark %q in %s is not that of cluster %s", kept, s.State, cfg.ClusterName)
	}
	id, err := state.ClusterID(cfg.StateSaveLocation, cfg.ClusterName)
	mark := capacity.ClusterMark(cfg.ClusterName, id)
	switch {
	case err == nil && keptErr == nil && mark != kept:
		return "", fmt.Errorf("the cluster's mark is %s in %s and %s in %s; run sync on Slurm's controller, and delete %[4]s/mark if it does so already",
			mark, cfg.StateSaveLocation, kept, s.State)
	case err == nil:
		return mark, nil
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("no power-up has made an id in %s yet", cfg.StateSaveLocation)
	case !errors.Is(err, state.ErrNotSlurms) && !errors.Is(err, fs.ErrPermission):
		return "", err
	case keptErr != nil:
		return "", fmt.Errorf("%w; %w; run sync on Slurm's controller as root", err, keptErr)
	}
	return kept, nil
}
