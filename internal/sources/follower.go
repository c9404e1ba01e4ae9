package sources

import (
	"cmp"
	"context"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// Follower gives the sources of one pass after the other, from settings that may change.
type Follower struct {
	Path string // where the settings are
	// Region and Profile are those of the command line; "" leaves them to the settings and to the AWS SDK's own chain.
	Region, Profile string

	was    *config.Config // the settings of the last pass
	region string         // that of the clients, as it was asked for
	aws    *ec2.Client
	pcs    *pcs.Client
}

// Sources reads the settings. It makes new clients of AWS when the region has changed, or on renew. The error is for
// settings that are broken, or that a running program does not take over: see [config.Config.Follow].
func (f *Follower) Sources(ctx context.Context, renew bool) (lifecycle.Sources, error) {
	cfg, err := config.Load(f.Path)
	if err != nil {
		return lifecycle.Sources{}, err
	}

	// Some settings, such as state_dir, cannot change under a running program.
	if f.was != nil {
		if err := cfg.Follow(f.was); err != nil {
			return lifecycle.Sources{}, err
		}
	}

	f.was = cfg
	if region := cmp.Or(f.Region, cfg.Region); renew || f.aws == nil || region != f.region {
		aws, err := ec2.New(ctx, ec2.Options{Region: region, Profile: f.Profile})
		if err != nil {
			return lifecycle.Sources{}, err
		}

		f.region = region
		f.aws = aws
		f.pcs = pcs.From(aws.Shared())
	}

	return New(cfg, f.aws, f.pcs), nil
}
