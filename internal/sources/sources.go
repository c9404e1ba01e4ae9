// Package sources gives the control loop what it reads and changes: the clients of AWS and Slurm that the settings
// name. The commands of pcs-capacity call it; package lifecycle knows only its own interfaces.
package sources

import (
	"context"
	"time"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/ec2/groups"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/notify"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// New returns the sources for the settings.
func New(cfg *config.Config, aws *ec2.Client, pcsClient *pcs.Client) lifecycle.Sources {
	local := state.Dir(cfg.LocalDir)
	if cfg.Cluster != "" {
		local = "" // PCS has no job_submit
	}

	for _, p := range cfg.Partitions {
		for _, g := range p.Groups {
			if aws != nil && g.PurchaseOption.IsBlock() {
				aws.ExpectBlocks()
			}
		}
	}

	owner, is := state.OwnerOf(cfg.Path)

	client := slurm.New(cfg.Cluster)

	s := lifecycle.Sources{
		World: lifecycle.World{
			Slurm:       client,
			EC2:         aws,
			State:       state.Dir(cfg.StateDir),
			MachineTime: time.Now,
		},
		Settings: cfg.Domain(),
		Owner:    owner,
		OwnerIs:  is,
		Poll:     cfg.Timing.Poll.Duration,
		Local:    local,
		Notify:   Target(cfg),
	}
	if aws != nil {
		s.Groups = groups.From(aws.Shared())
	}

	s.Held = func(ctx context.Context, groups []string) (held, failed map[string]string, err error) {
		return pcsClient.Slots(ctx, cfg.Cluster, groups)
	}
	if s.Settings.RollsOver("") {
		s.RollOver = &setup.RollOver{
			Setup:  setup.Setup{PCS: pcsClient, EC2: aws, Slurm: setup.SlurmClient{Client: client}},
			Config: cfg,
		}
	}

	return s
}

// tellTime bounds each delivery of a notice.
const tellTime = 10 * time.Second

// Target returns the receiver of notices that the settings name.
func Target(cfg *config.Config) notify.Target {
	return notify.Target{Command: cfg.Notify.Command, Webhook: cfg.Notify.Webhook, Timeout: tellTime}
}

// WithoutAWS returns the sources of a machine that cannot ask AWS at all, for the reason.
func WithoutAWS(cfg *config.Config, region string, reason error) lifecycle.Sources {
	s := New(cfg, nil, nil)
	s.Offline = reason
	s.EC2 = offline{region: region}
	s.RollOver = nil

	return s
}

// offline is an EC2 that nobody asks: see lifecycle.Sources.Offline.
type offline struct {
	lifecycle.EC2
	region string
}

func (o offline) Region() string                                 { return o.region }
func (o offline) Withheld() []string                             { return nil }
func (o offline) Offset() time.Duration                          { return 0 }
func (o offline) Explain(err error) (words string, general bool) { return err.Error(), true }
