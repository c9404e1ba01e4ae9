package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/facts"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/market"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// regionFlags is the part of a command that asks regions.
type regionFlags struct {
	Regions []string `help:"Regions to ask, or all." placeholder:"REGION"`
}

// choose returns the regions to ask.
func (a regionFlags) choose(ctx context.Context, aws *ec2.Client) ([]string, error) {
	return market.ChooseRegions(ctx, aws, a.Regions)
}

// span is a length of time on the command line, as capacity.ParseDuration reads it: 7d,
// 36h, 1-12:00:00. It is longer than nothing.
type span time.Duration

func (s span) String() string { return capacity.FormatDuration(time.Duration(s)) }

func (s *span) UnmarshalText(text []byte) error {
	d, err := capacity.ParseDuration(string(text))
	if err == nil && d <= 0 {
		err = fmt.Errorf("%q is not positive; write it like 90s, 10m, 36h, 7d or 1-12:00:00", text)
	}

	if err != nil {
		return err
	}

	*s = span(d)

	return nil
}

// count is a number on the command line, of 1 or more.
type count int

func (c *count) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 {
		return fmt.Errorf("%q is not a number of 1 or more", text)
	}

	*c = count(n)

	return nil
}

// typeName is an instance type on the command line. The name of a family, such as p5, is none: EC2 sells nothing of
// that name.
type typeName string

func (n *typeName) UnmarshalText(text []byte) error {
	*n = typeName(text)
	if !strings.Contains(string(text), ".") && !strings.HasPrefix(string(text), "u-") {
		return fmt.Errorf("EC2 has no type %s; give the size too, as in p5.48xlarge", text)
	}

	return nil
}

// usd is an amount on the command line, also as JSON shows it, with USD.
type usd struct{ capacity.Money }

func (m *usd) UnmarshalText(text []byte) (err error) {
	m.Money, err = capacity.ParseMoney(strings.TrimSuffix(string(text), " "+capacity.USD), capacity.USD)
	return err
}

// moment is a time on the command line, as capacity.ParseTime reads it, in the machine's
// zone: 2026-12-01, "2026-12-01 08:00", tomorrow, or RFC 3339.
type moment struct{ time.Time }

func (m *moment) UnmarshalText(text []byte) (err error) {
	m.Time, err = capacity.ParseTime(string(text), time.Now())
	return err
}

// What the linker sets in packages.
var version, commit, date = "devel", "unknown", "unknown"

// notifySystemd tells systemd, where it started the program as a service, that the program is
// alive; and that it is ready, from the first pass on.
func notifySystemd(passed string) {
	words := daemon.SdNotifyWatchdog
	if passed != "" {
		words += "\n" + daemon.SdNotifyReady + "\nSTATUS=" + passed
	}

	_, _ = daemon.SdNotify(false, words) // nobody else could be told
}

// readConfig reads the settings for commands that require them.
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

// readOverTime completes the settings' times, so that the fences that are printed are those of sync. Where neither sync
// nor Slurm can be asked, as on a laptop, jobs are taken to end at their limits.
func readOverTime(ctx context.Context, c *config.Config) {
	ctx, cancel := context.WithTimeout(ctx, slurmWait)
	defer cancel()

	c.Timing.OverTime, _ = facts.OverTime(ctx, c.Domain(), state.Dir(c.StateDir), slurm.New(c.Cluster))
}

// region names the region in which AWS is asked; "" leaves it to the SDK.
func (g *Globals) region(c *config.Config) string { return cmp.Or(g.Region, c.Region) }

func newEC2(ctx context.Context, g *Globals, c *maybeConfig) (client *ec2.Client, err error) {
	g.aws, err = ec2.New(ctx, ec2.Options{Region: g.region(c.Config), Profile: g.Profile})
	return g.aws, err
}

func newPCS(aws *ec2.Client) *pcs.Client { return pcs.From(aws.Shared()) }

// sourcesIfAny returns the sources of the control loop, for a command that also works without AWS.
func sourcesIfAny(ctx context.Context, g *Globals, cfg *config.Config) lifecycle.Sources {
	aws, err := ec2.New(ctx, ec2.Options{Region: g.region(cfg), Profile: g.Profile})
	if err != nil {
		return lifecycle.WithoutAWS(cfg, g.region(cfg), err)
	}

	return lifecycle.NewSources(cfg, aws, newPCS(aws))
}
