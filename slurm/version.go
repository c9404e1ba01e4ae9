package slurm

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"sync"
)

// Version is a release of Slurm, such as 22.05.8.
type Version struct {
	Major, Minor, Micro int
}

// String prints the version as Slurm does: the minor part has two digits.
func (v Version) String() string { return fmt.Sprintf("%d.%02d.%d", v.Major, v.Minor, v.Micro) }

// Release is the version as AWS PCS names it, such as 25.05.
func (v Version) Release() string { return fmt.Sprintf("%d.%02d", v.Major, v.Minor) }

// AtLeast is true when v is other or newer.
func (v Version) AtLeast(major, minor, micro int) bool {
	return cmp.Or(cmp.Compare(v.Major, major), cmp.Compare(v.Minor, minor), cmp.Compare(v.Micro, micro)) >= 0
}

// TimeMinCollapses is true when a job with --time-min can start with that
// minimum as its limit although the whole limit fits: whenever any future Slurm
// reservation exists in the cluster, even one on other nodes, and on 22.05.8
// also without one when the backfill scheduler starts the job. Callers go by
// the version alone. Fixed in 25.05.3 (Slurm's CHANGELOG).
func (v Version) TimeMinCollapses() bool { return !v.AtLeast(25, 5, 3) }

// ReservationComments is true when a Slurm reservation can carry a comment.
// Slurm 22.05 answers "Unknown parameter Comment"; 24.11 takes it. Below the
// oldest version that was tried, a reservation is known by its name alone.
func (v Version) ReservationComments() bool { return v.AtLeast(24, 11, 0) }

// NamesCLIFilter is true when CliFilterParameters can name another script than cli_filter.lua
// beside slurm.conf.
func (v Version) NamesCLIFilter() bool { return v.AtLeast(25, 11, 0) }

var versionText = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(\d+)\.(\d+)\.(\d+)`) })

// ParseVersion finds the version in what a Slurm program prints about itself:
// "slurm-wlm 24.11.5", "slurm 25.11.0-0rc1", "22.05.8".
func ParseVersion(text string) (Version, error) {
	parts := versionText().FindStringSubmatch(text)
	if parts == nil {
		return Version{}, fmt.Errorf("no Slurm version in %s", quote(text))
	}
	var numbers [3]int
	for i, part := range parts[1:] {
		n, err := strconv.Atoi(part)
		if err != nil {
			return Version{}, fmt.Errorf("the Slurm version in %s: %w", quote(text), err)
		}
		numbers[i] = n
	}
	return Version{numbers[0], numbers[1], numbers[2]}, nil
}

// Version returns the version of the installed commands, without asking
// slurmctld. slurmctld's own is in [Config]; it may be newer.
func (c *Client) Version(ctx context.Context) (Version, error) {
	out, err := c.run(ctx, "scontrol", "--version")
	if err != nil {
		return Version{}, fmt.Errorf("asking for Slurm's version: %w", err)
	}
	return ParseVersion(string(out))
}

// knownVersion is Version, asked for once.
func (c *Client) knownVersion(ctx context.Context) (Version, error) {
	if v := c.version.Load(); v != nil {
		return *v, nil
	}
	v, err := c.Version(ctx)
	if err == nil {
		c.version.Store(&v)
	}
	return v, err
}
