package setup

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/facts"
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
	efaType = ec2.InstanceType{Name: "p5.48xlarge", GPUs: 8, EFAInterfaces: 2, Cards: make([]ec2.NetworkCard, 2)}
	spare   = ec2.Subnet{
		Subnet: capacity.Subnet{ID: "subnet-0e200000000000a02", AZID: "use2-az1"},
		VPC:    "vpc-1",
		Free:   100,
	}
	distant = ec2.Subnet{
		Subnet: capacity.Subnet{ID: "subnet-0e200000000000b01", AZID: "use2-az2"},
		VPC:    "vpc-1",
		Free:   100,
	}
)

// codesOf are those of mismatches, sorted.
func codesOf(all []capacity.Problem) string {
	var codes []string
	for _, m := range all {
		codes = append(codes, string(m.Code))
	}

	slices.Sort(codes)

	return strings.Join(codes, " ")
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

	see := func(kind capacity.Kind, own, copied string) inspection {
		in := w.see(askFor(now1))
		in.reservation.Kind, in.reservation.PlacementGroup, in.source.PlacementGroup = kind, own, copied
		return in
	}
	for _, c := range []struct {
		kind             capacity.Kind
		own, copied      string
		group, notCopied string
	}{
		{capacity.ODCR, "pg", "", "pg", ""},
		{capacity.ODCR, "", "copied", "copied", ""},
		{capacity.ODCR, "pg", "copied", "pg", "placement group copied: the reservation has a placement of its own"},
		{
			capacity.CapacityBlock, "", "copied", "",
			"placement group copied: the reservation has a placement of its own",
		},
	} {
		p := plan(see(c.kind, c.own, c.copied))

		group, not := value(p, WhatTemplate, "placement group"), value(p, WhatTemplate, "not copied")
		if group != c.group || not != c.notCopied {
			t.Errorf("%+v: placement group %q; not copied: %q", c, group, not)
		}
	}

	p := plan(see(capacity.ODCR, "pg", ""))
	if p.trial.Launch.Tags != nil || !slices.Equal(p.trial.Subnets, []string{subnet}) ||
		p.trial.Launch.PlacementGroup != "pg" {
		t.Errorf("the trial launch is %+v", p.trial)
	}

	if tags := plan(w.see(askForOnEC2(now1))).trial.Launch.Tags; tags[capacity.TagPartition] != "gpu" {
		t.Errorf("on EC2 the trial launch has tags %v", tags)
	}

	w.withSettings()
	w.config.Timing.DrainMargin.Duration += time.Hour

	p = plan(w.see(askFor(now1)))
	if got := value(p, WhatFence, "fence"); got != "2026-11-25 10:20 UTC" {
		t.Errorf("with another margin the fence is at %s", got)
	}

	w = newWorld()
	w.setUp(t, askFor(now1))

	p = plan(w.see(askFor(now1)))
	if _, err := w.carryOut(p.Actions, 0, nil); err != nil ||
		!slices.Equal(w.Queue("gpu").GroupIDs, []string{w.Group("gpu-a").ID}) {
		t.Errorf("again: %v, the queue has %v", err, w.Queue("gpu").GroupIDs)
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
		"without EFA": {
			ask:      askFor(next1),
			wanted:   []string{subnet, spare.ID},
			launched: subnet + " " + spare.ID,
		},
		"with EFA": {
			ask:      askFor(next1),
			seen:     func(in *inspection) { in.request.EFA = capacity.EFA },
			wanted:   []string{subnet},
			launched: subnet,
			in:       subnet,
		},
		"with EFA, self-managed": {
			ask:      askForOnEC2(next1),
			seen:     func(in *inspection) { in.request.EFA, in.request.SubnetIDs = capacity.EFA, nil },
			wanted:   []string{subnet, spare.ID},
			launched: subnet + " " + spare.ID,
		},
		"EFA that is there already": {
			ask: askFor(now1),
			seen: func(in *inspection) {
				in.slots[0].Uses.NetworkInterfaces = []capacity.Interface{{Type: "efa"}}
				in.slots[0].Group.SubnetIDs = []string{subnet, spare.ID, distant.ID}
			},
			wanted:   []string{subnet, spare.ID, distant.ID},
			launched: subnet,
			in:       subnet,
		},
		"EFA that is new": {
			ask:      askFor(now1),
			seen:     func(in *inspection) { in.request.EFA = capacity.EFA },
			wanted:   []string{subnet},
			launched: subnet,
			in:       subnet,
		},
	} {
		read := w.see(c.ask)

		in := &read
		in.launch.Type = efaType
		in.chosen = append(slices.Clone(in.chosen), spare, distant)
		if in.request.EFA = capacity.NoEFA; c.seen != nil {
			in.request.EFA = ""
			c.seen(in)
		}

		var launched []string
		for _, s := range in.launchSubnets() {
			launched = append(launched, s.ID)
		}

		slot, _ := chooseSlot(read)
		wanted := decideWanted(read, slot)

		if got := wanted.group.SubnetIDs; !slices.Equal(got, c.wanted) || strings.Join(launched, " ") != c.launched ||
			in.interfaceSubnet() != c.in {
			t.Errorf("%s: wants %v, launches into %v, interfaces in %q", name, got, launched, in.interfaceSubnet())
		}
	}

	in := w.see(askFor(next1))
	if n := in.launch; len(n.Subnets) != 1 {
		t.Errorf("attached to %+v", n.Subnets)
	}

	in.launch.Type = ec2.InstanceType{EFAInterfaces: 1, Cards: make([]ec2.NetworkCard, 1)}
	for mode, want := range map[capacity.EFAMode]string{
		capacity.EFA:     "1 × efa",
		capacity.EFAOnly: "1 × efa-only, no public address",
		capacity.NoEFA:   "without EFA",
		"":               "",
	} {
		if got := in.describeEFA(mode); got != want {
			t.Errorf("%q of one card: %q", mode, got)
		}
	}
}

