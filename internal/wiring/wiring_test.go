package wiring

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

const siteConf = `ClusterName=ml # a comment
SlurmctldParameters=enable_configless
Include nodes.conf
PartitionName=cpu Nodes=cpu-1
`

// site is a folder of slurm.conf, and a slurmctld that reads it when it is restarted.
type site struct {
	*testing.T
	dir string
	// running: slurmctld runs with our settings.
	running bool
}

func newSite(t *testing.T) *site {
	s := &site{T: t, dir: t.TempDir()}
	s.write("slurm.conf", siteConf)
	s.write("nodes.conf", "NodeName=cpu-1,gpu-[1-2] \\\n  CPUs=4\n")
	return s
}

func (s *site) write(name, text string) {
	s.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o640); err != nil {
		s.Fatal(err)
	}
}

func (s *site) has(name string) bool {
	_, err := os.Stat(filepath.Join(s.dir, name))
	return err == nil
}

func (s *site) conf() Conf {
	s.Helper()
	conf, err := ReadConf(filepath.Join(s.dir, "slurm.conf"))
	if err != nil {
		s.Fatal(err)
	}
	return conf
}

// settings are those with a systemctl that restarts this slurmctld.
func (s *site) settings(installed bool) Settings {
	return Settings{Conf: filepath.Join(s.dir, "slurm.conf"), Pending: s.running != installed, Restarts: true, Off: s.off, Systemctl: func(_ context.Context, args ...string) error {
		if args[0] == "restart" {
			s.running = s.conf().Included
		}
		return s.sound()
	}}
}

// off is what slurmctld says about the script.
func (s *site) off(context.Context) error {
	running := &slurm.Config{}
	if s.running {
		running.JobSubmitPlugins = []string{"lua"}
	}
	if who := InUse(JobSubmit, running, s.dir+"/slurm.conf", s.conf()); who != "" {
		return StillOn(who)
	}
	return nil
}

// sound says what would keep slurmctld from starting, or jobs from being submitted.
func (s *site) sound() error {
	switch {
	case s.conf().Included && !s.has(IncludeFile):
		return errors.New("slurm.conf includes what is not there")
	case (s.conf().Included || s.running) && !s.has("job_submit.lua"):
		return errors.New("JobSubmitPlugins=lua without job_submit.lua")
	}
	return nil
}

func (s *site) script() Script {
	return Script{JobSubmit, filepath.Join(s.dir, "job_submit.lua"), "-- " + Mark + "\n"}
}

func (s *site) install() (p Plan) {
	s.Helper()
	if err := errors.Join(p.Install(s.script()), p.InstallSettings(s.Context(), s.settings(true), s.conf(), "# "+Mark+"\nJobSubmitPlugins=lua\n")); err != nil {
		s.Fatal(err)
	}
	return p
}

func (s *site) remove() (p Plan) {
	s.Helper()
	if err := p.RemoveSettings(s.Context(), s.settings(false), s.conf(), s.script()); err != nil {
		s.Fatal(err)
	}
	return p
}

// R5: install and remove are cut off after each of their steps, and run again. At no moment
// would slurmctld not start, or refuse jobs.
func TestR5_InstallAndRemoveAreCutOff(t *testing.T) {
	all := len(newSite(t).install().Changes)
	if all != 4 {
		t.Fatalf("%d steps", all)
	}
	for stop := range all + 1 {
		for _, first := range []string{"install", "remove"} {
			t.Run(fmt.Sprintf("%s after %d", first, stop), func(t *testing.T) {
				s := newSite(t)
				apply := func(p Plan, most int) {
					t.Helper()
					p.Changes = p.Changes[:min(most, len(p.Changes))]
					if err := p.Apply(t.Context(), func(c Change) {
						if err := s.sound(); err != nil {
							t.Errorf("after %s %s: %v", c.Do, c.What, err)
						}
					}); err != nil {
						t.Fatal(err)
					}
				}
				if first == "install" {
					apply(s.install(), stop)
				} else {
					apply(s.install(), all)
					apply(s.remove(), stop)
				}
				apply(s.install(), all)
				if !s.running || !s.has("job_submit.lua") || len(s.install().Changes) > 0 {
					t.Errorf("not installed: %+v", s.install())
				}
				apply(s.remove(), stop)
				apply(s.remove(), all)
				if s.running || s.has("job_submit.lua") || s.has(IncludeFile) || len(s.remove().Changes) > 0 {
					t.Errorf("not removed: %+v", s.remove())
				}
				if text, _ := os.ReadFile(filepath.Join(s.dir, "slurm.conf")); string(text) != siteConf {
					t.Errorf("slurm.conf is\n%s", text)
				}
			})
		}
	}
}

