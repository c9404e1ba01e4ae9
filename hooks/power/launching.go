package power

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// launched is the instance of a node, and the reservation that it was launched into.
type launched struct {
	instance    capacity.Instance
	reservation string
}

// launching is the machine that launches a unit: part by part, each in its targets in order, zone by zone if all
// parts have to share one. If one part of a group fails, the whole group fails, and powering its nodes down
// terminates the launched instances.
type launching struct {
	*facts
	what unit

	at                 step
	zone, part, target int
	attempt            int // of the call under way: see launchToken
	targets            []target
	missing            []string // nodes of the part
	platform           string   // of the image, once it is known
	order              capacity.HoldOrder
	held               held
	used               *Failure // EC2's last ErrTokenUsed
	// first is EC2's first answer for lack of room in this part, firstZone the first of all zones. why is the failure
	// that waits until instances are terminated.
	first, firstZone, why *Failure
	got                   map[string]launched // by node
	ended                 map[string]bool     // instances

	// holds are the ODCRs that were launched into; they are cancelled when their instances run: see releasing.
	holds    []held
	outcomes []outcome
}

// step is what the last answer was for.
type step string

const (
	stepOlder      step = "end older launches"
	stepZone       step = "end what was launched in another zone"
	stepImage      step = "ask for the platform"
	stepEnlist     step = "enlist"
	stepHold       step = "hold"
	stepLaunch     step = "launch"
	stepGiveBack   step = "give back"
	stepLeft       step = "ask for older launches of several nodes"
	stepAddress    step = "set addresses"
	stepOver       step = "over"
	mostAttempts        = 10 // launches that have the same circumstances: see launchToken
	holdFailedFor       = "nothing could be held for all %d nodes at once in %s: %s"
	noZoneLeftWhy       = "the rest of the job has no room in the zone"
	olderLaunchWhy      = "of an older launch"
)

func (s launching) next(a Answer) (launching, []capacity.Effect) {
	switch s.at {
	case "":
		s.got, s.ended = map[string]launched{}, map[string]bool{}
		return s.beginPart()
	case stepOlder:
		if a.Failure != nil {
			return s.settle(a.Failure)
		}
		return s.fillPart()
	case stepZone:
		if a.Failure != nil {
			return s.settle(a.Failure)
		}
		s.got = map[string]launched{}
		return s.beginPart()
	case stepImage:
		if a.Failure != nil {
			return s.failPart(a.Failure)
		}
		s.platform = a.Platform
		return s.enlist()
	case stepEnlist:
		return s.enlisted(a)
	case stepHold:
		return s.holdAnswered(a)
	case stepLaunch:
		return s.launchAnswered(a)
	case stepGiveBack:
		effects := s.held.given(a, s.settings)
		after, more := s.failTarget(s.why)
		return after, append(effects, more...)
	case stepLeft:
		return s.endLeft(a)
	case stepAddress:
		for i, o := range s.outcomes {
			if a.Failure != nil && o.failure == nil {
				s.outcomes = slices.Clone(s.outcomes)
				s.outcomes[i].failure = a.Failure
			}
		}
		return s.record(a)
	}
	return s, nil
}

// here is the current part, in the current zone.
func (s launching) here() part { return s.what.parts[s.part].in(s.what.zones()[s.zone]) }

// beginPart adopts, for each node, the one living instance that this power-up launched for it in an allowed
// reservation. Slurm powers up only nodes that it considers powered down, so an instance of an older power-up is
// useless and would keep the new one out of the block. Of two instances nobody knows which one Slurm waits for, so
// both are terminated.
func (s launching) beginPart() (launching, []capacity.Effect) {
	p := s.here()
	got := maps.Clone(s.got)
	s.target, s.first, s.missing, s.platform = 0, nil, nil, ""
	var adopted, stale []string
	for _, n := range p.nodes {
		live := slices.DeleteFunc(slices.Clone(s.live[n]), func(i capacity.Instance) bool { return s.ended[i.ID] })
		if len(live) == 1 && !live[0].Launched.Before(s.began) {
			reservation := live[0].Tags[capacity.TagReservation]
			if slices.ContainsFunc(p.targets, func(t target) bool { return t.reservationID == reservation }) {
				got[n] = launched{live[0], reservation}
				adopted = append(adopted, n)
				continue
			}
		}
		s.missing = append(s.missing, n)
		for _, i := range live {
			stale = append(stale, i.ID)
		}
	}
	s.got = got
	var effects []capacity.Effect
	if len(adopted) > 0 {
		effects = append(effects, Adopt{adopted})
	}
	if len(stale) > 0 {
		s = s.ending(stale)
		s.at = stepOlder
		return s, append(effects, Terminate{Instances: stale, Nodes: s.missing, Why: olderLaunchWhy})
	}
	s, more := s.fillPart()
	return s, append(effects, more...)
}

