package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/hooks/submit"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// environment makes the product find the lab instead of AWS.
func (l *lab) environment() []string {
	env := append(l.sim.Env(), "AWS_EC2_METADATA_DISABLED=true") // the machine may be a real instance
	if l.Plain {
		return env // Slurm is elsewhere
	}

	return append(env, "SLURM_CONF="+l.path("etc", "slurm.conf"))
}

// writeEnv writes DIR/env, to be sourced by a shell.
func (l *lab) writeEnv() error {
	var b strings.Builder
	b.WriteString("# Source this to talk to the lab.\n")
	// Either would send calls elsewhere.
	b.WriteString("unset AWS_PROFILE AWS_SESSION_TOKEN AWS_IGNORE_CONFIGURED_ENDPOINT_URLS\n")
	b.WriteString(exports(l.environment()))
	fmt.Fprintf(&b, "export PATH=%s:%s:\"$PATH\"\n", shellQuote(l.path("bin")), shellQuote(l.Bin))

	return os.WriteFile(l.envFile(), []byte(b.String()), 0o644)
}

// program returns the path of a program that Slurm calls: beside the product's command, or where a package has it.
func (l *lab) program(name string) string {
	packaged := filepath.Join(l.Bin, "../libexec/pcs-capacity", name)
	if _, err := os.Stat(packaged); err == nil {
		return packaged
	}

	return filepath.Join(l.Bin, name)
}

// prologs returns the lines of slurm.conf that make the product's program Prolog and TaskProlog.
// Without it the lab runs without them. Every instance has its metadata at one address; here
// all of them are one machine, so that a wrapper says where those of the node are.
func (l *lab) prologs() ([]string, error) {
	program := l.program("pcs-capacity-prolog")
	if _, err := os.Stat(program); err != nil {
		l.log.Warn("no Prolog: the product's program is not there", "path", program)
		return nil, nil
	}

	wrapper := l.path("hooks", "pcs-capacity-prolog")
	text := fmt.Sprintf("#!/bin/sh\n# Stands for the address at which a real instance finds its metadata.\n"+
		"read -r AWS_EC2_METADATA_SERVICE_ENDPOINT <\"%s\" && export AWS_EC2_METADATA_SERVICE_ENDPOINT\nexec %s\n",
		metadataFile(l.Dir, "$SLURMD_NODENAME"), shellQuote(program))
	// The TaskProlog runs as the job's user, who may not reach a program that was built in
	// somebody's folder; Slurm fails tasks whose TaskProlog does not start.
	task := l.path("hooks", "pcs-capacity-taskprolog")
	taskText := fmt.Sprintf("#!/bin/sh\n[ -x %[1]s ] || exit 0\nexec %[1]s\n", shellQuote(program))
	if err := errors.Join(os.WriteFile(wrapper, []byte(text), 0o755),
		os.WriteFile(task, []byte(taskText), 0o755)); err != nil {
		return nil, err
	}

	return []string{"PrologFlags=Alloc", "Prolog=" + wrapper, "TaskProlog=" + task}, nil
}

// writeProductConfig writes config.toml where the product looks first: in pcs-capacity/ beside slurm.conf. The lab's
// blocks are minutes long, so everything is.
func (l *lab) writeProductConfig(cluster string) error {
	text := fmt.Sprintf(`# Written by capacity-lab up.
region = %q
cluster = %q
state_dir = %q
local_dir = %q

[timing]
poll = "2s"
drain_margin = "30s"
boot_allowance = "30s"
reclaim_lead = %q

[log]
dir = %q
`, l.region(), cluster, l.path("state-pcs-capacity"), l.path("local-pcs-capacity"),
		time.Duration(l.scenario.ReclaimLead), l.path("log"))

	return os.WriteFile(l.path("etc", "pcs-capacity", "config.toml"), []byte(text), 0o644)
}

// cliFilter returns the product's Lua shim; "" without the product's filter. PCS has no job_submit: AWS PCS User Guide,
// "Slurm CLI filter plugins".
func (l *lab) cliFilter() string {
	filter := l.program("pcs-capacity-filter")
	shared := l.path("state-pcs-capacity")
	if _, err := os.Stat(filter); err != nil {
		l.log.Warn("no Lua hook: the product's filter is not there", "path", filter)
		return ""
	}

	return submit.CLIFilter(state.Dir(shared).RosterPath(), shared, filter)
}
