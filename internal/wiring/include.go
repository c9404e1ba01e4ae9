package wiring

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
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// IncludeFile is our file in slurm.conf's folder, and IncludeLine the line with which slurm.conf
// reads it. A name without a folder goes to the nodes with the rest of the configuration where
// Slurm hands that out.
const (
	IncludeFile = slurm.IncludeFile
	IncludeLine = "Include " + IncludeFile
)

// Mark begins the first line of all that we write into the folder of slurm.conf; what
// lacks it is never changed or removed.
const Mark = "Written by `pcs-capacity hooks install`"

// configless has slurmctld hand out slurm.conf to nodes that ask for it: slurm.conf(5).
const configless = "enable_configless"

const (
	// leastResumeTimeout is what a p5 takes to boot, and half as much again.
	leastResumeTimeout = 900 * time.Second
	// suspendTimeout is more than SuspendProgram tries to end an instance.
	suspendTimeout = 120 * time.Second
	// suspendTime is after how long an idle node of ours is powered down, where the site does
	// not say.
	suspendTime = 600 * time.Second
	// usableMemory is the share of an instance's memory that its system leaves to jobs. A
	// node that has less than its line says is drained.
	usableMemory = 0.95
)

// Include holds everything that the text of IncludeFile depends on.
type Include struct {
	Settings capacity.Settings
	Site     Conf
	Version  slurm.Version
	// Programs is the folder of pcs-capacity-resume and the others.
	Programs string
	// Slurm is the folder of Slurm's own programs. It is written down where slurmctld's hooks,
	// which have no PATH, would not look.
	Slurm string
	// Types are the instance types of the node groups.
	Types map[string]ec2.InstanceType
	// Templates are the launch templates of the node groups, by how the settings name them;
	// one that cannot be read is left out.
	Templates map[string]capacity.LaunchTemplate
	// Prolog wires pcs-capacity-prolog, which has to be on every node.
	Prolog bool
}

// Text is the include, and what a person has to do beside it. Where the site has a program of
// its own, ours takes its place and calls it for nodes that are not ours.
func (in Include) Text() (text string, notes []string, err error) {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s; do not edit, it is written anew.\n", Mark)
	if in.Slurm != "" && !slurm.Usual(in.Slurm) {
		b.WriteString(slurm.Note(in.Slurm))
	}
	line := func(key, value string) { fmt.Fprintf(&b, "%s=%s\n", key, value) }
	if !in.Settings.Guest() {
		notes = in.powerPrograms(&b, line)
	}
	in.lists(line)
	notes = slices.Concat(notes, in.prologs(line), in.byHand())
	return b.String() + in.nodes(), notes, nil
}

func (in Include) powerPrograms(b *strings.Builder, line func(key, value string)) (notes []string) {
	for _, p := range []struct{ key, program string }{
		{"ResumeProgram", "pcs-capacity-resume"}, {"SuspendProgram", "pcs-capacity-suspend"}, {"ResumeFailProgram", "pcs-capacity-suspend"},
	} {
		path := filepath.Join(in.Programs, p.program)
		line(p.key, path)
		if theirs := in.Site.Value(p.key); theirs != "" && filepath.Base(theirs) != p.program {
			b.WriteString(slurm.SiteProgramLine(p.key, theirs))
			if p.key == "ResumeFailProgram" && theirs != in.Site.Value("SuspendProgram") {
				notes = append(notes, fmt.Sprintf("%s is your own, %s, and is not called any more: nodes of yours that do not boot go to your SuspendProgram", p.key, theirs))
			}
		}
	}
	if in.Site.Value("TreeWidth") == "" {
		line("TreeWidth", "65533") // no slurmd knows the addresses of the others: slurm.conf(5)
	}
	return notes
}

// power are the options for power saving that a partition of ours lacks. They are those of a
// partition, since those of slurm.conf would hold for nodes of the site's as well.
func (in Include) power(options map[string]string) (missing []string) {
	for _, one := range []struct {
		key         string
		least, want time.Duration
	}{
		{"ResumeTimeout", in.resumeTimeout(), in.resumeTimeout()},
		{"SuspendTimeout", suspendTimeout, suspendTimeout},
		{"SuspendTime", 1, suspendTime},
	} {
		has, err := strconv.Atoi(cmp.Or(options[strings.ToLower(one.key)], in.Site.Value(one.key)))
		if err != nil || time.Duration(has)*time.Second < one.least {
			missing = append(missing, fmt.Sprintf("%s=%d", one.key, int(one.want.Seconds())))
		}
	}
	return missing
}