// ending notes terminated instances.
func (s launching) ending(ids []string) launching {
	s.ended = maps.Clone(s.ended)
	for _, id := range ids {
		s.ended[id] = true
	}
	return s
}

func (s launching) fillPart() (launching, []capacity.Effect) {
	if len(s.missing) == 0 {
		return s.nextPart()
	}
	s.targets = s.here().targets
	return s.tryTarget()
}

func (s launching) nextPart() (launching, []capacity.Effect) {
	if s.part++; s.part == len(s.what.parts) {
		return s.settle(nil)
	}
	return s.beginPart()
}

// tryTarget launches the missing nodes of the part in the next target. If target.hold, it first creates an ODCR there.
func (s launching) tryTarget() (launching, []capacity.Effect) {
	if s.target == len(s.targets) {
		s.why = s.nowhere()
		if s.all { // leftovers of older launches have been terminated
			return s.failPart(s.why)
		}
		s.at = stepLeft
		return s, []capacity.Effect{AskLeft{s.missing}}
	}
	s.attempt, s.used = 0, nil
	if t := s.template(); t.failure != nil {
		return s.failPart(t.failure)
	}
	if !s.targets[s.target].hold {
		return s.launch()
	}
	if s.platform == "" {
		_, group, _ := s.seen(s.here().place)
		s.platform = group.Platform
	}
	if s.platform == "" { // an ODCR for another platform would be paid for in vain
		s.at = stepImage
		return s, []capacity.Effect{AskImage{s.template().version}}
	}
	return s.enlist()
}

func (s launching) template() template { return s.templates[s.here().place.group.LaunchTemplate] }

// launch launches the missing nodes of the part: all nodes of a group or none, or as many one-node groups as fit.
func (s launching) launch() (launching, []capacity.Effect) {
	t := s.targets[s.target]
	jobs, shown := s.what.jobsOf(s.missing)
	tags := s.tags(shown, s.here().place.partition.Name, s.missing, t)
	if t.hold {
		t.reservationID, t.kind = s.held.ID, capacity.ODCR
	}
	l := capacity.Launch{LaunchTemplate: s.template().version, InstanceType: t.instanceType, SubnetID: t.subnetID,
		ReservationID: t.reservationID, Kind: t.kind, PlacementGroup: t.placementGroup, Fresh: t.hold,
		Count: len(s.missing), Least: len(s.missing), Tags: tags}
	if len(s.what.groups) > 1 {
		l.Least = 1
	}
	what := []string{t.reservationID, t.subnetID, t.instanceType, l.LaunchTemplate}
	l.ClientToken = launchToken(s.cluster, jobs, hostlist.Compress(s.missing), what, s.now, s.attempt)
	s.at = stepLaunch
	return s, []capacity.Effect{Launch{Launch: l, Nodes: s.missing, Jobs: shown}}
}

