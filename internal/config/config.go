// Package config reads pcs-capacity's settings: config.toml and, beside it, conf.d/*.toml, which may add partitions and
// nothing else. Every command and hook begins with [Load]; [Config.Domain] hands the settings to package capacity.
//
// Every setting has its default here, once. Decoding is strict: an unknown key is an error that names the file, the
// line and the nearest known key, and all errors come at once (validate.go). trust.go refuses files that others than
// root can change.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/agnivade/levenshtein"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// SystemPath is the path of the settings when nothing else says so.
const SystemPath = "/etc/pcs-capacity/config.toml"

// Config is all settings.
type Config struct {
	Region   string `toml:"region"`  // an AWS region; "" leaves it to the AWS SDK's own chain
	Cluster  string `toml:"cluster"` // the PCS cluster's name or id; "" for self-managed Slurm
	StateDir string `toml:"state_dir"`
	// LocalDir names the folder of what sync writes for slurmctld, on a disk of the controller's own. Used with
	// self-managed Slurm only.
	LocalDir string `toml:"local_dir"`

	Submit     Submit                       `toml:"submit"`
	Timing     Timing                       `toml:"timing"`
	Reserve    capacity.Reserve             `toml:"reserve"`
	Log        Log                          `toml:"log"`
	Notify     Notify                       `toml:"notify"`
	Partitions []capacity.PartitionSettings `toml:"partition"`

	Path string `toml:"-"` // the file that the settings were read from
	// Set are the first words of the keys that the file at Path sets: "region", "timing".
	Set []string `toml:"-"`
}

// Submit sets how strict the submission path is.
type Submit struct {
	Strict bool `toml:"strict"`
}

// Timing sets what happens when around the ends of a reservation.
type Timing struct {
	Poll          capacity.Duration `toml:"poll"`
	DrainMargin   capacity.Duration `toml:"drain_margin"`
	BootAllowance capacity.Duration `toml:"boot_allowance"`
	ReclaimLead   capacity.Duration `toml:"reclaim_lead"`
	// OverTime is Slurm's OverTimeLimit, which is read from Slurm and is no setting of ours.
	OverTime capacity.Duration `toml:"-"`
}

// Log names the folder to which hooks log, besides syslog.
type Log struct {
	Dir string `toml:"dir"`
}

// Notify names the program and the URL that get sync's notices.
type Notify struct {
	// Command is the path of a program that gets JSON, Webhook a URL, or file:///PATH of a file that has it; "" for
	// none.
	Command string `toml:"command"`
	Webhook string `toml:"webhook"`
}

// Default returns the settings of an empty file.
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
			// EC2 begins to terminate the instances of a block 30 minutes before its end: EC2 User Guide, "Capacity
			// Blocks".
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

		if g.OpenTest != "" && g.OpenTestLimit.Duration == 0 {
			g.OpenTestLimit.Duration = 10 * time.Minute
		}
	}
}

// Find returns the path of the settings: the file given, if any; else pcs-capacity/config.toml beside the file that
// SLURM_CONF names, if it is there (Slurm gives hooks no arguments of ours); else SystemPath.
func Find(given string) string {
	if given != "" {
		return given
	}

	if conf := os.Getenv("SLURM_CONF"); conf != "" {
		if path, there := pathBesideSlurm(conf); there {
			return path
		}
	}

	return SystemPath
}

// pathBesideSlurm returns the path of the settings beside a slurm.conf, and whether they are there.
func pathBesideSlurm(conf string) (path string, there bool) {
	path = filepath.Join(filepath.Dir(conf), "pcs-capacity", "config.toml")
	_, err := os.Stat(path)

	return path, err == nil
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

// Domain returns the settings that decisions depend on.
func (c *Config) Domain() capacity.Settings {
	return capacity.Settings{
		Cluster: c.Cluster,
		Timing:  c.Timing.Domain(),
		Reserve: c.Reserve,
		Submit: capacity.Submit{
			Strict:     c.Submit.Strict,
			StaleAfter: capacity.Duration{Duration: capacity.StaleAfter},
		},
		Partitions: c.Partitions,
	}
}

// Domain returns the timing that decisions depend on.
func (t Timing) Domain() capacity.Timing {
	return capacity.Timing{
		DrainMargin:   t.DrainMargin,
		BootAllowance: t.BootAllowance,
		ReclaimLead:   t.ReclaimLead,
		OverTime:      t.OverTime,
	}
}

// Load reads the file at path and conf.d/*.toml beside it. A missing file is an error that wraps fs.ErrNotExist; bad
// settings are one error that joins them all, and so are files that others own or could replace.
func Load(path string) (*Config, error) {
	c := Default()
	c.Path = path

	keys, errs := decode(path, c)
	for _, key := range keys {
		c.Set = append(c.Set, key[0])
	}

	if len(errs) == 1 && errors.Is(errs[0], fs.ErrNotExist) {
		return nil, fmt.Errorf("reading settings: %w; `pcs-capacity setup` writes the file, --config names another",
			errs[0])
	}

	for i := range c.Partitions {
		c.Partitions[i].File = path
	}

	// A file for each partition that setup wrote; an administrator may add others.
	more, err := filepath.Glob(filepath.Join(filepath.Dir(path), "conf.d", "*.toml"))
	if err != nil {
		errs = append(errs, err)
	}

	errs = append(errs, checkTrust(path, more)...)
	for _, file := range more {
		var fragment struct {
			Partitions []capacity.PartitionSettings `toml:"partition"`
		}

		_, bad := decode(file, &fragment)
		errs = append(errs, bad...)
		for _, p := range fragment.Partitions {
			p.File = file
			c.Partitions = append(c.Partitions, p)
		}
	}

	for i := range c.Partitions {
		applyDefaults(&c.Partitions[i])
	}

	// What is missing in a file that cannot be read would only be a second error.
	if len(errs) == 0 {
		errs = c.validate()
	}

	return c, errors.Join(errs...)
}

// decode reads one file into the value, strictly. keys are those that the file sets.
func decode(path string, into any) (keys []toml.Key, errs []error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, []error{err}
	}
	// An editor, cp or a full disk leaves an empty file for a moment. Who wants no settings at all names /dev/null.
	if strings.TrimSpace(string(text)) == "" && path != os.DevNull {
		return nil, []error{fmt.Errorf("%s is empty: restore it, or remove it", path)}
	}

	return decodeText(path, string(text), into)
}

