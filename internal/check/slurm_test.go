package check

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/facts"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// row is a survey, and what a judgement finds in it: "" for nothing, else the severity of one problem, and words of it.
type row struct {
	name   string
	survey facts.Survey
	want   capacity.Severity
	says   string
	fix    string // words of the fix
}

// judge judges rows.
func judge(t *testing.T, judgement func(survey, *findings), rows []row) {
	t.Helper()

	for _, r := range rows {
		var f findings

		if r.survey.Config == nil {
			r.survey.Config = &config.Config{StateDir: "/s", Path: "/etc/pcs-capacity/config.toml"}
		}

		judgement(survey{&r.survey}, &f)

		switch {
		case r.want == "" && len(f.Problems) == 0:
		case len(f.Problems) != 1 || f.Problems[0].Severity != r.want ||
			!strings.Contains(f.Problems[0].Sentence, r.says) || !strings.Contains(f.Problems[0].Fix, r.fix) ||
			(f.Problems[0].Fix == "") != (r.want == capacity.Good):
			t.Errorf("%s: %+v", r.name, f)
		}
	}
}

// onEC2 are settings of self-managed Slurm.
var onEC2 = capacity.Settings{Partitions: []capacity.PartitionSettings{{Name: "gpu", Provider: capacity.ProviderEC2}}}

func partitions(all ...capacity.SlurmPartition) facts.Answer[[]capacity.SlurmPartition] {
	return facts.Answer[[]capacity.SlurmPartition]{Value: all}
}

// Where Slurm takes --time-min as a soft limit, only a sync that runs keeps jobs from crossing a fence.
func TestSoftLimits(t *testing.T) {
	with := func(parameters string) facts.Survey {
		return facts.Survey{SlurmSurvey: facts.SlurmSurvey{Slurmctld: &slurm.Config{
			Version:             slurm.Version{Major: 25, Minor: 11},
			SchedulerParameters: strings.Split(parameters, ","),
		}}}
	}
	judge(t, survey.checkSoftLimits, []row{
		{"none", with(""), "", "", ""},
		{"another", with("bf_continue"), "", "", ""},
		{
			"soft",
			with("bf_continue,time_min_as_soft_limit"),
			capacity.Note,
			"starts a job with --time-min through a fence",
			"sync --watch",
		},
		{
			"before 25.05.3",
			facts.Survey{
				SlurmSurvey: facts.SlurmSurvey{Slurmctld: &slurm.Config{Version: slurm.Version{Major: 24, Minor: 11}}},
			},
			capacity.Note,
			"cuts jobs to their --time-min",
			"sync --watch",
		},
	})
}

// Lent nodes come back, and it is said when: what keeps them is named, and what delays it.
func TestSpare(t *testing.T) {
	with := func(p capacity.Preemption, there ...capacity.SlurmPartition) facts.Survey {
		lends := onEC2.Partitions[0]
		lends.Spare = "scavenge"

		return facts.Survey{
			Settings: capacity.Settings{Partitions: []capacity.PartitionSettings{lends}},
			SlurmSurvey: facts.SlurmSurvey{
				Slurmctld:  &slurm.Config{Preemption: p, KillWait: 30 * time.Second},
				Partitions: partitions(there...),
			},
		}
	}
	lender := capacity.SlurmPartition{Name: "gpu", PriorityTier: 1}
	spare := capacity.SlurmPartition{Name: "scavenge", PreemptMode: "REQUEUE", GraceTime: time.Minute}
	on := capacity.Preemption{Type: capacity.ByPartition, Mode: "REQUEUE"}
	slow := on
	slow.ExemptTime = 10 * time.Minute
	cancels := spare
	cancels.PreemptMode = "CANCEL"

	judge(t, func(s survey, f *findings) {
		p, _ := capacity.Build(s.Settings, capacity.Facts{}).Partition("gpu")
		s.checkSpare(f, p, s.Partitions.Value[0])

		// That the nodes come back is said beside a note.
		if len(f.Problems) == 2 {
			f.Problems = f.Problems[:1]
		}
	}, []row{
		{
			"as it should be", with(on, lender, spare), capacity.Good,
			"jobs of partition gpu get nodes back from jobs of partition scavenge within 1m30s", "",
		},
		{"not there", with(on, lender), capacity.Admin, "Slurm has no partition scavenge", "hooks install"},
		{
			"off",
			with(capacity.Preemption{}, lender, spare),
			capacity.Admin,
			"PreemptType is none",
			"PreemptMode=REQUEUE",
		},
		{"cancels", with(on, lender, cancels), capacity.Admin, "are not requeued", "PreemptMode=REQUEUE"},
		{"exempt", with(slow, lender, spare), capacity.Note, "keep their nodes for 10m after their start", "shorter"},
	})
}

