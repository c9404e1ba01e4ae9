package power

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hook"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// facts is what all launches of a call are decided on.
type facts struct {
	settings capacity.Settings
	cluster  string // the value of our mark
	snap     *capacity.Snapshot
	now      time.Time
	// since is AWS's time before which this power-up cannot have launched anything.
	since time.Time
	// live are our instances by the node that they were launched for.
	live map[string][]capacity.Instance
	// taken counts the places in reservations that this call's launches will use.
	taken map[string]int
	// templates are the current versions of the settings' launch templates.
	templates map[string]template
	// admitted caches AdmitLaunch's answers: see admit.
	admitted map[asked]admitted
}

// template is a launch template's version, or why it is unknown.
type template struct {
	version string
	failure *Failure
}

// place is where a node belongs, by the node's name alone. Nodes of guests belong nowhere: see capacity.Provider.
type place struct {
	partition capacity.PartitionSettings
	group     capacity.GroupSettings
	slot      string
}

func placeOf(s capacity.Settings, node string) (at place, ok bool) {
	at.partition, at.group, at.slot, ok = s.PlaceOf(node)
	return at, ok && !at.partition.Provider.Guest()
}

// unit is what is launched together: one group, whole or not at all; or one-node groups that share a call, of which
// as many are launched as fit.
type unit struct {
	groups []group
	parts  []part // one for each slot; only one if there are several groups
}

// part is the nodes of a unit that are in one slot, sorted.
type part struct {
	place    place
	template string // with its version
	nodes    []string
	// targets in the order in which they are tried.
	targets []target
}

// holds reports whether the part may get an ODCR.
func (p part) holds() bool {
	return slices.ContainsFunc(p.targets, func(t target) bool { return t.hold })
}

// zones are the zone ids to try one after the other for a unit that must be in one zone: parts of which one gets an
// ODCR. "" stands for all zones together.
func (u unit) zones() (ids []string) {
	if len(u.parts) == 1 || !slices.ContainsFunc(u.parts, part.holds) {
		return []string{""}
	}
	for _, t := range u.parts[0].targets {
		everywhere := !slices.ContainsFunc(u.parts, func(p part) bool { return len(p.in(t.azID)) == 0 })
		if everywhere && !slices.Contains(ids, t.azID) {
			ids = append(ids, t.azID)
		}
	}
	return ids
}

// in are the part's targets in one zone; all of them for "".
func (p part) in(azID string) []target {
	return slices.DeleteFunc(slices.Clone(p.targets), func(t target) bool { return azID != "" && t.azID != azID })
}

// jobsOf are the jobs of groups that have any of the nodes.
func (u unit) jobsOf(nodes []string) (jobs []capacity.Job) {
	for _, g := range u.groups {
		if slices.ContainsFunc(g.nodes, func(n string) bool { return slices.Contains(nodes, n) }) {
			jobs = append(jobs, g.jobs...)
		}
	}
	return jobs
}

// outcome is the result for a group.
type outcome struct {
	group
	launched map[string]launched // by node
	failure  *Failure
}

// launched is the instance of a node, and the reservation that it was launched into.
type launched struct {
	instance    capacity.Instance
	reservation string
}

// plan decides everything before the first launch: the largest groups first, because they find room in the fewest
// places. It returns separately the groups for which nothing is launched.
func (f *facts) plan(groups []group) (units []unit, refused []outcome) {
	largest := slices.Clone(groups)
	slices.SortStableFunc(largest, func(a, b group) int { return len(b.nodes) - len(a.nodes) })
	shared := map[string]int{} // index of the unit of one-node groups with the same targets
	for _, g := range largest {
		parts, why := f.parts(g)
		if why != nil {
			refused = append(refused, outcome{group: g, failure: why})
			continue
		}
		if len(g.nodes) > 1 || parts[0].holds() {
			units = append(units, unit{[]group{g}, parts})
			continue
		}
		key := fmt.Sprintf("%q %+v", parts[0].place.slot, parts[0].targets)
		i, there := shared[key]
		if !there {
			i = len(units)
			shared[key] = i
			units = append(units, unit{parts: parts})
		} else {
			units[i].parts[0].nodes = append(units[i].parts[0].nodes, g.nodes...)
		}
		units[i].groups = append(units[i].groups, g)
	}
	return units, refused
}

// parts divides a group by slot, each part with its targets.
func (f *facts) parts(g group) ([]part, *Failure) {
	if len(g.jobs) == 0 && len(g.lost) > 0 {
		return nil, refusal(capacity.JobGone, "job %d ended before its nodes were launched", g.lost[0])
	}
	var parts []part
	for _, n := range g.nodes {
		at, _ := placeOf(f.settings, n)
		i := slices.IndexFunc(parts, func(p part) bool { return p.place.slot == at.slot })
		if i < 0 {
			template := f.templates[at.group.LaunchTemplate]
			if template.failure != nil {
				return nil, template.failure
			}
			i = len(parts)
			parts = append(parts, part{place: at, template: template.version})
		}
		parts[i].nodes = append(parts[i].nodes, n)
	}
	for i := range parts {
		var refused *Failure
		if parts[i].targets, refused = f.inOrder(g.jobs, parts[i]); refused != nil {
			return nil, refused
		}
	}
	if len((unit{parts: parts}).zones()) == 0 {
		return nil, refusal(capacity.NoCommonZone,
			"the node groups of the job have no zone in common, where it could be launched as a whole")
	}
	for _, p := range parts {
		f.taken[p.targets[0].reservationID] += len(p.nodes)
	}
	return parts, nil
}

// inOrder returns the targets for nodes of jobs in the order to try: first where other nodes of the jobs already run,
// then by room.
func (f *facts) inOrder(jobs []capacity.Job, p part) ([]target, *Failure) {
	targets, refused := f.chooseTargets(jobs, p.place, len(p.nodes))
	if refused != nil {
		return nil, refused
	}
	beside := map[string]bool{}
	for _, j := range jobs {
		for _, n := range j.Nodes {
			for _, i := range f.live[n] {
				beside[i.ReservationID] = beside[i.ReservationID] || !slices.Contains(p.nodes, n)
			}
		}
	}
	sortLast(targets, func(t target) bool { return !beside[t.reservationID] })
	return targets, nil
}

// sortLast moves some targets to the end.
func sortLast(targets []target, last func(target) bool) {
	rank := func(t target) int {
		if last(t) {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(targets, func(a, b target) int { return rank(a) - rank(b) })
}

// launchToken is the ClientToken of a launch: the same when the same power-up is repeated, another for a requeued
// job. what is the whole request except the nodes: EC2 binds a token to the parameters of its first use, even of a
// failed one. Nodes without a job have nothing but time to tell two power-ups apart, so their token lasts for ten
// seconds of AWS's clock. attempt counts earlier launches under the same circumstances whose instances have ended:
// EC2 launches nothing under their tokens.
func (f *facts) launchToken(jobs []capacity.Job, nodes []string, attempt int, what ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q %q %q %d", f.cluster, hostlist.Compress(nodes), what, attempt)
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
func (f *facts) tags(jobs []capacity.Job, partition string, nodes []string, reservation string) map[string]string {
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
	tags[capacity.TagCluster], tags[capacity.TagPartition] = f.cluster, partition
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
		tags[capacity.TagJob] = hook.Clip(hostlist.Compress(shown(jobs)), capacity.MaxTagValue)
	}
	return tags
}