// decodeText decodes the text of the file at path.
func decodeText(path, text string, into any) (keys []toml.Key, errs []error) {
	meta, err := toml.Decode(text, into)
	if err != nil {
		var parse toml.ParseError
		if errors.As(err, &parse) {
			// At the end of the file the library may give the number of the line before or after, even if there is
			// none.
			line := min(max(parse.Position.Line, 1), strings.Count(text, "\n")+1)
			return nil, []error{fmt.Errorf("%s:%d: %s", path, line, parse.Message)}
		}

		return nil, []error{fmt.Errorf("%s: %w", path, err)}
	}

	unknown := meta.Undecoded()
	for i, key := range meta.Keys() {
		if slices.ContainsFunc(unknown, func(u toml.Key) bool { return slices.Equal(u, key) }) {
			errs = append(errs, unknownKey(fmt.Sprintf("%s:%d", path, lineOf(text, i)), key, into))
		}
	}

	return meta.Keys(), errs
}

// unknownKey says which known key of the same table is nearest to one that is not known.
func unknownKey(place string, key toml.Key, into any) error {
	// A key of another table is more often misplaced than misspelt.
	known := keysAt(reflect.TypeOf(into), key[:len(key)-1])
	last := key[len(key)-1]
	hint := ""
	if table := tableOf(reflect.TypeOf(into), last); table != "" {
		hint = "; it belongs " + table
	} else if near := nearest(last, known); near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	} else if len(known) > 0 {
		hint = "; known here: " + strings.Join(known, ", ")
	}

	return fmt.Errorf("%s: unknown key %q%s", place, key.String(), hint)
}

// tableOf says in which table a key is known; "" for none.
func tableOf(t reflect.Type, key string) string {
	top := keysAt(t, nil)
	if slices.Contains(top, key) {
		return "at the top, before the first [table]"
	}

	// Of a key that both have, such as name, the partition's is meant.
	group := toml.Key{"partition", "node_group"}
	if slices.Contains(keysAt(t, group), key) && !slices.Contains(keysAt(t, group[:1]), key) {
		return "under [[" + group.String() + "]]"
	}

	for _, name := range top {
		if !slices.Contains(keysAt(t, toml.Key{name}), key) {
			continue
		}

		if name == group[0] {
			return "under [[" + name + "]]"
		}

		return "under [" + name + "]"
	}

	return ""
}

// keysAt lists the toml keys of the table that a path leads to.
func keysAt(t reflect.Type, path toml.Key) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}

	if t.Kind() != reflect.Struct {
		return nil
	}

	var names []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("toml"), ",")
		if name == "" || name == "-" {
			continue
		}

		if len(path) > 0 && path[0] == name {
			return keysAt(t.Field(i).Type, path[1:])
		}

		names = append(names, name)
	}

	if len(path) > 0 {
		return nil
	}

	return names
}

// lineOf returns the line on which the key begins that has so many before it. The toml library keeps positions to
// itself, so this reads ever more lines: the key comes after the last of them that are whole without it.
func lineOf(text string, before int) int {
	read := ""
	line := 1
	for n, next := range strings.SplitAfter(text, "\n") {
		read += next
		if meta, err := toml.Decode(read, new(any)); err == nil && len(meta.Keys()) <= before {
			line = n + 2
		}
	}

	return line
}

// nearest returns the known word that is at most a third of its letters away, or "".
func nearest(word string, known []string) string {
	best := ""
	bestDistance := len(word)/3 + 2
	for _, k := range known {
		if d := levenshtein.ComputeDistance(word, k); d < bestDistance {
			best = k
			bestDistance = d
		}
	}

	return best
}
