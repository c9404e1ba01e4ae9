package hooks

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// launched is the part of a group that lies in one slot.
type launched struct {
	place       place
	nodes       []string
	reservation string
	instances   map[string]capacity.Instance // by node
}

// launchGroup launches all nodes of a group. A group that spans slots takes one launch
// call each; if one of them fails the whole group fails, and powering its nodes down
// terminates what was launched.
func (r *Resume) launchGroup(work, finish context.Context, g group, f *facts) ([]launched, error) {
	if g.abandoned() {
		return nil, &refusal{code: "job-gone", message: fmt.Sprintf("job %d ended before its nodes were launched", g.lost[0])}
	}
	var parts []launched
	for _, n := range g.nodes {
		at, _ := r.placeOf(n)
		i := slices.IndexFunc(parts, func(p launched) bool { return p.place.slot == at.slot })
		if i < 0 {
			i = len(parts)
			parts = append(parts, launched{place: at})
		}
		parts[i].nodes = append(parts[i].nodes, n)
	}
	// All are decided on before the first is launched.
	targets := make([]target, len(parts))
	for i, part := range parts {
		var err error
		if targets[i], err = chooseTarget(g.jobs, part.place, f.snap, f.now); err != nil {
			return nil, err
		}
	}
	for i := range parts {
		if work.Err() != nil {
			return parts, &refusal{code: "interrupted", message: "there was no time left to launch"}
		}
		if err := r.launchPart(finish, g, &parts[i], targets[i], f); err != nil {
			return parts, err
		}
	}
	return parts, nil
}

// mostAttempts bounds the launches that one group of nodes can have under one token
// seed: see launchToken.
const mostAttempts = 10

// launchPart launches the nodes of one slot, or adopts what an earlier run of this
// hook launched for them and could not finish.
func (r *Resume) launchPart(ctx context.Context, g group, part *launched, t target, f *facts) error {
	hostlist, g0 := r.Slurm.Hostlist(part.nodes), part.place.group
	template, err := r.EC2.PinTemplate(ctx, g0.LaunchTemplate)
	if err != nil {
		return err
	}
	what := []string{t.reservationID, t.subnetID, g0.InstanceType, template}
	tokens := make([]string, mostAttempts)
	for attempt := range tokens {
		tokens[attempt] = launchToken(r.Cluster, g.jobs, hostlist, what, f.now, attempt)
	}
	if adopted, ok := adopt(part.nodes, f.live, tokens); ok {
		r.Log.Info("adopting what an earlier run launched", "nodes", hostlist)
		part.instances, part.reservation = adopted, adopted[part.nodes[0]].Tags[capacity.TagReservation]
		return nil
	}
	// Slurm powers up only nodes that it holds for powered down, so an instance that is
	// left of one is of an older launch and would keep the new one out of the block.
	var stale []string
	for _, n := range part.nodes {
		for _, i := range f.live[n] {
			stale = append(stale, i.ID)
		}
	}
	if len(stale) > 0 {
		r.Log.Warn("terminating instances of older launches", "nodes", hostlist, "instances", stale)
		if err := r.EC2.Terminate(ctx, stale); err != nil {
			return err
		}
	}
	reservation, _ := f.snap.Reservation(t.reservationID)
	for _, token := range tokens {
		instances, err := r.EC2.Launch(ctx, capacity.Launch{
			ClientToken: token, LaunchTemplate: template, InstanceType: g0.InstanceType, SubnetID: t.subnetID,
			ReservationID: t.reservationID, Kind: g0.PurchaseOption, PlacementGroup: reservation.PlacementGroup, Count: len(part.nodes),
			Tags: r.tags(g, part.place.partition.Name, hostlist, token, t.reservationID),
		})
		if errors.Is(err, capacity.ErrTokenUsed) || slices.ContainsFunc(instances, capacity.Instance.Ended) {
			continue
		}
		if err != nil {
			return err
		}
		part.reservation = t.reservationID
		part.instances, err = byNode(part.nodes, instances)
		return err
	}
	return fmt.Errorf("%d launches of %s have ended already; wait an hour", mostAttempts, hostlist)
}

func (r *Resume) tags(g group, partition, hostlist, token, reservationID string) map[string]string {
	tags := map[string]string{
		capacity.TagCluster: r.Cluster, capacity.TagPartition: partition, capacity.TagNodes: hostlist, capacity.TagLaunch: token,
		capacity.TagName: r.Cluster + " " + partition,
	}
	if reservationID != "" {
		tags[capacity.TagReservation] = reservationID
	}
	if len(g.jobs) > 0 {
		tags[capacity.TagJob] = clip(strings.Join(g.shown(), " "), maxTagValue)
	}
	return tags
}

// maxTagValue is EC2's limit for the value of a tag, in characters.
const maxTagValue = 256

// launchToken is the ClientToken of a launch: the same for a repetition of the same
// power-up, another one for a requeued job. what is all that the launch asks for beside
// the nodes: EC2 binds a token to the parameters of its first use, even of one that
// failed. Nodes that no job waits for have nothing that tells two power-ups apart but
// time, so theirs is good for one hour of AWS's clock. attempt counts launches under the
// same circumstances that have ended since: EC2 launches nothing under their token.
func launchToken(cluster string, jobs []Job, hostlist string, what []string, now time.Time, attempt int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q %q %q %d", cluster, hostlist, what, attempt)
	for _, j := range jobs {
		fmt.Fprintf(&b, " %d/%d", j.ID, j.Restarts)
	}
	if len(jobs) == 0 {
		b.WriteString(now.UTC().Format(" 2006-01-02T15"))
	}
	// 64 hexadecimal digits: the longest token that EC2 takes.
	return fmt.Sprintf("%x", sha256.Sum256([]byte(b.String())))
}

// adopt finds, for every one of the nodes, the one living instance of a single launch
// under one of the tokens.
func adopt(nodes []string, live map[string][]capacity.Instance, tokens []string) (map[string]capacity.Instance, bool) {
	found := map[string]capacity.Instance{}
	for _, n := range nodes {
		if len(live[n]) != 1 {
			return nil, false
		}
		i := live[n][0]
		token := i.Tags[capacity.TagLaunch]
		if !slices.Contains(tokens, token) || token != live[nodes[0]][0].Tags[capacity.TagLaunch] {
			return nil, false
		}
		found[n] = i
	}
	return found, true
}

// byNode maps instances to sorted nodes by their launch index.
func byNode(nodes []string, instances []capacity.Instance) (map[string]capacity.Instance, error) {
	found := map[string]capacity.Instance{}
	for _, i := range instances {
		if i.LaunchIndex < 0 || i.LaunchIndex >= len(nodes) {
			return found, fmt.Errorf("instance %s has launch index %d in a launch of %d", i.ID, i.LaunchIndex, len(nodes))
		}
		found[nodes[i.LaunchIndex]] = i
	}
	if len(found) != len(nodes) {
		return found, fmt.Errorf("EC2 launched %d instances for %d nodes", len(found), len(nodes))
	}
	return found, nil
}
