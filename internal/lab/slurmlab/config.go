package slurmlab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// Config says what a cluster looks like. Only Dir is required.
type Config struct {
	// Dir holds every file of the cluster. Unix sockets below it limit its
	// length to about 50 bytes, less with long node names.
	Dir string

	// Accounting runs slurmdbd on a MariaDB of the cluster's own: with AccountingStorageEnforce=associations a job runs
	// under an account that sacctmgr gave its user, and nobody but root has one at first. Every Start begins with an
	// empty database, which takes about three seconds.
	Accounting bool

	// Static nodes are started with the cluster and never powered down.
	// Default: static-1 with 4 CPUs in the default partition "static".
	Static NodeGroup

	CloudGroups []NodeGroup // nodes that Slurm powers up for a job

	// Partitions has the settings of partitions, such as "MaxTime=60 AllowAccounts=nlp", by name. Groups name them too.
	Partitions map[string]string

	// Absolute paths of what Slurm runs to power nodes up and down. Slurm gives them no environment but SLURM_CONF, no
	// PATH, and on 22.05 no open file descriptors.
	ResumeProgram     string
	SuspendProgram    string
	ResumeFailProgram string

	// Resume and Suspend are called instead if ResumeProgram is empty, each call on a goroutine of its own; ctx ends
	// with Stop. nil: the slurmd runs on this machine, see StartNode.
	Resume  func(ctx context.Context, nodes []string)
	Suspend func(ctx context.Context, nodes []string)

	GresConf string // Text of gres.conf; empty: a line for each group with GPUs

	CLIFilterLua string // Text of cli_filter.lua and job_submit.lua; empty: no such plugin
	JobSubmitLua string

	// Rounded up to seconds. Defaults: 60 s, 5 s, 300 s.
	ResumeTimeout  time.Duration // a node that has not registered by then is down
	SuspendTimeout time.Duration // from SuspendProgram until a node may be used again
	SuspendTime    time.Duration // idle time before a cloud node is powered down

	// Extra lines of slurm.conf, such as "KillWait=5". They replace the
	// lab's own line of the same key, and "KEY=" leaves it out.
	Extra []string
}

// NodeGroup is a range of equal nodes, named Prefix1 to PrefixCount.
type NodeGroup struct {
	Prefix    string // such as "gpu-"
	Count     int
	CPUs      int    // default 4; more than the machine has is fine
	MemoryMB  int    // default 1000; nothing enforces it
	GPUs      int    // fake ones: copies of /dev/null
	Features  string // separated by commas
	Partition string // partitions that it is in, separated by commas
	Options   string // further settings of NodeName, such as "Weight=10"

	AlwaysOn bool // exempts the nodes from SuspendTime; Slurm then powers them down on request only
}

// Name returns the name of the group's i-th node; the first is 1.
func (g NodeGroup) Name(i int) string { return fmt.Sprintf("%s%d", g.Prefix, i) }

// Hostlist returns all nodes of the group in Slurm's notation.
func (g NodeGroup) Hostlist() string {
	if g.Count == 1 {
		return g.Name(1)
	}
	return fmt.Sprintf("%s[1-%d]", g.Prefix, g.Count)
}

// sunPathMax bounds the path of a unix socket, with its final zero: unix(7).
const sunPathMax = 108

func (cfg Config) withDefaults() (Config, error) {
	if cfg.Dir == "" {
		return cfg, errors.New("slurmlab: Config.Dir is empty")
	}

	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return cfg, err
	}
	// One folder must have one name: processes are recognised by it.
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}

	cfg.Dir = dir
	cfg.Static.Prefix, cfg.Static.Partition = cmp.Or(
		cfg.Static.Prefix,
		"static-",
	), cmp.Or(
		cfg.Static.Partition,
		"static",
	)

	cfg.Static.AlwaysOn = true
	cfg.Static = cfg.Static.withDefaults()
	groups := make([]NodeGroup, len(cfg.CloudGroups))
	for i, group := range cfg.CloudGroups {
		groups[i] = group.withDefaults()
	}

	cfg.CloudGroups = groups
	cfg.ResumeTimeout = cmp.Or(cfg.ResumeTimeout, 60*time.Second)
	cfg.SuspendTimeout = cmp.Or(cfg.SuspendTimeout, 5*time.Second)
	cfg.SuspendTime = cmp.Or(cfg.SuspendTime, 300*time.Second)

	return cfg, cfg.validate()
}

func (g NodeGroup) withDefaults() NodeGroup {
	g.Count = cmp.Or(g.Count, 1)
	g.CPUs = cmp.Or(g.CPUs, 4)
	g.MemoryMB = cmp.Or(g.MemoryMB, 1000)
	return g
}

func (cfg Config) validate() error {
	seen := map[string]bool{}
	for _, group := range cfg.groups() {
		if group.Prefix == "" || seen[group.Prefix] {
			return fmt.Errorf("slurmlab: node group prefix %q is empty or used twice", group.Prefix)
		}

		seen[group.Prefix] = true
		node := group.Name(group.Count)

		socket := filepath.Join(cfg.Dir, "spool", node, node+"_12345678.4294967291")
		if len(socket) >= sunPathMax {
			return fmt.Errorf(
				"slurmlab: %s is too long a folder: slurmd's socket %s would have %d bytes, %d are allowed",
				cfg.Dir,
				socket,
				len(socket),
				sunPathMax-1,
			)
		}
	}

	return nil
}

// groups returns the static group and then the cloud groups.
func (cfg Config) groups() []NodeGroup {
	return append([]NodeGroup{cfg.Static}, cfg.CloudGroups...)
}

// nodes returns the names of all nodes.
func (cfg Config) nodes() (names []string) {
	for _, group := range cfg.groups() {
		for i := 1; i <= group.Count; i++ {
			names = append(names, group.Name(i))
		}
	}

	return names
}