func (in Include) resumeTimeout() time.Duration {
	return max(leastResumeTimeout, in.Settings.Timing.BootAllowance.Duration)
}

// byHand lists slurm.conf's own settings that have to change.
func (in Include) byHand() (notes []string) {
	for _, p := range in.Settings.Partitions {
		options, theirs := in.Site.Partitions[p.Name]
		if missing := in.power(options); p.Provider.Launches() && theirs && len(missing) > 0 {
			notes = append(notes, fmt.Sprintf("slurm.conf has PartitionName=%s itself: add %s to that line", p.Name, strings.Join(missing, " ")))
		}
	}
	for _, g := range in.groups() {
		if t, known := in.Templates[g.LaunchTemplate]; known && !t.AsksConfServer() {
			notes = append(notes, fmt.Sprintf("user data of launch template %s has no --conf-server: give the nodes of node group %s a copy of slurm.conf, %s, gres.conf and %s, each time that they change: in the image, by user data, or on a shared file system",
				t.Name, g.Name, IncludeFile, GresFile))
		}
	}
	return notes
}

// lists are settings with several values, of which the site's stay.
func (in Include) lists(line func(key, value string)) {
	add := func(key string, more ...string) {
		have := in.Site.list(key)
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
	if in.Settings.Guest() {
		return
	}
	parameters := []string{"idle_on_node_suspend"}
	if slices.ContainsFunc(in.groups(), func(g capacity.GroupSettings) bool { return in.Templates[g.LaunchTemplate].AsksConfServer() }) {
		parameters = append(parameters, configless)
	}
	add("SlurmctldParameters", parameters...)
	if !in.Version.AtLeast(23, 2, 0) {
		add("PrivateData", "cloud")
	}
	if slices.ContainsFunc(slices.Collect(maps.Values(in.Types)), func(t ec2.InstanceType) bool { return t.GPUs > 0 }) {
		add("GresTypes", "gpu")
	}
	var up []string
	for _, g := range in.groups() {
		if g.StaysUp() {
			up = append(up, slurm.Compress(in.names(g)))
		}
	}
	if has, err := strconv.Atoi(in.Site.Value("SuspendTime")); err == nil && has > 0 && in.Site.Value("SuspendProgram") == "" {
		// It did nothing without a program, and would power the site's nodes down now.
		if theirs := in.theirs(); len(theirs) > 0 {
			up = append(up, slurm.Compress(theirs))
		}
	}
	add("SuspendExcNodes", up...)
}

// theirs are the site's nodes that we do not launch.
func (in Include) theirs() []string {
	ours := map[string]bool{}
	for _, g := range in.groups() {
		for _, name := range in.names(g) {
			ours[name] = true
		}
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(in.Site.Nodes)), func(name string) bool { return ours[name] })
}

func (in Include) prologs(line func(key, value string)) (notes []string) {
	if !in.Prolog {
		return nil
	}
	path := filepath.Join(in.Programs, "pcs-capacity-prolog")
	for _, key := range []string{"Prolog", "TaskProlog"} {
		switch theirs := in.Site.Value(key); {
		case theirs == "" || theirs == path:
			line(key, path)
		default:
			notes = append(notes, fmt.Sprintf("%s is your own, %s: let it call %s", key, theirs, path))
		}
	}
	if flags := in.Site.Value("PrologFlags"); flags == "" {
		line("PrologFlags", "Alloc")
	}
	return notes
}

// groups are the node groups that we launch.
func (in Include) groups() []capacity.GroupSettings {
	var all []capacity.GroupSettings
	for _, p := range in.Settings.Partitions {
		if p.Provider.Launches() {
			all = append(all, p.Groups...)
		}
	}
	return all
}

// names are the nodes of a node group.
func (in Include) names(g capacity.GroupSettings) []string {
	if len(g.Nodes) > 0 {
		return g.Nodes
	}
	var all []string
	for _, slot := range g.SlotNames(capacity.ProviderEC2) {
		all = append(all, slotNodes(slot, g.MaxNodes)...)
	}
	return all
}

