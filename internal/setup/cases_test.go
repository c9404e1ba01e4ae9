package setup

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
)

// withSettings gives the world settings with these partitions.
func (w *world) withSettings(partitions ...capacity.PartitionSettings) {
	w.config = config.Default()
	w.config.Path, w.config.Region, w.config.Cluster = etc, "us-east-2", ourMark
	for i := range partitions {
		partitions[i].File = config.PartitionPath(etc, partitions[i].Name)
	}
	w.config.Partitions = partitions
}

var (
	efaType = ec2.InstanceType{Name: "p5.48xlarge", Architectures: []string{"x86_64"}, GPUs: 8, EFAInterfaces: 2, Cards: make([]ec2.NetworkCard, 2)}
	spare   = ec2.Subnet{Subnet: capacity.Subnet{ID: "subnet-0e200000000000a02", AZID: "use2-az1"}, VPC: "vpc-1", Free: 100}
	distant = ec2.Subnet{Subnet: capacity.Subnet{ID: "subnet-0e200000000000b01", AZID: "use2-az2"}, VPC: "vpc-1", Free: 100}
)

// TestDetailsOfPlans has details and data of effects that depend on more than one thing.
func TestDetailsOfPlans(t *testing.T) {
	value := func(p *Plan, what, key string) string {
		for _, s := range p.Steps() {
			for _, d := range s.Details {
				if s.What == what && d.Key == key {
					return d.Value
				}
			}
		}
		return ""
	}
	w := newWorld()
	in := w.see(askFor(now1))
	in.reservation.PlacementGroup = "pg"
	in.slots[0].template = capacity.LaunchTemplate{ID: "lt-9", ReservationID: "cr-9"}
	p := decide(in)
	if got := value(p, WhatTemplate, "placement group") + " " + value(p, WhatTemplate, "reservation"); got != "pg "+now1 {
		t.Errorf("a launch template of others: %s", got)
	}
	if p.trial.Launch.Tags != nil || !slices.Equal(p.trial.Subnets, []string{subnet}) || p.trial.Launch.PlacementGroup != "pg" {
		t.Errorf("the trial launch is %+v", p.trial)
	}
	if tags := decide(w.see(askForOnEC2(now1))).trial.Launch.Tags; tags[capacity.TagPartition] != "gpu" {
		t.Errorf("on EC2 the trial launch has tags %v", tags)
	}

	w.withSettings()
	w.config.Timing.DrainMargin.Duration += time.Hour
	p = decide(w.see(askFor(now1)))
	if got := value(p, WhatFence, "fence"); got != "2026-11-25 10:20 UTC" {
		t.Errorf("with another margin the fence is at %s", got)
	}

	w = newWorld()
	w.setUp(t, askFor(now1))
	p = decide(w.see(askFor(now1)))
	if err := w.carryOut(p.Actions, -1, func(Step) {}); err != nil || !slices.Equal(w.queue("gpu").GroupIDs, []string{w.group("gpu-a").ID}) {
		t.Errorf("again: %v, the queue has %v", err, w.queue("gpu").GroupIDs)
	}
	text, err := json.Marshal(Steps{{What: WhatTemplate, Name: "x", Verb: Delete}, {}})
	if want := `[{"what":"launch template","name":"x","action":"delete","details":[]}]`; string(text) != want || err != nil {
		t.Errorf("%s, %v", text, err)
	}
}

