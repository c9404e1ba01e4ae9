// Package config reads pcs-capacity's settings: config.toml and, beside it, conf.d/*.toml, which may add partitions and
// nothing else. Every setting has its default here, once. Decoding is strict: a key that is not known is an error that
// names the file, the line and the nearest known key, and all errors come at once.
package config

import (
	"os"
	"path/filepath"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// SystemPath is where the settings are when nothing else says so.
const SystemPath = "/etc/pcs-capacity/config.toml"

// Config is all settings.
type Config struct {
	// Region is an AWS region; "" leaves it to the AWS SDK's own chain.
	Region string `toml:"region"`
	// Cluster is the PCS cluster's name or id; "" for self-managed Slurm.
	Cluster  string `toml:"cluster"`
	StateDir string `toml:"state_dir"`
	// LocalDir is where sync keeps what slurmctld reads, on a disk of the controller's
	// own. Used with self-managed Slurm only.
	LocalDir string `toml:"local_dir"`

	Submit     Submit                       `toml:"submit"`
	Timing     Timing                       `toml:"timing"`
	Reserve    capacity.Reserve             `toml:"reserve"`
	Log        Log                          `toml:"log"`
	Notify     Notify                       `toml:"notify"`
	Partitions []capacity.PartitionSettings `toml:"partition"`

	// Path is the file that the settings were read from.
	Path string `toml:"-"`
}

// Submit is how strict the submission path is.
type Submit struct {
	Strict bool `toml:"strict"`
}

// Timing is what happens when around the ends of a reservation.
type Timing struct {
	Poll          capacity.Duration `toml:"poll"`
	DrainMargin   capacity.Duration `toml:"drain_margin"`
	BootAllowance capacity.Duration `toml:"boot_allowance"`
	ReclaimLead   capacity.Duration `toml:"reclaim_lead"`
}

// Log is where hooks log to, besides syslog.
type Log struct {
	Dir string `toml:"dir"`
}

// Notify is whom sync tells what people want to know.
type Notify struct {
	// Command is the path of a program that gets JSON, Webhook a URL; "" for none.
	Command string `toml:"command"`
	Webhook string `toml:"webhook"`
}

// Default is the settings of an empty file.
func Default() *Config {
	d := func(d time.Duration) capacity.Duration { return capacity.Duration{Duration: d} }
	return &Config{
		StateDir: "/var/lib/pcs-capacity",
		LocalDir: "/var/cache/pcs-capacity",
		Submit:   Submit{Strict: true},
		Timing: Timing{
			Poll:          d(60 * time.Second),
			DrainMargin:   d(10 * time.Minute),
			BootAllowance: d(10 * time.Minute),
			// EC2 begins to terminate the instances of a block 30 minutes before its end: EC2 User Guide, "Capacity Blocks".
			ReclaimLead: d(30 * time.Minute),
		},
		Log: Log{Dir: "/var/log/pcs-capacity"},
	}
}

// The defaults of a partition and a node group, for what is left out.
func applyDefaults(p *capacity.PartitionSettings) {
	if p.MinTime.Duration == 0 {
		p.MinTime.Duration = 30 * time.Minute
	}
	if p.OnEnd == "" {
		p.OnEnd = capacity.StopAtEnd
	}
	for i := range p.Groups {
		g := &p.Groups[i]
		if g.PurchaseOption == "" {
			g.PurchaseOption = capacity.CapacityBlock
		}
	}
}

// Find is where the settings are: the file given, if any; else pcs-capacity/config.toml beside the file that SLURM_CONF
// names, if it is there (Slurm gives hooks no arguments of ours); else SystemPath.
func Find(given string) string {
	if given != "" {
		return given
	}
	if conf := os.Getenv("SLURM_CONF"); conf != "" {
		path := filepath.Join(filepath.Dir(conf), "pcs-capacity", "config.toml")
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return SystemPath
}

// Partition finds a partition by name. Where c is nil there is none.
func (c *Config) Partition(name string) (capacity.PartitionSettings, bool) {
	if c == nil {
		return capacity.PartitionSettings{}, false
	}
	for _, p := range c.Partitions {
		if p.Name == name {
			return p, true
		}
	}
	return capacity.PartitionSettings{}, false
}

// Domain is the settings that decisions depend on.
func (c *Config) Domain() capacity.Settings {
	return capacity.Settings{Cluster: c.Cluster, Timing: c.Timing.Domain(), Reserve: c.Reserve,
		Submit: capacity.Submit{Strict: c.Submit.Strict, StaleAfter: capacity.Duration{Duration: capacity.StaleAfter}}, Partitions: c.Partitions}
}

// Domain is the timing that decisions depend on.
func (t Timing) Domain() capacity.Timing {
	return capacity.Timing{DrainMargin: t.DrainMargin, BootAllowance: t.BootAllowance, ReclaimLead: t.ReclaimLead}
}
