package lifecycle

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// What a pass does about the Slurm reservations of a slot, by what it could see.
func TestFences(t *testing.T) {
	open := block("cr-0", "-1h", "24h", capacity.StateActive)
	there := func(kind string) capacity.SlurmReservation {
		return reservation("pcs-capacity-"+kind+"-gpu.cr-9."+me, []string{"gpu-1"}, at("-2h"), at("-2h").AddDate(1, 0, 0))
	}
	for name, c := range map[string]struct {
		provider capacity.Provider
		ids      []string
		rs       []capacity.Reservation
		have     []capacity.SlurmReservation
		noAWS    bool
		noQueue  bool
		noNodes  bool
		want     string
	}{
		"an open block":                           {provider: "ec2", ids: []string{"cr-0"}, rs: []capacity.Reservation{open}, want: "create-fence"},
		"a wait that nobody needs":                {provider: "ec2", ids: []string{"cr-0"}, rs: []capacity.Reservation{open}, have: []capacity.SlurmReservation{there("wait")}, want: "create-fence delete-wait"},
		"without AWS nothing goes":                {provider: "ec2", ids: []string{"cr-0"}, rs: []capacity.Reservation{open}, have: []capacity.SlurmReservation{there("wait")}, noAWS: true, want: "create-fence"},
		"EC2 does not describe what the slot has": {provider: "ec2", ids: []string{"cr-0"}, have: []capacity.SlurmReservation{there("wait"), there("surplus")}},
		"nothing on PCS, in a queue":              {provider: "pcs", ids: []string{"cr-9"}, rs: []capacity.Reservation{block("cr-9", "-48h", "-24h", capacity.StateExpired)}, want: "create-fence"},
		"nothing on our nodes, in no partition":   {provider: "ec2", ids: []string{"cr-9"}, rs: []capacity.Reservation{block("cr-9", "-48h", "-24h", capacity.StateExpired)}, noQueue: true, want: "create-fence"},
		"an open block on PCS, in no queue yet":   {provider: "pcs", ids: []string{"cr-0"}, rs: []capacity.Reservation{open}, noQueue: true, want: "create-fence"},
		"Slurm shows no nodes of an open block":   {provider: "ec2", ids: []string{"cr-0"}, rs: []capacity.Reservation{open}, have: []capacity.SlurmReservation{there("wait")}, noNodes: true},
		"no nodes and no block":                   {provider: "ec2", have: []capacity.SlurmReservation{there("wait")}, noNodes: true, want: "delete-wait"},
		"nothing on PCS, in no queue any more":    {provider: "pcs", ids: []string{"cr-9"}, rs: []capacity.Reservation{block("cr-9", "-48h", "-24h", capacity.StateExpired)}, noQueue: true},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &Cluster{slots: map[string][]string{"gpu": {"gpu-1"}}, Reservations: c.have}
			if c.noNodes {
				cluster.slots = nil
			}
			if !c.noQueue {
				cluster.Partitions = []capacity.SlurmPartition{{Name: "gpu", Nodes: []string{"gpu-1"}}}
			}
			effects, _ := fences(Seen{Owner: me, Snap: oneSlot(c.provider, c.ids, c.rs...), Cluster: cluster, NoAWS: c.noAWS, Now: noon})
			var got []string
			for _, e := range effects {
				got = append(got, e.Code)
			}
			if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}
