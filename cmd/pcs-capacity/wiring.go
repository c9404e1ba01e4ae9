package main

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
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

func newEC2(ctx context.Context, g *Globals, c *maybeConfig) (*ec2.Client, error) {
	return ec2.New(ctx, ec2.Options{Region: g.region(c.Config), Profile: g.Profile})
}

func newPCS(ctx context.Context, g *Globals, c *maybeConfig) (*pcs.Client, error) {
	return pcs.New(ctx, pcs.Options{Region: g.region(c.Config), Profile: g.Profile})
}

// newWorld wires the adapters into the control loop. An adapter that could not be
// made answers every question with the reason.
func newWorld(cfg *config.Config, aws *ec2.Client, pcsClient *pcs.Client) lifecycle.World {
	return lifecycle.World{Config: cfg, State: state.Dir(cfg.StateDir), EC2: ec2Source{aws},
		PCS: &pcsSource{pcsClient, cfg.Cluster}, Slurm: slurmSource{&slurm.Client{}}, MachineTime: time.Now}
}

// ec2Source shows EC2 to the control loop.
type ec2Source struct{ *ec2.Client }

var _ lifecycle.EC2 = ec2Source{}

func (s ec2Source) Reservations(ctx context.Context, ids []string) ([]capacity.Reservation, map[string]error, error) {
	found, missing, err := s.Client.Reservations(ctx, ids)
	reasons := map[string]error{}
	for _, m := range missing {
		reasons[m.ID] = m.Err
	}
	return found, reasons, err
}

// pcsSource shows PCS to the control loop.
type pcsSource struct {
	client  *pcs.Client
	cluster string
}

func (s *pcsSource) Slots(ctx context.Context, names []string) ([]lifecycle.PCSSlot, error) {
	if s.cluster == "" {
		return nil, errors.New("the settings name no PCS cluster; add cluster = \"NAME\"")
	}
	slots, err := s.client.Slots(ctx, s.cluster, names)
	var all []lifecycle.PCSSlot
	for _, slot := range slots {
		all = append(all, lifecycle.PCSSlot(slot))
	}
	return all, err
}

// newWorldIfAny is newWorld for a command that also shows what is known without AWS.
func newWorldIfAny(ctx context.Context, g *Globals, cfg *config.Config) lifecycle.World {
	aws, err := ec2.New(ctx, ec2.Options{Region: g.region(cfg), Profile: g.Profile})
	if err == nil {
		var pcsClient *pcs.Client
		if pcsClient, err = pcs.New(ctx, pcs.Options{Region: aws.Region(), Profile: g.Profile}); err == nil {
			return newWorld(cfg, aws, pcsClient)
		}
	}
	world := newWorld(cfg, nil, nil)
	world.EC2, world.PCS = noAWS{g.region(cfg), err}, noAWS{g.region(cfg), err}
	return world
}

// noAWS answers every question with the reason why AWS cannot be asked.
type noAWS struct {
	region string
	err    error
}

func (n noAWS) Region() string        { return n.region }
func (n noAWS) Offset() time.Duration { return 0 }
func (n noAWS) Reservations(context.Context, []string) ([]capacity.Reservation, map[string]error, error) {
	return nil, nil, n.err
}
func (n noAWS) ReservationsByTag(context.Context, map[string]string) ([]capacity.Reservation, error) {
	return nil, n.err
}
func (n noAWS) Subnets(context.Context, []string) ([]capacity.Subnet, error) { return nil, n.err }
func (n noAWS) Slots(context.Context, []string) ([]lifecycle.PCSSlot, error) { return nil, n.err }
