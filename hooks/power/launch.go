package power

import (
	"cmp"
	"context"
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

const (
	// mostAttempts is how many launches may have the same circumstances: see launchToken.
	mostAttempts = 10
	// addressOfBudget is the share of the budget for attempts to set addresses, a quarter: a launched node without its
	// address is lost.
	addressOfBudget = 4
)

// launching is a unit while it is launched.
type launching struct {
	World
	*call
	unit
	got   map[string]launched // by node
	ended map[string]bool     // instances that this launch has terminated
	odcrs []odcr              // that were launched into
}

// launch launches a unit: part by part, each in its targets in order; zone by zone if all parts have to share one. If
// one part of a group fails, the whole group fails, and powering its nodes down terminates what was launched. It
// returns what came of each group, and the ODCRs that are cancelled when their instances run: see letGo.
func launch(w World, c *call, u unit) ([]outcome, []odcr) {
	l := &launching{World: w, call: c, unit: u, got: map[string]launched{}, ended: map[string]bool{}}
	var why, first *Failure
	for i, zone := range u.zones() {
		if i > 0 && len(l.got) > 0 {
			if why = l.terminate(l.instances(), "the rest of the job has no room in the zone"); why != nil {
				break
			}
			clear(l.got)
		}
		why = l.launchParts(zone)
		if first = cmp.Or(first, why); !why.is(capacity.NoRoom) {
			break
		}
		why = first
	}
	return l.settle(why), l.odcrs
}

// launchParts launches the nodes that have no instance of this power-up, in one target after the other: all nodes of a
// part or none; of one-node groups, as many as fit.
func (l *launching) launchParts(zone string) *Failure {
	for _, p := range l.parts {
		targets := p.in(zone)
		missing, failure := l.adopt(p, targets)
		if failure != nil {
			return failure
		}
		var full *Failure // EC2's first answer for lack of room
		for _, t := range targets {
			for len(missing) > 0 {
				found, failure := l.launchInto(p, t, missing)
				missing = without(missing, func(n string) bool { _, ok := found[n]; return ok })
				if failure.is(capacity.NoRoom) {
					full = cmp.Or(full, failure)
					break
				}
				if failure != nil {
					return failure
				}
			}
		}
		if len(missing) > 0 {
			return nowhere(p, targets, full)
		}
	}
	return nil
}

// launchInto launches nodes into a target, or into an ODCR that it creates there, which is cancelled if nothing runs in
// it.
func (l *launching) launchInto(p part, t target, nodes []string) (map[string]capacity.Instance, *Failure) {
	if !t.hold {
		return l.runInstances(p, t, t.reservationID, nodes)
	}
	held, failure := l.createODCR(p, t, nodes)
	if failure != nil {
		return nil, failure
	}
	found, failure := l.runInstances(p, t, held.ID, nodes)
	if len(found) == 0 {
		l.cancelODCRs(l.World, []odcr{held})
		return nil, failure
	}
	held.launched = l.Now()
	for _, n := range slices.Sorted(maps.Keys(found)) {
		held.instances = append(held.instances, found[n].ID)
	}
	l.odcrs = append(l.odcrs, held)
	return found, failure
}

// adopt takes over, for each node, the one living instance that this power-up launched for it in one of the targets,
// and returns the other nodes. Slurm powers up only nodes that it considers powered down, so an instance of an older
// power-up is useless and would keep the new one out of the block. Of two instances nobody knows which one Slurm waits
// for, so both are terminated.
func (l *launching) adopt(p part, targets []target) (missing []string, failure *Failure) {
	var adopted, stale []string
	for _, n := range p.nodes {
		live := slices.DeleteFunc(slices.Clone(l.live[n]), func(i capacity.Instance) bool { return l.ended[i.ID] })
		if len(live) == 1 && !live[0].Launched.Before(l.since) {
			reservation := live[0].Tags[capacity.TagReservation]
			if slices.ContainsFunc(targets, func(t target) bool { return t.reservationID == reservation }) {
				l.got[n] = launched{live[0], reservation}
				adopted = append(adopted, n)
				continue
			}
		}
		missing = append(missing, n)
		for _, i := range live {
			stale = append(stale, i.ID)
		}
	}
	if len(adopted) > 0 {
		l.Info("adopted what an earlier run launched", "nodes", hostlist.Compress(adopted))
	}
	if len(stale) > 0 {
		failure = l.terminate(stale, "of an older launch")
	}
	return missing, failure
}

// terminate terminates instances.
func (l *launching) terminate(ids []string, why string) *Failure {
	for _, id := range ids {
		l.ended[id] = true
	}
	return failureOf(l.did(l.Terminate(l.finish, ids), "terminate instances "+why, "instances", ids))
}

// instances are those of the launched nodes.
func (l *launching) instances() (ids []string) {
	for _, n := range slices.Sorted(maps.Keys(l.got)) {
		ids = append(ids, l.got[n].instance.ID)
	}
	return ids
}

// runInstances is one RunInstances for nodes: all of them or none, or as many one-node groups as fit. If its token is
// used, or its instances have ended already, the next attempt has another token. The reservation is the target's, or
// the ODCR that was created there and backs nothing soon.
func (l *launching) runInstances(p part, t target, reservation string,
	nodes []string) (map[string]capacity.Instance, *Failure) {
	jobs := l.jobsOf(nodes)
	order := capacity.Launch{LaunchTemplate: p.template, InstanceType: t.instanceType, SubnetID: t.subnetID,
		ReservationID: reservation, Kind: t.kind, PlacementGroup: t.placementGroup, Fresh: t.hold, Count: len(nodes),
		Least: len(nodes),
		Tags:  l.tags(jobs, p.place.partition.Name, nodes, t.reservationID)}
	if len(l.groups) > 1 {
		order.Least = 1
	}
	var used *Failure
	for attempt := range mostAttempts {
		order.ClientToken = l.launchToken(jobs, nodes, attempt, reservation, t.subnetID, t.instanceType, p.template)
		if l.launches.Wait(l.work) != nil {
			return nil, errNoTime
		}
		instances, err := l.Launch(l.finish, order)
		failure := failureOf(err)
		switch {
		case failure.is(capacity.TokenUsed):
			used = failure
		case failure != nil:
			return nil, failure
		case !slices.ContainsFunc(instances, capacity.Instance.Ended):
			found, failure := byNode(nodes, instances, order.Least)
			for n, i := range found {
				l.got[n] = launched{i, cmp.Or(t.reservationID, i.ReservationID)}
			}
			return found, failure
		}
	}
	return nil, cmp.Or(used, failed("%d launches of %s have ended already", mostAttempts, hostlist.Compress(nodes)))
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

// nowhere is EC2's first answer, with the places where capacity could not be held.
func nowhere(p part, targets []target, first *Failure) *Failure {
	if !p.holds() || first.EC2Code == "" {
		return first
	}
	var tried []string
	for _, t := range targets {
		at := t.instanceType + " in " + t.azID
		if t.hold && !slices.Contains(tried, at) {
			tried = append(tried, at)
		}
	}
	f := *first
	f.Message = fmt.Sprintf("nothing could be held for all %d nodes at once in %s: %s", len(p.nodes),
		strings.Join(tried, ", "), f.Message)
	return &f
}

// settle tells Slurm where the launched nodes are, and records the launches. A group fails with why if one of its
// nodes is missing, and with Slurm's answer if the addresses cannot be set.
func (l *launching) settle(why *Failure) (outcomes []outcome) {
	addresses := map[string]netip.Addr{}
	for _, g := range l.groups {
		o := outcome{group: g, launched: map[string]launched{}}
		own := map[string]netip.Addr{}
		for _, n := range g.nodes {
			got, ok := l.got[n]
			if !ok {
				o.failure = why
				continue
			}
			o.launched[n] = got
			ip, err := netip.ParseAddr(got.instance.PrivateIP)
			if err != nil {
				o.failure = cmp.Or(o.failure, failed("instance %s has no private address: %v", got.instance.ID, err))
			}
			own[n] = ip
		}
		if o.failure == nil {
			maps.Copy(addresses, own)
		}
		outcomes = append(outcomes, o)
	}
	if len(addresses) == 0 {
		return outcomes
	}
	if failure := l.setAddresses(addresses); failure != nil {
		for i := range outcomes {
			outcomes[i].failure = cmp.Or(outcomes[i].failure, failure)
		}
	}
	l.record(l.World, l.records(outcomes)...)
	return outcomes
}

// setAddresses tries while there is time.
func (l *launching) setAddresses(addresses map[string]netip.Addr) *Failure {
	ctx, cancel := context.WithTimeout(l.last, l.budget/addressOfBudget)
	defer cancel()
	nodes := hostlist.Compress(slices.Collect(maps.Keys(addresses)))
	for {
		err := l.did(l.SetAddresses(ctx, addresses), "set the addresses of nodes", "nodes", nodes)
		if err == nil {
			return nil
		}
		if sleep(ctx, time.Second); ctx.Err() != nil {
			return failureOf(err)
		}
	}
}

// records are one for each reservation of a group that was launched, with the instances in the order of the nodes.
func (l *launching) records(outcomes []outcome) (all []state.Record) {
	for _, o := range outcomes {
		if o.failure != nil {
			continue
		}
		nodes := map[string][]string{} // by reservation
		for _, n := range o.nodes {
			nodes[o.launched[n].reservation] = append(nodes[o.launched[n].reservation], n)
		}
		for _, reservation := range slices.Sorted(maps.Keys(nodes)) {
			at, _ := placeOf(l.settings, nodes[reservation][0])
			r := state.Record{At: l.Now(), Hook: "resume", Partition: at.partition.Name,
				Nodes: hostlist.Compress(nodes[reservation]), Jobs: shown(o.jobs), Reservation: reservation,
				Code: string(capacity.OK), Message: "launched"}
			for _, n := range nodes[reservation] {
				r.Instances = append(r.Instances, o.launched[n].instance.ID)
			}
			all = append(all, r)
		}
	}
	return all
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
