package lifecycle

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Nodes that get no job are reported while their reservation is open, unless sync drained them and says so itself.
func TestOutOfService(t *testing.T) {
	broken, ours := capacity.NodesOut{Nodes: "gpu-1", Count: 1, State: "drained", Reason: "bad cable"}, capacity.NodesOut{Nodes: "gpu-2", Count: 1, State: "drained", Reason: "pcs-capacity: health command"}
	endless := capacity.Reservation{ID: "cr-0", Kind: capacity.ODCR, State: capacity.StateActive}
	formerly := func(s *capacity.Snapshot) { s.Former, s.Partitions = s.Partitions, nil }
	for name, c := range map[string]struct {
		r    capacity.Reservation
		but  func(*capacity.Snapshot)
		want string // the nodes
	}{
		"open":                         {block("cr-0", "-1h", "24h", capacity.StateActive), nil, "gpu-1"},
		"without an end":               {endless, nil, "gpu-1"},
		"it opens now":                 {block("cr-0", "0s", "24h", capacity.StateActive), nil, "gpu-1"},
		"it opens later":               {block("cr-0", "1s", "24h", capacity.StateActive), nil, ""},
		"EC2 opens it late":            {block("cr-0", "-1s", "24h", capacity.StateScheduled), nil, ""},
		"at its fence":                 {block("cr-0", "-9h", "40m", capacity.StateActive), nil, ""},
		"the settings have it no more": {block("cr-0", "-1h", "24h", capacity.StateActive), formerly, ""},
	} {
		snap := oneSlot("ec2", []string{"cr-0"}, c.r)
		group := &snap.Partitions[0].Groups[0]
		group.Slots[0].Out = []capacity.NodesOut{ours, broken}
		group.Slots = append([]capacity.Slot{{Name: "empty"}}, group.Slots...)
		if c.but != nil {
			group.Slots = group.Slots[1:]
			c.but(snap)
		}
		var got []string
		for _, p := range outOfService(Seen{Snap: snap, Now: noon}) {
			got = append(got, p.About.Node)
		}
		if nodes := strings.Join(got, " "); nodes != c.want {
			t.Errorf("%s: %q", name, nodes)
		}
	}
}

// Running jobs read when their reservation ends. Of several in one slot nobody knows which one is a job's.
func TestFacts(t *testing.T) {
	endless := func(id string) capacity.Reservation {
		return capacity.Reservation{ID: id, Kind: capacity.ODCR, State: capacity.StateActive}
	}
	for name, c := range map[string]struct {
		rs   []capacity.Reservation
		want string // the reservation and its fence
	}{
		"a block":             {[]capacity.Reservation{block("cr-0", "-1h", "24h", capacity.StateActive)}, "cr-0 2026-11-21 11:20 UTC"},
		"without an end":      {[]capacity.Reservation{endless("cr-3")}, "cr-3 never"},
		"two without an end":  {[]capacity.Reservation{endless("cr-3"), endless("cr-4")}, ""},
		"one after the other": {[]capacity.Reservation{block("cr-0", "-1h", "24h", capacity.StateActive), block("cr-1", "25h", "48h", capacity.StateScheduled)}, "cr-0 2026-11-21 11:20 UTC"},
		"none is live":        {[]capacity.Reservation{block("cr-9", "-9h", "-1h", capacity.StateExpired)}, ""},
	} {
		var ids []string
		for _, r := range c.rs {
			ids = append(ids, r.ID)
		}
		snap := oneSlot("ec2", ids, c.rs...)
		group := &snap.Partitions[0].Groups[0]
		group.Slots = append([]capacity.Slot{{Name: "empty"}}, group.Slots...)
		got := ""
		for _, f := range facts(Seen{Snap: snap, Now: noon}) {
			if got += f.ReservationID + " never"; !f.Fence.IsZero() {
				got = f.ReservationID + " " + capacity.FormatUTC(f.Fence)
			}
		}
		if got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Instances that another cluster of the same name may own are reported together, by what is known of them.
func TestTwins(t *testing.T) {
	instance := func(id, node, address, mark string) capacity.Instance {
		return capacity.Instance{ID: id, State: "running", PrivateIP: address, Tags: map[string]string{capacity.TagNode: node, capacity.TagCluster: mark}}
	}
	const theirs, mine = "lab/fedcba9876543210", "lab/0123456789abcdef"
	gone := instance("i-0", "gpu-1", "10.0.0.9", theirs)
	gone.State = "terminated"
	for name, c := range map[string]struct {
		others []capacity.Instance
		err    error
		want   []string
	}{
		"for a node of ours":      {[]capacity.Instance{gone, instance("i-1", "gpu-1", "10.0.0.9", theirs)}, nil, []string{"instance i-1 (gpu-1) has the mark " + theirs + ", this cluster's is " + mine + "; nothing here ends it"}},
		"for a hidden node":       {[]capacity.Instance{instance("i-1", "gpu-2", "10.0.0.9", theirs)}, nil, []string{"instance i-1 (gpu-2) has the mark " + theirs + ", this cluster's is " + mine + "; nothing here ends it"}},
		"for no node of ours":     {[]capacity.Instance{instance("i-1", "cpu-1", "10.0.0.9", theirs)}, nil, nil},
		"at an address of ours":   {[]capacity.Instance{instance("i-1", "", "10.0.0.1", theirs)}, nil, []string{"instance i-1 (no node), at an address of this cluster's nodes, has the mark " + theirs + ", this cluster's is " + mine + "; nothing here ends it"}},
		"two":                     {[]capacity.Instance{instance("i-1", "gpu-1", "10.0.0.8", theirs), instance("i-2", "gpu-2", "10.0.0.9", theirs)}, nil, []string{"instances i-1, i-2 (gpu-[1-2]) have the mark " + theirs + ", this cluster's is " + mine + "; nothing here ends them"}},
		"our mark is not known":   {[]capacity.Instance{instance("i-1", "gpu-1", "10.0.0.9", theirs)}, errors.New("run sync on the controller"), []string{"instance i-1 (gpu-1) has the mark " + theirs + ", this cluster's is not known, so nothing here ends it: run sync on the controller"}},
		"a mark without an owner": {[]capacity.Instance{instance("i-1", "gpu-1", "10.0.0.9", "lab")}, nil, []string{"instance i-1 (gpu-1) has the mark lab, which does not say whose, so nothing here ends it; terminate it, or tag it " + capacity.TagCluster + "=" + mine + " for this cluster"}},
	} {
		s := Seen{Cluster: &Cluster{Mark: mine, MarkErr: c.err, Nodes: []capacity.Node{{Name: "gpu-1", Address: "10.0.0.1"}}, Partitions: []capacity.SlurmPartition{{Name: "gpu", Nodes: []string{"gpu-1", "gpu-2"}}}}}
		if diff := cmp.Diff(c.want, texts(s.twins(c.others))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
