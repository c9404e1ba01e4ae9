package wiring

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	return Settings{Conf: filepath.Join(s.dir, "slurm.conf"), Gres: "# " + Mark + "\n", Pending: s.running != installed, Restarts: true, Off: s.off, Systemctl: func(_ context.Context, args ...string) error {
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

func (s *site) gres() Gres {
	s.Helper()
	gres, err := ReadGres(filepath.Join(s.dir, "gres.conf"))
	if err != nil {
		s.Fatal(err)
	}
	return gres
}

// sound says what would keep slurmctld from starting, or jobs from being submitted.
func (s *site) sound() error {
	switch {
	case s.gres().Included && !s.has(GresFile):
		return errors.New("gres.conf includes what is not there")
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
	if all != 6 {
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
				if s.running || s.has("job_submit.lua") || s.has(IncludeFile) || s.has(GresFile) || s.has("gres.conf") || len(s.remove().Changes) > 0 {
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
	s.write("slurm.conf", strings.ReplaceAll(siteConf, "enable_configless", "reboot_from_controller")+"PartitionName=DEFAULT SuspendTimeout=60\nResumeTimeout=1800\nSuspendTime=300\nGresTypes=gpu\nProlog=/site/prolog\n")
	settings := capacity.Settings{Partitions: []capacity.PartitionSettings{
		{Name: "gpu", Provider: capacity.ProviderEC2, Groups: []capacity.GroupSettings{
			{Name: "gpu", InstanceType: "p5.48xlarge", MaxNodes: 3, Slots: 1, Dynamic: true},
			{Name: "two", InstanceType: "p5.48xlarge", PurchaseOption: capacity.CapacityBlock, MaxNodes: 2, Slots: 2, LaunchTemplate: "served"},
			{Name: "old", InstanceType: "c7i.4xlarge", Nodes: []string{"n01", "n02"}, Dynamic: true}}},
		{Name: "cpu", Provider: capacity.ProviderEC2},
		{Name: "managed", Provider: capacity.ProviderPCS, Groups: []capacity.GroupSettings{{Name: "pcs", MaxNodes: 9}}},
	}}
	text, notes, err := Include{Settings: settings, Site: s.conf(), Version: slurm.Version{Major: 24, Minor: 11}, Programs: "/p", Prolog: true,
		Templates: map[string]capacity.LaunchTemplate{"served": {UserData: []byte("slurmd --conf-server head\n")}},
		Types:     map[string]ec2.InstanceType{"p5.48xlarge": {VCPUs: 192, MemoryMiB: 1000, GPUs: 8}, "c7i.4xlarge": {VCPUs: 16, MemoryMiB: 100}}}.Text()
	want := `# Written by ` + "`pcs-capacity hooks install`" + `; do not edit, it is written anew.
ResumeProgram=/p/pcs-capacity-resume
SuspendProgram=/p/pcs-capacity-suspend
ResumeFailProgram=/p/pcs-capacity-suspend
TreeWidth=65533
JobSubmitPlugins=lua
SlurmctldParameters=reboot_from_controller,idle_on_node_suspend,enable_configless
SuspendExcNodes=two-a-[1-2],two-b-[1-2],cpu-1
TaskProlog=/p/pcs-capacity-prolog
PrologFlags=Alloc
NodeName=gpu-3 CPUs=192 RealMemory=950 Gres=gpu:8 Features=gpu State=CLOUD
NodeName=two-a-[1-2] CPUs=192 RealMemory=950 Gres=gpu:8 Features=two-a State=CLOUD
NodeName=two-b-[1-2] CPUs=192 RealMemory=950 Gres=gpu:8 Features=two-b State=CLOUD
NodeName=n[01-02] CPUs=16 RealMemory=95 Features=old State=CLOUD
PartitionName=gpu Nodes=gpu-[1-3],n[01-02],two-a-[1-2],two-b-[1-2] SuspendTimeout=120 State=UP
`
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(text, "\n")); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if diff := cmp.Diff([]string{"Prolog is your own, /site/prolog: let it call /p/pcs-capacity-prolog",
		"slurm.conf has PartitionName=cpu itself: add SuspendTimeout=120 to that line"}, notes); diff != "" {
		t.Error(diff)
	}
}

// Whatever a plain slurm.conf says of power saving, only partitions of ours change.
func TestR9_PowerSavingOfTheSites(t *testing.T) {
	settings := capacity.Settings{Partitions: []capacity.PartitionSettings{{Name: "gpu", Provider: capacity.ProviderEC2, Groups: []capacity.GroupSettings{
		{Name: "gpu", InstanceType: "c7i.4xlarge", MaxNodes: 2, Slots: 1, Dynamic: true}}}}}
	settings.Timing.BootAllowance.Duration = 20 * time.Minute
	for conf, want := range map[string]string{
		"": "ResumeTimeout=1200 SuspendTimeout=120 SuspendTime=600",
		"SuspendTime=INFINITE\nResumeTimeout=300\nSuspendTimeout=30\n":        "ResumeTimeout=1200 SuspendTimeout=120 SuspendTime=600",
		"SuspendTime=-1\nResumeTimeout=3600\nSuspendTimeout=300\n":            "SuspendTime=600",
		"SuspendTime=300\nSuspendProgram=/p/pcs-capacity-suspend\n":           "ResumeTimeout=1200 SuspendTimeout=120",
		"PartitionName=DEFAULT SuspendTime=60 ResumeTimeout=1300 MaxTime=1\n": "SuspendTimeout=120",
	} {
		s := newSite(t)
		s.write("slurm.conf", siteConf+conf)
		text, _, err := Include{Settings: settings, Site: s.conf(), Programs: "/p", Types: map[string]ec2.InstanceType{"c7i.4xlarge": {VCPUs: 16, MemoryMiB: 100}}}.Text()
		if err != nil || !strings.HasSuffix(text, "\nPartitionName=gpu Nodes=gpu-[1-2] "+want+" State=UP\n") ||
			strings.Contains(text, "\nResumeTimeout") || strings.Contains(text, "\nSuspendTime") || strings.Contains(text, "\nSuspendExcNodes") {
			t.Errorf("%q: %v\n%s", conf, err, text)
		}
	}
}

// A partition of the site that takes our nodes in is named, with the line that keeps them out.
func TestWarnings(t *testing.T) {
	settings := capacity.Settings{Partitions: []capacity.PartitionSettings{{Name: "gpu", Provider: capacity.ProviderEC2, Groups: []capacity.GroupSettings{{Name: "gpu", MaxNodes: 4, Slots: 1}}}}}
	const takes = " takes gpu-[1-4] in: its jobs run on reserved capacity, and nothing here checks them; "
	for conf, want := range map[string]string{
		"NodeName=cpu-[1-2]\nPartitionName=cpu Nodes=cpu-[1-2] Default=YES\n":                                           "",
		"NodeName=cpu-[1-2]\nPartitionName=debug Nodes=ALL Default=YES State=UP\n":                                      "partition debug with Nodes=ALL" + takes + "write Nodes=cpu-[1-2] into its line of slurm.conf",
		"NodeName=DEFAULT CPUs=4\nNodeName=cpu-1\nPartitionName=debug \\\n Default=YES nodes=all # those of ours too\n": "partition debug with Nodes=all" + takes + "write Nodes=cpu-1 into its line of slurm.conf",
		"NodeName=cpu-1\nPartitionName=DEFAULT Nodes=ALL\nPartitionName=debug Default=YES\n":                            "partition debug with Nodes=ALL" + takes + "write Nodes=cpu-1 into its line of slurm.conf",
		"NodeName=gpu-[1-4],cpu-1\nPartitionName=old Nodes=gpu-[1-4],cpu-1\nPartitionName=gpu Nodes=gpu-[1-4]\n":        "partition old with Nodes=gpu-[1-4],cpu-1" + takes + "write Nodes=cpu-1 into its line of slurm.conf",
		"PartitionName=debug Nodes=ALL Default=YES\n":                                                                   "partition debug with Nodes=ALL" + takes + "take it out of slurm.conf",
		"NodeName=cpu-1\nPartitionName=gpu Nodes=ALL\n":                                                                 "",
	} {
		s := newSite(t)
		s.write("slurm.conf", conf)
		got, err := Include{Settings: settings, Site: s.conf()}.Warnings()
		if err != nil || strings.Join(got, "\n") != want {
			t.Errorf("%s: %v\n%s\nwant %s", conf, err, strings.Join(got, "\n"), want)
		}
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

// What PCS will not make ACTIVE by itself takes more than running this again.
func TestSwitchOnWhereAWaitDoesNotHelp(t *testing.T) {
	for _, c := range []struct {
		cluster, group, queue pcs.Status
		want, not             string
	}{
		{cluster: pcs.Updating, want: "ACTIVE; run this again then"},
		{group: pcs.Creating, queue: pcs.Updating, want: "ACTIVE; run this again then"},
		{group: pcs.Deleting, want: "ACTIVE; run this again then"},
		{cluster: "RESUMING", want: "ACTIVE; run this again then"},
		{cluster: pcs.Suspended, want: "ACTIVE; move it to a newer Slurm"},
		{cluster: pcs.CreateFailed, want: "ACTIVE; name another cluster", not: "run this again"},
		{cluster: pcs.Deleting, want: "ACTIVE; name another cluster", not: "run this again"},
		{group: pcs.UpdateFailed, want: "node group g is UPDATE_FAILED (InternalError: no luck), and PCS changes the settings of a cluster only while everything in it is ACTIVE; mend what the update of node group g failed on and update it, or delete it; then run this again"},
		{group: pcs.CreateFailed, queue: pcs.Updating, want: "ACTIVE; delete node group g; then run this again"},
		{queue: pcs.CreateFailed, want: "ACTIVE; delete queue q; then run this again"},
		{queue: pcs.DeleteFailed, want: "ACTIVE; delete queue q; then run this again"},
	} {
		or := func(s, other pcs.Status) pcs.Status {
			if s == "" {
				return other
			}
			return s
		}
		cluster := Cluster{Inventory: pcs.Inventory{Cluster: pcs.Cluster{Name: "ml", Status: or(c.cluster, pcs.Active)},
			Groups: []pcs.NodeGroup{{Name: "g", Status: or(c.group, pcs.Active), Failures: pcs.Failures{{Code: "InternalError", Message: "no luck"}}}},
			Queues: []pcs.Queue{{Name: "q", Status: or(c.queue, pcs.Active)}}}}
		err := new(Plan).SwitchOn(cluster, "")
		if err == nil || !strings.Contains(err.Error(), c.want) || c.not != "" && strings.Contains(err.Error(), c.not) {
			t.Errorf("%+v: %v", c, err)
		}
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
	job := func(id int, state, partition, nodes string) capacity.Job {
		on, err := slurm.Expand(nodes)
		if err != nil {
			t.Fatal(err)
		}
		return capacity.Job{ID: id, Shown: fmt.Sprint(id), State: state, Partition: partition, Nodes: on, NumNodes: 1}
	}
	jobs := []capacity.Job{job(1, "RUNNING", "gpu", "gpu-1"), job(2, "RUNNING", "gpu", "gpu-[3-4]"), job(3, "PENDING", "gpu", ""), job(4, "PENDING", "gpu,cpu", ""),
		job(5, "RUNNING", "big", "big-1"), job(6, "COMPLETED", "big", "big-1"), job(7, "RUNNING", "cpu", "cpu-1")}
	for after, want := range map[string]struct{ gone, jobs string }{
		before: {"", ""},
		"NodeName=gpu-[1-3] CPUs=4\nNodeName=big-[1-2] CPUs=4\nPartitionName=gpu Nodes=gpu-[1-3]\nPartitionName=big Nodes=big-[1-2]\n": {"nodes gpu-4", "2"},
		"NodeName=gpu-[1-4] CPUs=8\nPartitionName=gpu Nodes=gpu-[1-4]\n":                                                               {"nodes big-[1-2] and partition big", "5"},
		"": {"nodes big-[1-2],gpu-[3-4] and partition big, gpu", "1 2 3 5"},
	} {
		g, err := goneWith(site, before, after)
		ids := g.jobs(jobs)
		if err != nil || g.String() != want.gone || strings.Join(ids, " ") != want.jobs {
			t.Errorf("after %q: %s goes, and jobs %v; want %+v (%v)", after, g, ids, want, err)
		}
	}
}

// Nodes that go are drained where slurmctld has them. Where it does not say which it has, that
// is left to a person, and so is the restart.
func TestNodesThatGoAreDrained(t *testing.T) {
	for name, test := range map[string]struct {
		answer           string
		drains, restarts bool
		byHand           string
	}{
		"there":         {"echo NodeName=gpu-3 NodeAddr=gpu-3 State=IDLE", true, true, ""},
		"powered down":  {":", false, true, ""},
		"none":          {"echo No nodes in the system", false, true, ""},
		"never heard":   {"echo slurm_load_node error: Invalid node name specified >&2; exit 1", false, true, ""},
		"garbage":       {"printf '\\0<html>502\\n=,|%s\\n{'", false, false, "reason="},
		"does not work": {"echo slurm_load_node error: Zero Bytes were transmitted or received >&2; exit 1", false, false, "reason="},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.install()
			s.write(IncludeFile, "# "+Mark+"\nNodeName=gpu-[3-4] CPUs=4\n")
			s.write("slurm.conf", siteConf+IncludeLine+"\n")
			bin := t.TempDir()
			for program, script := range map[string]string{"squeue": "exit 0", "scontrol": `case "$*" in *"show node gpu"*) ` + test.answer + `;; esac`} {
				if err := os.WriteFile(filepath.Join(bin, program), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			with := s.settings(false)
			with.Slurm = &slurm.Client{Dir: bin}
			s.write("job_submit.lua", s.script().Text)
			var p Plan
			if err := p.RemoveSettings(t.Context(), with, s.conf(), s.script()); err != nil {
				t.Fatal(err)
			}
			if said := strings.Join(p.ByHand, "\n"); p.has("drain") != test.drains || p.Restarts() != test.restarts || !strings.Contains(said, test.byHand) || (said == "") != (test.byHand == "") {
				t.Errorf("%+v", p)
			}
		})
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
		{capacity.OnDemand, false, false},
	} {
		settings := capacity.Settings{Partitions: []capacity.PartitionSettings{{Name: "gpu", Provider: capacity.ProviderEC2, Groups: []capacity.GroupSettings{
			{Name: "gpu", InstanceType: "p5.48xlarge", PurchaseOption: test.option, MaxNodes: 2, Slots: 1, Dynamic: test.dynamic}}}}}
		text, _, err := Include{Settings: settings, Site: newSite(t).conf(), Programs: "/p", Types: map[string]ec2.InstanceType{"p5.48xlarge": {VCPUs: 192}}}.Text()
		if got := strings.Contains(text, "SuspendExcNodes="); err != nil || got != test.want {
			t.Errorf("%s, dynamic %t: excluded %t (%v)\n%s", test.option, test.dynamic, got, err, text)
		}
	}
}

// Our nodes with GPUs have their files in gres.conf, and the site's lines stay.
func TestGres(t *testing.T) {
	types := map[string]ec2.InstanceType{"p5.48xlarge": {GPUs: 8, GPUFiles: "/dev/nvidia"}, "trn1.32xlarge": {GPUs: 16, GPUFiles: "/dev/neuron"}, "g4ad.xlarge": {GPUs: 1}, "c7i.4xlarge": {}}
	const ours = "NodeName=gpu-[1-2] AutoDetect=off Name=gpu File=/dev/nvidia[0-7]\n"
	for _, c := range []struct{ instance, gres, want, note string }{
		{"p5.48xlarge", "", ours, ""},
		{"p5.48xlarge", "AutoDetect=nvml\nNodeName=cpu-1 Name=gpu File=/dev/nvidia0\n", ours, ""},
		{"p5.48xlarge", "NodeName=gpu-1 Name=gpu \\\n File=/dev/nvidia[0-7] # ours, by hand\n", strings.ReplaceAll(ours, "gpu-[1-2]", "gpu-2"), ""},
		{"p5.48xlarge", "Include nodes-gres.conf\n", "", ""},
		{"p5.48xlarge", "Name=gpu File=/dev/nvidia0\n", "", "gres.conf has a line with Name=gpu and no NodeName"},
		{"trn1.32xlarge", "", "NodeName=gpu-[1-2] AutoDetect=off Name=gpu File=/dev/neuron[0-15]\n", ""},
		{"g4ad.xlarge", "", "", "write a line for the 1 GPUs of gpu-[1-2] (g4ad.xlarge) into gres.conf"},
		{"c7i.4xlarge", "", "", ""},
	} {
		s := newSite(t)
		s.write("gres.conf", c.gres)
		s.write("nodes-gres.conf", "NodeName=gpu-[1-4] Name=gpu File=/dev/nvidia[0-7]\n")
		in := Include{Types: types, Settings: capacity.Settings{Partitions: []capacity.PartitionSettings{{Name: "gpu", Provider: capacity.ProviderEC2, Groups: []capacity.GroupSettings{
			{Name: "gpu", InstanceType: c.instance, MaxNodes: 2, Slots: 1}}}}}}
		text, notes := in.Gres(s.gres())
		if _, lines, _ := strings.Cut(text, "\n"); lines != c.want || !strings.Contains(strings.Join(notes, "; "), c.note) || (c.note == "") != (len(notes) == 0) {
			t.Errorf("%s %q: %s%q", c.instance, c.gres, text, notes)
		}
	}
}

// gres.conf keeps what the site has in it, and our line goes with the GPUs.
func TestR9_SitesGresConf(t *testing.T) {
	s := newSite(t)
	const own = "NodeName=cpu-1 Name=gpu File=/dev/nvidia0"
	s.write("gres.conf", own)
	for _, gres := range []string{"# " + Mark + "\n", ""} {
		var p Plan
		settings := s.settings(true)
		settings.Gres = gres
		err := p.InstallSettings(t.Context(), settings, s.conf(), "# "+Mark+"\nJobSubmitPlugins=lua\n")
		s.write("job_submit.lua", s.script().Text)
		if err == nil {
			err = p.Apply(t.Context(), func(Change) {})
		}
		text, _ := os.ReadFile(filepath.Join(s.dir, "gres.conf"))
		want := own + "\n"
		if gres != "" {
			want += gresLine + "\n"
		}
		if err != nil || string(text) != want || s.has(GresFile) != (gres != "") || !p.Restarts() {
			t.Errorf("%q: %v, gres.conf is %s, %+v", gres, err, text, p)
		}
	}
}

// Nodes of ours that slurm.conf has itself keep the line that exempts them from AutoDetect for all nodes, with which
// slurmctld would not start.
func TestAutoDetectKeepsOurGres(t *testing.T) {
	const nodes = "NodeName=gpu-[1-2] Gres=gpu:8 State=CLOUD\n"
	for _, c := range []struct {
		gres, conf, left, want string
	}{
		{"AutoDetect=nvml\n", nodes, "", "gpu-[1-2]"},
		{"AutoDetect=nvml\n", nodes, "NodeName=gpu-1 AutoDetect=off Name=gpu File=/dev/nvidia[0-7]\n", "gpu-2"},
		{"AutoDetect=nvml\n", nodes, "NodeName=gpu-[1-2] AutoDetect=off Name=gpu File=/dev/nvidia[0-7]\n", ""},
		{"AutoDetect=nvml\nNodeName=gpu-[1-2] AutoDetect=off\n", nodes, "", ""},
		{"AutoDetect=off\n", nodes, "", ""},
		{"NodeName=cpu-1 AutoDetect=nvml\n", nodes, "", ""},
		{"AutoDetect=nvml\n", "", "", ""},
	} {
		for _, remove := range []bool{false, true} {
			s := newSite(t)
			s.write("slurm.conf", "SlurmctldParameters=enable_configless\n"+c.conf+IncludeLine+"\n")
			s.write("gres.conf", c.gres+gresLine+"\n")
			s.write(GresFile, "# "+Mark+"\nNodeName=gpu-[1-2] AutoDetect=off Name=gpu File=/dev/nvidia[0-7]\n")
			s.write(IncludeFile, "# "+Mark+"\n")
			var p Plan
			settings := s.settings(true)
			want, err := c.want, error(nil)
			if remove {
				if c.left != "" {
					continue
				}
				err = p.RemoveSettings(t.Context(), settings, s.conf(), s.script())
			} else {
				if settings.Gres = ""; c.left != "" {
					settings.Gres = "# " + Mark + "\n" + c.left
				}
				err = p.InstallSettings(t.Context(), settings, s.conf(), "# "+Mark+"\n")
			}
			if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), "write `NodeName="+want+" AutoDetect=off` into gres.conf") {
				t.Errorf("%+v, removed %t: %v, %+v", c, remove, err, p.Changes)
			}
		}
	}
}

// What the site adds to a list after install is named, and merged by the next install, wherever
// its line is.
func TestR9_LaterEditsAreMerged(t *testing.T) {
	const ours = "# " + Mark + "\nSlurmctldParameters=enable_configless,idle_on_node_suspend\nJobSubmitPlugins=lua\n"
	for edit, want := range map[string]string{
		"SlurmctldParameters=enable_configless,reboot_from_controller\n" + IncludeLine + "\n": "slurm.conf has SlurmctldParameters=reboot_from_controller, and pcs-capacity.conf overrides it",
		IncludeLine + "\nSlurmctldParameters=enable_configless\n":                             "pcs-capacity.conf has SlurmctldParameters=idle_on_node_suspend, and a later line of slurm.conf overrides it",
		IncludeLine + "\nJobSubmitPlugins=lua,throttle\n":                                     "",
		IncludeLine + "\n": "",
		"SlurmctldParameters=reboot_from_controller\n": "",
	} {
		s := newSite(t)
		s.write("slurm.conf", "ClusterName=ml\n"+edit)
		s.write(IncludeFile, ours)
		var said []string
		for _, word := range Lost(s.conf(), ours) {
			said = append(said, word.String())
		}
		if got := strings.Join(said, "; "); got != want {
			t.Errorf("%q: %s", edit, got)
		}
		if want == "" {
			continue
		}
		if state, wrong, err := s.settings(true).State(nil); state != Old || len(wrong) != 1 || err != nil {
			t.Errorf("%q: %s, %q, %v", edit, state, wrong, err)
		}
		site := s.conf()
		text, _, err := Include{Site: site, Version: slurm.Version{Major: 24, Minor: 11}, Programs: "/p"}.Text()
		if both := "SlurmctldParameters=" + strings.Join(append(site.list("SlurmctldParameters"), "idle_on_node_suspend"), ",") + "\n"; !strings.Contains(text, both) {
			t.Errorf("%q: not %s in\n%s", edit, both, text)
		}
		var p Plan
		err = errors.Join(err, p.Install(s.script()), p.InstallSettings(t.Context(), s.settings(true), s.conf(), text))
		if err == nil {
			err = p.Apply(t.Context(), func(Change) {})
		}
		if lost := Lost(s.conf(), text); err != nil || len(lost) > 0 || strings.Count(s.conf().text, IncludeLine) != 1 {
			t.Errorf("%q: %v, %v", edit, err, lost)
		}
	}
}

// slurmctld has not read what slurm.conf says now.
func TestUnread(t *testing.T) {
	s := newSite(t)
	const ours = "JobSubmitPlugins=lua\n"
	s.write("slurm.conf", "SlurmctldParameters=enable_configless\n"+IncludeLine+"\n")
	want := []string{"slurmctld runs without SlurmctldParameters=enable_configless"}
	if diff := cmp.Diff(want, Unread(s.conf(), ours, slurm.Config{JobSubmitPlugins: []string{"lua"}})); diff != "" {
		t.Error(diff)
	}
	if unread := Unread(s.conf(), ours, slurm.Config{JobSubmitPlugins: []string{"lua"}, SlurmctldParameters: []string{"enable_configless"}}); len(unread) > 0 {
		t.Errorf("%q", unread)
	}
}
