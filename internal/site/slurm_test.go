package site

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Where Slurm takes --time-min as a soft limit, only a sync that runs keeps jobs from crossing a fence.
func TestSoftLimits(t *testing.T) {
	for parameters, warned := range map[string]bool{"": false, "bf_continue": false, "bf_continue,time_min_as_soft_limit": true} {
		var f Findings
		r := Survey{Slurmctld: &slurm.Config{SchedulerParameters: strings.Split(parameters, ",")}}
		r.softLimits(&f)
		if got := slices.ContainsFunc(f, func(f Finding) bool { return f.Check == "fences" && f.Status == Warn }); got != warned {
			t.Errorf("%q: %+v", parameters, f)
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
		var f Findings
		r := Survey{Slurmctld: &slurm.Config{OverTime: c.of}, Settings: capacity.Settings{Partitions: []capacity.PartitionSettings{{Name: "gpu"}}}}
		r.Partitions.Is = []capacity.SlurmPartition{{Name: "cpu", OverTime: capacity.Minutes(99)}, {Name: "gpu", OverTime: c.partition}}
		r.overTime(&f)
		got := ""
		for _, f := range f {
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
		var f Findings
		r := Survey{Here: Here{Config: &config.Config{Cluster: c.cluster}}, Settings: settings}
		nodes, err := hostlist.Expand(c.nodes)
		if err != nil {
			t.Fatal(err)
		}
		r.Partitions.Is = []capacity.SlurmPartition{{Name: c.name, Nodes: nodes, Default: c.jobsWithout}}
		r.astray(&f)
		if c.want == "" {
			if len(f) > 0 {
				t.Errorf("%+v: %+v", c, f)
			}
			continue
		}
		if len(f) != 1 || f[0].Status != c.want || !strings.Contains(f[0].What, c.says) || !strings.Contains(f[0].Fix, c.fix) {
			t.Errorf("%+v: %+v", c, f)
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
		var f Findings
		r := Survey{Site: Site{Inventory: pcs.Inventory{Cluster: *cluster}}, Slurmctld: c.running, Commands: Read[slurm.Version]{Is: c.commands}}
		r.versions(&f)
		if len(f) != 1 || f[0].Status != c.want {
			t.Errorf("%+v: %+v", c, f)
		}
	}
}

// srun of 22.05 gives up by the times of the cluster, which hooks install leaves alone.
func TestShortWaits(t *testing.T) {
	for _, c := range []struct {
		version         string
		resume, suspend time.Duration
		found           int
	}{
		{"slurm 22.05.8", time.Minute, 30 * time.Second, 1},
		{"slurm 22.05.8", 3 * time.Minute, 30 * time.Second, 0},
		{"slurm 24.11.5", time.Minute, 30 * time.Second, 0},
	} {
		version, err := slurm.ParseVersion(c.version)
		if err != nil {
			t.Fatal(err)
		}
		var f Findings
		r := Survey{Settings: capacity.Settings{Partitions: []capacity.PartitionSettings{{Provider: capacity.ProviderEC2}}, Timing: capacity.Timing{BootAllowance: capacity.Duration{Duration: 15 * time.Minute}}},
			Slurmctld: &slurm.Config{Version: version, ResumeTimeout: c.resume, SuspendTimeout: c.suspend}}
		if r.shortWaits(&f); len(f) != c.found || c.found > 0 && !strings.Contains(f[0].What, "450 s") {
			t.Errorf("%+v: %+v", c, f)
		}
	}
}

// Nodes that ask slurmctld for slurm.conf get it only if it hands it out.
func TestConfigless(t *testing.T) {
	asks := capacity.LaunchTemplate{Name: "gpu", UserData: []byte("exec slurmd --conf-server head\n")}
	for _, c := range []struct {
		template capacity.LaunchTemplate
		running  *slurm.Config
		found    int
	}{
		{asks, &slurm.Config{}, 1},
		{asks, &slurm.Config{SlurmctldParameters: []string{"idle_on_node_suspend", "enable_configless"}}, 0},
		{asks, nil, 0},
		{capacity.LaunchTemplate{}, &slurm.Config{}, 0},
	} {
		s := Survey{Slurmctld: c.running, Templates: map[string]Read[*capacity.LaunchTemplate]{"gpu": {Is: &c.template}}, Settings: capacity.Settings{Partitions: []capacity.PartitionSettings{
			{Name: "gpu", Provider: capacity.ProviderEC2, Groups: []capacity.GroupSettings{{Name: "gpu", LaunchTemplate: "gpu"}}}}}}
		if got := judged(&s, (*Survey).templates); strings.Count(got, "fail configless") != c.found {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func TestParallelClusterFences(t *testing.T) {
	const cookbook, static, dynamic = "aws-parallelcluster-cookbook-", "gpu-st-p5-1", "gpu-dy-p5-1"
	for name, c := range map[string]struct {
		version, resume string
		provider        capacity.Provider
		node            string
		want            Status // "" for nothing
		says            string
	}{
		"no ParallelCluster":        {"", "/usr/libexec/pcs-capacity/pcs-capacity-resume", "ec2", static, "", ""},
		"before Capacity Blocks":    {cookbook + "3.7.2", "", "ec2", static, OK, "ParallelCluster 3.7.2"},
		"the first":                 {cookbook + "3.8.0\n", "", "ec2", static, Fail, "ParallelCluster 3.8.0 ends a static node that boots under a fence of partition gpu"},
		"in between":                {cookbook + "3.10.1", "", "ec2", static, Fail, "for ever: gpu-st-p5-1"},
		"the last":                  {cookbook + "3.15.1", "", "ec2", static, Fail, ""},
		"mended":                    {cookbook + "3.15.2", "", "ec2", static, OK, ""},
		"later":                     {cookbook + "3.16.0", "", "ec2", static, OK, ""},
		"dynamic nodes":             {cookbook + "3.10.1", "", "ec2", dynamic, OK, ""},
		"a guest":                   {cookbook + "3.10.1", "", "none", static, OK, "ParallelCluster 3.10.1 leaves nodes under our fences alone"},
		"a version that is not one": {"yes", "", "ec2", static, Warn, "of an unknown version"},
		"only slurmctld says so":    {"", "/opt/parallelcluster/scripts/slurm/slurm_resume", "ec2", static, Warn, "of an unknown version"},
	} {
		t.Run(name, func(t *testing.T) {
			var f Findings
			r := Survey{ParallelCluster: parallelCluster{c.version != "", c.version}, Slurmctld: &slurm.Config{ResumeProgram: c.resume},
				Settings:   capacity.Settings{Partitions: []capacity.PartitionSettings{{Name: "gpu", Provider: c.provider}}},
				Partitions: Read[[]capacity.SlurmPartition]{Is: []capacity.SlurmPartition{{Name: "gpu", Nodes: []string{c.node}}}}}
			r.parallelClusterFences(&f)
			switch {
			case c.want == "" && len(f) == 0:
			case len(f) != 1 || f[0].Status != c.want || !strings.Contains(f[0].What, c.says):
				t.Errorf("%+v", f)
			case c.want != OK && !strings.Contains(f[0].Fix, `provider = "none"`):
				t.Errorf("the fix is %q", f[0].Fix)
			}
		})
	}
}

// TestLasting: what check says of the file system of state_dir.
func TestLasting(t *testing.T) {
	disk := state.Mount{Point: "/", Type: "xfs", Source: "/dev/nvme0n1p1"}
	for name, c := range map[string]struct {
		mount    state.Mount
		replaced bool
		status   Status
		says     string
	}{
		"EFS":               {state.Mount{Point: "/efs", Type: "nfs4", Source: "fs-0.efs.us-east-2.amazonaws.com:/"}, false, OK, "is on nfs4 of fs-0.efs.us-east-2.amazonaws.com:/, and outlives this host"},
		"FSx for Lustre":    {state.Mount{Point: "/fsx", Type: "lustre", Source: "10.0.0.1@tcp:/a"}, false, OK, "outlives this host"},
		"a bucket":          {state.Mount{Point: "/s3", Type: "fuse.mount-s3", Source: "mountpoint-s3"}, false, Warn, "locking may not work there"},
		"memory":            {state.Mount{Point: "/run", Type: "tmpfs", Source: "tmpfs"}, true, Warn, "end with the next boot"},
		"a login node":      {disk, true, Warn, "xfs at /, a disk of a host that PCS replaces when it is unhealthy, if it has launched it: the record of purchases and the samples of report would end with it"},
		"a controller":      {disk, false, OK, "ends with this host"},
		"no mountinfo here": {state.Mount{}, false, Warn, "an unrecognized file system"},
	} {
		var f Findings
		r := Survey{Here: Here{Config: &config.Config{StateDir: "/s"}}, Mount: c.mount}
		if c.replaced {
			r.Config.Cluster = "ml"
		}
		if r.outlives(&f); len(f) != 1 || f[0].Status != c.status || !strings.Contains(f[0].What, c.says) || (f[0].Fix == "") != (c.status == OK) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// A backup of slurmctld sees state_dir only on a shared file system.
func TestBackedUp(t *testing.T) {
	for fix, m := range map[string]state.Mount{shareIt: {Point: "/", Type: "xfs", Source: "/dev/nvme0n1p1"}, "": {Point: "/efs", Type: "nfs4", Source: "efs:/"}} {
		var f Findings
		r := Survey{Here: Here{Config: &config.Config{StateDir: "/s"}}, Mount: m, Slurmctld: &slurm.Config{Backups: []string{"head2"}},
			Settings: capacity.Settings{Partitions: []capacity.PartitionSettings{{Provider: capacity.ProviderEC2}}}}
		if r.outlives(&f); len(f) != 2 || f[1].Fix != fix || !strings.Contains(f[1].What, "head2 takes slurmctld over") {
			t.Errorf("%s: %+v", m, f)
		}
	}
}

// What the shell of whoever runs check has of AWS tells nothing about hooks.
func TestHookAccess(t *testing.T) {
	cfg := config.Default()
	cfg.Path = "/etc/pcs-capacity/config.toml"
	for _, c := range []struct {
		last    *state.HookAccess
		account string // of whoever runs check
		want    Status
		says    string
	}{
		{nil, "", "", ""},
		{&state.HookAccess{Without: "there are no AWS credentials"}, "111122223333", Fail, "had no AWS credentials"},
		{&state.HookAccess{}, "111122223333", OK, "had AWS credentials"},
		{&state.HookAccess{Source: "EC2RoleProvider"}, "111122223333", OK, "(EC2RoleProvider)"},
		{&state.HookAccess{Account: "111122223333", Source: "EnvConfigCredentials"}, "111122223333", OK, "of account 111122223333 (EnvConfigCredentials)"},
		{&state.HookAccess{Account: "111122223333"}, "", OK, "of account 111122223333"},
		{&state.HookAccess{Account: "444455556666", Source: "EC2RoleProvider"}, "111122223333", Warn, "of account 444455556666 (EC2RoleProvider), and this command those of account 111122223333"},
	} {
		var f Findings
		r := Survey{Here: Here{Config: cfg}, LastHook: Read[*state.HookAccess]{Is: c.last}, Account: c.account, Settings: capacity.Settings{Partitions: []capacity.PartitionSettings{{Name: "gpu", Provider: capacity.ProviderEC2}}}}
		r.hookAccess(&f)
		switch {
		case c.want == "" && len(f) == 0:
		case len(f) != 1 || f[0].Status != c.want || !strings.Contains(f[0].What, c.says):
			t.Errorf("%+v: %+v", c.last, f)
		case c.want == Fail && !strings.Contains(f[0].Fix, "/etc/pcs-capacity/environment"):
			t.Errorf("the fix is %s", f[0].Fix)
		}
	}
}
