package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/hookinstall"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/installed"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

const checkConfig = `
region = "us-east-2"
state_dir = "%[1]s/state"
local_dir = "%[1]s/local"
[submit]
[log]
dir = "%[1]s/log"
[[partition]]
name = "gpu"
provider = "ec2"
spare = "scavenge"
[[partition.node_group]]
name = "gpu"
instance_type = "p5.48xlarge"
subnet_ids = ["subnet-0e200000000000a01"]
capacity_reservation_ids = ["cr-0e2000000000000a1"]
max_nodes = 4
launch_template = "lt-0e2000000000000a4"
`

// wired is a Slurm without anything of ours, on which hooks install is run, and a simulated AWS.
type wired struct {
	*testing.T
	sim     *awssim.Sim
	cluster *slurmlab.Cluster
	// bin has the programs, etc slurm.conf and dir all else; settings is the path of config.toml.
	bin, etc, dir, settings string
	said                    string       // all that the programs wrote
	restartSlurm            func() error // restarts slurmctld, as systemctl does
	uid                     uint32       // who runs the next check; 0 for the user of the test
}

// installPackage puts the programs of the DEB, installed in a root of its own, before those
// that the test is compiled with, if there are packages.
func installPackage(t *testing.T, dir string) {
	t.Helper()

	packages := os.Getenv(installed.FolderVariable)
	if packages == "" {
		return
	}

	deb, err := installed.Package(packages, installed.DEB)
	if err != nil {
		t.Fatal(err)
	}

	root, err := installed.New(filepath.Join(dir, "root"), "root:x:0:0::/root:/bin/sh\n")
	if err == nil {
		_, err = root.Manage(t.Context(), installed.InstallDEB, deb)
	}

	if err != nil {
		t.Fatal(err)
	}

	t.Setenv(
		"PATH",
		strings.Join([]string{root.At("usr/bin"), root.At("usr/libexec/pcs-capacity"), os.Getenv("PATH")}, ":"),
	)
}

// newWired starts it. `systemctl restart slurmctld` restarts the lab's.
func newWired(t *testing.T) *wired {
	t.Helper()

	return newWiredOn(t, func(c *slurmlab.Config) {
		c.Extra = []string{"SuspendExcNodes=static-1,gpu-1"}
		c.GresConf = "NodeName=gpu-[1-4] AutoDetect=off\n" // they have no GPUs here
	})
}

