package main

import (
	"context"
	"errors"
	"io/fs"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// readConfig is the settings for commands that cannot do without.
func readConfig(g *Globals) (*config.Config, error) {
	c, err := config.Load(config.Find(g.Config))
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

// maybeConfig is the settings for commands that also work where there are none yet, as
// on a laptop: then they are the defaults, and Found is false.
type maybeConfig struct {
	*config.Config
	Found bool
}

func readConfigIfAny(g *Globals) (*maybeConfig, error) {
	path := config.Find(g.Config)
	c, err := config.Load(path)
	switch {
	case (g.Config == "" || g.WritesConfig) && errors.Is(err, fs.ErrNotExist):
		c = config.Default()
		c.Path = path
		return &maybeConfig{c, false}, nil
	case err != nil:
		return nil, usageError{err}
	}
	return &maybeConfig{c, true}, nil
}

// region is where AWS is asked; "" leaves it to the SDK.
func (g *Globals) region(c *config.Config) string {
	if g.Region != "" {
		return g.Region
	}
	return c.Region
}

func newEC2(ctx context.Context, g *Globals, c *maybeConfig) (client *ec2.Client, err error) {
	g.aws, err = ec2.New(ctx, ec2.Options{Region: g.region(c.Config), Profile: g.Profile})
	return g.aws, err
}

func newPCS(aws *ec2.Client) *pcs.Client { return pcs.From(aws.Shared()) }

// sourcesIfAny are what the control loop reads, for a command that also shows what is
// known without AWS.
func sourcesIfAny(ctx context.Context, g *Globals, cfg *config.Config) lifecycle.Sources {
	aws, err := ec2.New(ctx, ec2.Options{Region: g.region(cfg), Profile: g.Profile})
	if err != nil {
		return lifecycle.WithoutAWS(cfg, g.region(cfg), err)
	}
	return lifecycle.From(cfg, aws, newPCS(aws))
}
