package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/wiring"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// slurmSettings are those of slurm.conf, beside what slurmctld runs with: it may not have been
// restarted since they were written, when a run of ours was cut off.
func slurmSettings(ctx context.Context, cfg *config.Config, site wiring.Site, installed, force bool) wiring.Settings {
	s := wiring.Settings{Site: site, Force: force}
	running, ours, err := runsOurs(ctx, cfg)
	if err == nil {
		s.Slurm = slurm.New(cfg.Cluster)
		s.Restarts = sameFile(running.ConfPath, site.Conf)
		s.Pending = s.Restarts && ours != installed
		if !installed { // whatever partitions it has, a script that it runs has to stay
			s.Pending = s.Restarts && slices.Contains(running.JobSubmitPlugins, "lua")
		}
	}
	return s
}

// runsOurs is what slurmctld runs with, and whether that is our settings.
func runsOurs(ctx context.Context, cfg *config.Config) (running slurm.Config, ours bool, err error) {
	client := slurm.New(cfg.Cluster)
	running, err = client.Config(ctx)
	if err != nil {
		return running, false, err
	}
	launches := !cfg.Domain().Guest()
	if launches && filepath.Base(running.ResumeProgram) != "pcs-capacity-resume" || !slices.Contains(running.JobSubmitPlugins, "lua") {
		return running, false, nil
	}
	partitions, err := client.Partitions(ctx)
	if err != nil {
		return running, false, err
	}
	for _, p := range cfg.Partitions {
		if p.Provider.Launches() && !slices.ContainsFunc(partitions, func(there capacity.SlurmPartition) bool { return there.Name == p.Name }) {
			return running, false, nil
		}
	}
	return running, true, nil
}

func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	other, otherErr := os.Stat(b)
	return err == nil && otherErr == nil && os.SameFile(one, other)
}

// restartTime is how long slurmctld may take to answer after its restart.
const restartTime = 30 * time.Second

// restarted waits until slurmctld answers, with the settings if they are installed.
func restarted(ctx context.Context, cfg *config.Config, installed bool) error {
	ctx, cancel := context.WithTimeout(ctx, restartTime)
	defer cancel()
	for {
		_, ours, err := runsOurs(ctx, cfg)
		if err == nil && (ours || !installed) { // slurm.conf may have them by hand as well
			return nil
		}
		select {
		case <-ctx.Done():
			if err == nil {
				err = errors.New("it has other settings than were written")
			}
			return fmt.Errorf(
				"slurmctld after its restart: %w; see its log, and take the settings back with `pcs-capacity hooks remove` if it does not start",
				err)
		case <-time.After(500 * time.Millisecond):
		}
	}
}