// newWiredOn starts one with changes.
func newWiredOn(t *testing.T, change func(*slurmlab.Config)) *wired {
	t.Helper()

	scenario := awssim.DefaultScenario()
	scenario.ShutdownDelay, scenario.CleanupDelay = 0, 0

	region := &scenario.Regions[0]
	// of Linux, of RHEL, and none
	for i, image := range []string{"ami-0e200000000000a01", "ami-0e200000000000c03", "ami-0e200000000000fff"} {
		region.LaunchTemplates = append(
			region.LaunchTemplates,
			awssim.LaunchTemplateScenario{
				ID: fmt.Sprintf("lt-0e2000000000000a%d", 4+i), Name: "nodes-" + image,
				Image: image, MetadataTags: true, SecurityGroups: []string{"sg-0e2000000000000a1"},
			},
		)
	}

	w := &wired{T: t}

	var err error
	if w.sim, err = awssim.New(scenario, awssim.MachineClock()); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { w.sim.Close() })

	if err := w.sim.Serve(t.Setenv, "AWS_EC2_METADATA_DISABLED=true", "AWS_MAX_ATTEMPTS=1"); err != nil {
		t.Fatal(err)
	}

	dir, err := os.MkdirTemp("", "pcs") // Slurm's sockets need a short path
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { os.RemoveAll(dir) })
	installPackage(t, dir)

	program, err := exec.LookPath("pcs-capacity")
	if err != nil {
		t.Fatal(err)
	}

	// for another user
	for _, folder := range []string{dir, filepath.Dir(program), filepath.Dir(filepath.Dir(program))} {
		if err := os.Chmod(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}

	w.bin = filepath.Join(dir, "programs")
	if err := os.Mkdir(w.bin, 0o755); err != nil {
		t.Fatal(err)
	}

	for _, name := range []string{"pcs-capacity-filter", "pcs-capacity-resume", "pcs-capacity-suspend"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}

		w.program(
			name,
			"export AWS_ACCESS_KEY_ID=AKIDSIMULATED AWS_SECRET_ACCESS_KEY=x "+strings.Join(
				w.sim.Env(),
				" ",
			)+"\nexec "+path+` "$@"`,
		)
	}
	// The hooks are those beside the program that installs them.
	data, err := os.ReadFile(program)
	if err == nil {
		err = os.WriteFile(filepath.Join(w.bin, "pcs-capacity"), data, 0o755)
	}

	if err != nil {
		t.Fatal(err)
	}
	// The first node has its line already, so that it can be started here.
	first := slurmlab.NodeGroup{Prefix: "gpu-", CPUs: 1, Features: "gpu", AlwaysOn: true}
	cfg := slurmlab.Config{
		Dir:            dir,
		CloudGroups:    []slurmlab.NodeGroup{first},
		ResumeProgram:  filepath.Join(w.bin, "pcs-capacity-resume"),
		SuspendProgram: filepath.Join(w.bin, "pcs-capacity-suspend"),
	}
	change(&cfg)

	if w.cluster, err = slurmlab.Start(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { w.cluster.Stop() })

	w.etc = filepath.Dir(w.cluster.Conf())
	w.dir = filepath.Join(dir, "here")
	for _, one := range []string{w.dir, filepath.Join(w.etc, "pcs-capacity")} {
		if err := os.Mkdir(one, 0o755); err != nil {
			t.Fatal(err)
		}
	}

	w.settings = filepath.Join(w.etc, "pcs-capacity", "config.toml")
	w.configure(func(text string) string { return text })
	t.Setenv("SLURM_CONF", w.cluster.Conf())
	t.Setenv("PATH", w.bin+":"+os.Getenv("PATH"))

	w.sim.OnInstance(func(e awssim.InstanceEvent) {
		node := capacity.Instance{Tags: e.Instance.Tags, LaunchIndex: e.Instance.AMILaunchIndex}.Node()
		if e.Kind != awssim.Launched || node != "gpu-1" && node != "od-1" {
			return
		}
		go func() {
			// A real one boots so long that Slurm knows its address by then.
			if slurmlab.WaitUntil(t.Context(), func() bool {
				fields, _ := w.cluster.Node(t.Context(), node)
				return fields["NodeAddr"] == e.Instance.PrivateIP
			}) != nil {
				return
			}

			if err := w.cluster.StartNode(t.Context(), node, "127.0.0.1"); err != nil && t.Context().Err() == nil {
				t.Errorf("starting %s: %v", node, err)
			}
		}()
	})

	w.restartSlurm = func() error {
		// The lab writes slurm.conf anew, so it has to be told of the line in it.
		cfg := cfg
		cfg.Extra = slices.Clone(cfg.Extra)
		if _, err := os.Stat(filepath.Join(w.etc, "cli_filter.lua")); err == nil {
			cfg.Extra = append(cfg.Extra, "CliFilterPlugins=lua") // the site's doing
		}

		if text, err := os.ReadFile(filepath.Join(w.etc, "gres.conf")); err == nil {
			cfg.GresConf = string(text)
		}

		if text, err := os.ReadFile(w.cluster.Conf()); err == nil &&
			strings.Contains(string(text), "Include "+hookinstall.IncludeFile) {
			cfg.Extra = append(cfg.Extra, "Include "+hookinstall.IncludeFile)
		}

		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()

		return w.cluster.Reload(ctx, cfg)
	}
	asked, down := filepath.Join(w.dir, "restart"), filepath.Join(w.dir, "down")
	w.program(
		"systemctl",
		`[ "$1" = restart ] || exec test ! -e `+down+"; touch "+asked+"; while [ -e "+asked+" ]; do sleep 0.1; done",
	)
	go func() {
		for slurmlab.WaitUntil(t.Context(), func() bool { _, err := os.Stat(asked); return err == nil }) == nil {
			os.Remove(down)

			if err := w.restartSlurm(); err != nil {
				t.Logf("restarting slurmctld: %v", err)
				w.write(down, err.Error())
			}

			os.Remove(asked)
		}
	}()

	return w
}

// run runs pcs-capacity.
func (w *wired) run(env []string, args ...string) (stdout string, status int) {
	w.Helper()

	command := exec.CommandContext(
		w.Context(),
		filepath.Join(w.bin, "pcs-capacity"),
		append([]string{"--config", w.settings, "--yes"}, args...)...)
	command.Dir, command.Env = w.dir, append(os.Environ(), env...)
	if w.uid != 0 {
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: w.uid, Gid: w.uid}}
	}

	var out, errs strings.Builder

	command.Stdout, command.Stderr = &out, &errs
	_ = command.Run() // what matters is in ProcessState
	if command.ProcessState == nil {
		w.Fatalf("%q has not run", args)
	}

	w.said += out.String() + errs.String()

	return out.String(), command.ProcessState.ExitCode()
}

