package power

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/hooks/internal/hook"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// group names the nodes that are launched whole or not at all: the nodes of one job, and of every job that shares a
// node with it.
type group struct {
	nodes []string // nodes in the order of Slurm's hostlists
	// jobs that wait for a node of the group and still hold it, by id; none for nodes that sync or an administrator
	// powered up.
	jobs  []capacity.Job
	lost  []int  // jobs, by id, that ended between the power-up and this hook
	parts []part // set by plan
}

// part holds the nodes of a group that are in one slot, sorted.
type part struct {
	slot     slotInfo
	template string // the launch template with its version, lt-…:3
	nodes    []string
	targets  []target // in the order in which they are tried
}

// slotInfo is the slot of a node in the settings. The node's name alone tells it.
type slotInfo struct {
	partition capacity.PartitionSettings
	group     capacity.GroupSettings
	name      string // that of the group, or with two slots with -a or -b
}

// slotOf finds the slot of a node. Nodes of guests have none: see capacity.Provider.
func slotOf(s capacity.Settings, node string) (at slotInfo, ok bool) {
	at.partition, at.group, at.name, ok = s.FindNode(node)
	return at, ok && !at.partition.Provider.IsGuest()
}

// target is one way to launch a part of a group.
type target struct {
	reservationID  string // "" for on-demand capacity
	subnetID       string
	azID           string // the subnet's zone
	instanceType   string
	kind           capacity.Kind
	placementGroup string // the reservation's; "" for none
	hold           bool   // an ODCR is created first, and launched into
}

// launchFacts holds what the launches of a power-up are decided on. They run side by side and share it, so nothing in
// it changes after it was read.
type launchFacts struct {
	settings  capacity.Settings
	mark      string // the value of our tag on instances and reservations
	snap      *capacity.Snapshot
	now       time.Time                      // AWS's time when the snapshot was made
	since     time.Time                      // AWS's time before which this power-up launched nothing
	live      map[string][]capacity.Instance // our living instances, by the node that they were launched for
	templates map[string]template            // the settings' launch templates, by how the settings name them
}

// template holds a launch template with its version, or why that is unknown.
type template struct {
	version string
	err     error
}

// allocations returns the jobs that have nodes, as a SLURM_RESUME_FILE lists them.
func allocations(jobs []capacity.Job) (waits []capacity.ResumeJob) {
	for _, j := range jobs {
		if j.Allocated() {
			waits = append(waits, capacity.ResumeJob{ID: j.ID, Nodes: j.Nodes})
		}
	}

	return waits
}

// launchGroups divides nodes into groups, in the order of their first nodes. nodes are sorted; other nodes of the
// jobs are ignored.
func launchGroups(nodes []string, waits []capacity.ResumeJob, known []capacity.Job) (groups []group) {
	holds := map[int]capacity.Job{} // those that have their nodes
	for _, j := range known {
		if j.Allocated() {
			holds[j.ID] = j
		}
	}

	of := map[string]*group{} // by node
	for _, n := range nodes {
		of[n] = &group{}
	}

	for _, w := range waits {
		// Jobs that share a node must be launched together: a node has one instance, and belongs to all of them.
		var g *group
		for _, n := range w.Nodes {
			other := of[n]
			switch {
			case other == nil || other == g:
			case g == nil:
				g = other
			default: // the job joins them
				g.jobs = append(g.jobs, other.jobs...)
				g.lost = append(g.lost, other.lost...)

				// All nodes of the other group now point to this one.
				for n, its := range of {
					if its == other {
						of[n] = g
					}
				}
			}
		}

		if g == nil {
			continue
		}

		// The resume file is older than the queue: a job may have ended in between.
		job, has := holds[w.ID]
		switch {
		case !has:
			g.lost = append(g.lost, w.ID)
		case !slices.ContainsFunc(g.jobs, func(j capacity.Job) bool { return j.ID == w.ID }):
			g.jobs = append(g.jobs, job)
		}
	}

	return inOrder(nodes, of)
}

