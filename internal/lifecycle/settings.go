package lifecycle

import (
	"cmp"
	"context"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
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
			if aws != nil && g.PurchaseOption.Bought() {
				aws.ExpectBlocks()
			}
		}
	}
	owner := state.OwnerOf(state.Dir(cfg.StateDir), cfg.Path)
	s := Sources{
		Settings:    cfg.Domain(),
		Owner:       owner.ID,
		OwnerIs:     owner.String(),
		Poll:        cfg.Timing.Poll.Duration,
		State:       state.Dir(cfg.StateDir),
		Local:       local,
		EC2:         aws,
		PCS:         pcsCluster{pcsClient, cfg.Cluster},
		MachineTime: time.Now,
		After:       after(cfg),
	}
	s.Made = func(ctx context.Context, mark string) ([]capacity.Made, string, error) {
		return made(ctx, cfg, aws, pcsClient, mark)
	}
	if s.Settings.RollsOver("") {
		s.RollOver = &setup.RollOver{
			Setup:  setup.Setup{PCS: pcsClient, EC2: aws, Slurm: setup.InSlurm{Client: slurm.New(cfg.Cluster)}},
			Config: cfg,
		}
	}
	s.World = &actual{Client: slurm.New(cfg.Cluster), ec2: aws, rollOver: s.RollOver, pcsCluster: cfg.Cluster,
		state: s.State, keeper: s.OwnerIs, machineTime: time.Now}
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

// WithoutAWS are the sources of a machine that cannot ask AWS at all: every question is
// answered with the reason.
func WithoutAWS(cfg *config.Config, region string, reason error) Sources {
	s := From(cfg, nil, nil)
	s.EC2, s.PCS, s.RollOver, s.Made = noAWS{region, reason}, noAWS{region, reason}, nil, nil
	return s
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
func (n noAWS) Region() string                                      { return n.region }
func (n noAWS) Untold() []string                                    { return nil }
func (n noAWS) Impaired(context.Context) (map[string]string, error) { return nil, n.err }
func (n noAWS) Offset() time.Duration                               { return 0 }
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
func (n noAWS) KnownSubnets(context.Context, []string) ([]capacity.Subnet, []capacity.Missing, error) {
	return nil, nil, n.err
}
func (n noAWS) ImagePlatform(context.Context, string) (capacity.ImagePlatform, error) {
	return capacity.ImagePlatform{}, n.err
}
func (n noAWS) Holds(context.Context, string) ([]capacity.Reservation, error) { return nil, n.err }
func (n noAWS) Held(context.Context, []string) (map[string]string, error)     { return nil, n.err }