func (w *wired) sync() {
	w.Helper()

	if _, status := w.run(nil, "sync"); status != 0 {
		w.Fatalf("sync: %s", w.said)
	}
}

func (w *wired) write(path, text string) {
	w.Helper()

	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.Error(err)
	}
}

// program writes one that the tests stand in for.
func (w *wired) program(name, script string) {
	w.Helper()

	if err := os.WriteFile(filepath.Join(w.bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		w.Fatal(err)
	}
}

func (w *wired) configure(change func(string) string) {
	w.Helper()

	if err := os.WriteFile(w.settings, []byte(change(fmt.Sprintf(checkConfig, w.dir))), 0o644); err != nil {
		w.Fatal(err)
	}
}

func (w *wired) hooks(args ...string) {
	w.Helper()

	w.said = ""
	if _, status := w.run(nil, append([]string{"hooks"}, args...)...); status != 0 {
		w.Fatalf("hooks %q: %d\n%s", args, status, w.said)
	}
}

// check runs the command.
func (w *wired) check(more ...string) (status int, found capacity.Problems) {
	w.Helper()

	out, status := w.run(more, "-o", "json", "check")

	var doc checkDocument
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		w.Fatalf("%v: %s", err, w.said)
	}

	return status, doc.Findings
}

// TestLong_CheckNamesEachFault wires a Slurm that has nothing of ours, sees that all is well and that a job runs on a
// block, and breaks one thing after the other: with the programs of the installed DEB in `make test`.
func TestLong_CheckNamesEachFault(t *testing.T) {
	if !ownProcess(t) {
		return
	}

	w := newWired(t)
	w.hooks("install", "cli_filter")
	w.hooks("install")

	if !strings.Contains(w.said, "Restarted slurmctld.") {
		t.Fatalf("hooks install: %s", w.said)
	}

	w.hooks("install", "cli_filter")
	w.hooks("install")

	if !strings.Contains(w.said, "nothing to do") {
		t.Errorf("again: %s", w.said)
	}

	w.sync()
	unlock, err := state.Dir(filepath.Join(w.dir, "state")).Lock(t.Context(), state.WatchLock, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()

	aws, err := ec2.New(t.Context(), ec2.Options{Region: "us-east-2"})
	if err != nil {
		t.Fatal(err)
	}

	if _, err := aws.Launch(t.Context(), capacity.Launch{
		ClientToken:    "one",
		LaunchTemplate: "lt-0e2000000000000a2",
		InstanceType:   "c7i.4xlarge",
		SubnetID:       "subnet-0e200000000000a01",
		Kind:           capacity.OnDemand,
		Count:          1,
		Tags:           map[string]string{capacity.TagCluster: capacity.ClusterMark("lab", "0123456789abcdef")},
	}); err != nil {
		t.Fatal(err)
	}

	status, found := w.check()
	for _, f := range found {
		if f.Severity == capacity.Admin {
			t.Errorf("all is well, but %+v", f)
		}
	}

	if !slices.ContainsFunc(found, func(f capacity.Problem) bool {
		return f.About.Check == "permission" && f.Severity == capacity.Good &&
			!strings.Contains(f.Sentence, "not checked")
	}) {
		t.Errorf("not all permissions are checked: %+v", found)
	}

	if status != 0 || len(found) < 15 {
		t.Fatalf("status %d, %d findings", status, len(found))
	}
	// Slurm has what was written: our settings come after those of slurm.conf, and ResumeTimeout stays for all but
	// our partitions.
	running, err := (&slurm.Client{}).Config(t.Context())
	if err != nil || running.ResumeTimeout != time.Minute || !slices.Contains(running.JobSubmitPlugins, "lua") {
		t.Errorf("%+v, %v", running, err)
	}

	if there, err := (&slurm.Client{}).Partitions(t.Context()); err != nil ||
		running.ShortestResumeTimeout(there, []string{"gpu"}) != 900*time.Second {
		t.Errorf("%+v, %v", there, err)
	}

	if out, err := w.cluster.Command(t.Context(), "sbatch", "-p", "gpu", "-N", "1", "-t", "30-00:00:00", "--wrap",
		"true"); err == nil ||
		!strings.Contains(out, "pcs-capacity: ") {
		t.Errorf("a job that is too long: %v: %s", err, out)
	}

	// A job on the block, and one of the spare partition, through the hooks that were wired.
	for _, partition := range []string{"gpu", "scavenge"} {
		id, err := w.cluster.Submit(t.Context(), "true", "-p", partition, "-w", "gpu-1")
		if err != nil {
			t.Fatal(err)
		}

		if job, err := w.cluster.WaitJob(t.Context(), id, "COMPLETED"); err != nil {
			log, _ := os.ReadFile(filepath.Join(w.dir, "log", "resume.log"))
			t.Fatalf("%v: %v\n%s", err, job, log)
		}
	}

	for _, f := range w.breakages() {
		t.Run(f.name, func(t *testing.T) {
			if f.check == "slurm-rights" && os.Geteuid() != 0 {
				t.Skip("only root can be somebody else")
			}

			undo := f.breaks()
			status, found := w.check(f.env...)

			undo()

			want := 1
			if f.severity == capacity.Note {
				want = 0
			}

			at := slices.IndexFunc(found, func(one capacity.Problem) bool {
				return one.About.Check == f.check && one.Severity == f.severity &&
					strings.Contains(one.Sentence, f.what)
			})
			switch {
			case status != want:
				t.Errorf("status %d, want %d: %+v", status, want, found)
			case at < 0:
				t.Errorf("not found: %s %s …%s…: %+v", f.check, f.severity, f.what, found)
			case !strings.Contains(found[at].Fix, f.fix):
				t.Errorf("the fix is %q", found[at].Fix)
			}
		})
	}

	if status, found := w.check(); status != 0 {
		t.Errorf("something was left broken: %+v", found)
	}

	w.hooks("remove")

	if _, err := os.Stat(filepath.Join(w.etc, "job_submit.lua")); err == nil ||
		!strings.Contains(w.said, "Restarted slurmctld.") {
		t.Errorf("hooks remove: %s", w.said)
	}

	if running, err := (&slurm.Client{}).Config(t.Context()); err != nil || len(running.JobSubmitPlugins) > 0 {
		t.Errorf("%+v, %v", running, err)
	}

	if out, err := w.cluster.Command(t.Context(), "sbatch", "--wrap", "true"); err != nil {
		t.Errorf("a job after all is gone: %v: %s", err, out)
	}
}

// breakage is one thing that is broken, and the finding that names it.
type breakage struct {
	name      string
	breaks    func() (undo func())
	check     string
	severity  capacity.Severity
	what, fix string
	env       []string
}

func (w *wired) breakages() []breakage {
	set := func(old, replacement string) func() func() {
		return func() func() {
			w.configure(func(text string) string {
				changed := strings.Replace(text, old, replacement, 1)
				if changed == text {
					w.Fatalf("%s is not in the settings", old)
				}

				return changed
			})

			return func() { w.configure(func(text string) string { return text }) }
		}
	}
	mode := func(path string, mode os.FileMode) func() func() {
		return func() func() {
			info, err := os.Stat(path)
			if err != nil {
				w.Fatal(err)
			}

			os.Chmod(path, mode)

			return func() { os.Chmod(path, info.Mode()) }
		}
	}
	file := func(path string, change func(string) string) func() func() {
		return func() func() {
			before, err := os.ReadFile(path)
			if err != nil {
				w.Fatal(err)
			}

			if after := change(string(before)); after == "" {
				os.Remove(path)
			} else {
				os.WriteFile(path, []byte(after), 0o644)
			}

			return func() { os.WriteFile(path, before, 0o644) }
		}
	}
	gone := func(string) string { return "" }
	without := func(action string) func() func() {
		return func() func() {
			if _, err := w.sim.AddFault(awssim.Denies(action)); err != nil {
				w.Fatal(err)
			}
			return w.sim.ClearFaults
		}
	}
	nothing := func() func() { return func() {} }

	snapshot := filepath.Join(w.dir, "state", "snapshot.json")
	jobSubmit := filepath.Join(w.etc, "job_submit.lua")
	down := filepath.Join(w.dir, "down.conf")
	if err := os.WriteFile(down, []byte(downConf), 0o644); err != nil {
		w.Fatal(err)
	}

	return []breakage{
		{
			"no rights in Slurm",
			func() func() { w.uid = 65534; return func() { w.uid = 0 } },
			"slurm-rights",
			capacity.Admin,
			"may not create reservations",
			"run this as root",
			nil,
		},
		{
			"settings with an unknown key",
			set("region =", "regoin ="),
			"settings",
			capacity.Admin,
			"regoin",
			"region",
			nil,
		},
		{"no such region", set(`"us-east-2"`, `"us-nowhere-1"`), "credentials", capacity.Admin, "AuthFailure", "", nil},
		{
			"another region",
			set(`"us-east-2"`, `"us-west-2"`),
			"reservation",
			capacity.Admin,
			"does not describe reservation cr-0e2000000000000a1",
			"the region (us-west-2)",
			nil,
		},
		{
			"no credentials",
			nothing,
			"credentials",
			capacity.Admin,
			"no AWS credentials",
			"instance profile",
			[]string{"AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY="},
		},
		{
			"AWS is not reached",
			nothing,
			"credentials",
			capacity.Admin,
			"cannot be reached",
			"network",
			[]string{"AWS_ENDPOINT_URL=http://127.0.0.1:1"},
		},
		{"the clock is off", func() func() {
			w.sim.Clock().Advance(time.Minute)
			return func() { w.sim.Clock().Advance(-time.Minute) }
		}, "clock", capacity.Note, "differs from AWS's", "chronyd", nil},
		{
			"a read is not allowed",
			without("ec2:DescribeInstances"),
			"permission",
			capacity.Admin,
			"ec2:DescribeInstances is not allowed",
			"iam-policy",
			nil,
		},
		{
			"launches are not allowed",
			without("ec2:RunInstances"),
			"permission",
			capacity.Admin,
			"ec2:RunInstances is not allowed",
			"iam-policy hooks",
			nil,
		},
		{
			"ends are not allowed",
			without("ec2:TerminateInstances"),
			"permission",
			capacity.Admin,
			"ec2:TerminateInstances is not allowed",
			"iam-policy",
			nil,
		},
		{
			"an unknown reservation",
			set("cr-0e2000000000000a1", "cr-0e2000000000000ff"),
			"reservation",
			capacity.Admin,
			"does not describe reservation",
			"check the id",
			nil,
		},
		{
			"an image that does not exist",
			set("lt-0e2000000000000a4", "lt-0e2000000000000a6"),
			"platform",
			capacity.Admin,
			"InvalidAMIID.NotFound",
			"name an AMI of this region",
			nil,
		},
		{
			"no such launch template",
			set("lt-0e2000000000000a4", "lt-0e2000000000000ff"),
			"launch-template",
			capacity.Admin,
			"no launch template lt-0e2000000000000ff",
			"create it",
			nil,
		},
		{
			"slurmctld is down",
			nothing,
			"slurmctld",
			capacity.Admin,
			"does not answer",
			"systemctl status slurmctld",
			[]string{"SLURM_CONF=" + down},
		},
		{"another Slurm first in PATH", func() func() {
			scontrol, err := exec.LookPath("scontrol")
			if err != nil {
				w.Fatal(err)
			}

			w.program("scontrol", `[ "$1" != --version ] || { echo slurm 20.11.9; exit; }; exec `+scontrol+` "$@"`)

			return func() { os.Remove(filepath.Join(w.bin, "scontrol")) }
		}, "slurm-version", capacity.Admin, "commands here are 20.11.9", "first into PATH", nil},
		{
			"the filter cannot be run",
			mode(filepath.Join(w.bin, "pcs-capacity-filter"), 0o644),
			"filter",
			capacity.Admin,
			"cannot be run",
			"chmod 755",
			nil,
		},
		{
			"ResumeProgram cannot be run",
			mode(filepath.Join(w.bin, "pcs-capacity-resume"), 0o644),
			"power",
			capacity.Admin,
			"cannot be run",
			"chmod 755",
			nil,
		},
		{
			"job_submit.lua is the site's",
			file(jobSubmit, func(string) string { return "-- the site's\n" }),
			"job_submit",
			capacity.Admin,
			"does not load ours",
			"add the line",
			nil,
		},
		{
			"no snapshot",
			file(snapshot, gone),
			"snapshot",
			capacity.Admin,
			"does not exist",
			"pcs-capacity --config " + w.settings + " sync --watch",
			nil,
		},
		{
			"a broken snapshot",
			file(snapshot, func(string) string { return "{" }),
			"snapshot",
			capacity.Admin,
			"reading snapshot",
			"sync",
			nil,
		},
		{
			"no state_dir",
			set(w.dir+"/state", w.dir+"/none"),
			"state-dir",
			capacity.Admin,
			"does not exist",
			"sync --watch",
			nil,
		},
	}
}
