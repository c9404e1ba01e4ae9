package hookinstall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
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
	dir     string
	running bool // slurmctld runs with our settings
	deaf    bool // a restart has no effect
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

func (s *site) conf() SlurmConf {
	s.Helper()

	conf, err := ReadSlurmConf(filepath.Join(s.dir, "slurm.conf"))
	if err != nil {
		s.Fatal(err)
	}

	return conf
}

func (s *site) settings(installed bool) Settings {
	return Settings{SlurmConf: s.conf(), Pending: s.running != installed, Restarts: true}
}

// Systemctl restarts this slurmctld.
func (s *site) Systemctl(_ context.Context, args ...string) error {
	if s.deaf {
		return nil
	}

	if args[0] == "restart" {
		s.running = s.conf().Included
	}

	return s.sound()
}

// ChangeClusterSettings is not for a site that runs Slurm itself.
func (s *site) ChangeClusterSettings(context.Context, string, map[string]string) error {
	return errors.New("there is no PCS cluster")
}

// CheckUnused is what slurmctld says about a script.
func (s *site) CheckUnused(_ context.Context, hook string, _ bool) error {
	running := slurm.Config{}
	if s.running {
		running.JobSubmitPlugins = []string{"lua"}
	}

	return s.conf().CheckHookOff(hook, running)
}

// sound says what would keep slurmctld from starting, or jobs from being submitted.
func (s *site) sound() error {
	_, gres, err := readLines(filepath.Join(s.dir, "gres.conf"), GresFile)
	switch {
	case err != nil || gres && !s.has(GresFile):
		return errors.New("gres.conf includes what is not there")
	case s.conf().Included && !s.has(IncludeFile):
		return errors.New("slurm.conf includes what is not there")
	case (s.conf().Included || s.running) && !s.has("job_submit.lua"):
		return errors.New("JobSubmitPlugins=lua without job_submit.lua")
	}

	return nil
}

func (s *site) script() Script {
	return Script{JobSubmit, filepath.Join(s.dir, "job_submit.lua"), "-- " + Header + "\n"}
}

func (s *site) install() Plan {
	s.Helper()

	p := Plan{World: s}

	if err := errors.Join(p.Install(s.script()),
		p.InstallSettings(s.Context(), s.settings(true), fileHeader+"JobSubmitPlugins=lua\n", fileHeader)); err != nil {
		s.Fatal(err)
	}

	return p
}

func (s *site) remove() Plan {
	s.Helper()

	p := Plan{World: s}

	if err := p.RemoveSettings(s.Context(), s.settings(false), s.script()); err != nil {
		s.Fatal(err)
	}

	return p
}

