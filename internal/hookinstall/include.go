package hookinstall

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// IncludeFile and GresFile are our files in slurm.conf's folder, which slurm.conf and gres.conf
// include. A name without a folder goes to the nodes with the rest of the configuration where Slurm
// hands that out; gres.conf of an image is not read then.
const (
	IncludeFile = slurm.IncludeFile
	GresFile    = "pcs-capacity-gres.conf"
)

const fileHeader = "# " + Header + "; do not edit, it is overwritten.\n"

const (
	// minResumeTimeout gives a p5 its time to boot, and half as much again.
	minResumeTimeout = 900 * time.Second
	// suspendTimeout is more than SuspendProgram tries to end an instance.
	suspendTimeout = 120 * time.Second
	// suspendTime is after how long an idle node of ours is powered down, where the site does not say.
	suspendTime = 600 * time.Second
	// usableMemory is the share of an instance's memory that its system leaves to jobs. A
	// node that has less than its line says is drained.
	usableMemory = 0.95
)

// Include holds everything that the texts of our files depend on.
type Include struct {
	Settings capacity.Settings
	Conf     SlurmConf     // what the site says itself
	Version  slurm.Version // of the Slurm on this host
	Programs string        // the folder of pcs-capacity-resume and the others
	// Slurm is the folder of Slurm's own programs. It is written down where our hooks, which get no PATH from
	// slurmctld, would not look.
	Slurm string
	Types map[string]ec2.InstanceType // the instance types of the node groups
	// Templates are the launch templates of the node groups, by how the settings name them;
	// one that cannot be read is left out.
	Templates map[string]capacity.LaunchTemplate
}

// Text returns our file for slurm.conf, and what a person has to do beside it. Where the site has a program of
// its own, ours takes its place and calls it for nodes that are not ours.
func (in Include) Text() (text string, notes []string) {
	var b strings.Builder

	line := func(key, value string) { fmt.Fprintf(&b, "%s=%s\n", key, value) }
	if !in.Settings.IsGuest() {
		line("ResumeProgram", filepath.Join(in.Programs, "pcs-capacity-resume"))
		line("SuspendProgram", filepath.Join(in.Programs, "pcs-capacity-suspend"))
		line("ResumeFailProgram", filepath.Join(in.Programs, "pcs-capacity-suspend"))

		if theirs := in.Conf.value("ResumeFailProgram"); theirs != "" && theirs != in.Conf.value("SuspendProgram") {
			notes = append(notes,
				"your own ResumeFailProgram, "+theirs+", is no longer called: your nodes that do not boot go to "+
					"your SuspendProgram")
		}

		if in.Conf.value("TreeWidth") == "" {
			line("TreeWidth", "65533") // no slurmd knows the addresses of the others: slurm.conf(5)
		}

		if in.Conf.value("RebootProgram") == "" { // slurmd runs it; without, `scontrol reboot` does nothing
			line("RebootProgram", "/sbin/reboot")
		}
	}

	in.listSettings(line)

	if note := in.preemption(line); note != "" {
		notes = append(notes, note)
	}

	// Where Slurm's programs are, and what the site has said, stands in comments: our hooks read it there.
	text = fileHeader
	if in.Slurm != "" && !slurm.IsUsualFolder(in.Slurm) {
		text += slurm.FolderLine(in.Slurm)
	}

	nodes, more := in.nodeLines()

	return text + in.Conf.recordedLines(b.String()) + b.String() + nodes, append(notes, more...)
}

// listSettings writes settings with several values: the site's values, and then ours.
func (in Include) listSettings(line func(key, value string)) {
	add := func(key string, more ...string) {
		have := in.Conf.list(key)

		merged := slices.Clone(have)
		for _, one := range more {
			if !slices.Contains(merged, one) {
				merged = append(merged, one)
			}
		}

		if len(merged) > len(have) {
			line(key, strings.Join(merged, ","))
		}
	}
	add("JobSubmitPlugins", "lua")

	if in.Settings.IsGuest() {
		return
	}

	// A node that did not boot stays DOWN, unless idle_on_node_suspend makes it idle when it is powered down.
	groups := launchedGroups(in.Settings)
	parameters := []string{"idle_on_node_suspend"}
	if slices.ContainsFunc(groups,
		func(g capacity.GroupSettings) bool { return in.Templates[g.LaunchTemplate].AsksConfServer() }) {
		parameters = append(parameters,
			"enable_configless") // slurmctld hands slurm.conf to nodes that ask for it: slurm.conf(5)
	}

	add("SlurmctldParameters", parameters...)

	// Before 23.02 Slurm hides cloud nodes that are powered down, unless told not to.
	if !in.Version.AtLeast(23, 2, 0) {
		add("PrivateData", "cloud")
	}

	if slices.ContainsFunc(slices.Collect(maps.Values(in.Types)), func(t ec2.InstanceType) bool { return t.GPUs > 0 }) {
		add("GresTypes", "gpu")
	}

	var up []string
	for _, g := range groups {
		if g.KeepsNodesUp() {
			up = append(up, hostlist.Compress(nodeNames(g)))
		}
	}

	if in.Conf.seconds("SuspendTime") > 0 && in.Conf.value("SuspendProgram") == "" {
		// It did nothing without a program, and would power the site's nodes down now.
		ours := nodeNames(groups...)

		theirs := slices.DeleteFunc(slices.Sorted(maps.Keys(in.Conf.nodes)),
			func(name string) bool { return slices.Contains(ours, name) })
		if len(theirs) > 0 {
			up = append(up, hostlist.Compress(theirs))
		}
	}

	add("SuspendExcNodes", up...)
}