func (s launching) launchAnswered(a Answer) (launching, []capacity.Effect) {
	failure := a.Failure
	if failure.is(capacity.TokenUsed) || failure == nil && slices.ContainsFunc(a.Instances, capacity.Instance.Ended) {
		s.used = cmp.Or(failure, s.used)
		if s.attempt++; s.attempt < mostAttempts {
			return s.launch()
		}
		if failure, a.Instances = s.used, nil; failure == nil {
			failure = failed("%d launches of %s have ended already", mostAttempts, hostlist.Compress(s.missing))
		}
	}
	var found map[string]capacity.Instance
	if failure == nil {
		least := len(s.missing)
		if len(s.what.groups) > 1 {
			least = 1
		}
		found, failure = byNode(s.missing, a.Instances, least)
	}
	t := s.targets[s.target]
	if t.hold && len(found) == 0 {
		return s.giveBack(failure)
	}
	if t.hold {
		h := s.held
		h.launched = a.At
		for _, n := range slices.Sorted(maps.Keys(found)) {
			h.instances = append(h.instances, found[n].ID)
		}
		s.holds = append(slices.Clip(s.holds), h)
	}
	s.got = maps.Clone(s.got)
	for n, i := range found {
		s.got[n] = launched{i, cmp.Or(t.reservationID, i.ReservationID)}
	}
	if failure != nil {
		return s.failTarget(failure)
	}
	var effects []capacity.Effect
	if s.first != nil && s.here().holds() && !t.hold {
		effects = s.unheld()
	}
	s.missing = slices.DeleteFunc(slices.Clone(s.missing), func(n string) bool { _, ok := found[n]; return ok })
	var more []capacity.Effect
	if len(s.missing) == 0 {
		s, more = s.nextPart()
	} else {
		s, more = s.tryTarget()
	}
	return s, append(effects, more...)
}

// unheld tells the jobs that their nodes were launched on demand without an ODCR.
func (s launching) unheld() (effects []capacity.Effect) {
	_, shown := s.what.jobsOf(s.missing)
	text := fmt.Sprintf("pcs-capacity: nodes %s are launched on demand, without capacity that was held for them: %s: %s",
		hostlist.Compress(s.missing), s.first.Code, s.first.message())
	for _, job := range shown {
		effects = append(effects, comment(job, text))
	}
	return effects
}

// failTarget continues with the next target if EC2 has no room in this one; otherwise the part fails.
func (s launching) failTarget(failure *Failure) (launching, []capacity.Effect) {
	if !failure.is(capacity.NoRoom) {
		return s.failPart(failure)
	}
	s.first = cmp.Or(s.first, failure)
	var effects []capacity.Effect
	if t := s.targets[s.target]; t.reservationID != "" && failure.EC2Code != "" { // not a query that failed
		effects = append(effects, MarkFull{t.reservationID, len(s.missing)})
	}
	s.target++
	s, more := s.tryTarget()
	return s, append(effects, more...)
}

// nowhere lists the places where the launch was tried, with EC2's first answer.
func (s launching) nowhere() *Failure {
	p := s.here()
	if !p.holds() || s.first.EC2Code == "" {
		return s.first
	}
	var tried []string
	for _, t := range s.targets {
		at := t.instanceType + " in " + t.azID
		if t.hold && !slices.Contains(tried, at) {
			tried = append(tried, at)
		}
	}
	f := *s.first
	f.Message = fmt.Sprintf(holdFailedFor, len(p.nodes), strings.Join(tried, ", "), f.Message)
	return &f
}

// endLeft terminates what older launches of several nodes have left for nodes without room: the leftovers may take
// the place.
func (s launching) endLeft(a Answer) (launching, []capacity.Effect) {
	var stale []string
	for _, i := range a.Instances {
		if slices.Contains(s.missing, i.Tags[capacity.TagNode]) && !i.Ended() && i.Launched.Before(s.began) {
			stale = append(stale, i.ID)
		}
	}
	var effects []capacity.Effect
	if len(stale) > 0 {
		effects = append(effects, Terminate{Instances: stale, Nodes: s.missing, Why: olderLaunchWhy})
	}
	s, more := s.failPart(s.why)
	return s, append(effects, more...)
}

// failPart tries all parts in the next zone if this one has no room; otherwise the unit fails.
func (s launching) failPart(failure *Failure) (launching, []capacity.Effect) {
	first := cmp.Or(s.firstZone, failure)
	if !failure.is(capacity.NoRoom) {
		return s.settle(failure)
	}
	if s.zone+1 == len(s.what.zones()) {
		return s.settle(first)
	}
	s.firstZone = first
	s.zone, s.part = s.zone+1, 0
	var ids []string
	for _, n := range slices.Sorted(maps.Keys(s.got)) {
		ids = append(ids, s.got[n].instance.ID)
	}
	if len(ids) == 0 {
		return s.beginPart()
	}
	s = s.ending(ids)
	s.at = stepZone
	return s, []capacity.Effect{Terminate{Instances: ids, Nodes: slices.Sorted(maps.Keys(s.got)), Why: noZoneLeftWhy}}
}

