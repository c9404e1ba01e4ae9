package check

import (
	"slices"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Where Slurm takes --time-min as a soft limit, only a sync that runs keeps jobs from crossing a fence.
func TestSoftLimits(t *testing.T) {
	for parameters, warned := range map[string]bool{"": false, "bf_continue": false, "bf_continue,time_min_as_soft_limit": true} {
		r := run{slurmConfig: &slurm.Config{SchedulerParameters: strings.Split(parameters, ",")}}
		r.softLimits()
		if got := slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Check == "fences" && f.Status == Warn }); got != warned {
			t.Errorf("%q: %+v", parameters, r.Findings)
		}
	}
}
