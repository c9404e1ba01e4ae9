package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Follow reports why a running program keeps the settings in was instead of these. A setting that has disappeared is
// more often a half-written file than a wish for the default, and the default would move fences. state_dir and cluster
// change only with a restart, because state and job records depend on them.
func (c *Config) Follow(was *Config) error {
	var errs []error
	for _, key := range []string{"region", "cluster", "state_dir", "timing"} {
		if slices.Contains(was.Set, key) && !slices.Contains(c.Set, key) {
			errs = append(errs,
				fmt.Errorf("%s has lost %s: restore it, or restart sync to go on without it", c.Path, key))
		}
	}

	if len(c.Partitions) == 0 && slices.ContainsFunc(was.Partitions, hasFile) {
		errs = append(errs, fmt.Errorf(
			"%s and conf.d have lost all partitions: restore them, or restart sync to go on without any", c.Path))
	}

	// One that is lost has been named above.
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

// hasFile reports whether the file that had a partition still exists. Teardown removes the file of its partition.
func hasFile(p capacity.PartitionSettings) bool {
	_, err := os.Stat(p.File)
	return err == nil
}