// inOrder returns groups in the order of their first nodes, so that logs, tokens and tests do not depend on a map.
func inOrder(nodes []string, of map[string]*group) (groups []group) {
	for _, n := range nodes {
		of[n].nodes = append(of[n].nodes, n)
	}

	for _, n := range nodes {
		g := of[n]
		if g.nodes[0] == n {
			slices.SortFunc(g.jobs, func(a, b capacity.Job) int { return a.ID - b.ID })
			groups = append(groups, *g)
		}
	}

	return groups
}

// maxShared bounds the nodes of groups that share a call. AWS advises to launch 100 instances in a call rather than
// 500, "to ensure faster instance launches" (EC2 API Reference, RunInstances).
const maxShared = 100

// plan decides everything before the first launch: the largest groups first, because they find room in the fewest
// places. It counts in taken, by reservation, the instances that will use it. Each list of ready groups shares calls:
// EC2 limits the calls of an account far more than its instances. plan returns separately the groups for which nothing
// is launched.
func (f launchFacts) plan(groups []group, taken map[string]int) (ready [][]group, unplaced []failedGroup) {
	largest := slices.Clone(groups)

	// Small groups fit into what large ones leave, but not the other way round.
	slices.SortStableFunc(largest, func(a, b group) int { return len(b.nodes) - len(a.nodes) })

	for _, g := range largest {
		parts, err := f.splitBySlot(g, taken)
		if err != nil {
			unplaced = append(unplaced, failedGroup{group: g, err: err})
			continue
		}

		g.parts = parts

		i := slices.IndexFunc(ready, g.canJoin)
		if i < 0 {
			ready = append(ready, nil)
			i = len(ready) - 1
		}

		ready[i] = append(ready[i], g)
	}

	return ready, unplaced
}

// canJoin reports whether the group can share the calls of others: it is in the same slots, with the same targets. An
// ODCR is held for one group only.
func (g group) canJoin(others []group) bool {
	holds := slices.ContainsFunc(g.parts, func(p part) bool { return p.targets[0].hold })
	same := slices.EqualFunc(g.parts, others[0].parts, func(a, b part) bool {
		return a.slot.name == b.slot.name && slices.Equal(a.targets, b.targets)
	})

	return same && !holds && len(g.nodes)+len(nodesOf(others)) <= maxShared
}

// splitBySlot divides a group by slot, each part with its targets.
func (f launchFacts) splitBySlot(g group, taken map[string]int) (parts []part, err error) {
	if len(g.jobs) == 0 && len(g.lost) > 0 {
		return nil, refuse(capacity.JobGone, "job %d ended before its nodes were launched", g.lost[0])
	}

	for _, n := range g.nodes {
		at, _ := slotOf(f.settings, n)
		i := slices.IndexFunc(parts, func(p part) bool { return p.slot.name == at.name })
		if i < 0 {
			template := f.templates[at.group.LaunchTemplate]
			if template.err != nil {
				return nil, template.err
			}

			i = len(parts)
			parts = append(parts, part{slot: at, template: template.version})
		}

		parts[i].nodes = append(parts[i].nodes, n)
	}

	for i, p := range parts {
		parts[i].targets, err = f.targets(g.jobs, p.slot, len(p.nodes), taken)
		if err != nil {
			return nil, err
		}
	}

	// The next group counts on what this one leaves.
	for _, p := range parts {
		taken[p.targets[0].reservationID] += len(p.nodes)
	}

	return parts, nil
}