// A file that somebody changes while the plan is shown is left alone, and modes stay.
func TestFileChangesMeanwhile(t *testing.T) {
	s := newSite(t)
	plan := s.install()
	s.write("slurm.conf", "ClusterName=other\n")
	if err := plan.Apply(t.Context(), func(Change) {}); err == nil || !strings.Contains(err.Error(), "has changed since") {
		t.Errorf("%v", err)
	}
	if text, _ := os.ReadFile(filepath.Join(s.dir, "slurm.conf")); string(text) != "ClusterName=other\n" {
		t.Errorf("slurm.conf is\n%s", text)
	}
	if err := s.install().Apply(t.Context(), func(Change) {}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(s.dir, "slurm.conf")); err != nil || info.Mode() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// A site's own script stays, also where it has lua switched on itself.
func TestR9_SitesOwnScripts(t *testing.T) {
	s := newSite(t)
	s.write("job_submit.lua", "-- the site's\n")
	plan := s.install()
	if len(plan.ByHand) != 1 || !strings.Contains(plan.ByHand[0], "pcall(dofile") || !strings.HasSuffix(plan.Changes[0].What, "/pcs-capacity-job_submit.lua") {
		t.Errorf("%+v", plan)
	}
	s = newSite(t)
	s.write("slurm.conf", siteConf+"JobSubmitPlugins=throttle,lua\n")
	if err := s.install().Apply(t.Context(), func(Change) {}); err != nil {
		t.Fatal(err)
	}
	plan = s.remove()
	if err := plan.Apply(t.Context(), func(Change) {}); err != nil || !s.has("job_submit.lua") || len(plan.ByHand) != 1 {
		t.Errorf("a script that slurm.conf itself has switched on: %v, %+v", err, plan)
	}
}

func TestInclude(t *testing.T) {
	s := newSite(t)
	s.write("slurm.conf", siteConf+"ResumeTimeout=1800\nSuspendTime=300\nGresTypes=gpu\nProlog=/site/prolog\n")
	settings := capacity.Settings{Partitions: []capacity.PartitionSettings{
		{Name: "gpu", Provider: capacity.ProviderEC2, Groups: []capacity.GroupSettings{
			{Name: "gpu", InstanceType: "p5.48xlarge", MaxNodes: 3, Slots: 1, Dynamic: true},
			{Name: "two", InstanceType: "p5.48xlarge", PurchaseOption: capacity.CapacityBlock, MaxNodes: 2, Slots: 2},
			{Name: "old", InstanceType: "c7i.4xlarge", Nodes: []string{"n01", "n02"}, Dynamic: true}}},
		{Name: "cpu", Provider: capacity.ProviderEC2},
		{Name: "managed", Provider: capacity.ProviderPCS, Groups: []capacity.GroupSettings{{Name: "pcs", MaxNodes: 9}}},
	}}
	text, notes, err := Include{Settings: settings, Site: s.conf(), Version: slurm.Version{Major: 24, Minor: 11}, Programs: "/p", Prolog: true,
		Types: map[string]ec2.InstanceType{"p5.48xlarge": {VCPUs: 192, MemoryMiB: 1000, GPUs: 8}, "c7i.4xlarge": {VCPUs: 16, MemoryMiB: 100}}}.Text()
	want := `# Written by ` + "`pcs-capacity hooks install`" + `; do not edit, it is written anew.
ResumeProgram=/p/pcs-capacity-resume
SuspendProgram=/p/pcs-capacity-suspend
ResumeFailProgram=/p/pcs-capacity-suspend
SuspendTimeout=120
TreeWidth=65533
JobSubmitPlugins=lua
SlurmctldParameters=enable_configless,idle_on_node_suspend
SuspendExcNodes=two-a-[1-2],two-b-[1-2]
TaskProlog=/p/pcs-capacity-prolog
PrologFlags=Alloc
NodeName=gpu-3 CPUs=192 RealMemory=950 Gres=gpu:8 Features=gpu State=CLOUD
NodeName=two-a-[1-2] CPUs=192 RealMemory=950 Gres=gpu:8 Features=two-a State=CLOUD
NodeName=two-b-[1-2] CPUs=192 RealMemory=950 Gres=gpu:8 Features=two-b State=CLOUD
NodeName=n[01-02] CPUs=16 RealMemory=95 Features=old State=CLOUD
PartitionName=gpu Nodes=gpu-[1-3],n[01-02],two-a-[1-2],two-b-[1-2] State=UP
`
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(text, "\n")); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if len(notes) != 1 || notes[0] != "Prolog is your own, /site/prolog: let it call /p/pcs-capacity-prolog" {
		t.Errorf("%q", notes)
	}
}