func slotNodes(slot string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%s-%d", slot, i+1))
	}
	return all
}

// Warnings name partitions of the site that take our nodes in, as Nodes=ALL does: no check of
// ours sees their jobs.
func (in Include) Warnings() (warnings []string, err error) {
	for _, p := range in.Settings.Partitions {
		if p.Provider.Guest() {
			warnings = append(warnings, fmt.Sprintf("partition %s has provider none: its lines in slurm.conf, its nodes and their ResumeProgram stay as they are, for whatever launches them", p.Name))
		}
	}
	var ours []string
	for _, g := range in.groups() {
		ours = append(ours, in.names(g)...)
	}
	sites := slices.DeleteFunc(slices.Collect(maps.Keys(in.Site.Nodes)), func(name string) bool { return slices.Contains(ours, name) })
	for _, name := range slices.Sorted(maps.Keys(in.Site.Partitions)) {
		list := strings.Trim(in.Site.Partitions[name]["nodes"], `"`)
		nodes := slices.Concat(sites, ours)
		if !strings.EqualFold(list, "ALL") {
			if nodes, err = slurm.Expand(list); err != nil {
				return nil, fmt.Errorf("partition %s: %w", name, err)
			}
		}
		astray := in.Settings.Astray(name, nodes)
		if len(astray) == 0 || name == defaults {
			continue
		}
		left := slices.DeleteFunc(nodes, func(node string) bool { return slices.Contains(astray, node) })
		fix := "take it out of slurm.conf"
		if len(left) > 0 {
			fix = fmt.Sprintf("write Nodes=%s into its line of slurm.conf", slurm.Compress(left))
		}
		warnings = append(warnings, fmt.Sprintf("partition %s with Nodes=%s takes %s in: its jobs run on reserved capacity, and nothing here checks them; %s",
			name, list, slurm.Compress(astray), fix))
	}
	return warnings, nil
}

// nodes are the lines of nodes and partitions that the site does not have itself.
func (in Include) nodes() string {
	var b strings.Builder
	for _, g := range in.groups() {
		sets := map[string][]string{g.Name: g.Nodes}
		if len(g.Nodes) == 0 {
			clear(sets)
			for _, slot := range g.SlotNames(capacity.ProviderEC2) {
				sets[slot] = slotNodes(slot, g.MaxNodes)
			}
		}
		for _, feature := range slices.Sorted(maps.Keys(sets)) {
			left := slices.DeleteFunc(slices.Clone(sets[feature]), func(name string) bool { return in.Site.Nodes[name] })
			if len(left) > 0 {
				fmt.Fprintf(&b, "NodeName=%s%s Features=%s State=CLOUD\n", slurm.Compress(left), hardware(in.Types[g.InstanceType]), feature)
			}
		}
	}
	for _, p := range in.Settings.Partitions {
		if _, theirs := in.Site.Partitions[p.Name]; theirs || !p.Provider.Launches() {
			continue
		}
		var names []string
		for _, g := range p.Groups {
			names = append(names, in.names(g)...)
		}
		fmt.Fprintf(&b, "PartitionName=%s Nodes=%s", p.Name, slurm.Compress(names))
		if len(p.AllowAccounts) > 0 && in.accounting() {
			fmt.Fprintf(&b, " AllowAccounts=%s", strings.Join(p.AllowAccounts, ","))
		}
		if len(p.AllowGroups) > 0 {
			fmt.Fprintf(&b, " AllowGroups=%s", strings.Join(p.AllowGroups, ","))
		}
		for _, option := range in.power(in.Site.Partitions[defaults]) {
			b.WriteString(" " + option)
		}
		b.WriteString(" State=UP\n")
	}
	return b.String()
}

// accounting reports whether the site's Slurm keeps accounts. Without them AllowAccounts keeps
// every job from starting, or none: it is left out, and sync and check say so.
func (in Include) accounting() bool {
	return strings.HasSuffix(in.Site.Value("AccountingStorageType"), "slurmdbd")
}

func hardware(t ec2.InstanceType) string {
	text := fmt.Sprintf(" CPUs=%d RealMemory=%d", t.VCPUs, int64(float64(t.MemoryMiB)*usableMemory))
	if t.GPUs > 0 {
		text += fmt.Sprintf(" Gres=gpu:%d", t.GPUs)
	}
	return text
}