func (s *site) apply(p Plan) {
	s.Helper()

	if err := p.Apply(s.Context(), func(Change) {}); err != nil {
		s.Fatal(err)
	}
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
							t.Errorf("after %s: %v", c.Text, err)
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

				if s.running || s.has("job_submit.lua") || s.has(IncludeFile) || s.has(GresFile) ||
					s.has("gres.conf") ||
					len(s.remove().Changes) > 0 {
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

	if err := plan.Apply(t.Context(), func(Change) {}); err == nil ||
		!strings.Contains(err.Error(), "has changed since") {
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

// A site's own script stays, and so does ours while that names it, or while slurm.conf has lua itself.
func TestR9_SitesOwnScripts(t *testing.T) {
	s := newSite(t)
	beside := s.dir + "/pcs-capacity-job_submit.lua"
	s.write("job_submit.lua", "-- the site's\n")

	plan := s.install()
	if state, err := s.script().State(); state != Foreign || err != nil || len(plan.ByHand) != 1 ||
		!strings.Contains(plan.ByHand[0], "pcall(dofile") ||
		plan.Changes[0].Text != "write "+beside {
		t.Errorf("%s, %v, %+v", state, err, plan)
	}

	s.write("pcs-capacity-job_submit.lua", s.script().Text)

	for text, stays := range map[string]bool{
		"pcall(dofile, \"" + beside + "\")\n":    true,
		"require(\"pcs-capacity-job_submit\")\n": true,
		"-- dofile(\"" + beside + "\")\n":        false,
	} {
		s.write("job_submit.lua", text)

		p := Plan{World: s}

		err := p.Remove(t.Context(), s.script())
		if state, _ := s.script().State(); err != nil || stays != (len(p.Changes) == 0 && len(p.ByHand) == 1) ||
			stays != (state == Loaded) {
			t.Errorf("%s: %s, %v, %+v", text, state, err, p)
		}
	}

	s = newSite(t)
	s.write("slurm.conf", siteConf+"JobSubmitPlugins=throttle,lua\n")
	s.apply(s.install())
	plan = s.remove()
	s.apply(plan)

	if !s.has("job_submit.lua") || len(plan.ByHand) != 1 {
		t.Errorf("a script that slurm.conf itself has switched on: %+v", plan)
	}
}

// sites are slurm.conf and gres.conf of a site, with our files and notes for it. In each of ours, HEAD is the first
// line, and the settings that are the same for all are left out.
var sites = []struct {
	name, conf, gres string
	change           func(in *Include)
	// want are lines that have to be there, not words that may not be.
	want, not string
	wantGres  string
	notes     string
}{
	{
		name: "plain",
		want: `
ResumeProgram=/p/pcs-capacity-resume
SuspendProgram=/p/pcs-capacity-suspend
ResumeFailProgram=/p/pcs-capacity-suspend
TreeWidth=65533
RebootProgram=/sbin/reboot
JobSubmitPlugins=lua
SlurmctldParameters=idle_on_node_suspend
GresTypes=gpu
NodeName=gpu-[1-2] CPUs=192 Sockets=1 CoresPerSocket=96 ThreadsPerCore=2 RealMemory=950 Gres=gpu:h100:8 Features=gpu State=CLOUD
PartitionName=gpu Nodes=gpu-[1-2] ResumeTimeout=900 SuspendTimeout=120 SuspendTime=600 State=UP
`,
		not:      "SuspendExcNodes PrivateData Prolog AllowAccounts itself",
		wantGres: "NodeName=gpu-[1-2] AutoDetect=off Name=gpu Type=h100 File=/dev/nvidia[0-7]\n",
	},
	{
		name: "lists are merged, and kept",
		conf: "SlurmctldParameters=cloud_dns\nJobSubmitPlugins=throttle\nGresTypes=gpu\nTreeWidth=20\n" +
			"RebootProgram=/site/reboot\nPrivateData=jobs\n",
		change: func(in *Include) {
			in.Version, in.Templates = slurm.Version{
				Major: 22,
				Minor: 5,
			}, map[string]capacity.LaunchTemplate{
				"": {UserData: []byte("slurmd --conf-server head\n")},
			}
		},
		want: `
# slurm.conf itself has SlurmctldParameters=cloud_dns
# slurm.conf itself has JobSubmitPlugins=throttle
SlurmctldParameters=cloud_dns,idle_on_node_suspend,enable_configless
JobSubmitPlugins=throttle,lua
PrivateData=jobs,cloud
`,
		not: "GresTypes TreeWidth RebootProgram",
	},
	{
		name: "programs are chained",
		conf: "ResumeProgram=/aws/resume.py\nSuspendProgram=\"/aws/suspend.py\"\n" +
			"ResumeFailProgram=/aws/failed.py\nSuspendTime=300\n",
		want: `
# slurm.conf itself has ResumeProgram=/aws/resume.py
# slurm.conf itself has SuspendProgram=/aws/suspend.py
ResumeProgram=/p/pcs-capacity-resume
`,
		not:   "SuspendExcNodes",
		notes: "your own ResumeFailProgram, /aws/failed.py, is no longer called",
	},
	{name: "ours by hand", conf: "ResumeProgram=/old/pcs-capacity-resume\n", not: "/old"},
	{
		name: "nodes that nothing powered down",
		conf: "SuspendTime=300\nResumeTimeout=3600\nSuspendTimeout=30\nNodeName=cpu-[1-2]\n",
		want: `
SuspendExcNodes=cpu-[1-2]
PartitionName=gpu Nodes=gpu-[1-2] ResumeTimeout=3600 SuspendTimeout=120 SuspendTime=300 State=UP
`,
	},
	{
		name: "no power saving",
		conf: "SuspendTime=INFINITE\nNodeName=DEFAULT CPUs=1\nNodeName=cpu-1\n",
		want: `
PartitionName=gpu Nodes=gpu-[1-2] ResumeTimeout=900 SuspendTimeout=120 SuspendTime=600 State=UP
`,
		not: "SuspendExcNodes",
	},
	{
		name: "nodes and a partition of ours by hand, included",
		conf: "Include more.conf\n",
		want: `
NodeName=gpu-2 CPUs=192 Sockets=1 CoresPerSocket=96 ThreadsPerCore=2 RealMemory=950 Gres=gpu:h100:8 Features=gpu State=CLOUD
`,
		not:   "PartitionName",
		notes: "slurm.conf itself has PartitionName=gpu: add ResumeTimeout=900 SuspendTimeout=120 to that line",
	},
	{
		name:   "accounts",
		conf:   "AccountingStorageType=accounting_storage/slurmdbd\n",
		change: func(in *Include) { in.Settings.Partitions[0].AllowAccounts = []string{"nlp"} },
		want: `
PartitionName=gpu Nodes=gpu-[1-2] AllowAccounts=nlp ResumeTimeout=900 SuspendTimeout=120 SuspendTime=600 State=UP
`,
	},
	{
		name:   "accounts that nobody keeps",
		change: func(in *Include) { in.Settings.Partitions[0].AllowAccounts = []string{"nlp"} },
		not:    "AllowAccounts",
	},
	{
		name:   "a spare partition",
		change: lends,
		want: `
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=gpu-[1-2] CPUs=192 Sockets=1 CoresPerSocket=96 ThreadsPerCore=2 RealMemory=950 Gres=gpu:h100:8 Features=gpu State=CLOUD
PartitionName=gpu Nodes=gpu-[1-2] ResumeTimeout=900 SuspendTimeout=120 SuspendTime=600 State=UP
PartitionName=scavenge Nodes=gpu-[1-2] PriorityTier=0 PreemptMode=REQUEUE ResumeTimeout=900 SuspendTimeout=120 SuspendTime=600 State=UP
`,
	},
	{
		name: "a spare partition, and nodes on demand beside",
		change: func(in *Include) {
			lends(in)

			p := &in.Settings.Partitions[0]
			p.Groups = append(p.Groups, p.Groups[0])
			p.Groups[1].Name = "more"
			p.Groups[1].PurchaseOption = capacity.OnDemand
		},
		want: "\nPartitionName=scavenge Nodes=gpu-[1-2] PriorityTier=0 PreemptMode=REQUEUE R" +
			"esumeTimeout=900 SuspendTimeout=120 SuspendTime=600 State=UP\n",
	},
	{
		name:   "a spare partition where Slurm says that it preempts nothing",
		conf:   "PreemptType=preempt/none\nPreemptMode=OFF\n",
		change: lends,
		want:   "# slurm.conf itself has PreemptType=preempt/none\n",
	},
	{
		name:   "a spare partition where Slurm preempts by partition",
		conf:   "PreemptType=preempt/partition_prio\nPreemptMode=SUSPEND,GANG\nPartitionName=big PriorityTier=9\n",
		change: lends,
		want: "\nPartitionName=scavenge Nodes=gpu-[1-2] PriorityTier=0 PreemptMode=REQUEUE R" +
			"esumeTimeout=900 SuspendTimeout=120 SuspendTime=600 State=UP\n",
		not: "PreemptType SUSPEND",
	},
	{
		name:   "a spare partition where Slurm preempts otherwise",
		conf:   "PreemptType=preempt/qos\nPreemptMode=REQUEUE\n",
		change: lends,
		not:    "PreemptType",
		notes:  "jobs of partition scavenge keep their nodes: Slurm preempts jobs by preempt/qos",
	},
	{
		name:   "a spare partition beside others that would preempt",
		conf:   "PartitionName=big Nodes=cpu-1 PriorityTier=9\n",
		change: lends,
		not:    "PreemptType",
		notes:  "partition big has PriorityTier=9",
	},
	{
		name: "a block in two slots",
		change: func(in *Include) {
			g := group(in)
			g.PurchaseOption, g.Slots, g.Dynamic = capacity.CapacityBlock, 2, false
		},
		want: `
SuspendExcNodes=gpu-a-[1-2],gpu-b-[1-2]
NodeName=gpu-a-[1-2] CPUs=192 Sockets=1 CoresPerSocket=96 ThreadsPerCore=2 RealMemory=950 Gres=gpu:h100:8 Features=gpu-a State=CLOUD
NodeName=gpu-b-[1-2] CPUs=192 Sockets=1 CoresPerSocket=96 ThreadsPerCore=2 RealMemory=950 Gres=gpu:h100:8 Features=gpu-b State=CLOUD
`,
	},
	{
		name:   "a block on demand",
		change: func(in *Include) { group(in).PurchaseOption = capacity.CapacityBlock },
		not:    "SuspendExcNodes",
	},
	{name: "nodes with names", change: func(in *Include) { group(in).Nodes = []string{"n01", "n02"} }, want: `
NodeName=n[01-02] CPUs=192 Sockets=1 CoresPerSocket=96 ThreadsPerCore=2 RealMemory=950 Gres=gpu:h100:8 Features=gpu State=CLOUD
`},
	{
		name:   "a template without configless",
		change: func(in *Include) { in.Templates = map[string]capacity.LaunchTemplate{"": {Name: "lt"}} },
		not:    "enable_configless",
		notes:  "user data of launch template lt has no --conf-server",
	},
	{
		name: "what launches nodes is another's",
		conf: "ResumeProgram=/aws/resume.py\n",
		change: func(in *Include) {
			in.Settings.Partitions = in.Settings.Partitions[:1]
			in.Settings.Partitions[0].Provider = capacity.ProviderNone
		},
		want:     "\nJobSubmitPlugins=lua\n",
		not:      "ResumeProgram Suspend NodeName PartitionName Parameters",
		wantGres: "",
	},
	{
		name: "CpuOptions of the template",
		change: func(in *Include) {
			in.Templates = map[string]capacity.LaunchTemplate{
				"": {UserData: []byte("slurmd --conf-server head\n"), Cores: 48, ThreadsPerCore: 1},
			}
		},
		want: "\nNodeName=gpu-[1-2] CPUs=48 Sockets=1 CoresPerSocket=48 ThreadsPerCore=1 RealMemory=950 " +
			"Gres=gpu:h100:8 Features=gpu State=CLOUD\n",
	},
	{
		name:     "GPUs of the site",
		gres:     "AutoDetect=nvml\nNodeName=cpu-1 Name=gpu File=/dev/nvidia0\n",
		wantGres: "NodeName=gpu-[1-2] AutoDetect=off Name=gpu Type=h100 File=/dev/nvidia[0-7]\n",
	},
	{
		name: "a node of ours by hand",
		conf: "NodeName=gpu-1 CPUs=4 Gres=gpu:h100:8\n",
		want: "NodeName=gpu-2 CPUs=192 Sockets=1 CoresPerSocket=96 ThreadsPerCore=2 RealMemory=950 " +
			"Gres=gpu:h100:8 Features=gpu State=CLOUD\n",
		wantGres: "NodeName=gpu-[1-2] AutoDetect=off Name=gpu Type=h100 File=/dev/nvidia[0-7]\n",
	},
	{
		name:     "GPUs of ours by hand",
		gres:     "NodeName=gpu-1 Name=gpu \\\n File=/dev/nvidia[0-7] # ours\n",
		wantGres: "NodeName=gpu-2 AutoDetect=off Name=gpu Type=h100 File=/dev/nvidia[0-7]\n",
	},
	{
		name:   "GPUs without files",
		change: func(in *Include) { group(in).InstanceType = "g4ad.xlarge" },
		notes:  "add a line to gres.conf for the 1 GPUs of gpu-[1-2] (g4ad.xlarge)",
	},
	{
		name:   "no GPUs",
		change: func(in *Include) { group(in).InstanceType = "c7i.4xlarge" },
		want: "\nNodeName=gpu-[1-2] CPUs=16 Sockets=1 CoresPerSocket=8 ThreadsPerCore=2 RealMemory=95 Features=gpu " +
			"State=CLOUD\n",
	},
}

func lends(in *Include) {
	group(in).PurchaseOption = capacity.CapacityBlock
	in.Settings.Partitions[0].Spare = "scavenge"
}

func group(in *Include) *capacity.GroupSettings { return &in.Settings.Partitions[0].Groups[0] }

// R9: whatever a site has, what we write adds to it, and changes nothing for its own nodes.
func TestR9_Sites(t *testing.T) {
	for _, c := range sites {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			s.write("slurm.conf", "ClusterName=ml # a comment\n"+c.conf)
			s.write("more.conf", "NodeName=cpu-1,gpu-1 \\\n  CPUs=4\nPartitionName=gpu Nodes=gpu-1 SuspendTime=60\n")
			s.write("gres.conf", c.gres)

			in := Include{
				Conf:     s.conf(),
				Version:  slurm.Version{Major: 24, Minor: 11},
				Programs: "/p",
				Settings: capacity.Settings{Partitions: []capacity.PartitionSettings{
					{
						Name:     "gpu",
						Provider: capacity.ProviderEC2,
						Groups: []capacity.GroupSettings{
							{Name: "gpu", InstanceType: "p5.48xlarge", MaxNodes: 2, Slots: 1, Dynamic: true},
						},
					},
					{
						Name:     "managed",
						Provider: capacity.ProviderPCS,
						Groups:   []capacity.GroupSettings{{Name: "pcs", MaxNodes: 9}},
					},
				}},
			}
			if c.change != nil {
				c.change(&in)
			}

			all := map[string]ec2.InstanceType{
				"p5.48xlarge": {
					VCPUs:          192,
					Cores:          96,
					ThreadsPerCore: 2,
					MemoryMiB:      1000,
					GPUs:           8,
					GPUName:        "H100",
					GPUFiles:       "/dev/nvidia",
				},
				"g4ad.xlarge": {
					VCPUs:          4,
					Cores:          2,
					ThreadsPerCore: 2,
					MemoryMiB:      100,
					GPUs:           1,
					GPUName:        "Radeon Pro V520",
				},
				"c7i.4xlarge": {VCPUs: 16, Cores: 8, ThreadsPerCore: 2, MemoryMiB: 100},
			}
			in.Types = map[string]ec2.InstanceType{group(&in).InstanceType: all[group(&in).InstanceType]}
			text, notes := in.Text()
			gres, more := in.Gres()
			notes = append(notes, more...)

			for line := range strings.Lines(strings.TrimSpace(c.want)) {
				if !strings.Contains(text, "\n"+strings.TrimSpace(line)+"\n") {
					t.Errorf("no %s", line)
				}
			}

			for _, word := range strings.Fields(c.not) {
				if strings.Contains(text, "\n"+word) || strings.Contains(text, word) && strings.HasPrefix(word, "/") {
					t.Errorf("it has %s", word)
				}
			}

			if !strings.HasPrefix(text, fileHeader) || c.wantGres != "" && gres != fileHeader+c.wantGres ||
				len(notes) > 1 ||
				!strings.Contains(strings.Join(notes, "; "), c.notes) ||
				(c.notes == "") != (len(notes) == 0) {
				t.Errorf("%q, %s", notes, gres)
			}

			if t.Failed() {
				t.Log(text)
			}
		})
	}
}

// What slurm.conf says otherwise later is named, and merged by the next install, after which our line is behind it.
func TestR9_LaterEditsAreMerged(t *testing.T) {
	s := newSite(t)
	text := func() string {
		text, _ := Include{Conf: s.conf(), Version: slurm.Version{Major: 24, Minor: 11}, Programs: "/p"}.Text()
		return text
	}

	install := func() {
		t.Helper()

		p := Plan{World: s}

		err := errors.Join(
			p.Install(s.script()),
			p.InstallSettings(t.Context(), s.settings(true), text(), ""),
		)
		if err != nil {
			t.Fatal(err)
		}

		s.apply(p)
	}
	for edit, want := range map[string]string{
		"": "",
		"SlurmctldParameters=reboot_from_controller\n": "slurm.conf has SlurmctldParameters=reboot_from_controller, " +
			"but pcs-capacity.conf has enable_configless,idle_on_node_suspend;",
		"JobSubmitPlugins=throttle\n": "slurm.conf has JobSubmitPlugins=throttle, but pcs-capacity.conf has lua;",
		"NodeName=more-1\n":           "",
	} {
		s.write("slurm.conf", siteConf)
		install()
		s.write("slurm.conf", siteConf+"Include "+IncludeFile+"\n"+edit)

		if state, wrong, err := s.conf().State(); (state == Old) != (want != "") ||
			!strings.Contains(strings.Join(wrong, ";"), want) ||
			err != nil {
			t.Errorf("%q: %s, %q, %v", edit, state, wrong, err)
		}

		install()

		conf, _ := os.ReadFile(filepath.Join(s.dir, "slurm.conf"))
		if state, wrong, err := s.conf().State(); state != Installed || err != nil ||
			!strings.HasSuffix(string(conf), "\nInclude "+IncludeFile+"\n") {
			t.Errorf("%q: %s, %q, %v\n%s", edit, state, wrong, err, conf)
		}
	}
}

// PCS changes a cluster only while everything in it is ACTIVE.
func TestSwitchOn(t *testing.T) {
	cluster := pcs.Inventory{
		Cluster: pcs.Cluster{Name: "ml", Status: pcs.Active, SlurmSettings: map[string]string{"MinJobAge": "60"}},
	}

	var p Plan
	if err := p.SetPlugin(cluster, true); err != nil || p.Changes[0].Diff != "+CliFilterPlugins=cli_filter/lua\n" {
		t.Errorf("%v, %+v", err, p)
	}

	cluster.Groups = []pcs.NodeGroup{{Name: "gpu-a", Status: pcs.Updating}}
	if err := new(Plan).SetPlugin(cluster, true); err == nil ||
		!strings.Contains(err.Error(), "node group gpu-a is UPDATING") {
		t.Errorf("%v", err)
	}
}

// What PCS will not make ACTIVE by itself takes more than running this again.
func TestSwitchOnWhereAWaitDoesNotHelp(t *testing.T) {
	for _, c := range []struct {
		cluster, group, queue pcs.Status
		want, not             string
	}{
		{cluster: pcs.Updating, want: "ACTIVE; run this again once it is ACTIVE"},
		{group: pcs.Deleting, want: "ACTIVE; run this again then"},
		{cluster: "RESUMING", want: "ACTIVE; run this again once it is ACTIVE"},
		{cluster: pcs.Suspended, want: "ACTIVE; move it to a newer Slurm"},
		{cluster: pcs.CreateFailed, want: "ACTIVE; name another cluster", not: "run this again"},
		{
			group: pcs.UpdateFailed,
			want: "node group g is UPDATE_FAILED (InternalError: no luck), and PCS changes the settings of a " +
				"cluster only while everything in it is ACTIVE; fix or delete what has failed, and run this again",
		},
		{group: pcs.CreateFailed, queue: pcs.Updating, want: "ACTIVE; fix or delete what has failed"},
		{queue: pcs.DeleteFailed, want: "ACTIVE; fix or delete what has failed"},
	} {
		cluster := pcs.Inventory{
			Cluster: pcs.Cluster{Name: "ml", Status: cmp.Or(c.cluster, pcs.Active)},
			Groups: []pcs.NodeGroup{
				{
					Name:     "g",
					Status:   cmp.Or(c.group, pcs.Active),
					Failures: pcs.Failures{{Code: "InternalError", Message: "no luck"}},
				},
			},
			Queues: []pcs.Queue{{Name: "q", Status: cmp.Or(c.queue, pcs.Active)}},
		}
		err := new(Plan).SetPlugin(cluster, true)
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
	if diff := gocmp.Diff(two, pcsFolders(root)); diff != "" {
		t.Error(diff)
	}

	if err := os.Symlink("slurm-25.11", root+"/slurm"); err != nil {
		t.Fatal(err)
	}

	if diff := gocmp.Diff(two, pcsFolders(root)); diff != "" {
		t.Error(diff)
	}

	os.Remove(root + "/slurm")
	os.Mkdir(root+"/slurm", 0o755)

	if diff := gocmp.Diff(append(two, root+"/slurm"), pcsFolders(root)); diff != "" {
		t.Error(diff)
	}
}

// A script goes only when nobody has Slurm run it.
func TestStillOn(t *testing.T) {
	for _, c := range []struct {
		hook, conf string
		running    slurm.Config
		want       string
	}{
		{CLIFilter, "", slurm.Config{}, ""},
		{CLIFilter, "", slurm.Config{JobSubmitPlugins: []string{"lua"}}, ""},
		{
			CLIFilter,
			"",
			slurm.Config{CliFilterPlugins: []string{"user_defaults", "lua"}},
			"slurmctld has CliFilterPlugins=lua",
		},
		{
			CLIFilter,
			"CliFilterPlugins=user_defaults,cli_filter/lua\n",
			slurm.Config{},
			"slurm.conf has CliFilterPlugins=lua",
		},
		{CLIFilter, "CliFilterPlugins=user_defaults\n", slurm.Config{}, ""},
		{JobSubmit, "", slurm.Config{JobSubmitPlugins: []string{"lua"}}, "slurmctld has JobSubmitPlugins=lua"},
		{JobSubmit, "JobSubmitPlugins=job_submit/lua\n", slurm.Config{}, "slurm.conf has JobSubmitPlugins=lua"},
		{
			JobSubmit,
			"Include " + IncludeFile + "\n",
			slurm.Config{},
			"slurm.conf includes pcs-capacity.conf, with JobSubmitPlugins=lua",
		},
	} {
		s := newSite(t)
		s.write("slurm.conf", siteConf+c.conf)

		if err := s.conf().CheckHookOff(c.hook, c.running); (err != nil) != (c.want != "") ||
			err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// slurmctld still runs the script after its restart, or without one: the script stays.
func TestScriptThatSlurmctldRunsStays(t *testing.T) {
	s := newSite(t)
	if err := s.install().Apply(t.Context(), func(Change) {}); err != nil {
		t.Fatal(err)
	}

	s.deaf = true
	settings := s.settings(false)
	if err := s.remove().Apply(t.Context(), func(Change) {}); err == nil || !s.has("job_submit.lua") {
		t.Errorf("after a restart without effect: %v", err)
	}

	settings.SlurmConf, settings.Pending = s.conf(), false // as for partitions that are no longer in the settings
	p := Plan{World: s}
	if err := p.RemoveSettings(t.Context(), settings, s.script()); err == nil ||
		!strings.Contains(err.Error(), "slurmctld has JobSubmitPlugins=lua") {
		t.Errorf("without a restart: %v", err)
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
		{
			CLIFilter,
			"",
			&slurm.Config{CliFilterScript: "/site/filter.lua"},
			[]string{s.dir, "/other"},
			"/site/filter.lua",
		},
		{
			CLIFilter,
			"CliFilterParameters=a=b,cli_filter_lua_path=/site/filter.lua\n",
			nil,
			[]string{s.dir},
			"/site/filter.lua",
		},
		{
			CLIFilter,
			"CliFilterParameters=cli_filter_lua_path=/site/filter.lua\n",
			&slurm.Config{},
			[]string{s.dir},
			own,
		},
		{JobSubmit, "", &slurm.Config{CliFilterScript: "/site/filter.lua"}, []string{s.dir}, s.dir + "/job_submit.lua"},
	} {
		s.write("slurm.conf", siteConf+c.conf)

		if got := strings.Join(ScriptPaths(c.hook, c.running, c.dirs), " "); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// What goes with a new file of ours, and whose jobs end with it.
func TestGone(t *testing.T) {
	site := newSite(t).conf() // has cpu-1, gpu-1, gpu-2, and partition cpu

	const before = fileHeader +
		"NodeName=gpu-[1-4] CPUs=4\nNodeName=big-[1-2] CPUs=4\nPartitionName=gpu Nodes=gpu-[1-4]\nPartitionName=big " +
		"Nodes=big-[1-2] State=UP\nPartitionName=cpu Nodes=cpu-1\n"

	var jobs []capacity.Job
	for i, words := range []string{
		"RUNNING gpu gpu-1", "RUNNING gpu gpu-4", "PENDING gpu", "PENDING gpu,cpu", "RUNNING big big-1",
		"COMPLETED big big-1", "RUNNING cpu cpu-1",
	} {
		f := strings.Fields(words)
		jobs = append(
			jobs,
			capacity.Job{ID: i + 1, Shown: fmt.Sprint(i + 1), State: f[0], Partition: f[1], Nodes: f[2:], NumNodes: 1},
		)
	}

	for after, want := range map[string]string{
		before: " []",
		"NodeName=gpu-[1-3] CPUs=4\nNodeName=big-[1-2] CPUs=4\nPartitionName=gpu Nodes=gpu-[1-3]\nPartitionName=big " +
			"Nodes=big-[1-2]\n": "gpu-4 [2]",
		"NodeName=gpu-[1-4] CPUs=8\nPartitionName=gpu Nodes=gpu-[1-4]\n": "big,big-[1-2] [5]",
		"": "big,big-[1-2],gpu,gpu-[3-4] [1 2 3 5]",
	} {
		gone, err := site.removedNames(before, after)
		if got := fmt.Sprint(hostlist.Compress(gone), " ", affectedJobs(jobs, gone)); err != nil || got != want {
			t.Errorf("after %q: %s, want %s (%v)", after, got, want, err)
		}
	}
}

// Where it is not known whose jobs end with nodes that go, nothing is planned, unless by force.
func TestNodesOfJobsStay(t *testing.T) {
	s := newSite(t)
	s.write("job_submit.lua", s.script().Text)
	s.write(IncludeFile, fileHeader+"NodeName=big-1 CPUs=4\n")
	s.write("slurm.conf", siteConf+"Include "+IncludeFile+"\n")

	bin := t.TempDir()
	squeue := func(script string) {
		t.Helper()

		if err := os.WriteFile(filepath.Join(bin, "squeue"), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	with := s.settings(false)
	with.Slurm = &slurm.Client{Dir: bin}

	squeue("echo slurm_load_jobs error >&2; exit 1")

	p := Plan{World: s}
	if err := p.RemoveSettings(t.Context(), with, s.script()); err == nil {
		t.Error("whose jobs end is not known, and the plan is made")
	}

	with.Force = true
	p = Plan{World: s}
	if err := p.RemoveSettings(t.Context(), with, s.script()); err != nil || !p.Restarts() {
		t.Errorf("by force: %v, %+v", err, p)
	}
}

// gres.conf keeps what the site has in it, and our line goes with the GPUs.
func TestR9_SitesGresConf(t *testing.T) {
	s := newSite(t)

	const own = "NodeName=cpu-1 Name=gpu File=/dev/nvidia0"
	s.write("gres.conf", own)

	for gres, want := range map[string]string{fileHeader: own + "\nInclude " + GresFile + "\n", "": own + "\n"} {
		p := Plan{World: s}

		s.write("job_submit.lua", s.script().Text)

		if err := p.InstallSettings(t.Context(), s.settings(true), fileHeader+
			"JobSubmitPlugins=lua\n", fileHeader); err != nil {
			t.Fatal(err)
		}

		s.apply(p)

		p = Plan{World: s}
		if err := p.InstallSettings(t.Context(), s.settings(true), fileHeader+
			"JobSubmitPlugins=lua\n", gres); err != nil {
			t.Fatal(err)
		}

		s.apply(p)

		text, _ := os.ReadFile(filepath.Join(s.dir, "gres.conf"))
		if string(text) != want || s.has(GresFile) != (gres != "") || p.Restarts() != (gres == "") {
			t.Errorf("%q: gres.conf is %s, %+v", gres, text, p)
		}
	}
}