// A site's reservation whose jobs heed no fence is named.
func TestPastFencesAreNamed(t *testing.T) {
	with := func(flags ...string) facts.Survey {
		fence := capacity.SlurmReservation{
			Name:  "pcs-capacity-fence-gpu.cr-0123.0123abcd",
			Nodes: []string{"gpu-1"},
			Start: time.Date(2027, 1, 1, 12, 0, 0, 0, time.UTC),
			Flags: capacity.ProviderEC2.GuardFlags(),
			Users: []string{"root"},
		}
		site := capacity.SlurmReservation{
			Name:  "course",
			Nodes: []string{"gpu-1"},
			Flags: flags,
			Users: []string{"alice"},
		}

		return facts.Survey{
			SlurmSurvey: facts.SlurmSurvey{
				Guards: facts.Answer[[]capacity.SlurmReservation]{Value: []capacity.SlurmReservation{fence, site}},
			},
		}
	}
	judge(t, survey.checkReservedJobs, []row{
		{"without flags", with(), "", "", ""},
		{
			"with MAINT",
			with("MAINT"),
			capacity.Note,
			"--reservation=course through the fence over gpu-1 at 2027-01-01 12:00 UTC",
			"without MAINT",
		},
	})
}

// What jobs may run over their limits is said: that of a partition of ours, or else that of slurm.conf.
func TestOverTime(t *testing.T) {
	with := func(of, gpu capacity.Limit) facts.Survey {
		return facts.Survey{
			SlurmSurvey: facts.SlurmSurvey{
				Slurmctld: &slurm.Config{OverTime: of},
				Partitions: partitions(
					capacity.SlurmPartition{Name: "cpu", OverTime: capacity.Minutes(99)},
					capacity.SlurmPartition{Name: "gpu", OverTime: gpu},
				),
			},
			Settings: onEC2,
		}
	}

	const unlimited = "OverTimeLimit=UNLIMITED: no time limit ends a job, so jobs run until EC2 takes their " +
		"nodes"
	judge(t, survey.checkOverTime, []row{
		{"none", with(capacity.Minutes(0), capacity.Limit{}), "", "", ""},
		{
			"of slurm.conf",
			with(capacity.Minutes(10), capacity.Limit{}),
			capacity.Note,
			"OverTimeLimit lets jobs run 10 minutes over their limits, so that fences are that much earlier",
			"",
		},
		{
			"of the partition",
			with(capacity.Minutes(0), capacity.Minutes(3)),
			capacity.Note,
			"OverTimeLimit lets jobs run 3 minutes over their limits",
			"",
		},
		{"none of ours", with(capacity.NoLimit, capacity.Minutes(0)), "", "", ""},
		{"no limit ends a job", with(capacity.NoLimit, capacity.Limit{}), capacity.Admin, unlimited, ""},
		{"not in our partition", with(capacity.Minutes(5), capacity.NoLimit), capacity.Admin, unlimited, ""},
	})
}

