package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/wiring"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// slurmSettings are those of slurm.conf, beside what slurmctld runs with: it may not have been
// restarted since they were written, when a run of ours was cut off.
func slurmSettings(ctx context.Context, cfg *config.Config, conf string, installed bool) wiring.Settings {
	s := wiring.Settings{Conf: conf}
	running, ours, err := runsOurs(ctx, cfg)
	if err == nil {
		s.Restarts = sameFile(running, conf)
		s.Pending = s.Restarts && ours != installed
	}
	return s
}

// runsOurs reports whether slurmctld runs with our settings, and which slurm.conf it has.
func runsOurs(ctx context.Context, cfg *config.Config) (conf string, ours bool, err error) {
	client := &slurm.Client{}
	running, err := client.Config(ctx)
	if err != nil {
		return "", false, err
	}
	if filepath.Base(running.ResumeProgram) != "pcs-capacity-resume" || !slices.Contains(running.JobSubmitPlugins, "lua") {
		return running.ConfPath, false, nil
	}
	partitions, err := client.Partitions(ctx)
	if err != nil {
		return "", false, err
	}
	for _, p := range cfg.Partitions {
		if !slices.ContainsFunc(partitions, func(there slurm.Partition) bool { return there.Name == p.Name }) {
			return running.ConfPath, false, nil
		}
	}
	return running.ConfPath, true, nil
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
			return fmt.Errorf("slurmctld after its restart: %w; see its log, and take the settings back with `pcs-capacity hooks remove` if it does not start", err)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// switchedOff refuses to take a script away that Slurm is told to run.
func switchedOff(ctx context.Context, hook string) error {
	running, err := (&slurm.Client{}).Config(ctx)
	if err != nil {
		return fmt.Errorf("whether Slurm runs the script is not known: %w", err)
	}
	key, plugins := "CliFilterPlugins", running.CliFilterPlugins
	if hook == wiring.JobSubmit {
		key, plugins = "JobSubmitPlugins", running.JobSubmitPlugins
	}
	for _, one := range plugins {
		if one == "lua" {
			return fmt.Errorf("%s=lua is set, so that Slurm would refuse every submission without the script; take that out first, with `pcs-capacity hooks remove settings` if install wrote it", key)
		}
	}
	return nil
}
