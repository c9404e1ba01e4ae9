package setup

import (
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// TestUsersOfTheReservation counts who else has instances of a reservation, or is set up for them, each once.
func TestUsersOfTheReservation(t *testing.T) {
	instances := func(n int, tags ...string) func(*inspection) {
		one := capacity.Instance{Tags: map[string]string{}}
		for i := 0; i < len(tags); i += 2 {
			one.Tags[tags[i]] = tags[i+1]
		}
		return func(in *inspection) {
			for range n {
				in.inside = append(in.inside, one)
			}
		}
	}
	own := func(g capacity.GroupSettings, running int) func(*inspection) {
		return func(in *inspection) {
			g.Name, g.MaxNodes = "own", 3
			p := config.NewPartition("own", capacity.ProviderEC2, g)
			p.File = "FILE"
			in.request.Config = &config.Config{Partitions: []capacity.PartitionSettings{p}}
			in.reservation.Tags = map[string]string{"team": "nlp"}
			instances(running, capacity.TagCluster, ourMark, capacity.TagPartition, "own")(in)
		}
	}
	group := func(name string, queues ...string) func(*inspection) {
		return func(in *inspection) {
			in.inv.Groups = append(in.inv.Groups, pcs.NodeGroup{ID: "pcs_9", Name: name, Max: 4, Tags: map[string]string{capacity.TagCluster: ourMark, capacity.TagReservation: now1}})
			for _, q := range queues {
				in.inv.Queues = append(in.inv.Queues, pcs.Queue{Name: q, GroupIDs: []string{"pcs_9"}})
			}
			instances(2, pcs.TagNodeGroupID, "pcs_9", pcs.TagClusterID, "pcs_ml")(in)
		}
	}
	for name, c := range map[string]struct {
		seen       func(*inspection)
		ask        Request
		who, fix   string
		own        int
		warns, not string
	}{
		"nobody":                         {seen: func(*inspection) {}},
		"another queue's node group":     {seen: group("big-a", "big"), who: "4 by compute node group big-a of queue big", fix: "free it first: pcs-capacity teardown --queue big --node-group big-a"},
		"a node group of two queues":     {seen: group("big-a", "big", "x"), who: "4 by compute node group big-a of queue big, x", fix: "choose another reservation, or free it there first"},
		"its own slot":                   {seen: group("gpu-b", "gpu")},
		"its own nodes, self-managed":    {ask: askForOnEC2(now1), seen: instances(2, capacity.TagCluster, ourMark, capacity.TagPartition, "gpu"), own: 2},
		"nodes of another cluster":       {seen: instances(3, capacity.TagCluster, "linux", capacity.TagPartition, "gpu"), who: "3 by partition gpu of cluster linux", fix: "give --max-nodes 1 or less"},
		"nodes of another PCS cluster":   {seen: instances(1, pcs.TagClusterID, "pcs_f", pcs.TagNodeGroupID, "pcs_e"), who: "1 by PCS cluster pcs_f"},
		"instances of nobody":            {seen: instances(1), who: "1 by instances without a tag of ours or of PCS"},
		"another entry, by id":           {seen: own(capacity.GroupSettings{ReservationIDs: []string{now1}}, 2), who: `3 by partition "own" of FILE`},
		"another entry, by tag":          {seen: own(capacity.GroupSettings{Select: &capacity.Select{Tags: map[string]string{"team": "nlp"}}}, 0), who: `3 by partition "own" of FILE`},
		"another entry, that does not":   {seen: own(capacity.GroupSettings{ReservationIDs: []string{next1}}, 0)},
		"instances that are not shown":   {seen: func(in *inspection) { in.reservation.Available = 1 }, warns: "3 instances of reservation " + now1 + " are taken by what this account does not see"},
		"a host that failed, and others": {seen: func(in *inspection) { in.reservation.Available, in.reservation.Unhealthy = 2, 2 }},
	} {
		t.Run(name, func(t *testing.T) {
			if c.ask.Queue == "" {
				c.ask = askFor(now1)
			}
			in := newWorld().see(c.ask)
			c.seen(&in)
			in.addUsers()
			if _, who := in.taken(); who != c.who || in.slots[0].instances != c.own || !strings.HasPrefix(strings.Join(in.warnings, ""), c.warns) || (c.warns == "") != (in.warnings == nil) {
				t.Errorf("used by %q, %d of its own, warnings %q", who, in.slots[0].instances, in.warnings)
			}
			in.checkUsers(&wanted{partition: capacity.GroupSettings{MaxNodes: 4}})
			if got := codesOf(in.problems); got != "" && (got != "reservation-in-use" || !strings.HasPrefix(in.problems[0].Fix, c.fix)) || (got == "") != (c.who == "") {
				t.Errorf("%v", in.problems)
			}
		})
	}
}
