package site

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/pcs"
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

// What jobs may run over their limits is said: that of a partition of ours, or else that of slurm.conf.
func TestOverTime(t *testing.T) {
	for name, c := range map[string]struct {
		of, partition capacity.Limit
		want          string
	}{
		"none":                 {capacity.Minutes(0), capacity.Limit{}, ""},
		"of slurm.conf":        {capacity.Minutes(10), capacity.Limit{}, "warn: OverTimeLimit lets jobs run 10 minutes over their limits, so that fences are that much earlier"},
		"of the partition":     {capacity.Minutes(0), capacity.Minutes(3), "warn: OverTimeLimit lets jobs run 3 minutes over their limits, so that fences are that much earlier"},
		"none of ours":         {capacity.NoLimit, capacity.Minutes(0), ""},
		"no limit ends a job":  {capacity.NoLimit, capacity.Limit{}, "fail: OverTimeLimit=UNLIMITED: no time limit ends a job, so that jobs run on until EC2 takes their nodes"},
		"not in our partition": {capacity.Minutes(5), capacity.NoLimit, "fail: OverTimeLimit=UNLIMITED: no time limit ends a job, so that jobs run on until EC2 takes their nodes"},
	} {
		r := run{slurmConfig: &slurm.Config{OverTime: c.of}, settings: capacity.Settings{Partitions: []capacity.PartitionSettings{{Name: "gpu"}}}}
		r.overTime([]capacity.SlurmPartition{{Name: "cpu", OverTime: capacity.Minutes(99)}, {Name: "gpu", OverTime: c.partition}})
		got := ""
		for _, f := range r.Findings {
			got += string(f.Status) + ": " + f.What
		}
		if got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// The fix is for what is wrong: PATH only where there is no scontrol.
func TestCommandsFix(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("asking: %w", exec.ErrNotFound), "PATH"},
		{errors.New("scontrol: error: s_p_parse_file: cannot stat file /etc/slurm/slurm.conf: No such file or directory, retrying in 1sec up to 60sec"), "put slurm.conf there"},
		{errors.New("fatal: Could not establish a configuration source"), "put slurm.conf there"},
		{errors.New("error while loading shared libraries: libslurmfull.so"), "mend what it says"},
	} {
		if got := commandsFix(c.err); !strings.Contains(got, c.want) {
			t.Errorf("%v: %s", c.err, got)
		}
	}
}

// A partition of the site with Nodes=ALL takes our nodes in, and its jobs with them.
func TestPartitionsWithOurNodes(t *testing.T) {
	settings := capacity.Settings{Partitions: []capacity.PartitionSettings{
		{Name: "gpu", Provider: capacity.ProviderEC2, Groups: []capacity.GroupSettings{{Name: "gpu", MaxNodes: 4, Slots: 1}}},
		{Name: "big", Provider: capacity.ProviderEC2, Groups: []capacity.GroupSettings{{Name: "big", Nodes: []string{"b1", "b2"}}}},
	}}
	for _, c := range []struct {
		name, nodes, cluster string
		jobsWithout          bool // -p
		want                 Status
		says, fix            string
	}{
		{name: "gpu", nodes: "gpu-[1-4]"},
		{name: "gpu", nodes: "cpu-1,gpu-[1-4]", jobsWithout: true},
		{name: "debug", nodes: "cpu-[1-2]", jobsWithout: true},
		{name: "debug", nodes: ""},
		{name: "debug", nodes: "b[1-2],cpu-[1-2],gpu-[1-4]", jobsWithout: true, want: Fail, says: "partition debug holds b[1-2],gpu-[1-4], which", fix: "write PartitionName=debug Nodes=cpu-[1-2] in slurm.conf"},
		{name: "debug", nodes: "cpu-1,gpu-2", want: Warn, says: "holds gpu-2, which", fix: "Nodes=cpu-1 in slurm.conf"},
		{name: "debug", nodes: "gpu-[1-4]", want: Warn, says: "holds gpu-[1-4], which", fix: "take PartitionName=debug out of slurm.conf"},
		{name: "gpu", nodes: "b1,gpu-1", want: Warn, says: "partition gpu holds b1, which", fix: "Nodes=gpu-1 in slurm.conf"},
		{name: "cpu", nodes: "cpu-1,gpu-1", cluster: "ml", want: Warn, says: "holds gpu-1, which", fix: "take their node groups out of queue cpu"},
	} {
		r := run{Sources: Sources{Config: &config.Config{Cluster: c.cluster}}, settings: settings}
		nodes, err := slurm.Expand(c.nodes)
		if err != nil {
			t.Fatal(err)
		}
		r.astray([]capacity.SlurmPartition{{Name: c.name, Nodes: nodes, Default: c.jobsWithout}})
		if c.want == "" {
			if len(r.Findings) > 0 {
				t.Errorf("%+v: %+v", c, r.Findings)
			}
			continue
		}
		if len(r.Findings) != 1 || r.Findings[0].Status != c.want || !strings.Contains(r.Findings[0].What, c.says) || !strings.Contains(r.Findings[0].Fix, c.fix) {
			t.Errorf("%+v: %+v", c, r.Findings)
		}
	}
}

// What slurmctld says of its version counts before what AWS says of the cluster: the lab's AWS
// runs whatever Slurm this machine has.
func TestVersionsOfCommands(t *testing.T) {
	cluster := &pcs.Cluster{SlurmVersion: "25.05"}
	old, new := slurm.Version{Major: 22, Minor: 5, Micro: 8}, slurm.Version{Major: 25, Minor: 5, Micro: 3}
	for _, c := range []struct {
		commands slurm.Version
		running  *slurm.Config
		want     Status
	}{
		{old, &slurm.Config{Version: old}, OK},
		{old, &slurm.Config{Version: new}, Fail},
		{old, nil, Fail},
		{new, nil, OK},
	} {
		r := run{cluster: cluster, slurmConfig: c.running}
		r.versions(c.commands)
		if len(r.Findings) != 1 || r.Findings[0].Status != c.want {
			t.Errorf("%+v: %+v", c, r.Findings)
		}
	}
}