// A site that launches nodes of its own keeps the program for them: ours calls it.
func TestIncludeBesideAProgramOfTheSite(t *testing.T) {
	s := newSite(t)
	s.write("slurm.conf", "ResumeProgram=/aws/resume.py\nSuspendProgram=/aws/suspend.py\nResumeFailProgram=/aws/failed.py\n")
	text, notes, err := Include{Site: s.conf(), Programs: "/p"}.Text()
	if err != nil || len(notes) != 1 || !strings.HasPrefix(notes[0], "ResumeFailProgram is your own, /aws/failed.py, and is not called any more") {
		t.Errorf("%q, %v", notes, err)
	}
	s.write(IncludeFile, text)
	for key, want := range map[string]string{"ResumeProgram": "/aws/resume.py", "SuspendProgram": "/aws/suspend.py"} {
		if got := slurm.SiteProgram(filepath.Join(s.dir, "slurm.conf"), key); got != want || !strings.Contains(text, "\n"+key+"=/p/pcs-capacity-") {
			t.Errorf("%s: %q, want %q, in\n%s", key, got, want, text)
		}
	}
	// One of ours in another folder is no site's.
	s.write("slurm.conf", "ResumeProgram=/old/pcs-capacity-resume\n")
	if text, _, err := (Include{Site: s.conf(), Programs: "/p"}).Text(); err != nil || strings.Contains(text, "/old") {
		t.Errorf("%v\n%s", err, text)
	}
}

// PCS changes a cluster only while everything in it is ACTIVE.
func TestSwitchOn(t *testing.T) {
	cluster := Cluster{Inventory: pcs.Inventory{Cluster: pcs.Cluster{Name: "ml", Status: pcs.Active, SlurmSettings: map[string]string{"Prolog": "/site/prolog", "MinJobAge": "60"}}}}
	var p Plan
	if err := p.SwitchOn(cluster, "/p"); err != nil || len(p.ByHand) != 1 ||
		p.Changes[0].Diff != "+CliFilterPlugins=cli_filter/lua\n MinJobAge=60\n" && !strings.Contains(p.Changes[0].Diff, "+TaskProlog=/p/pcs-capacity-prolog") {
		t.Errorf("%v, %+v", err, p)
	}
	cluster.Groups = []pcs.NodeGroup{{Name: "gpu-a", Status: pcs.Updating}}
	if err := new(Plan).SwitchOn(cluster, ""); err == nil || !strings.Contains(err.Error(), "node group gpu-a is UPDATING") {
		t.Errorf("%v", err)
	}
}