// settle sets the addresses of the launched nodes, and ends with the outcome of each group.
func (s launching) settle(failure *Failure) (launching, []capacity.Effect) {
	s.outcomes = nil
	addresses := map[string]netip.Addr{}
	for _, g := range s.what.groups {
		o := outcome{group: g, launched: map[string]launched{}}
		for _, n := range g.nodes {
			if l, ok := s.got[n]; ok {
				o.launched[n] = l
			} else {
				o.failure = failure
			}
		}
		for _, n := range g.nodes {
			l, ok := o.launched[n]
			if !ok {
				continue
			}
			ip, err := netip.ParseAddr(l.instance.PrivateIP)
			if err != nil && o.failure == nil {
				o.failure = failed("instance %s has no private address: %v", l.instance.ID, err)
			}
			addresses[n] = ip
		}
		if o.failure != nil {
			for n := range o.launched {
				delete(addresses, n)
			}
		}
		s.outcomes = append(s.outcomes, o)
	}
	s.at = stepOver
	if len(addresses) == 0 {
		return s, nil
	}
	s.at = stepAddress
	return s, []capacity.Effect{SetAddresses{addresses}}
}

// record writes the launches, one record for each reservation of a group.
func (s launching) record(a Answer) (launching, []capacity.Effect) {
	s.at = stepOver
	var all []state.Record
	for _, o := range s.outcomes {
		if o.failure != nil {
			continue
		}
		nodes := map[string][]string{} // by reservation
		for _, n := range o.nodes {
			nodes[o.launched[n].reservation] = append(nodes[o.launched[n].reservation], n)
		}
		for _, reservation := range slices.Sorted(maps.Keys(nodes)) {
			at, _ := s.placeOf(nodes[reservation][0])
			r := state.Record{At: a.now(), Hook: "resume", Partition: at.partition.Name, Jobs: o.shown(),
				Nodes: hostlist.Compress(
					nodes[reservation],
				), Reservation: reservation, Code: string(capacity.OK), Message: "launched"}
			for _, n := range nodes[reservation] {
				r.Instances = append(r.Instances, o.launched[n].instance.ID)
			}
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		return s, nil
	}
	return s, []capacity.Effect{Tell{Records: all}}
}

// jobsOf are the jobs of groups that have any of the nodes, and their ids as squeue shows them.
func (what unit) jobsOf(nodes []string) (jobs []capacity.Job, shown []string) {
	among := setOf(nodes)
	for _, g := range what.groups {
		if slices.ContainsFunc(g.nodes, func(n string) bool { return among[n] }) {
			jobs, shown = append(jobs, g.jobs...), append(shown, g.shown()...)
		}
	}
	return jobs, shown
}

// launchToken is the ClientToken of a launch: the same when the same power-up is repeated, another for a requeued
// job. what is the whole request except the nodes: EC2 binds a token to the parameters of its first use, even of a
// failed one. Nodes without a job have nothing but time to tell two power-ups apart, so their token lasts for ten
// seconds of AWS's clock. attempt counts earlier launches under the same circumstances whose instances have ended:
// EC2 launches nothing under their tokens.
func launchToken(cluster string, jobs []capacity.Job, hostlist string, what []string, now time.Time,
	attempt int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q %q %q %d", cluster, hostlist, what, attempt)
	for _, j := range jobs {
		fmt.Fprintf(&b, " %d/%d", j.ID, j.Restarts)
	}
	if len(jobs) == 0 {
		fmt.Fprintf(&b, " %d", now.Unix()/10)
	}
	// 64 hexadecimal digits: the longest token that EC2 takes.
	return fmt.Sprintf("%x", sha256.Sum256([]byte(b.String())))
}

// byNode maps instances to sorted nodes by their launch index; least is the lowest acceptable number.
func byNode(nodes []string, instances []capacity.Instance, least int) (map[string]capacity.Instance, *Failure) {
	found := map[string]capacity.Instance{}
	for _, i := range instances {
		if i.LaunchIndex < 0 || i.LaunchIndex >= len(nodes) {
			return found, failed("instance %s has launch index %d in a launch of %d", i.ID, i.LaunchIndex, len(nodes))
		}
		found[nodes[i.LaunchIndex]] = i
	}
	if len(found) < least {
		return found, failed("EC2 launched %d instances for %d nodes", len(found), len(nodes))
	}
	return found, nil
}