// nodeLines returns the lines of nodes and partitions that the site does not have itself, and what is left to a person.
func (in Include) nodeLines() (text string, notes []string) {
	for _, g := range launchedGroups(in.Settings) {
		sets := nodesByFeature(g)
		for _, feature := range slices.Sorted(maps.Keys(sets)) {
			left := slices.DeleteFunc(sets[feature], func(name string) bool { return in.Conf.nodes[name] })
			if len(left) > 0 {
				text += fmt.Sprintf("NodeName=%s%s Features=%s State=CLOUD\n", hostlist.Compress(left),
					hardware(in.Types[g.InstanceType], in.Templates[g.LaunchTemplate]), feature)
			}
		}

		if t, known := in.Templates[g.LaunchTemplate]; known && !t.AsksConfServer() {
			notes = append(notes, fmt.Sprintf(
				"the user data of launch template %s has no --conf-server: give the nodes of node group %s a copy "+
					"of slurm.conf, %s, gres.conf and %s whenever they change: in the image, by user data, or on a "+
					"shared file system",
				t.Name, g.Name, IncludeFile, GresFile))
		}
	}

	add := func(name, options string, groups []capacity.GroupSettings) {
		line, theirs := in.Conf.partitions[name]
		switch missing := in.missingPowerOptions(line); {
		case !theirs:
			text += fmt.Sprintf("PartitionName=%s Nodes=%s%s%s State=UP\n", name,
				hostlist.Compress(nodeNames(groups...)), options, missing)
		case missing != "":
			notes = append(notes,
				fmt.Sprintf("slurm.conf itself has PartitionName=%s: add%s to that line", name, missing))
		}
	}

	for _, p := range in.Settings.Partitions {
		if !p.Provider.Launches() {
			continue
		}

		accounts := ""
		// Without accounting AllowAccounts keeps every job from starting, or none: sync and check say so.
		if len(p.AllowAccounts) > 0 && strings.HasSuffix(in.Conf.value("AccountingStorageType"), "slurmdbd") {
			accounts = " AllowAccounts=" + strings.Join(p.AllowAccounts, ",")
		}

		add(p.Name, accounts, p.Groups)

		if p.Spare != "" {
			reserved := slices.DeleteFunc(slices.Clone(p.Groups),
				func(g capacity.GroupSettings) bool { return !g.PurchaseOption.IsReserved() })
			add(p.Spare, " PriorityTier=0 PreemptMode=REQUEUE", reserved)
		}
	}

	return text, notes
}

// preemption writes how jobs get nodes back from those of spare partitions, where slurm.conf itself does not say how
// jobs are preempted. It returns what a person has to do instead.
func (in Include) preemption(line func(key, value string)) (note string) {
	lends := func(p capacity.PartitionSettings) bool { return p.Provider.Launches() && p.Spare != "" }
	if !slices.ContainsFunc(in.Settings.Partitions, lends) {
		return ""
	}

	p := capacity.ParsePreemption(in.Conf.value("PreemptType"), in.Conf.value("PreemptMode"))
	if p.Type == capacity.ByPartition {
		return ""
	}

	var partitions []capacity.SlurmPartition
	for _, name := range slices.Sorted(maps.Keys(in.Conf.partitions)) {
		if tier := optionValue(in.Conf.partitions[name], "PriorityTier"); tier != "" {
			n, _ := strconv.Atoi(tier)
			partitions = append(partitions, capacity.SlurmPartition{Name: name, PriorityTier: n})
		}
	}

	for _, one := range in.Settings.Partitions {
		if !lends(one) {
			continue
		}

		if wrong := capacity.CheckLending(one.Name, one.Spare, p, partitions); len(wrong) > 0 {
			return "jobs of partition " + one.Spare + " keep their nodes: " + wrong[0].Text()
		}
	}

	line("PreemptType", "preempt/"+capacity.ByPartition)
	line("PreemptMode", "REQUEUE")

	return ""
}

