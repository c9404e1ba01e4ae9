package power

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// launched is the instance of a node, and the reservation that it was launched into.
type launched struct {
	instance    capacity.Instance
	reservation string
}

// launch launches a unit and settles what came of it. If one part of a group fails the
// whole group fails, and powering its nodes down terminates what was launched.
func (u *powerUp) launch(what unit) {
	got, err := u.fillAll(what)
	outcomes := make([]outcome, len(what.groups))
	for i, g := range what.groups {
		outcomes[i] = outcome{group: g, launched: map[string]launched{}}
		for _, n := range g.nodes {
			if l, ok := got[n]; ok {
				outcomes[i].launched[n] = l
			} else {
				outcomes[i].err = err
			}
		}
	}
	u.settle(outcomes)
}

// fillAll launches the parts of a unit, in one zone if they have to be.
func (u *powerUp) fillAll(what unit) (got map[string]launched, err error) {
	got = map[string]launched{}
	for _, zone := range what.zones() {
		if err != nil { // the zone before has no room for all
			if ended := u.endLaunched(got); ended != nil {
				return got, ended
			}
			clear(got)
		}
		var failed error
		for _, p := range what.parts {
			if failed = u.fill(p.in(zone), what, got); failed != nil {
				break
			}
		}
		if failed == nil {
			return got, nil
		}
		if err = cmp.Or(err, failed); !errors.Is(failed, capacity.ErrNoRoom) {
			return got, failed
		}
	}
	return got, err
}

// endLaunched ends what was launched.
func (u *powerUp) endLaunched(got map[string]launched) error {
	var ids []string
	for _, l := range got {
		ids = append(ids, l.instance.ID)
	}
	if len(ids) == 0 {
		return nil
	}
	u.Log.Info("ended, since the rest of the job has no room in the zone", "instances", ids)
	return u.EC2.Terminate(u.finish, ids)
}

// fill launches the nodes of a part, or adopts what an earlier run of this hook launched
// for them and could not finish. It moves on to the next target when EC2 says that there
// is no room; the error is EC2's first one, for the nodes that are not in got then.
func (u *powerUp) fill(p part, what unit, got map[string]launched) error {
	missing, err := u.adopt(p, got)
	if err != nil {
		return err
	}
	var first error
	if len(missing) > 0 {
		if p.targets, err = u.besideLaunched(p, got); err != nil {
			return err
		}
	}
	for _, t := range p.targets {
		for len(missing) > 0 {
			// EC2 counts calls, not instances.
			if u.work.Err() != nil || !t.hold && u.calls.Wait(u.work) != nil {
				return &refusal{code: "interrupted", message: "there was no time left to launch"}
			}
			instances, err := u.launchIn(p, what, t, missing)
			if errors.Is(err, capacity.ErrNoRoom) {
				first = cmp.Or(first, err)
				u.markFull(t, len(missing), err)
				break
			}
			for n, i := range instances {
				got[n] = launched{i, cmp.Or(t.reservationID, i.ReservationID)}
			}
			if err != nil {
				return err
			}
			if first != nil && p.holds() && !t.hold {
				u.launchedUnheld(what, missing, first)
			}
			missing = slices.DeleteFunc(missing, func(n string) bool { _, ok := instances[n]; return ok })
		}
	}
	if len(missing) > 0 {
		u.endLeft(missing)
		return u.nowhere(first, p, len(p.nodes))
	}
	return nil
}

// adopt finds, for each of the nodes, the one living instance that was launched for it in
// this power-up, in a reservation that it may have; it returns the nodes without one.
// Slurm powers up only nodes that it holds for powered down, so an instance that is left
// of an older power-up has no use; it would keep the new one out of the block.
func (u *powerUp) adopt(p part, got map[string]launched) (missing []string, err error) {
	began := u.Began.Add(u.EC2.Offset()).Add(-clockSlack)
	var stale, adopted []string
	for _, n := range p.nodes {
		live := u.facts.live[n]
		if len(live) == 1 && !live[0].Launched.Before(began) {
			reservation := live[0].Tags[capacity.TagReservation]
			if slices.ContainsFunc(p.targets, func(t target) bool { return t.reservationID == reservation }) {
				got[n] = launched{live[0], reservation}
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
		u.Log.Info("adopting what an earlier run launched", "nodes", u.Slurm.Hostlist(adopted))
	}
	if len(stale) > 0 {
		u.Log.Warn("terminating instances of older launches", "nodes", u.Slurm.Hostlist(missing), "instances", stale)
		err = u.EC2.Terminate(u.finish, stale)
	}
	return missing, err
}

// mostAttempts bounds the launches that have the same circumstances: see launchToken.
const mostAttempts = 10

// runInstances is one launch: of all nodes of a group or none, or of as many one-node
// groups as there is room for.
func (u *powerUp) runInstances(p part, what unit, t target, nodes []string) (map[string]capacity.Instance, error) {
	template, err := u.EC2.PinTemplate(u.finish, p.place.group.LaunchTemplate)
	if err != nil {
		return nil, err
	}
	jobs, shown := what.jobsOf(nodes)
	hostlist := u.Slurm.Hostlist(nodes)
	l := capacity.Launch{LaunchTemplate: template, InstanceType: t.instanceType, SubnetID: t.subnetID, ReservationID: t.reservationID,
		Kind: t.kind, PlacementGroup: t.placementGroup, Fresh: t.hold, Count: len(nodes), Least: len(nodes), Tags: u.tags(shown, p.place.partition.Name, nodes, t)}
	if len(what.groups) > 1 {
		l.Least = 1
	}
	var used error
	for attempt := range mostAttempts {
		l.ClientToken = launchToken(u.Cluster, jobs, hostlist, []string{t.reservationID, t.subnetID, t.instanceType, template}, u.facts.now, attempt)
		instances, err := u.EC2.Launch(u.finish, l)
		if errors.Is(err, capacity.ErrTokenUsed) || slices.ContainsFunc(instances, capacity.Instance.Ended) {
			used = cmp.Or(err, used)
			continue
		}
		if err != nil {
			return nil, err
		}
		return byNode(nodes, instances, l.Least)
	}
	if used != nil {
		return nil, used
	}
	return nil, fmt.Errorf("%d launches of %s have ended already", mostAttempts, hostlist)
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

// launchToken is the ClientToken of a launch: the same for a repetition of the same
// power-up, another one for a requeued job. what is all that the launch asks for beside
// the nodes: EC2 binds a token to the parameters of its first use, even of one that
// failed. Nodes that no job waits for have nothing that tells two power-ups apart but
// time, so theirs is good for ten seconds of AWS's clock. attempt counts launches under the
// same circumstances that have ended since: EC2 launches nothing under their token.
func launchToken(cluster string, jobs []capacity.Job, hostlist string, what []string, now time.Time, attempt int) string {
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

// byNode maps instances to sorted nodes by their launch index; at least so many of them.
func byNode(nodes []string, instances []capacity.Instance, least int) (map[string]capacity.Instance, error) {
	found := map[string]capacity.Instance{}
	for _, i := range instances {
		if i.LaunchIndex < 0 || i.LaunchIndex >= len(nodes) {
			return found, fmt.Errorf("instance %s has launch index %d in a launch of %d", i.ID, i.LaunchIndex, len(nodes))
		}
		found[nodes[i.LaunchIndex]] = i
	}
	if len(found) < least {
		return found, fmt.Errorf("EC2 launched %d instances for %d nodes", len(found), len(nodes))
	}
	return found, nil
}