// targets returns the slot's reservations to which every job is admitted, those with enough room first, each with the
// node group's one subnet in its zone. Nodes without a job may use any reservation that has the slot.
func (f launchFacts) targets(
	jobs []capacity.Job, at slotInfo, nodes int, taken map[string]int,
) (all []target, err error) {
	common, err := f.commonReservations(jobs, at)
	if err != nil {
		return nil, err
	}

	var wishes []capacity.Wish
	for _, j := range jobs {
		wish, _ := j.Wish()
		wishes = append(wishes, wish)
	}

	_, g := at.settingsIn(f.snap)
	for _, r := range capacity.SortForLaunch(common, nodes, taken) {
		some := targetsIn(g, r, wishes)
		if len(some) == 0 {
			err = refuse(capacity.Mismatched,
				"node group %s has no subnet and instance type in %s that all of the jobs accept",
				g.Name, cmp.Or(r.AZID, "any zone"))
		}

		held, strict := g.Holds(wishes, f.snap)
		if r.ID != "" || !held {
			all = append(all, some...)
			continue
		}

		// On demand, room in a zone is only certain once an ODCR holds it.
		for _, t := range some {
			t.hold = true
			t.kind = capacity.ODCR
			all = append(all, t)
		}

		if !strict {
			all = append(all, some...)
		}
	}

	if len(all) == 0 {
		return nil, err
	}

	return all, nil
}

// commonReservations returns the slot's reservations to which every job is admitted. The error says why there is none.
func (f launchFacts) commonReservations(jobs []capacity.Job, at slotInfo) (common []capacity.Reservation, err error) {
	if len(jobs) == 0 {
		p, _ := at.settingsIn(f.snap)
		p.AllowAccounts = nil // there is no account to check

		common, v := capacity.AdmitLaunch(capacity.NoJob, p, at.name, f.snap, f.now)
		if v.Refused {
			return nil, &refusal{Verdict: v}
		}

		return common, nil
	}

	for i, j := range jobs {
		admitted, v := f.admit(j, at)
		if v.Refused {
			return nil, &refusal{Verdict: v}
		}

		if i == 0 {
			common = slices.Clone(admitted)
		}

		// Jobs that share nodes share the reservation, so it must be one that all of them may use.
		common = slices.DeleteFunc(common, func(r capacity.Reservation) bool {
			return !slices.ContainsFunc(admitted, func(a capacity.Reservation) bool { return a.ID == r.ID })
		})
	}

	if len(common) == 0 {
		return nil, refuse(
			capacity.DifferentReservations,
			"the jobs that share these nodes ask for different reservations",
		)
	}

	return common, nil
}

// settingsIn returns the partition and the node group of a slot, with what EC2 says of them.
func (at slotInfo) settingsIn(snap *capacity.Snapshot) (capacity.Partition, capacity.NodeGroup) {
	p, _ := snap.Partition(at.partition.Name)
	i := slices.IndexFunc(p.Groups, func(g capacity.NodeGroup) bool { return g.Name == at.group.Name })

	return p, p.Groups[i]
}

// admit judges a job by what Slurm has of it, as a launch in one slot.
func (f launchFacts) admit(j capacity.Job, at slotInfo) ([]capacity.Reservation, capacity.Verdict) {
	p, _ := at.settingsIn(f.snap)
	if p.Spare.Name != "" && j.Partition == p.Spare.Name {
		p, _ = f.snap.Partition(j.Partition)
	}

	request := capacity.Request{
		Partitions: []string{p.Name},
		Account:    j.Account,
		Comment:    j.Comment,
		TimeLimit:  j.TimeLimit,
		TimeMin:    j.TimeMin,
		Nodes:      len(j.Nodes),
	}

	return capacity.AdmitLaunch(request, p, at.name, f.snap, f.now)
}