// TestSubnetsOfLaunches has the subnets that nodes are launched into, with and without network interfaces of setup's.
func TestSubnetsOfLaunches(t *testing.T) {
	w := newWorld()
	w.setUp(t, askFor(now1))
	for name, c := range map[string]struct {
		ask          Request
		seen         func(*inspection)
		wanted       []string
		launched, in string
	}{
		"without EFA":               {ask: askFor(next1), wanted: []string{subnet, spare.ID}, launched: subnet + " " + spare.ID},
		"with EFA":                  {ask: askFor(next1), seen: func(in *inspection) { in.request.EFA = capacity.EFA }, wanted: []string{subnet}, launched: subnet, in: subnet},
		"with EFA, self-managed":    {ask: askForOnEC2(next1), seen: func(in *inspection) { in.request.EFA, in.request.SubnetIDs = capacity.EFA, nil }, wanted: []string{subnet, spare.ID}, launched: subnet + " " + spare.ID},
		"EFA that is there already": {ask: askFor(now1), seen: func(in *inspection) { in.slots[0].uses.NetworkInterfaces = []capacity.Interface{{Type: "efa"}} }, wanted: []string{subnet, spare.ID, distant.ID}, launched: subnet, in: subnet},
		"EFA that is new":           {ask: askFor(now1), seen: func(in *inspection) { in.request.EFA = capacity.EFA }, wanted: []string{subnet}, launched: subnet, in: subnet},
	} {
		read := w.see(c.ask)
		in := &read
		in.names.instanceType = efaType
		in.network.chosen = append(slices.Clone(in.network.chosen), spare, distant)
		if in.request.EFA = capacity.NoEFA; c.seen != nil {
			in.request.EFA = ""
			c.seen(in)
		}
		var launched []string
		for _, s := range in.launchSubnets() {
			launched = append(launched, s.ID)
		}
		if got := in.wantedSubnets(); !slices.Equal(got, c.wanted) || strings.Join(launched, " ") != c.launched || in.interfaceSubnet() != c.in {
			t.Errorf("%s: wants %v, launches into %v, interfaces in %q", name, got, launched, in.interfaceSubnet())
		}
	}
	in := w.see(askFor(next1))
	in.network.vpc = append(slices.Clone(in.network.vpc), spare)
	if n := in.seen().Network; len(n.ClusterSubnets) != 1 || n.ClusterSubnets[0].ID != subnet || len(n.Subnets) != 1 {
		t.Errorf("attached to %+v", n)
	}
	in.names.instanceType = ec2.InstanceType{EFAInterfaces: 1, Cards: make([]ec2.NetworkCard, 1)}
	for mode, want := range map[capacity.EFAMode]string{capacity.EFA: "1 × efa", capacity.EFAOnly: "1 × efa-only, no public address", capacity.NoEFA: "without EFA", "": ""} {
		if got := in.efaWord(mode); got != want {
			t.Errorf("%q of one card: %q", mode, got)
		}
	}
}

// TestWhatIsKept has what a node group has of an earlier run.
func TestWhatIsKept(t *testing.T) {
	into := func(id, reservation string, ours bool) slotState {
		return slotState{ours: ours, uses: capacity.LaunchTemplate{ID: id, ReservationID: reservation}}
	}
	if into("lt-1", now1, false).launchesInto(now1) || into("lt-1", "", true).launchesInto("") || !into("lt-1", now1, true).launchesInto(now1) {
		t.Error("a slot launches into what it is not set up for")
	}
	for want, slots := range map[string][]slotState{
		"":     {{}, {}},
		"lt-1": {into("lt-1", now1, true), into("lt-2", next1, true)},
		"lt-2": {into("lt-1", next1, true), into("lt-2", now1, true)},
		"lt-3": {{}, into("lt-3", next1, true)},
	} {
		in := inspection{slots: slots, reservation: capacity.Reservation{ID: now1}}
		if got := in.keptTemplate().ID; got != want {
			t.Errorf("kept is %q, want %q", got, want)
		}
	}
	w := newWorld()
	for team, want := range map[string]bool{"nlp": true, "cv": false} {
		w.withSettings(config.NewPartition("gpu", capacity.ProviderPCS, capacity.GroupSettings{Name: "gpu", Select: &capacity.Select{Tags: map[string]string{"team": "nlp"}}}))
		in := w.see(askFor(now1))
		in.reservation.Tags = map[string]string{"team": team}
		if got := in.listed(); got != want {
			t.Errorf("the settings select a reservation of team %s: %t", team, got)
		}
	}

	entry := capacity.GroupSettings{Name: "gpu", PurchaseOption: capacity.ODCR, SubnetIDs: []string{"a"}, ReservationIDs: []string{"cr-1"}, MaxNodes: 4}
	with := capacity.GroupSettings{Name: "gpu", PurchaseOption: capacity.CapacityBlock, SubnetIDs: []string{"b"}, ReservationIDs: []string{"cr-2"}, MaxNodes: 2, InstanceType: "p5.48xlarge"}
	want := capacity.GroupSettings{Name: "gpu", PurchaseOption: capacity.CapacityBlock, SubnetIDs: []string{"a", "b"}, ReservationIDs: []string{"cr-1", "cr-2"}, MaxNodes: 4, InstanceType: "p5.48xlarge"}
	if diff := cmp.Diff(want, merge(entry, &wanted{partition: with})); diff != "" {
		t.Errorf("an entry with one more reservation (-want +got):\n%s", diff)
	}
}