// The fix is for what is wrong: PATH only where there is no scontrol. What slurmctld says of its version counts before
// what AWS says of the cluster: the lab's AWS runs whatever Slurm this machine has.
func TestCommands(t *testing.T) {
	old, new := slurm.Version{Major: 22, Minor: 5, Micro: 8}, slurm.Version{Major: 25, Minor: 5, Micro: 3}
	fails := func(err error) facts.Survey {
		return facts.Survey{SlurmSurvey: facts.SlurmSurvey{Commands: facts.Answer[slurm.Version]{Err: err}}}
	}
	of := func(commands slurm.Version, running *slurm.Config) facts.Survey {
		return facts.Survey{
			Site: facts.Site{Inventory: pcs.Inventory{Cluster: pcs.Cluster{SlurmVersion: "25.05"}}},
			SlurmSurvey: facts.SlurmSurvey{
				Slurmctld: running,
				Commands:  facts.Answer[slurm.Version]{Value: commands},
			},
		}
	}
	judge(t, survey.checkCommands, []row{
		{"none", fails(fmt.Errorf("asking: %w", exec.ErrNotFound)), capacity.Admin, "", "PATH"},
		{
			"no slurm.conf",
			fails(
				errors.New(
					"scontrol: error: s_p_parse_file: cannot stat file /etc/slurm/slurm.conf: No such file or " +
						"directory, retrying in 1sec up to 60sec",
				),
			),
			capacity.Admin,
			"",
			"put slurm.conf there",
		},
		{
			"no source",
			fails(errors.New("fatal: Could not establish a configuration source")),
			capacity.Admin,
			"",
			"put slurm.conf there",
		},
		{
			"no library",
			fails(errors.New("error while loading shared libraries: libslurmfull.so")),
			capacity.Admin,
			"",
			"fix what it says",
		},
		{"as slurmctld", of(old, &slurm.Config{Version: old}), capacity.Good, "as slurmctld", ""},
		{"older", of(old, &slurm.Config{Version: new}), capacity.Admin, "commands here are 22.05", "first into PATH"},
		{"older than PCS's", of(old, nil), capacity.Admin, "the cluster has 25.05", "install Slurm 25.05"},
		{"as PCS's", of(new, nil), capacity.Good, "as the cluster", ""},
	})
}

// A partition of the site with Nodes=ALL takes our nodes in, and its jobs with them.
func TestPartitionsWithOurNodes(t *testing.T) {
	settings := capacity.Settings{Partitions: []capacity.PartitionSettings{
		{
			Name:     "gpu",
			Provider: capacity.ProviderEC2,
			Groups:   []capacity.GroupSettings{{Name: "gpu", MaxNodes: 4, Slots: 1}},
		},
		{
			Name:     "big",
			Provider: capacity.ProviderEC2,
			Groups:   []capacity.GroupSettings{{Name: "big", Nodes: []string{"b1", "b2"}}},
		},
	}}
	with := func(name, nodes, cluster string, jobsWithout bool) facts.Survey { // -p
		all, _ := hostlist.Expand(nodes)

		return facts.Survey{
			Host:     facts.Host{Config: &config.Config{Cluster: cluster}},
			Settings: settings,
			SlurmSurvey: facts.SlurmSurvey{
				Partitions: partitions(capacity.SlurmPartition{Name: name, Nodes: all, Default: jobsWithout}),
			},
		}
	}
	settings.Partitions[0].Spare = "scavenge"

	judge(t, survey.checkAstray, []row{
		{"its spare partition", with("scavenge", "gpu-[1-4]", "", false), "", "", ""},
		{
			"a spare partition with nodes of another",
			with("scavenge", "b1,gpu-1", "", false),
			capacity.Note,
			"contains b1",
			"",
		},
		{"ours", with("gpu", "gpu-[1-4]", "", false), "", "", ""},
		{"ours with a node of the site", with("gpu", "cpu-1,gpu-[1-4]", "", true), "", "", ""},
		{"the site's", with("debug", "cpu-[1-2]", "", true), "", "", ""},
		{"without nodes", with("debug", "", "", false), "", "", ""},
		{
			"all",
			with("debug", "b[1-2],cpu-[1-2],gpu-[1-4]", "", true),
			capacity.Admin,
			"partition debug contains b[1-2],gpu-[1-4], which",
			"write PartitionName=debug Nodes=cpu-[1-2] in slurm.conf",
		},
		{
			"one",
			with("debug", "cpu-1,gpu-2", "", false),
			capacity.Note,
			"contains gpu-2, which",
			"Nodes=cpu-1 in slurm.conf",
		},
		{
			"nothing else",
			with("debug", "gpu-[1-4]", "", false),
			capacity.Note,
			"contains gpu-[1-4], which",
			"remove PartitionName=debug from slurm.conf",
		},
		{
			"of another of ours",
			with("gpu", "b1,gpu-1", "", false),
			capacity.Note,
			"partition gpu contains b1, which",
			"Nodes=gpu-1 in slurm.conf",
		},
		{
			"on PCS",
			with("cpu", "cpu-1,gpu-1", "ml", false),
			capacity.Note,
			"contains gpu-1, which",
			"remove their node groups from queue cpu",
		},
	})
}