// targetsIn returns the targets in a reservation, in the order to try: one, in the group's subnet in its zone,
// compared by zone id, or in the subnet that a job names. For on-demand capacity it returns every type of the group
// in every subnet, unless a job names others.
func targetsIn(g capacity.NodeGroup, r capacity.Reservation, wishes []capacity.Wish) (targets []target) {
	// Every job of the group may narrow the choice.
	refused := func(instanceType, subnet string) bool {
		return slices.ContainsFunc(wishes, func(w capacity.Wish) bool {
			return w.InstanceType != "" && w.InstanceType != instanceType || w.SubnetID != "" && w.SubnetID != subnet
		})
	}

	for _, instanceType := range g.Types() {
		for _, s := range g.Subnets {
			switch {
			case refused(instanceType, s.ID):
			case r.ID == "":
				targets = append(targets, target{
					subnetID:     s.ID,
					azID:         s.AZID,
					instanceType: instanceType,
					kind:         capacity.OnDemand,
				})
			case s.AZID == r.AZID && instanceType == r.InstanceType:
				return []target{{
					reservationID:  r.ID,
					subnetID:       s.ID,
					azID:           s.AZID,
					instanceType:   instanceType,
					kind:           r.Kind,
					placementGroup: r.PlacementGroup,
				}}
			}
		}
	}

	return targets
}

// launchToken returns the ClientToken of a launch: the same when the same power-up is repeated, another for a requeued
// job. what is the whole request except the nodes: EC2 binds a token to the parameters of its first use, even of a
// failed one. Nodes without a job have nothing but time to tell two power-ups apart, so their token lasts for ten
// seconds of AWS's clock. attempt counts earlier launches under the same circumstances whose instances have ended:
// EC2 launches nothing under their tokens.
func (f launchFacts) launchToken(jobs []capacity.Job, nodes []string, attempt int, what ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q %q %q %d", f.mark, hostlist.Compress(nodes), what, attempt)

	for _, j := range jobs {
		fmt.Fprintf(&b, " %d/%d", j.ID, j.Restarts)
	}

	if len(jobs) == 0 {
		fmt.Fprintf(&b, " %d", f.now.Unix()/10)
	}

	// 64 hexadecimal digits: the longest token that EC2 takes.
	return fmt.Sprintf("%x", sha256.Sum256([]byte(b.String())))
}

// tags tell whose a launch is, what for, and for which nodes: hostlists short enough for a tag, in node order.
func (f launchFacts) tags(jobs []capacity.Job, partition string, nodes []string, reservation string) map[string]string {
	var split func(nodes []string) []string

	split = func(nodes []string) []string {
		list := hostlist.Compress(nodes)
		if len(list) <= capacity.MaxTagValue || len(nodes) == 1 {
			return []string{list}
		}

		half := len(nodes) / 2

		return append(split(nodes[:half]), split(nodes[half:])...)
	}

	tags := capacity.NodesTags(split(nodes))
	tags[capacity.TagCluster] = f.mark
	tags[capacity.TagPartition] = partition

	// One call gives all its instances the same tags. Of several nodes, the launch index picks one, and the console
	// shows it next to the name.
	tags[capacity.TagName] = hook.Clip(hostlist.Compress(nodes), capacity.MaxTagValue)
	if len(nodes) == 1 {
		tags[capacity.TagNode] = nodes[0]
	}

	if reservation != "" {
		tags[capacity.TagReservation] = reservation
	}

	if len(jobs) > 0 {
		// As short as possible: EC2 returns it with each instance.
		tags[capacity.TagJob] = hook.Clip(hostlist.Compress(jobNames(jobs)), capacity.MaxTagValue)
	}

	return tags
}

// nodesOf returns the nodes of groups.
func nodesOf(groups []group) (nodes []string) {
	for _, g := range groups {
		nodes = append(nodes, g.nodes...)
	}
	return nodes
}

// jobsOf returns the jobs of groups.
func jobsOf(groups []group) (jobs []capacity.Job) {
	for _, g := range groups {
		jobs = append(jobs, g.jobs...)
	}
	return jobs
}

// jobNames returns the jobs' ids as squeue shows them.
func jobNames(jobs []capacity.Job) (ids []string) {
	for _, j := range jobs {
		ids = append(ids, j.Shown)
	}
	return ids
}

// removeFunc returns the names that do not match. Unlike slices.DeleteFunc it leaves the list as it is.
func removeFunc(names []string, matches func(name string) bool) []string {
	return slices.DeleteFunc(slices.Clone(names), matches)
}
