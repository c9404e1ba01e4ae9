package power

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hook"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// facts is what all launches of a run are decided on. It is read once and never changed: decisions change copies.
type facts struct {
	settings capacity.Settings
	cluster  string // the value of our mark
	snap     *capacity.Snapshot
	now      time.Time
	// began is AWS's time before which this power-up cannot have launched anything.
	began time.Time
	// live are our instances by the node that they were launched for: see liveOf.
	live map[string][]capacity.Instance
	// all: live has those of every node.
	all bool
	// taken counts the places in reservations that this run's launches will use.
	taken map[string]int
	// full are the reservations that were full a short while ago: see passOver.
	full map[string]int
	// templates are the current versions of the settings' launch templates.
	templates map[string]template
	// admitted caches AdmitLaunch's answers within one decision: see admit.
	admitted map[asked]admitted
}

// template is a launch template's version, or why it is unknown.
type template struct {
	version string
	failure *Failure
}

// deciding is a copy for one decision.
func (f *facts) deciding() *facts {
	own := *f
	own.taken, own.admitted = maps.Clone(f.taken), map[asked]admitted{}
	if own.taken == nil {
		own.taken = map[string]int{}
	}
	return &own
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

func (f *facts) placeOf(node string) (at place, ok bool) { return placeOf(f.settings, node) }

// unit is what is launched together: one group, whole or not at all; or one-node groups that share a call, of which
// as many are launched as fit.
type unit struct {
	groups []group
	parts  []part // one for each slot; only one if there are several groups
}

// part is the nodes of a unit that are in one slot, sorted.
type part struct {
	place place
	nodes []string
	// targets in the order in which they are tried.
	targets []target
	// together: all parts must be in one zone.
	together bool
}

// holds reports whether the part may get an ODCR.
func (p part) holds() bool {
	return slices.ContainsFunc(p.targets, func(t target) bool { return t.hold })
}

// zones are the zone ids to try one after the other for a unit that must be in one zone; "" stands for all zones
// together.
func (what unit) zones() (ids []string) {
	if len(what.parts) == 1 || !what.parts[0].together {
		return []string{""}
	}
	for _, t := range what.parts[0].targets {
		everywhere := !slices.ContainsFunc(what.parts, func(p part) bool { return len(p.in(t.azID).targets) == 0 })
		if everywhere && !slices.Contains(ids, t.azID) {
			ids = append(ids, t.azID)
		}
	}
	return ids
}

// in is the part with its targets in one zone; all of them for "".
func (p part) in(azID string) part {
	p.targets = slices.DeleteFunc(slices.Clone(p.targets), func(t target) bool { return azID != "" && t.azID != azID })
	return p
}

// outcome is the result for a group.
type outcome struct {
	group
	launched map[string]launched // by node
	failure  *Failure
	// behind are the jobs, by shown name, that are tried after the others.
	behind map[string]bool
}

// plan decides everything before the first launch: the largest groups first, because they find room in the fewest
// places. It returns separately the groups for which nothing is launched, and the places that are then taken.
func (f *facts) plan(groups []group) (units []unit, refused []outcome, taken map[string]int) {
	f = f.deciding()
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
	return units, refused, f.taken
}

// parts divides a group by slot, each part with its targets.
func (f *facts) parts(g group) ([]part, *Failure) {
	if g.abandoned() {
		return nil, refusal(capacity.JobGone, "job %d ended before its nodes were launched", g.lost[0])
	}
	var parts []part
	for _, n := range g.nodes {
		at, _ := f.placeOf(n)
		i := slices.IndexFunc(parts, func(p part) bool { return p.place.slot == at.slot })
		if i < 0 {
			i = len(parts)
			parts = append(parts, part{place: at})
		}
		parts[i].nodes = append(parts[i].nodes, n)
	}
	together := false
	for i := range parts {
		var refused *Failure
		if parts[i].targets, refused = f.inOrder(g.jobs, parts[i]); refused != nil {
			return nil, refused
		}
		together = together || parts[i].holds()
	}
	for i := range parts {
		parts[i].together = together
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
	apart := func(t target) int {
		if beside[t.reservationID] {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(targets, func(a, b target) int { return apart(a) - apart(b) })
	return targets, nil
}

// nodesTags are the tags that tell a launch's instances their nodes: hostlists short enough for a tag, in node order.
func nodesTags(nodes []string) map[string]string {
	var split func(nodes []string) []string
	split = func(nodes []string) []string {
		list := hostlist.Compress(nodes)
		if len(list) <= capacity.MaxTagValue || len(nodes) == 1 {
			return []string{list}
		}
		half := len(nodes) / 2
		return append(split(nodes[:half]), split(nodes[half:])...)
	}
	return capacity.NodesTags(split(nodes))
}

func (f *facts) tags(jobs []string, partition string, nodes []string, t target) map[string]string {
	tags := nodesTags(nodes)
	tags[capacity.TagCluster], tags[capacity.TagPartition] = f.cluster, partition
	// One call gives all its instances the same tags. Of several nodes, the launch index picks one, and the console
	// shows it next to the name.
	tags[capacity.TagName] = hook.Clip(hostlist.Compress(nodes), capacity.MaxTagValue)
	if len(nodes) == 1 {
		tags[capacity.TagNode] = nodes[0]
	}
	if t.reservationID != "" && !t.hold { // an ODCR is cancelled soon and backs nothing
		tags[capacity.TagReservation] = t.reservationID
	}
	if len(jobs) > 0 {
		// As short as possible: EC2 returns it with each instance.
		tags[capacity.TagJob] = hook.Clip(hostlist.Compress(jobs), capacity.MaxTagValue)
	}
	return tags
}
