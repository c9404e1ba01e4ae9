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
	"github.com/pcs-capacity/pcs-capacity/pcs"
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

// TestCombinationsOfRefusals has what one problem does to another: which is said, which is not, and what follows.
func TestCombinationsOfRefusals(t *testing.T) {
	was := func(t *testing.T, w *world) { w.setUp(t, askFor(now1)) }
	wasOnEC2 := func(t *testing.T, w *world) { w.setUp(t, askForOnEC2(now1)) }
	failed := func(t *testing.T, w *world) {
		was(t, w)
		w.group("gpu-a").Status, w.group("gpu-a").Unknown = pcs.CreateFailed, []string{"spare"}
	}
	lost := func(t *testing.T, w *world) { was(t, w); w.config = nil }
	selects := func(g capacity.GroupSettings) func(*testing.T, *world) {
		g.Name, g.InstanceType, g.SubnetIDs, g.MaxNodes = "gpu", "p5.48xlarge", []string{subnet}, 4
		return func(_ *testing.T, w *world) { w.withSettings(config.NewPartition("gpu", capacity.ProviderPCS, g)) }
	}
	odcr := func(in *inspection) { in.reservation.Kind = capacity.ODCR }
	four := func(r *Request) { r.MaxNodes = 4 }
	fourOnEC2 := func(r *Request) { *r = askForOnEC2(r.Reservation); r.MaxNodes = 4 }
	all := func(changes ...func(*inspection)) func(*inspection) {
		return func(in *inspection) {
			for _, change := range changes {
				change(in)
			}
		}
	}
	for name, c := range map[string]struct {
		world       func(*testing.T, *world)
		reservation string
		ask         func(*Request)
		seen        func(*inspection)
		codes, says string
		warns       string
	}{
		"a zone that is not known yet":          {seen: func(in *inspection) { in.reservation.AZID = "" }, codes: "az-unknown"},
		"a block that has shrunk, self-managed": {world: wasOnEC2, reservation: now1, ask: fourOnEC2, codes: "size", seen: func(in *inspection) { in.reservation.Total = 2 }},
		"a smaller block beside another":        {world: was, reservation: next1, ask: four, codes: "size", seen: func(in *inspection) { in.reservation.Total = 2 }},

		"another kind for tags that find nothing else": {world: selects(capacity.GroupSettings{PurchaseOption: capacity.CapacityBlock, Select: &capacity.Select{Tags: map[string]string{"team": "nlp"}}}),
			seen: all(odcr, func(in *inspection) { in.reservation.Tags = map[string]string{"team": "nlp"} }), codes: "purchase-option", says: "buys capacity-block"},
		"another kind, alone in its entry": {world: selects(capacity.GroupSettings{PurchaseOption: capacity.CapacityBlock, ReservationIDs: []string{now1}}), seen: odcr},
		"another kind beside the other slot, settings lost": {world: lost, reservation: next1, seen: odcr, codes: "purchase-option",
			says: "reservation " + next1 + " is of kind odcr, but gpu-a holds " + now1 + " of kind capacity-block"},
		"another kind beside a slot whose block has ended":  {world: lost, reservation: next1, seen: all(odcr, func(in *inspection) { in.slots[0].live = false })},
		"another kind, and a file of the administrator's":   {world: was, reservation: next1, seen: all(odcr, func(in *inspection) { in.file.ours = false }), codes: "purchase-option"},
		"another type beside the other slot, settings lost": {world: lost, reservation: next1, seen: func(in *inspection) { in.reservation.InstanceType = "p4d.24xlarge" }, codes: "instance-type"},
		"a node group that says no type":                    {world: was, seen: func(in *inspection) { in.slots[0].group.InstanceTypes = nil }},

		"unknown settings of what could not be created": {world: failed, codes: "unknown-settings", says: "could lose them: spare"},
		"unknown settings of a queue that stays": {world: was, seen: func(in *inspection) {
			in.inv.Queues = slices.Clone(in.inv.Queues)
			in.inv.Queues[1].Unknown = []string{"computeNodeGroupConfigurations.weight"}
		}},
		"unknown settings of what is copied":              {seen: func(in *inspection) { in.like.Unknown = []string{"spare"} }, warns: "they are not copied: spare"},
		"unknown settings of what nothing is copied from": {world: was, seen: func(in *inspection) { in.like.Unknown = []string{"spare"} }},

		"slots of others": {seen: func(in *inspection) {
			in.slots[0].group, in.slots[1].group = &pcs.NodeGroup{Name: "gpu-a"}, &pcs.NodeGroup{Name: "gpu-b"}
		}, codes: "not-ours not-ours"},
		"no subnet, self-managed": {ask: func(r *Request) { *r = askForOnEC2(now1); r.SubnetIDs = nil }, seen: func(in *inspection) { in.network = network{} }, codes: "subnets",
			says: "name subnets of one VPC in use2-az1 with --subnet-ids"},
		"no subnet is there to name": {seen: func(in *inspection) { in.network.vpc[0].AZID, in.network.unknown = "use2-az9", []string{"subnet-9"} }, codes: "az subnet-unknown",
			says: "name subnets of the cluster's VPC with --subnet-ids"},
		"addresses in another zone": {ask: func(r *Request) { r.SubnetIDs = []string{subnet, distant.ID} }, seen: func(in *inspection) {
			in.network.chosen = append(slices.Clone(in.network.chosen), distant)
			in.network.chosen[0].Free = 3
		}, codes: "addresses"},
		"addresses outside the subnet of the interfaces": {seen: func(in *inspection) {
			in.names.instanceType = efaType
			in.network.chosen = append(slices.Clone(in.network.chosen), spare)
			in.network.chosen[0].Free = 7
		}, codes: "addresses", says: "a node takes 2 addresses"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			if c.world != nil {
				c.world(t, w)
			}
			if c.reservation == "" {
				c.reservation = now1
			}
			ask := askFor(c.reservation)
			if c.ask != nil {
				c.ask(&ask)
			}
			in := w.see(ask)
			if c.seen != nil {
				c.seen(&in)
			}
			p := decide(in)
			var text []string
			for _, m := range p.Mismatches {
				text = append(text, m.String())
			}
			if got := codesOf(p.Mismatches); got != c.codes || !strings.Contains(strings.Join(text, "\n"), c.says) || p.Snippet != "" {
				t.Errorf("%q, want %q with %q:\n%s\n%s", got, c.codes, c.says, strings.Join(text, "\n"), p.Snippet)
			}
			if got := strings.Join(p.Warnings, "\n"); !strings.Contains(got, c.warns) || (got == "") != (c.warns == "") {
				t.Errorf("warnings %q, want %q", got, c.warns)
			}
		})
	}
}

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