// missingPowerOptions returns the options for power saving that a line of a partition lacks: those of slurm.conf would
// hold for nodes of the site's as well. Its longer times hold for ours too.
func (in Include) missingPowerOptions(line string) (missing string) {
	// Of two timeouts the longer one holds; the site's own SuspendTime holds as it is.
	boot := in.Settings.Timing.BootAllowance.Duration
	for _, one := range []struct {
		key  string
		time time.Duration
	}{
		{"ResumeTimeout", max(minResumeTimeout, boot, in.Conf.seconds("ResumeTimeout"))},
		{"SuspendTimeout", max(suspendTimeout, in.Conf.seconds("SuspendTimeout"))},
		{"SuspendTime", cmp.Or(in.Conf.seconds("SuspendTime"), suspendTime)},
	} {
		if optionValue(line, one.key) == "" {
			missing += fmt.Sprintf(" %s=%d", one.key, int(one.time.Seconds()))
		}
	}

	return missing
}

// seconds returns a value of the site's as a time; 0 for none, for INFINITE and for -1.
func (s SlurmConf) seconds(key string) time.Duration {
	n, _ := strconv.Atoi(s.value(key))
	return max(0, time.Duration(n)*time.Second)
}

// launchedGroups returns the node groups that we launch.
func launchedGroups(settings capacity.Settings) (all []capacity.GroupSettings) {
	for _, p := range settings.Partitions {
		if p.Provider.Launches() {
			all = append(all, p.Groups...)
		}
	}

	return all
}

// nodesByFeature returns the nodes of a node group by their feature, which is that of their slot.
func nodesByFeature(g capacity.GroupSettings) map[string][]string {
	if len(g.Nodes) > 0 {
		return map[string][]string{g.Name: slices.Clone(g.Nodes)}
	}

	all := map[string][]string{}
	for _, slot := range g.SlotNames(capacity.ProviderEC2) {
		for i := range g.MaxNodes {
			all[slot] = append(all[slot], fmt.Sprintf("%s-%d", slot, i+1))
		}
	}

	return all
}

// nodeNames returns the nodes of node groups.
func nodeNames(groups ...capacity.GroupSettings) (all []string) {
	for _, g := range groups {
		for _, set := range nodesByFeature(g) {
			all = append(all, set...)
		}
	}

	return hostlist.Sort(all)
}

// hardware tells what slurmd finds on an instance: with less than slurm.conf says Slurm refuses it (INVALID_REG), and
// with CPUs alone it binds tasks to single threads of a core. EC2 does not tell sockets; Slurm compares the product.
func hardware(t ec2.InstanceType, l capacity.LaunchTemplate) string {
	// A launch template may switch cores or hyperthreads off.
	cores := cmp.Or(l.Cores, t.Cores)
	threads := cmp.Or(l.ThreadsPerCore, t.ThreadsPerCore)
	text := fmt.Sprintf(" CPUs=%d Sockets=1 CoresPerSocket=%d ThreadsPerCore=%d RealMemory=%d", cores*threads, cores,
		threads, int64(float64(t.MemoryMiB)*usableMemory))
	if t.GPUs > 0 {
		text += fmt.Sprintf(" Gres=gpu:%s:%d", gpuType(t), t.GPUs)
	}

	return text
}

// gpuType returns the type of an instance's GPUs as users write it: h100, a10g, radeon_pro_v520.
func gpuType(t ec2.InstanceType) string {
	return strings.ToLower(strings.ReplaceAll(t.GPUName, " ", "_"))
}

// Gres returns the text of GresFile for the nodes that gres.conf does not have itself, "" if none needs it, and what a
// person has to do beside it. It names the files: Slurm takes no AutoDetect for nodes with State=CLOUD, not even one
// that gres.conf has for all nodes, and slurmctld does not start with it (gres.conf(5)).
func (in Include) Gres() (text string, notes []string) {
	for _, g := range launchedGroups(in.Settings) {
		t := in.Types[g.InstanceType]
		left := slices.DeleteFunc(nodeNames(g), func(name string) bool { return in.Conf.gresNodes[name] })
		list := hostlist.Compress(left)
		switch {
		case t.GPUs == 0 || len(left) == 0:
		case t.GPUFiles == "":
			notes = append(notes, fmt.Sprintf(
				"add a line to gres.conf for the %d GPUs of %s (%s): their device files are not known", t.GPUs, list,
				g.InstanceType))
		default:
			text += fmt.Sprintf("NodeName=%s AutoDetect=off Name=gpu Type=%s File=%s[0-%d]\n", list, gpuType(t),
				t.GPUFiles, t.GPUs-1)
		}
	}

	if text != "" {
		text = fileHeader + text
	}

	return text, notes
}