// Each version that AWS PCS has installed reads its own folder, and newer ones the one
// without a version, which may be a link.
func TestPCSFolders(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"slurm-24.11", "slurm-25.11"} {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	two := []string{root + "/slurm-24.11", root + "/slurm-25.11"}
	if diff := cmp.Diff(two, pcsFolders(root)); diff != "" {
		t.Error(diff)
	}
	if err := os.Symlink("slurm-25.11", root+"/slurm"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(two, pcsFolders(root)); diff != "" {
		t.Error(diff)
	}
	os.Remove(root + "/slurm")
	os.Mkdir(root+"/slurm", 0o755)
	if diff := cmp.Diff(append(two, root+"/slurm"), pcsFolders(root)); diff != "" {
		t.Error(diff)
	}
}

// A script goes only when nobody has Slurm run it.
func TestInUse(t *testing.T) {
	for _, c := range []struct {
		hook, conf string
		running    *slurm.Config
		want       string
	}{
		{CLIFilter, "", nil, ""},
		{CLIFilter, "", &slurm.Config{JobSubmitPlugins: []string{"lua"}}, ""},
		{CLIFilter, "", &slurm.Config{CliFilterPlugins: []string{"user_defaults", "lua"}}, "slurmctld has CliFilterPlugins=lua"},
		{CLIFilter, "CliFilterPlugins=lua\n", nil, "slurm.conf has CliFilterPlugins=lua"},
		{CLIFilter, "CliFilterPlugins=user_defaults,cli_filter/lua\n", &slurm.Config{}, "slurm.conf has CliFilterPlugins=lua"},
		{CLIFilter, "CliFilterPlugins=user_defaults\n", nil, ""},
		{JobSubmit, "", &slurm.Config{JobSubmitPlugins: []string{"lua"}}, "slurmctld has JobSubmitPlugins=lua"},
		{JobSubmit, "JobSubmitPlugins=lua\n", &slurm.Config{}, ""}, // restarted, it would not start; see RemoveSettings
		{JobSubmit, "JobSubmitPlugins=job_submit/lua\n", nil, "slurm.conf has JobSubmitPlugins=lua"},
		{JobSubmit, IncludeLine + "\n", nil, "slurm.conf has Include pcs-capacity.conf, with JobSubmitPlugins=lua"},
	} {
		s := newSite(t)
		s.write("slurm.conf", siteConf+c.conf)
		if got := InUse(c.hook, c.running, "slurm.conf", s.conf()); got != c.want {
			t.Errorf("%s %q %+v: %q, want %q", c.hook, c.conf, c.running, got, c.want)
		}
	}
}

// slurmctld still runs the script after its restart, or without one: the script stays.
func TestScriptThatSlurmctldRunsStays(t *testing.T) {
	s := newSite(t)
	if err := s.install().Apply(t.Context(), func(Change) {}); err != nil {
		t.Fatal(err)
	}
	deaf := s.settings(false)
	deaf.Systemctl = func(context.Context, ...string) error { return nil }
	var p Plan
	if err := p.RemoveSettings(t.Context(), deaf, s.conf(), s.script()); err != nil {
		t.Fatal(err)
	}
	if err := p.Apply(t.Context(), func(Change) {}); err == nil || !s.has("job_submit.lua") {
		t.Errorf("after a restart without effect: %v", err)
	}
	deaf.Pending = false // as for partitions that are no longer in the settings
	if err := new(Plan).RemoveSettings(t.Context(), deaf, s.conf(), s.script()); err == nil || !strings.Contains(err.Error(), "slurmctld has JobSubmitPlugins=lua") {
		t.Errorf("without a restart: %v", err)
	}
}

// What a site has of its own survives: a script that needs ours keeps it, lines in ours are kept.
func TestR9_RemoveLosesNothingOfTheSites(t *testing.T) {
	s := newSite(t)
	beside := s.dir + "/pcs-capacity-job_submit.lua"
	s.write("pcs-capacity-job_submit.lua", s.script().Text)
	for text, want := range map[string]bool{
		"-- rules\npcall(dofile, \"" + beside + "\")\n": false,
		"-- dofile(\"" + beside + "\")\n":               false,
		"dofile(\"" + beside + "\")\n":                  true,
		"require(\"pcs-capacity-job_submit\")\n":        true,
	} {
		s.write("job_submit.lua", text)
		if err := new(Plan).Remove(s.script(), nil); (err != nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	s.write("job_submit.lua", s.script().Text+"-- the site's\n")
	var p Plan
	if err := p.Remove(s.script(), nil); err != nil {
		t.Fatal(err)
	}
	if err := p.Apply(t.Context(), func(Change) {}); err != nil || s.has("job_submit.lua") || !s.has("job_submit.lua.removed") || len(p.ByHand) != 1 {
		t.Errorf("%v, %+v", err, p)
	}
}

// The script is where Slurm reads it: CliFilterParameters names another one from 25.11 on.
func TestScriptPaths(t *testing.T) {
	s := newSite(t)
	own := s.dir + "/cli_filter.lua"
	for _, c := range []struct {
		hook, conf string
		running    *slurm.Config
		dirs       []string
		want       string
	}{
		{CLIFilter, "", nil, []string{s.dir, "/other"}, own + " /other/cli_filter.lua"},
		{CLIFilter, "", &slurm.Config{CliFilterScript: "/site/filter.lua"}, []string{s.dir, "/other"}, "/site/filter.lua"},
		{CLIFilter, "CliFilterParameters=a=b,cli_filter_lua_path=/site/filter.lua\n", nil, []string{s.dir}, "/site/filter.lua"},
		{CLIFilter, "CliFilterParameters=cli_filter_lua_path=/site/filter.lua\n", &slurm.Config{}, []string{s.dir}, own},
		{JobSubmit, "", &slurm.Config{CliFilterScript: "/site/filter.lua"}, []string{s.dir}, s.dir + "/job_submit.lua"},
	} {
		s.write("slurm.conf", siteConf+c.conf)
		if got := strings.Join(ScriptPaths(c.hook, c.running, c.dirs), " "); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// The person's part is said only while it is not done.
func TestSwitchOnWithAnotherScript(t *testing.T) {
	s := newSite(t)
	theirs := s.dir + "/filter.lua"
	cluster := Cluster{Inventory: pcs.Inventory{Cluster: pcs.Cluster{Name: "ml", Status: pcs.Active,
		SlurmSettings: map[string]string{"CliFilterParameters": "cli_filter_lua_path=" + theirs}}}}
	said := func(p Plan) int {
		t.Helper()
		if err := p.SwitchOn(cluster, ""); err != nil {
			t.Fatal(err)
		}
		return len(p.ByHand)
	}
	var writes Plan
	if err := writes.Install(Script{CLIFilter, theirs, s.script().Text}); err != nil {
		t.Fatal(err)
	}
	if n := said(Plan{}); n != 1 {
		t.Errorf("missing: %d sentences", n)
	}
	if n := said(writes); n != 0 {
		t.Errorf("about to be written: %d sentences", n)
	}
	s.write("filter.lua", s.script().Text)
	if n := said(Plan{}); n != 0 {
		t.Errorf("there: %d sentences", n)
	}
}

// What goes with a new include, and whose jobs end with it.
func TestGone(t *testing.T) {
	site := newSite(t).conf() // has cpu-1, gpu-1, gpu-2, and partition cpu
	const before = "NodeName=gpu-[1-4] CPUs=4\nNodeName=big-[1-2] CPUs=4\nPartitionName=gpu Nodes=gpu-[1-4]\nPartitionName=big Nodes=big-[1-2] State=UP\nPartitionName=cpu Nodes=cpu-1\n"
	job := func(id int, state, partition, nodes string) slurm.Job {
		return slurm.Job{ID: id, State: state, Partition: partition, Nodes: nodes, NumNodes: 1}
	}
	jobs := []slurm.Job{job(1, "RUNNING", "gpu", "gpu-1"), job(2, "RUNNING", "gpu", "gpu-[3-4]"), job(3, "PENDING", "gpu", ""), job(4, "PENDING", "gpu,cpu", ""),
		job(5, "RUNNING", "big", "big-1"), job(6, "COMPLETED", "big", "big-1"), job(7, "RUNNING", "cpu", "cpu-1")}
	for after, want := range map[string]struct{ gone, jobs string }{
		before: {"", ""},
		"NodeName=gpu-[1-3] CPUs=4\nNodeName=big-[1-2] CPUs=4\nPartitionName=gpu Nodes=gpu-[1-3]\nPartitionName=big Nodes=big-[1-2]\n": {"nodes gpu-4", "2"},
		"NodeName=gpu-[1-4] CPUs=8\nPartitionName=gpu Nodes=gpu-[1-4]\n":                                                               {"nodes big-[1-2] and partition big", "5"},
		"": {"nodes big-[1-2],gpu-[3-4] and partition big, gpu", "1 2 3 5"},
	} {
		g, err := goneWith(site, before, after)
		ids, jobsErr := g.jobs(jobs)
		if err := errors.Join(err, jobsErr); err != nil || g.String() != want.gone || strings.Join(ids, " ") != want.jobs {
			t.Errorf("after %q: %s goes, and jobs %v; want %+v (%v)", after, g, ids, want, err)
		}
	}
}

// Only nodes of Capacity Blocks are kept from being powered down.
func TestStaysUp(t *testing.T) {
	for _, test := range []struct {
		option  capacity.Kind
		dynamic bool
		want    bool
	}{
		{capacity.CapacityBlock, false, true}, {capacity.CapacityBlock, true, false}, {capacity.ODCR, false, false},
		{capacity.InterruptibleODCR, false, false}, {capacity.Mixed, false, false}, {capacity.OnDemand, false, false},
	} {
		settings := capacity.Settings{Partitions: []capacity.PartitionSettings{{Name: "gpu", Provider: capacity.ProviderEC2, Groups: []capacity.GroupSettings{
			{Name: "gpu", InstanceType: "p5.48xlarge", PurchaseOption: test.option, MaxNodes: 2, Slots: 1, Dynamic: test.dynamic}}}}}
		text, _, err := Include{Settings: settings, Site: newSite(t).conf(), Programs: "/p", Types: map[string]ec2.InstanceType{"p5.48xlarge": {VCPUs: 192}}}.Text()
		if got := strings.Contains(text, "SuspendExcNodes="); err != nil || got != test.want {
			t.Errorf("%s, dynamic %t: excluded %t (%v)\n%s", test.option, test.dynamic, got, err, text)
		}
	}
}