// TestWhatIsKept has what a node group has of an earlier run.
func TestWhatIsKept(t *testing.T) {
	into := func(id, reservation string, ours bool) Slot {
		return Slot{Owned: ours, Uses: capacity.LaunchTemplate{ID: id, ReservationID: reservation}}
	}
	if into("lt-1", now1, false).LaunchesInto(now1) || into("lt-1", "", true).LaunchesInto("") ||
		!into("lt-1", now1, true).LaunchesInto(now1) {
		t.Error("a slot launches into what it is not set up for")
	}

	for want, slots := range map[string][]Slot{
		"":     {{}, {}},
		"lt-1": {into("lt-1", now1, true), into("lt-2", next1, true)},
		"lt-2": {into("lt-1", next1, true), into("lt-2", now1, true)},
		"lt-3": {{}, into("lt-3", next1, true)},
	} {
		in := inspection{view: view{slots: slots}, reservation: capacity.Reservation{ID: now1}}
		if got := in.keptTemplate().ID; got != want {
			t.Errorf("kept is %q, want %q", got, want)
		}
	}

	w := newWorld()
	for team, want := range map[string]bool{"nlp": true, "cv": false} {
		w.withSettings(
			config.NewPartition(
				"gpu",
				capacity.ProviderPCS,
				capacity.GroupSettings{Name: "gpu", Select: &capacity.Select{Tags: map[string]string{"team": "nlp"}}},
			),
		)

		in := w.see(askFor(now1))
		in.reservation.Tags = map[string]string{"team": team}
		if got := in.isListed(); got != want {
			t.Errorf("the settings select a reservation of team %s: %t", team, got)
		}
	}

	// What the site has set in the file that setup has written stays, with the next block too.
	w = newWorld()
	w.setUp(t, askForOnEC2(now1))
	p := &w.config.Partitions[0]
	p.MinTime.Duration, p.Groups[0].Slots, p.Groups[0].LaunchTemplate = 2*time.Hour, 2, capacity.TemplateName(
		ourMark,
		"gpu",
	)+":1"
	kept := *p

	w.setUp(t, askForOnEC2(next1))

	now, _ := w.partition()
	kept.Groups[0].ReservationIDs = []string{now1, next1}
	if diff := cmp.Diff(kept, now); diff != "" {
		t.Errorf("edits of the site (-want +got):\n%s", diff)
	}

	entry := capacity.GroupSettings{
		Name:           "gpu",
		PurchaseOption: capacity.ODCR,
		SubnetIDs:      []string{"a"},
		ReservationIDs: []string{"cr-1"},
		MaxNodes:       4,
	}
	with := capacity.GroupSettings{
		Name:           "gpu",
		PurchaseOption: capacity.CapacityBlock,
		SubnetIDs:      []string{"b"},
		ReservationIDs: []string{"cr-2"},
		MaxNodes:       2,
		InstanceType:   "p5.48xlarge",
	}
	want := capacity.GroupSettings{
		Name:           "gpu",
		PurchaseOption: capacity.CapacityBlock,
		SubnetIDs:      []string{"a", "b"},
		ReservationIDs: []string{"cr-1", "cr-2"},
		MaxNodes:       4,
		InstanceType:   "p5.48xlarge",
	}
	if diff := cmp.Diff(want, merge(entry, with, capacity.Reservation{})); diff != "" {
		t.Errorf("an entry with one more reservation (-want +got):\n%s", diff)
	}
}

