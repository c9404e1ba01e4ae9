package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Follow reports why a running program does not go on with these settings after those of was. A setting that a file
// has lost is more often a file half written than a wish for the default, and the default would move fences. What the
// state and the marks of jobs depend on changes with a restart only.
func (c *Config) Follow(was *Config) error {
	var errs []error
	for _, key := range []string{"region", "cluster", "state_dir", "timing"} {
		if slices.Contains(was.Set, key) && !slices.Contains(c.Set, key) {
			errs = append(errs,
				fmt.Errorf("%s has lost %s: restore it, or restart sync to go on without it", c.Path, key))
		}
	}

	if len(c.Partitions) == 0 && slices.ContainsFunc(was.Partitions, stillThere) {
		errs = append(errs, fmt.Errorf(
			"%s and conf.d have lost all partitions: restore them, or restart sync to go on without any", c.Path))
	}

	for _, s := range []struct{ key, was, is string }{
		{"cluster", was.Cluster, c.Cluster},
		{"state_dir", was.StateDir, c.StateDir},
	} {
		if len(errs) == 0 && s.is != s.was {
			errs = append(errs, fmt.Errorf("%s has changed from %s to %s: restart sync to use it", s.key,
				cmp.Or(s.was, "none"), cmp.Or(s.is, "none")))
		}
	}

	return errors.Join(errs...)
}

// stillThere reports whether the file is there that had a partition. Teardown removes the file of its partition.
func stillThere(p capacity.PartitionSettings) bool {
	_, err := os.Stat(p.File)
	return err == nil
}
