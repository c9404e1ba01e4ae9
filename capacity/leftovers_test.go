package capacity

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// Leftovers of setup that no settings name are reported, with the command that removes them.
func TestLeftovers(t *testing.T) {
	group := func(slot, queue string) Made {
		return Made{What: MadeNodeGroup, Name: slot, ID: "pcs_" + slot, Slot: slot, Queue: queue, Reservation: "cr-1"}
	}
	template := func(slot, queue string) Made {
		return Made{What: MadeTemplate, Name: "pcs-capacity-ml-" + slot, ID: "lt-" + slot, Slot: slot, Queue: queue}
	}
	queue := func(name string) Made { return Made{What: MadeQueue, Name: name, ID: "pcs_" + name, Queue: name} }
	settings := func(provider Provider, queue string, groups ...GroupSettings) Settings {
		return Settings{Partitions: []PartitionSettings{{Name: queue, Provider: provider, Groups: groups}}}
	}
	gpu := settings(ProviderPCS, "gpu", GroupSettings{Name: "gpu"})
	self := settings(ProviderEC2, "gpu", GroupSettings{Name: "gpu", LaunchTemplate: "pcs-capacity-ml-gpu:$Latest"})
	for name, test := range map[string]struct {
		made     []Made
		settings Settings
		want     []string // of each command the things that it removes
	}{
		"all is named":                    {[]Made{group("gpu-a", "gpu"), group("gpu-b", "gpu"), template("gpu-a", "gpu"), queue("gpu")}, gpu, nil},
		"named in another partition":      {[]Made{group("gpu-a", "old")}, gpu, nil},
		"no settings at all":              {[]Made{group("gpu-a", "gpu"), template("gpu-a", "gpu"), queue("gpu")}, Settings{}, []string{"pcs-capacity teardown --queue gpu: gpu-a pcs-capacity-ml-gpu-a gpu"}},
		"an empty queue":                  {[]Made{group("gpu-a", "gpu"), queue("gpu"), queue("big")}, gpu, []string{"pcs-capacity teardown --queue big: big"}},
		"a partition is lost":             {[]Made{group("gpu-a", "gpu"), group("big-a", "big"), group("big-b", "big"), queue("big")}, gpu, []string{"pcs-capacity teardown --queue big: big-a big-b big"}},
		"a node group is lost":            {[]Made{group("gpu-a", "gpu"), group("big-b", "gpu"), template("big-a", "gpu"), queue("gpu")}, gpu, []string{"pcs-capacity teardown --queue gpu --node-group big: big-b pcs-capacity-ml-big-a"}},
		"a template alone":                {[]Made{template("big-a", "big")}, gpu, []string{"pcs-capacity teardown --queue big: pcs-capacity-ml-big-a"}},
		"its queue has one that is kept":  {[]Made{group("gpu-a", "old"), group("big-a", "old")}, gpu, []string{"pcs-capacity teardown --queue old --node-group big: big-a"}},
		"so has this queue":               {[]Made{group("gpu-a", "old"), queue("old")}, gpu, []string{"aws pcs delete-queue --cluster-identifier pcs_1 --queue-identifier pcs_old: old"}},
		"not the name of a slot":          {[]Made{group("gpu", "gpu")}, gpu, []string{"aws pcs delete-compute-node-group --cluster-identifier pcs_1 --compute-node-group-identifier pcs_gpu: gpu"}},
		"made for no queue":               {[]Made{group("big-a", ""), template("big-a", "")}, gpu, []string{"aws pcs delete-compute-node-group --cluster-identifier pcs_1 --compute-node-group-identifier pcs_big-a: big-a", "aws ec2 delete-launch-template --launch-template-id lt-big-a: pcs-capacity-ml-big-a"}},
		"ec2: named":                      {[]Made{template("gpu", "gpu")}, self, nil},
		"ec2: named by id":                {[]Made{template("gpu", "gpu")}, settings(ProviderEC2, "gpu", GroupSettings{Name: "gpu", LaunchTemplate: "lt-gpu"}), nil},
		"ec2: a partition is lost":        {[]Made{template("gpu", "gpu"), template("big", "big")}, self, []string{"pcs-capacity teardown --queue big: pcs-capacity-ml-big"}},
		"ec2: a node group is lost":       {[]Made{template("gpu", "gpu"), template("big", "gpu")}, self, []string{"pcs-capacity teardown --queue gpu --node-group big: pcs-capacity-ml-big"}},
		"ec2: launched from another":      {[]Made{template("gpu", "gpu")}, settings(ProviderEC2, "gpu", GroupSettings{Name: "gpu", LaunchTemplate: "lt-own"}), []string{"aws ec2 delete-launch-template --launch-template-id lt-gpu: pcs-capacity-ml-gpu"}},
		"ec2: its slots have such a name": {[]Made{template("gpu-a", "gpu")}, settings(ProviderEC2, "gpu", GroupSettings{Name: "gpu", Slots: 2, LaunchTemplate: "lt-own"}), []string{"aws ec2 delete-launch-template --launch-template-id lt-gpu-a: pcs-capacity-ml-gpu-a"}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := "pcs_1"
			if strings.HasPrefix(name, "ec2") {
				cluster = ""
			}
			var got []string
			for _, p := range Leftovers(test.made, test.settings, cluster) {
				things, _, _ := strings.Cut(p.Sentence, " carr")
				line := strings.Split(p.Fix, "`")[1] + ":"
				for thing := range strings.SplitSeq(things, " and ") {
					words := strings.Fields(strings.TrimSuffix(thing, " (cr-1)"))
					line += " " + words[len(words)-1]
				}
				got = append(got, line)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
	told := Leftovers([]Made{group("big-a", "big"), queue("big")}, gpu, "pcs_1")
	if want := "compute node group big-a (cr-1) and queue big carry the tag of pcs-capacity, and the settings do not name them, so sync does not manage them; " +
		"add them to the settings again, or remove them with `pcs-capacity teardown --queue big`"; len(told) != 1 || told[0].Text() != want {
		t.Errorf("told %v, want %s", told, want)
	}
}

func TestMisplaced(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	block := func(id, az string, from, until time.Duration) Reservation {
		return Reservation{ID: id, Kind: CapacityBlock, State: StateActive, InstanceType: "p5.48xlarge", AZID: az, Start: noon.Add(from), End: noon.Add(until)}
	}
	odcr := func(id, az string) Reservation {
		return Reservation{ID: id, Kind: ODCR, State: StateActive, InstanceType: "p5.48xlarge", AZID: az, Start: noon.Add(-time.Hour)}
	}
	past := block("cr-past", "use2-az3", -48*time.Hour, -time.Hour)
	past.State = StateExpired
	unplaced := block("cr-unplaced", "", -time.Hour, time.Hour)
	right := Metadata{InstanceID: "i-1", InstanceType: "p5.48xlarge", AZID: "use2-az1"}
	with := func(change func(*Metadata)) Metadata {
		m := right
		change(&m)
		return m
	}
	now := block("cr-now", "use2-az1", -time.Hour, 10*time.Hour)
	next := block("cr-next", "use2-az2", 11*time.Hour, 30*time.Hour)
	for name, c := range map[string]struct {
		has  []Reservation
		ids  []string // if others than of has
		m    Metadata
		want string
	}{
		"the same":              {[]Reservation{now}, nil, right, ""},
		"its own tag":           {[]Reservation{now}, nil, with(func(m *Metadata) { m.ReservationID = "cr-now" }), ""},
		"another type":          {[]Reservation{now}, nil, with(func(m *Metadata) { m.InstanceType = "g5.xlarge" }), "its instance i-1 is a g5.xlarge, but reservation cr-now is for p5.48xlarge"},
		"another zone":          {[]Reservation{now}, nil, with(func(m *Metadata) { m.AZID = "use2-az2" }), "its instance i-1 is in use2-az2, but reservation cr-now is in use2-az1"},
		"another reservation":   {[]Reservation{now}, nil, with(func(m *Metadata) { m.ReservationID = "cr-past" }), "its instance i-1 was launched into cr-past, but reservation cr-now has the slot"},
		"nothing is said":       {[]Reservation{now}, nil, Metadata{InstanceID: "i-1"}, ""},
		"zone not known yet":    {[]Reservation{unplaced}, nil, right, ""},
		"what comes next":       {[]Reservation{now, next}, nil, with(func(m *Metadata) { m.AZID = "use2-az2" }), "its instance i-1 is in use2-az2, but reservation cr-now is in use2-az1"},
		"no reservation":        {nil, nil, with(func(m *Metadata) { m.InstanceType = "g5.xlarge" }), ""},
		"all have ended":        {[]Reservation{past}, nil, right, ""},
		"EC2 does not know one": {[]Reservation{now}, []string{"cr-now", "cr-lost"}, with(func(m *Metadata) { m.ReservationID = "cr-lost" }), ""},
		"one of several":        {[]Reservation{odcr("cr-a", "use2-az2"), odcr("cr-b", "use2-az1")}, nil, right, ""},
		"none of several": {[]Reservation{odcr("cr-a", "use2-az2"), odcr("cr-b", "use2-az1")}, nil, with(func(m *Metadata) { m.InstanceType = "g5.xlarge" }),
			"its instance i-1 is a g5.xlarge, but reservation cr-b is for p5.48xlarge"},
		"none of several, and none is nearer": {[]Reservation{odcr("cr-a", "use2-az2"), odcr("cr-b", "use2-az3")}, nil, right,
			"its instance i-1 is in use2-az1, but reservation cr-a is in use2-az2"},
		"two things": {[]Reservation{now}, nil, Metadata{"i-1", "g5.xlarge", "use2-az3", ""},
			"its instance i-1 is a g5.xlarge, but reservation cr-now is for p5.48xlarge; it is in use2-az3, but reservation cr-now is in use2-az1"},
	} {
		t.Run(name, func(t *testing.T) {
			slot := Slot{Name: "gpu", ReservationIDs: c.ids}
			if c.ids == nil {
				for _, r := range c.has {
					slot.ReservationIDs = append(slot.ReservationIDs, r.ID)
				}
			}
			snap := &Snapshot{Reservations: c.has, Partitions: []Partition{{Groups: []NodeGroup{{Slots: []Slot{{Name: "other"}}}, {Slots: []Slot{{Name: "x"}, slot}}}}}}
			found, ok := snap.Place("gpu")
			if !ok {
				t.Fatal("the slot is not found")
			}
			if first, ok := snap.Place("other"); !ok || first.Slot.Name != "other" {
				t.Errorf("the first slot of a node group is found as %q", first.Slot.Name)
			}
			if got := snap.Misplaced(found, c.m, noon); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
	if _, ok := (&Snapshot{}).Place("gpu"); ok {
		t.Error("a slot that is not there is found")
	}
}

// clean cancels only what has this cluster's mark and our purpose, and that no job waits for.
func TestR4_Needless(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	booting := map[JobRun]bool{{7, 1}: true}
	held := func(purpose string) Reservation {
		return Reservation{ID: "cr-1", Kind: ODCR, State: StateActive, Created: now.Add(-10 * time.Minute), End: now.Add(time.Minute),
			Tags: map[string]string{TagCluster: "ml", TagHold: purpose}}
	}
	with := func(r Reservation, change func(*Reservation)) Reservation { change(&r); return r }
	ended := func(r *Reservation) { r.End = now.Add(-time.Second) }
	token := func(t string) func(*Reservation) { return func(r *Reservation) { r.Tags[TagToken] = t } }
	unheard := map[string]bool{"lost": true, "known": false}
	for name, c := range map[string]struct {
		r       Reservation
		booting map[JobRun]bool
		why     string
	}{
		"for a job that boots":              {held("jobs 7/1"), booting, ""},
		"for several, one of which boots":   {held("jobs 6/0 7/1"), booting, ""},
		"for an earlier run of the job":     {held("jobs 7/0"), booting, "no job waits for it"},
		"for a job that is gone":            {held("jobs 8/0"), booting, "no job waits for it"},
		"Slurm did not answer":              {held("jobs 8/0"), nil, ""},
		"Slurm did not answer, ended":       {with(held("jobs 8/0"), ended), nil, "its end has passed"},
		"EC2 goes on past the end":          {with(held("jobs 7/1"), ended), booting, "its end has passed"},
		"for nodes without a job":           {held("jobs"), booting, "its launch is over"},
		"for nodes that are launched now":   {with(held("jobs"), func(r *Reservation) { r.Created = now }), booting, ""},
		"a probe":                           {held(HoldProbe), booting, "its probe is over"},
		"by hand":                           {held(HoldByHand), booting, ""},
		"by hand, and nobody knows":         {with(held(HoldByHand), token("lost")), booting, "the command that ordered it was cut off before it knew"},
		"by hand, and nobody knows yet":     {with(with(held(HoldByHand), token("lost")), func(r *Reservation) { r.Created = now.Add(-4 * time.Minute) }), booting, ""},
		"by hand, and known":                {with(held(HoldByHand), token("known")), booting, ""},
		"of another cluster":                {with(held("jobs 8/0"), func(r *Reservation) { r.Tags[TagCluster] = "ml2" }), booting, ""},
		"ours, but not held":                {with(held(""), ended), booting, ""},
		"a block":                           {with(held("jobs 8/0"), func(r *Reservation) { r.Kind = CapacityBlock }), booting, ""},
		"cancelled already":                 {with(held("jobs 8/0"), func(r *Reservation) { r.State = StateCancelled }), booting, ""},
		"for more jobs than fit into a tag": {held(HoldJobs(make([]JobRun, 200))), booting, "no job waits for it"},
	} {
		if got := c.r.Needless("ml", c.booting, unheard, now); got != c.why {
			t.Errorf("%s: %q, want %q", name, got, c.why)
		}
	}
	if n := len(HoldJobs(make([]JobRun, 200))); n > MaxTagValue {
		t.Errorf("a tag of %d characters", n)
	}
}

func TestReserveAllows(t *testing.T) {
	r := Reserve{MaxInstances: 4}
	others := []Held{{InstanceType: "a", Count: 2}}
	for name, c := range map[string]struct {
		more Held
		says string
	}{
		"as many as may be": {Held{InstanceType: "a", Count: 1}, ""},
		"too many":          {Held{InstanceType: "a", Count: 3}, "5 instances with these 3, and max_instances of [reserve] is 4"},
	} {
		err := r.Allows(c.more, others)
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, ErrReserveLimit) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}