// What is there already in front of the start of slurmd stays, and it is started once.
func TestUserDataOnEC2(t *testing.T) {
	for name, c := range map[string]struct {
		site, server string
		want         int // starts of slurmd
	}{
		"script": {"#!/bin/sh\nmount -a\n", "head", 1},
		"archive": {
			"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"b\"\n\n--b\nContent-Type: " +
				"text/cloud-config\n\n#cloud-config\n--b--\n",
			"",
			1,
		},
		"ours":             {NodeScript("old"), "head", 1},
		"ignored":          {"echo\n", "", 0},
		"starts it itself": {"#!/bin/sh\n" + NodeScript("own"), "head", 1},
	} {
		in := newWorld().see(askForOnEC2(now1))
		in.source.UserData, in.request.ConfServer = []byte(c.site), c.server
		data, _, err := in.nodeUserData()

		first := string(data)
		if got := strings.Count(first, "until slurmd"); got != c.want || strings.Contains(first, "old") ||
			(err != nil) != (c.want == 0) {
			t.Errorf("%s: %v\n%s", name, err, first)
		}

		in.source.UserData, in.request.ConfServer = data, ""
		if in.slots[0].Uses = (capacity.LaunchTemplate{ID: "lt", UserData: data}); c.want > 0 {
			data, _, _ = in.nodeUserData()
		}

		if string(data) != first {
			t.Errorf("%s, again: %s", name, data)
		}
	}
}

// Nobody has to name the node group to copy from where one is meant.
func TestLikeIsFound(t *testing.T) {
	group := func(name, instanceType string, tags map[string]string) pcs.NodeGroup {
		return pcs.NodeGroup{
			ID:            "pcs_" + name,
			Name:          name,
			Status:        pcs.Active,
			InstanceTypes: []string{instanceType},
			Tags:          tags,
		}
	}
	ours := map[string]string{capacity.TagCluster: ourMark}

	cpu, login := group("cpu", "c7i.4xlarge", nil), group("login", "c7i.large", nil)
	gone := group("old", "p5.48xlarge", nil)
	gone.Status = pcs.Deleting
	for name, c := range map[string]struct {
		groups []pcs.NodeGroup
		ask    func(*Request)
		like   string
		fix    string
	}{
		"the only one":          {groups: []pcs.NodeGroup{cpu}, like: "cpu"},
		"beside one that goes":  {groups: []pcs.NodeGroup{cpu, gone}, like: "cpu"},
		"login nodes have none": {groups: []pcs.NodeGroup{login, cpu}, like: "cpu"},
		"the other slot": {
			groups: []pcs.NodeGroup{cpu, login, group("gpu-b", "p5.48xlarge", ours)},
			like:   "gpu-b",
		},
		"several": {
			groups: []pcs.NodeGroup{group("one", "p5.48xlarge", nil), group("two", "p5.4xlarge", nil)},
			fix:    "use --like with one of one, two",
		},
		"none": {},
		"one is named": {
			groups: []pcs.NodeGroup{cpu, login},
			ask:    func(r *Request) { r.Like = "login" },
			like:   "login",
		},
		"names of others' slots": {groups: []pcs.NodeGroup{cpu, group("gpu-a", "p5.48xlarge", nil)}, like: "cpu"},
	} {
		t.Run(name, func(t *testing.T) {
			r := askFor(now1)
			if r.Like = ""; c.ask != nil {
				c.ask(&r)
			}

			in := inspection{
				view:        view{request: r, Site: facts.Site{Provider: capacity.ProviderPCS}},
				reservation: blockOf(now1, 0, 5),
			}
			in.Inventory = pcs.Inventory{
				Cluster: pcs.Cluster{Name: ourMark},
				Groups:  c.groups,
				Queues:  []pcs.Queue{{Name: "cpu", GroupIDs: []string{"pcs_cpu"}}},
			}
			in.slots = in.newSlots()

			like, found := in.chooseLike()
			if like.Name != c.like {
				t.Errorf("like %q", like.Name)
			}

			fix := ""
			for _, p := range found.Problems {
				fix += p.Fix
			}

			if fix != c.fix {
				t.Errorf("fix %q", fix)
			}
		})
	}

	in := inspection{view: view{
		request:    askFor(now1),
		unattended: true,
		Site:       facts.Site{Provider: capacity.ProviderPCS, Inventory: pcs.Inventory{Groups: []pcs.NodeGroup{cpu}}},
	}}
	in.request.Like = ""
	in.slots = in.newSlots()

	if like, _ := in.chooseLike(); like.Name != "" {
		t.Errorf("a roll over copies from %s", like.Name)
	}
}