// srun of 22.05 gives up by the times of the cluster, which hooks install leaves alone.
func TestShortWaits(t *testing.T) {
	with := func(minor int, resume time.Duration) facts.Survey {
		s := facts.Survey{
			Settings: onEC2,
			SlurmSurvey: facts.SlurmSurvey{Slurmctld: &slurm.Config{
				Version:        slurm.Version{Major: 22, Minor: minor},
				ResumeTimeout:  resume,
				SuspendTimeout: 30 * time.Second,
			}},
		}
		s.Settings.Timing.BootAllowance.Duration = 15 * time.Minute

		return s
	}
	judge(t, survey.checkSrunWait, []row{
		{"too short", with(5, time.Minute), capacity.Note, "450 s", "to 180,"},
		{"long enough", with(5, 3*time.Minute), "", "", ""},
		{"another version", with(11, time.Minute), "", "", ""},
	})
}

// Nodes that ask slurmctld for slurm.conf get it only if it hands it out.
func TestConfigless(t *testing.T) {
	asks := capacity.LaunchTemplate{Name: "gpu", UserData: []byte("exec slurmd --conf-server head\n")}
	for _, c := range []struct {
		template capacity.LaunchTemplate
		running  *slurm.Config
		found    bool
	}{
		{asks, &slurm.Config{}, true},
		{asks, &slurm.Config{SlurmctldParameters: []string{"idle_on_node_suspend", "enable_configless"}}, false},
		{asks, nil, false},
		{capacity.LaunchTemplate{}, &slurm.Config{}, false},
	} {
		if got := fmt.Sprint(slurmLaunchFaults(c.template, capacity.GroupSettings{}, c.running)); strings.Contains(
			got,
			"enable_configless",
		) != c.found {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

func TestParallelClusterFences(t *testing.T) {
	const cookbook, static, dynamic = "aws-parallelcluster-cookbook-", "gpu-st-p5-1", "gpu-dy-p5-1"

	with := func(version, resume string, provider capacity.Provider, node string) facts.Survey {
		return facts.Survey{
			FileSurvey: facts.FileSurvey{ParallelCluster: version},
			SlurmSurvey: facts.SlurmSurvey{
				Slurmctld:  &slurm.Config{ResumeProgram: resume},
				Partitions: partitions(capacity.SlurmPartition{Name: "gpu", Nodes: []string{node}}),
			},
			Settings: capacity.Settings{
				Partitions: []capacity.PartitionSettings{{Name: "gpu", Provider: provider}},
			},
		}
	}

	const fix = `provider = "none"`
	judge(t, survey.checkParallelCluster, []row{
		{"no ParallelCluster", with("", "/usr/libexec/pcs-capacity/pcs-capacity-resume", "ec2", static), "", "", ""},
		{
			"before Capacity Blocks",
			with(cookbook+"3.7.2", "", "ec2", static),
			capacity.Good,
			"ParallelCluster 3.7.2",
			"",
		},
		{
			"the first",
			with(cookbook+"3.8.0\n", "", "ec2", static),
			capacity.Admin,
			"ParallelCluster 3.8.0 keeps terminating and relaunching static nodes that boot under a fence: gpu-st-p5-1",
			fix,
		},
		{"in between", with(cookbook+"3.10.1", "", "ec2", static), capacity.Admin, "", fix},
		{"the last", with(cookbook+"3.15.1", "", "ec2", static), capacity.Admin, "", fix},
		{"fixed", with(cookbook+"3.15.2", "", "ec2", static), capacity.Good, "", ""},
		{"later", with(cookbook+"3.16.0", "", "ec2", static), capacity.Good, "", ""},
		{"dynamic nodes", with(cookbook+"3.10.1", "", "ec2", dynamic), capacity.Good, "", ""},
		{
			"a guest",
			with(cookbook+"3.10.1", "", "none", static),
			capacity.Good,
			"ParallelCluster 3.10.1 leaves nodes under our fences alone",
			"",
		},
		{
			"only slurmctld says so",
			with("", "/opt/parallelcluster/scripts/slurm/slurm_resume", "ec2", static),
			capacity.Note,
			"of an unknown version",
			fix,
		},
	})
}

// What check says of the file system of state_dir. A backup of slurmctld sees it only on a shared one.
func TestLasting(t *testing.T) {
	disk, efs := state.Mount{
		Point:  "/",
		Type:   "xfs",
		Source: "/dev/nvme0n1p1",
	}, state.Mount{
		Point:  "/efs",
		Type:   "nfs4",
		Source: "fs-0.efs.us-east-2.amazonaws.com:/",
	}
	judge(t, survey.checkStateMount, []row{
		{
			"EFS",
			facts.Survey{FileSurvey: facts.FileSurvey{Mount: efs}},
			capacity.Good,
			"is on nfs4 of fs-0.efs.us-east-2.amazonaws.com:/, and outlives this host",
			"",
		},
		{
			"FSx for Lustre",
			facts.Survey{
				FileSurvey: facts.FileSurvey{
					Mount: state.Mount{Point: "/fsx", Type: "lustre", Source: "10.0.0.1@tcp:/a"},
				},
			},
			capacity.Good,
			"outlives this host",
			"",
		},
		{
			"a bucket",
			facts.Survey{
				FileSurvey: facts.FileSurvey{
					Mount: state.Mount{Point: "/s3", Type: "fuse.mount-s3", Source: "mountpoint-s3"},
				},
			},
			capacity.Note,
			"locking may not work there",
			shareFix,
		},
		{
			"memory",
			facts.Survey{
				FileSurvey: facts.FileSurvey{Mount: state.Mount{Point: "/run", Type: "tmpfs", Source: "tmpfs"}},
			},
			capacity.Note,
			"are lost at the next boot",
			"on a disk",
		},
		{
			"a login node",
			facts.Survey{
				Host:       facts.Host{Config: &config.Config{Cluster: "ml", StateDir: "/s"}},
				FileSurvey: facts.FileSurvey{Mount: disk},
			},
			capacity.Note,
			"xfs at /, a disk of this host; PCS replaces unhealthy hosts that it launched, and the record of " +
				"purchases and the samples of report would be lost",
			shareFix,
		},
		{
			"a controller",
			facts.Survey{FileSurvey: facts.FileSurvey{Mount: disk}},
			capacity.Good,
			"would be lost with this host",
			"",
		},
		{"no mountinfo here", facts.Survey{}, capacity.Note, "an unrecognized file system", shareFix},
	})

	for fix, m := range map[string]state.Mount{shareFix: disk, "": efs} {
		var f findings

		s := facts.Survey{
			Host:        facts.Host{Config: &config.Config{StateDir: "/s"}},
			Settings:    onEC2,
			FileSurvey:  facts.FileSurvey{Mount: m},
			SlurmSurvey: facts.SlurmSurvey{Slurmctld: &slurm.Config{Backups: []string{"head2"}}},
		}
		survey{&s}.checkStateMount(&f)

		if len(f.Problems) != 2 || f.Problems[1].Fix != fix ||
			!strings.Contains(f.Problems[1].Sentence, "head2 takes over slurmctld") {
			t.Errorf("%s: %+v", m, f)
		}
	}
}

// What the shell of whoever runs check has of AWS tells nothing about hooks.
func TestHookAccess(t *testing.T) {
	with := func(last *state.HookAccess, account string) facts.Survey {
		return facts.Survey{
			FileSurvey: facts.FileSurvey{LastHook: facts.Answer[*state.HookAccess]{Value: last}},
			AWSSurvey:  facts.AWSSurvey{Account: account},
			Settings:   onEC2,
		}
	}
	judge(t, survey.checkHookAccess, []row{
		{"no hook", with(nil, ""), "", "", ""},
		{
			"unread",
			facts.Survey{
				FileSurvey: facts.FileSurvey{LastHook: facts.Answer[*state.HookAccess]{Err: errors.New("oops")}},
			},
			capacity.Admin,
			"oops",
			"delete it",
		},
		{
			"none",
			with(&state.HookAccess{Without: "there are no AWS credentials"}, "111122223333"),
			capacity.Admin,
			"had no AWS credentials",
			"/etc/pcs-capacity/environment",
		},
		{"some", with(&state.HookAccess{}, "111122223333"), capacity.Good, "had AWS credentials", ""},
		{
			"of a source",
			with(&state.HookAccess{Source: "EC2RoleProvider"}, "111122223333"),
			capacity.Good,
			"(EC2RoleProvider)",
			"",
		},
		{
			"the same",
			with(&state.HookAccess{Account: "111122223333", Source: "EnvConfigCredentials"}, "111122223333"),
			capacity.Good,
			"of account 111122223333 (EnvConfigCredentials)",
			"",
		},
		{
			"ours are not known",
			with(&state.HookAccess{Account: "111122223333"}, ""),
			capacity.Good,
			"of account 111122223333",
			"",
		},
		{
			"others",
			with(&state.HookAccess{Account: "444455556666", Source: "EC2RoleProvider"}, "111122223333"),
			capacity.Note,
			"of account 444455556666 (EC2RoleProvider), but this command has those of account 111122223333",
			"/etc/pcs-capacity/environment",
		},
	})
}

// A script that is missing while Slurm is told to run it stops every submission; the site's own is left alone.
func TestHooks(t *testing.T) {
	ok := map[string]facts.Answer[fs.FileMode]{"/f": {Value: 0o755}}
	with := func(state, plugins string) facts.Survey {
		return facts.Survey{
			Host: facts.Host{
				Config: &config.Config{},
				Filter: "/f",
				Hooks:  []facts.Hook{{Name: "job_submit", File: "/j", State: state}},
			},
			Settings:   onEC2,
			FileSurvey: facts.FileSurvey{Programs: ok},
			SlurmSurvey: facts.SlurmSurvey{Slurmctld: &slurm.Config{
				JobSubmitPlugins: strings.Split(plugins, ","),
				ResumeProgram:    "/f/pcs-capacity-resume",
			}},
		}
	}
	judge(
		t,
		func(s survey, f *findings) {
			s.checkScript(f, s.Hooks[0], s.Slurmctld.JobSubmitPlugins[0] == "lua", true)
		},
		[]row{
			{"installed", with("installed", "lua"), capacity.Good, "/j is installed", ""},
			{"missing", with("missing", ""), capacity.Admin, "/j is missing", "hooks install job_submit"},
			{
				"missing, and on",
				with("missing", "lua"),
				capacity.Admin,
				"every submission is refused",
				"hooks install job_submit",
			},
			{"the site's", with("foreign", "lua"), capacity.Admin, "does not load ours", "add the line"},
			{"old", with("old", "lua"), capacity.Note, "not what this version writes", "hooks install job_submit"},
			{
				"not on",
				with("installed", ""),
				capacity.Admin,
				"Slurm is not configured to run it",
				"hooks install settings",
			},
		},
	)

	onPCS := with("missing", "lua")
	onPCS.Cluster.ID, onPCS.Settings, onPCS.Hooks = "pcs_1", capacity.Settings{}, append(
		onPCS.Hooks,
		facts.Hook{Name: "cli_filter", State: "installed"},
	)
	onPCS.Cluster.SlurmSettings = map[string]string{"CliFilterPlugins": "cli_filter/lua"}
	if got := judged(&onPCS, survey.checkHooks); got != "ok filter; ok cli_filter" {
		t.Errorf("on PCS, whose job_submit.lua is not here: %s", got)
	}

	lacks := with("installed", "lua")
	lacks.Settings, lacks.Controller = onEC2, true
	lacks.NoPlugin = map[string][]string{"job_submit": {"/usr/lib/slurm"}, "cli_filter": {"/usr/lib/slurm"}}
	if got := judged(&lacks, survey.checkHooks); !strings.HasPrefix(got,
		"ok filter; admin job_submit; ok job_submit") {
		t.Errorf("on the controller, without its Lua plugin: %s", got)
	}

	lacks.Controller = false
	if got := judged(&lacks, survey.checkHooks); !strings.HasPrefix(got, "ok filter; ok job_submit") {
		t.Errorf("where only users are: %s", got)
	}

	onPCS.NoPlugin = lacks.NoPlugin
	if got := judged(&onPCS, survey.checkHooks); got != "ok filter; admin cli_filter; ok cli_filter" {
		t.Errorf("on PCS, without the Lua plugin: %s", got)
	}

	judge(t, func(s survey, f *findings) { s.checkProgram(f, "filter", s.Filter) }, []row{
		{"runs", with("", ""), capacity.Good, "/f", ""},
		{
			"no file",
			facts.Survey{
				FileSurvey: facts.FileSurvey{Programs: map[string]facts.Answer[fs.FileMode]{"": {Err: fs.ErrNotExist}}},
			},
			capacity.Admin,
			"does not exist",
			"install the package",
		},
		{
			"not for everybody",
			facts.Survey{
				FileSurvey: facts.FileSurvey{Programs: map[string]facts.Answer[fs.FileMode]{"": {Value: 0o744}}},
			},
			capacity.Admin,
			"0744",
			"chmod 755",
		},
	})
}

// What slurmctld's hooks cannot read, and could not when they last ran.
func TestHookSettings(t *testing.T) {
	judge(t, survey.checkHookSettings, []row{
		{
			"all is read",
			facts.Survey{
				SlurmSurvey: facts.SlurmSurvey{
					Nodes: facts.Answer[[]capacity.Node]{
						Value: []capacity.Node{{Name: "gpu-1", Reason: "ICE: no room"}},
					},
				},
			},
			"",
			"",
			"",
		},
		{
			"not now",
			facts.Survey{
				SlurmSurvey: facts.SlurmSurvey{
					Unreadable: []error{errors.New("SlurmUser cannot read /c; chmod 644 /c")},
				},
			},
			capacity.Admin,
			"SlurmUser cannot read /c",
			"chmod 644 /c",
		},
		{
			name: "not at the last launch",
			survey: facts.Survey{
				SlurmSurvey: facts.SlurmSurvey{Nodes: facts.Answer[[]capacity.Node]{Value: []capacity.Node{
					{Name: "gpu-1", Reason: "settings-unreadable: open /c: permission denied"},
					{Name: "gpu-2", Reason: "settings-unreadable: open /c: permission denied"},
				}}},
			},
			want: capacity.Note,
			says: "when slurmctld last powered gpu-[1-2] up, its hook could not read the settings: open /c: " +
				"permission denied",
			fix: "the next launch clears it",
		},
	})
}

// The files of sync: what is not there, or old, has users and hooks know nothing.
func TestState(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	fresh, old := &capacity.Snapshot{TakenAt: now}, &capacity.Snapshot{TakenAt: now.Add(-time.Hour)}

	fresh.Submit.StaleAfter.Duration, old.Submit.StaleAfter.Duration = time.Minute, time.Minute
	with := func(snapshot *capacity.Snapshot, err error, mode fs.FileMode, watcher string) facts.Survey {
		return facts.Survey{
			Host: facts.Host{Config: &config.Config{StateDir: "/s"}, Watch: "sync --watch"},
			Site: facts.Site{Now: now},
			FileSurvey: facts.FileSurvey{
				StateDir: facts.Answer[fs.FileMode]{Value: mode},
				Mount:    state.Mount{Point: "/efs", Type: "nfs4"},
				Snapshot: facts.Answer[*capacity.Snapshot]{Value: snapshot, Err: err},
				Watcher:  facts.Answer[string]{Value: watcher},
			},
		}
	}

	const dir = fs.ModeDir | 0o755
	for want, s := range map[string]facts.Survey{
		"ok state-dir; ok snapshot; ok service":       with(fresh, nil, dir, "process 1"),
		"ok state-dir; ok snapshot; note service":     with(fresh, nil, dir, ""),
		"ok state-dir; admin snapshot; admin service": with(old, nil, dir, ""),
		"ok state-dir; admin snapshot; ok service":    with(nil, fs.ErrNotExist, dir, "process 1"),
		"admin state-dir; ok state-dir; admin snapshot; admin service": with(nil, errors.New("oops"), fs.ModeDir|0o700,
			""),
		"admin state-dir": with(nil, nil, 0o644, ""),
	} {
		if got := judged(&s, survey.checkState); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// What Slurm has of the managed partitions: that they are there, with nodes, and locked for all but some accounts.
func TestPartitions(t *testing.T) {
	with := func(provider capacity.Provider, accounts []string, there ...capacity.SlurmPartition) facts.Survey {
		return facts.Survey{
			Settings: capacity.Settings{
				Partitions: []capacity.PartitionSettings{{Name: "gpu", Provider: provider, AllowAccounts: accounts}},
			},
			SlurmSurvey: facts.SlurmSurvey{
				Slurmctld:  &slurm.Config{},
				Partitions: partitions(there...),
			},
		}
	}
	gpu := capacity.SlurmPartition{Name: "gpu", Nodes: []string{"gpu-1", "gpu-2"}}
	judge(t, survey.checkPartitions, []row{
		{"there", with("ec2", nil, gpu), capacity.Good, "gpu has nodes gpu-[1-2]", ""},
		{"not there", with("ec2", nil), capacity.Admin, "no partition gpu", "hooks install"},
		{"not there, on PCS", with("pcs", nil), capacity.Admin, "no partition gpu", "run `pcs-capacity setup`"},
		{"not there, a guest", with("none", nil), capacity.Admin, "no partition gpu", "write the name that Slurm has"},
		{
			"without nodes",
			with("ec2", nil, capacity.SlurmPartition{Name: "gpu"}),
			capacity.Note,
			"has no nodes",
			"sinfo",
		},
		{
			"no accounting",
			with("ec2", []string{"nlp"}, gpu),
			capacity.Admin,
			"keeps no accounting",
			"AccountingStorageEnforce=associations",
		},
	})
}

// Slurm powers nodes up only with these settings, and waits for one as long as it may boot.
func TestPowerSettings(t *testing.T) {
	good := slurm.Config{
		Version:             slurm.Version{Major: 25, Minor: 11},
		SlurmctldParameters: []string{"idle_on_node_suspend"},
		SuspendTime:         time.Minute,
		ResumeTimeout:       20 * time.Minute,
	}
	for want, change := range map[string]func(*slurm.Config){
		"ok resume-timeout":                   func(*slurm.Config) {},
		"admin resume-timeout":                func(c *slurm.Config) { c.ResumeTimeout = time.Minute },
		"ok resume-timeout; note slurm.conf":  func(c *slurm.Config) { c.SlurmctldParameters = nil },
		"ok resume-timeout; admin slurm.conf": func(c *slurm.Config) { c.SuspendTime = 0 },
	} {
		c, settings := good, onEC2
		change(&c)

		settings.Timing.BootAllowance.Duration = 15 * time.Minute
		if got := judged(
			&facts.Survey{
				SlurmSurvey: facts.SlurmSurvey{
					Slurmctld:  &c,
					Partitions: partitions(capacity.SlurmPartition{Name: "gpu"}),
				},
				Settings: settings,
			}, survey.checkPowerSettings); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
