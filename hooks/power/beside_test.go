package power

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// What is launched for a job whose other nodes are up is launched beside them.
func TestBesideNeighbors(t *testing.T) {
	at := func(azID, instanceType string) target {
		return target{azID: azID, instanceType: instanceType, hold: true}
	}
	up := func(node, azID, instanceType string) neighbor {
		return neighbor{node, "gpu", azID, instanceType}
	}
	everywhere := []target{at("az1", wanted), at("az2", wanted), at("az1", second), at("az2", second)}
	foreign := up("cpu-1", "az2", "c7i.large")
	foreign.group = "cpu"
	for name, c := range map[string]struct {
		near    []neighbor
		targets []target // everywhere, if nil
		want    []target
		code    string
		says    string
	}{
		"nothing is up":       {want: everywhere},
		"one is up":           {near: []neighbor{up("gpu-1", "az2", second)}, want: []target{at("az2", second)}},
		"two in one place":    {near: []neighbor{up("gpu-1", "az1", wanted), up("gpu-2", "az1", wanted)}, want: []target{at("az1", wanted)}},
		"of another group":    {near: []neighbor{foreign}, want: []target{at("az2", wanted), at("az2", second)}},
		"of both groups":      {near: []neighbor{foreign, up("gpu-1", "az2", second)}, want: []target{at("az2", second)}},
		"two zones":           {near: []neighbor{up("gpu-1", "az1", wanted), up("gpu-3", "az2", wanted), up("gpu-2", "az1", wanted)}, code: severalPlaces, says: "gpu-[1-2] as p5.48xlarge in az1, gpu-3 as p5.48xlarge in az2; nodes that no other job uses are powered down"},
		"two types":           {near: []neighbor{up("gpu-1", "az1", wanted), up("gpu-2", "az1", second)}, code: severalPlaces, says: "gpu-2 as p5e.48xlarge in az1"},
		"groups in two zones": {near: []neighbor{foreign, up("gpu-1", "az1", second)}, code: severalPlaces, says: "cpu-1 as c7i.large in az2"},
		"a zone of no target": {near: []neighbor{up("gpu-1", "az3", wanted)}, code: noPlaceBeside, says: "gpu-1 as p5.48xlarge in az3, and the rest cannot be launched there"},
		"a type of no target": {near: []neighbor{up("gpu-1", "az1", second)}, targets: everywhere[:2], code: noPlaceBeside},
		"EC2 does not say":    {near: []neighbor{up("gpu-1", "az1", wanted), up("gpu-2", "", "")}, code: placeUnknown, says: "gpu-2 is up, or about to be, and nobody knows in which zone"},
	} {
		targets := c.targets
		if targets == nil {
			targets = everywhere
		}
		got, err := besideNeighbors(targets, "gpu", c.near, hostlists{}.Hostlist)
		var refused *refusal
		if errors.As(err, &refused) != (c.code != "") || refused != nil && (refused.code != c.code || !strings.Contains(refused.message, c.says) || !slices.Equal(refused.letGo, nodesOf(c.near))) {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(target{})); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

// holdingSnapshot is a slot on demand in two zones, for whose jobs capacity is held.
func holdingSnapshot() *capacity.Snapshot {
	snap := onDemand()
	snap.Partitions[0].Groups[0].Reserve = capacity.ReservePerJob
	return snap
}

// Of the nodes of a job those count that are not launched now, wherever their instances say
// they are; jobs for which nothing is held may be anywhere.
func TestPartsBesideNeighbors(t *testing.T) {
	job := nlp(1, "gpu-1", "gpu-2", "gpu-3")
	g := group{nodes: []string{"gpu-2", "gpu-3"}, jobs: []capacity.Job{job}}
	for name, c := range map[string]struct {
		snap *capacity.Snapshot
		live capacity.Instance
		want string
	}{
		"held":              {holdingSnapshot(), capacity.Instance{Type: wanted, SubnetID: subnet2}, "az2"},
		"not held":          {onDemand(), capacity.Instance{Type: wanted, SubnetID: subnet2}, "az1 az2"},
		"of another subnet": {holdingSnapshot(), capacity.Instance{Type: wanted, SubnetID: "subnet-0fffffffffffffff0"}, placeUnknown},
		"of another type":   {holdingSnapshot(), capacity.Instance{Type: second, SubnetID: subnet2}, noPlaceBeside},
	} {
		u := newPowerUp(c.snap)
		u.facts.live["gpu-1"] = []capacity.Instance{c.live}
		u.facts.live["gpu-2"] = []capacity.Instance{{Type: wanted, SubnetID: subnet1}} // an older launch
		parts, err := u.parts(g)
		var got string
		if err != nil {
			got = explain(err).code
		} else {
			var zones []string
			for _, t := range parts[0].targets {
				if !slices.Contains(zones, t.azID) {
					zones = append(zones, t.azID)
				}
			}
			got = strings.Join(zones, " ")
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s: %v", name, got, c.want, err)
		}
	}
}

// recorder is a Slurm that keeps what it is told.
type recorder struct {
	hostlists
	jobs []capacity.Job
	down []string
}

func (r *recorder) Jobs(context.Context) ([]capacity.Job, error) { return r.jobs, nil }
func (r *recorder) PowerDown(_ context.Context, nodes []string, _ string) error {
	r.down = append(r.down, nodes...)
	return nil
}
func (r *recorder) SetAddresses(context.Context, map[string]netip.Addr) error { return nil }

// Nodes that other jobs have are kept.
func TestLetGo(t *testing.T) {
	waits := nlp(1, "gpu-1", "gpu-2")
	over := nlp(3, "gpu-1")
	over.State = "COMPLETED"
	slurm := &recorder{jobs: []capacity.Job{waits, nlp(2, "gpu-2"), over}}
	u := newPowerUp(onDemand())
	u.Slurm = slurm
	u.letGo(t.Context(), []string{"gpu-1", "gpu-2"}, []capacity.Job{waits})
	if !slices.Equal(slurm.down, []string{"gpu-1"}) {
		t.Error(slurm.down)
	}
}

// manyZones is an EC2 with room for so many instances of each call in zones.
type manyZones struct {
	*holder
	room  map[string]int // by subnet
	ended []string
}

func (m *manyZones) Hold(_ context.Context, o capacity.HoldOrder) (capacity.Reservation, error) {
	if m.room[o.AZID] < o.Count {
		return capacity.Reservation{}, fmt.Errorf("%w: %w", capacity.ErrNoRoom, awsError("InsufficientInstanceCapacity"))
	}
	m.room[o.AZID] -= o.Count
	return capacity.Reservation{ID: "cr-" + o.AZID, State: capacity.StateActive}, nil
}

func (m *manyZones) Launch(_ context.Context, l capacity.Launch) (all []capacity.Instance, err error) {
	m.launched = append(m.launched, l)
	for i := range l.Count {
		all = append(all, capacity.Instance{ID: fmt.Sprintf("i-%d-%d", len(m.launched), i), Type: l.InstanceType, SubnetID: l.SubnetID, LaunchIndex: i})
	}
	return all, nil
}

func (m *manyZones) Terminate(_ context.Context, ids []string) error {
	m.ended = append(m.ended, ids...)
	return nil
}

// A job over two node groups is launched in one zone that has room for both, or not at all.
func TestPartsInOneZone(t *testing.T) {
	for name, c := range map[string]struct {
		room  map[string]int
		want  string // the zone of both; "" if nothing is left
		ended int
	}{
		"the first zone":                    {room: map[string]int{"az1": 4, "az2": 4}, want: subnet1},
		"the first has room for one of two": {room: map[string]int{"az1": 2, "az2": 4}, want: subnet2, ended: 2},
		"each has room for one of two":      {room: map[string]int{"az1": 2, "az2": 1}, ended: 2},
	} {
		ec2 := &manyZones{holder: &holder{}, room: c.room}
		u, _ := holding(t, ec2)
		snap := holdingSnapshot()
		more := snap.Partitions[0].Groups[0]
		more.Name, more.InstanceType, more.Slots = "big", second, []capacity.Slot{{Name: "big"}}
		snap.Partitions[0].Groups = append(snap.Partitions[0].Groups, more)
		u.facts.snap, u.facts.reserve.Strict, u.facts.all = snap, true, true
		u.Settings.Partitions[0].Groups = append(u.Settings.Partitions[0].Groups, capacity.GroupSettings{Name: "big", MaxNodes: 8})
		nodes := []string{"big-1", "gpu-1", "gpu-2"}
		g := group{nodes: []string{"gpu-1", "gpu-2", "big-1"}, jobs: []capacity.Job{nlp(1, nodes...)}}
		parts, err := u.parts(g)
		if err != nil {
			t.Fatal(err)
		}
		got, err := u.fillAll(unit{[]group{g}, parts})
		if (err == nil) != (c.want != "") || len(ec2.ended) != c.ended {
			t.Errorf("%s: %v, ended %v", name, err, ec2.ended)
		}
		for n, l := range got {
			if err == nil && l.instance.SubnetID != c.want {
				t.Errorf("%s: %s is in %s", name, n, l.instance.SubnetID)
			}
		}
	}
}