func TestNodeGroupOfAQueue(t *testing.T) {
	with := func(names ...string) *config.Config {
		p := capacity.PartitionSettings{Name: "gpu"}
		for _, name := range names {
			p.Groups = append(p.Groups, capacity.GroupSettings{Name: name})
		}

		return &config.Config{Partitions: []capacity.PartitionSettings{p}}
	}
	for _, c := range []struct {
		cfg  *config.Config
		want string
	}{
		{nil, "gpu"},
		{&config.Config{}, "gpu"},
		{with("big"), "big"},
		{with("big", "gpu"), "gpu"},
		{with("one", "two"), ""},
	} {
		got, err := NodeGroupOf(c.cfg, "gpu")
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%v: %q, %v", c.cfg, got, err)
		}
	}
}

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
			in.Groups = append(
				in.Groups,
				pcs.NodeGroup{
					ID:   "pcs_9",
					Name: name,
					Max:  4,
					Tags: map[string]string{capacity.TagCluster: ourMark, capacity.TagReservation: now1},
				},
			)
			for _, q := range queues {
				in.Queues = append(in.Queues, pcs.Queue{Name: q, GroupIDs: []string{"pcs_9"}})
			}

			instances(2, pcs.TagNodeGroupID, "pcs_9", pcs.TagClusterID, "pcs_ml")(in)
		}
	}
	for name, c := range map[string]struct {
		seen     func(*inspection)
		ask      Request
		who, fix string
		own      int
	}{
		"nobody": {seen: func(*inspection) {}},
		"another queue's node group": {
			seen: group("big-a", "big"),
			who:  "4 by compute node group big-a",
			fix:  "choose another reservation, or free it there first",
		},
		"its own slot": {seen: group("gpu-b", "gpu")},
		"its own nodes, self-managed": {
			ask:  askForOnEC2(now1),
			seen: instances(2, capacity.TagCluster, ourMark, capacity.TagPartition, "gpu"),
			own:  2,
		},
		"nodes of another cluster": {
			seen: instances(3, capacity.TagCluster, "linux", capacity.TagPartition, "gpu"),
			who:  "3 by other instances",
			fix:  "use --max-nodes 1 or less",
		},
		"nodes of another PCS cluster": {
			seen: instances(1, pcs.TagClusterID, "pcs_f", pcs.TagNodeGroupID, "pcs_e"),
			who:  "1 by other instances",
		},
		"another entry, by id": {
			seen: own(capacity.GroupSettings{ReservationIDs: []string{now1}}, 2),
			who:  `3 by partition "own" of FILE`,
		},
		"another entry, and others": {
			seen: func(in *inspection) {
				own(capacity.GroupSettings{ReservationIDs: []string{now1}}, 2)(in)
				instances(1)(in)
			},
			who: `3 by partition "own" of FILE, 1 by other instances`,
		},
		"another entry, by tag": {
			seen: own(capacity.GroupSettings{Select: &capacity.Select{Tags: map[string]string{"team": "nlp"}}}, 0),
			who:  `3 by partition "own" of FILE`,
		},
		"another entry, that does not": {seen: own(capacity.GroupSettings{ReservationIDs: []string{next1}}, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			if c.ask.Queue == "" {
				c.ask = askFor(now1)
			}

			in := newWorld().see(c.ask)
			c.seen(&in)

			others := in.findUsers()
			if others.names != c.who || others.own != c.own {
				t.Errorf("used by %q, %d of its own", others.names, others.own)
			}

			in.users = others
			found := checkUsers(in, wanted{entry: capacity.GroupSettings{MaxNodes: 4}})

			if got := codesOf(found.Problems); got != "" &&
				(got != "reservation-in-use" || !strings.HasPrefix(found.Problems[0].Fix, c.fix)) ||
				(got == "") != (c.who == "") {
				t.Errorf("%v", found.Problems)
			}
		})
	}
}
