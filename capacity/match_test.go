package capacity

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func codes(ms []Problem) (cs []string) {
	for _, m := range ms {
		cs = append(cs, string(m.Code))
	}
	return cs
}

func TestMatchReturnsEveryMismatch(t *testing.T) {
	fitting := NodeGroup{
		Name:           "gpu-a",
		InstanceType:   "p5.48xlarge",
		PurchaseOption: CapacityBlock,
		MaxNodes:       4,
		Platform:       "Linux/UNIX",
		Subnets:        []Subnet{{"subnet-aaaaaaaa", "use2-az1", "us-east-2a"}},
	}
	for _, c := range []struct {
		name   string
		change func(*Reservation, *NodeGroup)
		want   []string
	}{
		{"fits", func(*Reservation, *NodeGroup) {}, nil},
		{"scheduled, size by tag", func(r *Reservation, g *NodeGroup) {
			r.State, r.Total, r.Tags = StateScheduled, 0, map[string]string{RequestedQuantityTag: "4"}
		}, nil},
		{"everything at once", func(r *Reservation, g *NodeGroup) {
			r.State, r.AZID, r.Platform, r.Tenancy, r.Kind = StatePaymentPending, "use2-az3", "Windows", "dedicated", ODCR
			g.InstanceType, g.MaxNodes = "p4d.24xlarge", 5
		}, []string{"payment-pending", "purchase-option", "instance-type", "az", "size", "platform", "tenancy"}},
		{"ended", func(r *Reservation, g *NodeGroup) { r.End = noon }, []string{"expired"}},
		{
			"expired, without instances",
			func(r *Reservation, g *NodeGroup) { r.State, r.Total = StateExpired, 0 },
			[]string{"expired"},
		},
		{"open, without instances", func(r *Reservation, g *NodeGroup) { r.Total = 0 }, []string{"no-instances"}},
		{"expired state", func(r *Reservation, g *NodeGroup) { r.State = StateExpired }, []string{"expired"}},
		{"unknown state", func(r *Reservation, g *NodeGroup) { r.State = "frozen" }, []string{"state"}},
		{"zone not known yet", func(r *Reservation, g *NodeGroup) { r.AZID = "" }, []string{"az-unknown"}},
		{"no subnet", func(r *Reservation, g *NodeGroup) { g.Subnets = nil }, []string{"az"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, g := blockA, fitting
			r.Platform = "Linux/UNIX"
			c.change(&r, &g)

			if got := codes(Match(r, g, noon)); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// R10: one zone name can mean different zones in two accounts, and one zone can have two names.
func TestR10_ZonesAreComparedByID(t *testing.T) {
	g := NodeGroup{Name: "gpu-a", InstanceType: "p5.48xlarge", PurchaseOption: CapacityBlock, MaxNodes: 4}
	g.Subnets = []Subnet{{"subnet-aaaaaaaa", "use2-az3", "us-east-2a"}} // blockA's name, not its id
	if got := codes(Match(blockA, g, noon)); !slices.Equal(got, []string{"az"}) {
		t.Errorf("same name, other id: got %v, want az", got)
	}

	g.Subnets = []Subnet{{"subnet-aaaaaaaa", "use2-az1", "us-east-2c"}} // blockA's id under another name
	if got := codes(Match(blockA, g, noon)); len(got) != 0 {
		t.Errorf("same id, other name: got %v, want none", got)
	}
}

func TestWindow(t *testing.T) {
	timing := twoBlocks().Timing
	for _, c := range []struct {
		name    string
		change  func(*Reservation)
		reclaim time.Duration // before the end
	}{
		{"block", func(*Reservation) {}, 30 * time.Minute},
		{"UltraServer block", func(r *Reservation) { r.UltraServer = true }, time.Hour},
		{"ODCR with an end: its instances go on", func(r *Reservation) { r.Kind = ODCR }, 0},
	} {
		r := blockA
		c.change(&r)

		w := timing.Window(r)
		if got := r.End.Sub(w.Reclaim); got != c.reclaim || w.Reclaim.Sub(w.Fence) != 10*time.Minute {
			t.Errorf("%s: reclaim %s before the end, fence %s before that", c.name, got, w.Reclaim.Sub(w.Fence))
		}
	}

	timing.OverTime.Duration = 5 * time.Minute // Slurm ends jobs so much later than their limits
	if w := timing.Window(blockA); w.Reclaim.Sub(w.Fence) != 15*time.Minute {
		t.Errorf("with OverTimeLimit: fence %s before the reclaim", w.Reclaim.Sub(w.Fence))
	}

	if w := timing.Window(Reservation{Kind: ODCR}); !w.Unbounded() || !w.Fence.IsZero() {
		t.Errorf("an ODCR without end has window %+v", w)
	}
}

func TestFitLimit(t *testing.T) {
	fence := noon.Add(10*time.Minute + 59*time.Second)
	for _, c := range []struct {
		elapsed time.Duration
		max     Limit
		want    int
	}{
		{0, Limit{}, 10},
		{time.Second, Limit{}, 11},
		{5 * time.Minute, Limit{}, 15},
		{5 * time.Minute, Minutes(12), 12},
		{0, NoLimit, 10},
		{-time.Hour, Limit{}, 0},
	} {
		if got := FitLimit(noon, fence, c.elapsed, c.max); got != c.want {
			t.Errorf("elapsed %s, max %s: %d minutes, want %d", c.elapsed, c.max, got, c.want)
		}
	}
}

func TestFit(t *testing.T) {
	odcr := Reservation{
		ID:           "cr-ccccccccccccccccc",
		Kind:         ODCR,
		State:        StateActive,
		InstanceType: "p5.48xlarge",
		AZID:         "use2-az1",
		Total:        9,
		Available:    2,
	}
	all := []Reservation{
		odcr,
		blockB,
		blockA,
		{ID: "cr-other", InstanceType: "p4d.24xlarge", State: StateActive, Total: 99},
	}
	timing := twoBlocks().Timing
	for _, c := range []struct {
		name    string
		need    Need
		subnets []Subnet
		first   string // the best reservation
		code    Code
		message string
	}{
		{"an open block goes before an ODCR", Need{Count: 2, Duration: 24 * time.Hour}, nil, blockA.ID, OK, ""},
		{"the time that boot leaves", Need{Count: 2, Duration: 47*time.Hour + 10*time.Minute}, nil, blockA.ID, OK, ""},
		{
			"a minute more: the next block",
			Need{Count: 2, Duration: 47*time.Hour + 11*time.Minute},
			nil,
			blockB.ID,
			OK,
			"",
		},
		{"longer than any block: the ODCR", Need{Count: 2, Duration: 24 * 30 * time.Hour}, nil, odcr.ID, OK, ""},
		{"more than the open block has", Need{Count: 5, Duration: time.Hour}, nil, blockB.ID, OK, ""},
		{
			"more than anything has: the open block",
			Need{Count: 20, Duration: time.Hour},
			nil,
			blockA.ID,
			TooManyNodes,
			"16 fewer",
		},
		{
			"to be done before the next block",
			Need{Count: 5, Duration: time.Hour, By: noon.Add(time.Hour)},
			nil,
			blockA.ID,
			TooManyNodes,
			"1 fewer",
		},
		{
			"no subnet in the zone",
			Need{Count: 2, Duration: time.Hour},
			[]Subnet{{"subnet-0", "use2-az9", "us-east-2c"}},
			blockA.ID,
			Mismatched,
			"no subnet",
		},
		{
			"a subnet in one zone",
			Need{Count: 2, Duration: time.Hour},
			[]Subnet{{"subnet-0", "use2-az2", "us-east-2b"}},
			blockB.ID,
			OK,
			"",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.need.InstanceType = "p5.48xlarge"

			got := Fit(c.need, all, c.subnets, nil, timing, noon)
			if len(got) != 3 {
				t.Fatalf("%d answers, want one for each reservation of the type", len(got))
			}

			if got[0].Reservation.ID != c.first || got[0].Code != c.code ||
				!strings.Contains(got[0].Message, c.message) {
				t.Errorf(
					"got %s %s %q; want %s %s %q",
					got[0].Reservation.ID,
					got[0].Code,
					got[0].Message,
					c.first,
					c.code,
					c.message,
				)
			}
		})
	}

	placeless := blockA
	placeless.AZID = ""
	if got := Fit(Need{
		InstanceType: "p5.48xlarge",
		Count:        2,
		Duration:     time.Hour,
	}, []Reservation{placeless}, []Subnet{
		{"subnet-0", "use2-az2", "us-east-2b"},
	}, nil, timing, noon); got[0].Code != Mismatched ||
		!strings.Contains(got[0].Message, "has not yet reported") {
		t.Errorf("a block whose zone is not known: %+v", got[0])
	}

	busy := blockA
	busy.Available = 1
	if got := Fit(Need{
		InstanceType: "p5.48xlarge",
		Count:        2,
		Duration:     time.Hour,
	}, []Reservation{busy}, nil, nil, timing, noon); got[0].Code != TooManyNodes ||
		!strings.Contains(got[0].Message, "1 of its 4") {
		t.Errorf("a block in use: %+v", got[0])
	}
}

// Idle nodes of ours count as room.
func TestFitCountsIdleNodes(t *testing.T) {
	busy := blockA
	busy.Available = 1
	for count, want := range map[int]string{
		3: "",
		4: "3 of its 4 instances are free, idle nodes included, 1 fewer than asked",
	} {
		got := Fit(
			Need{InstanceType: "p5.48xlarge", Count: count, Duration: time.Hour},
			[]Reservation{busy},
			nil,
			map[string]int{busy.ID: 2},
			twoBlocks().Timing,
			noon,
		)
		if got[0].Message != want || (got[0].Code == OK) != (want == "") {
			t.Errorf("%d of a block with 1 free and 2 idle: %s %q, want %q", count, got[0].Code, got[0].Message, want)
		}
	}
}

// A reservation for another platform than the image's is skipped, and a job that names it is refused with the fix. An
// unknown platform blocks nothing.
func TestPlatformOfTheImage(t *testing.T) {
	const rhel, other = "Red Hat Enterprise Linux", "cr-0000000000000000e"

	at := func(id, platform string) Reservation {
		return Reservation{
			ID:           id,
			Kind:         ODCR,
			State:        StateActive,
			InstanceType: "p5.48xlarge",
			AZID:         "az1",
			Total:        2,
			Available:    2,
			Platform:     platform,
			Start:        noon.Add(-time.Hour),
			Tags:         map[string]string{"team": "nlp"},
		}
	}

	facts := Facts{
		Reservations: []Reservation{at(other, rhel), at("cr-0000000000000000f", LinuxUNIX)},
		Subnets:      []Subnet{{"subnet-1", "az1", "a"}},
		Now:          noon,
	}
	linux := map[string]ImagePlatform{"lt-1": {"lt-1:7", LinuxUNIX}}
	for name, choose := range map[string]func(*GroupSettings){
		"ids":  func(g *GroupSettings) { g.ReservationIDs = []string{other, "cr-0000000000000000f"} },
		"tags": func(g *GroupSettings) { g.Select = &Select{Tags: map[string]string{"team": "nlp"}} },
	} {
		for _, option := range []Kind{OnDemand, ODCR} {
			group := GroupSettings{
				Name:           "gpu",
				InstanceType:   "p5.48xlarge",
				SubnetIDs:      []string{"subnet-1"},
				PurchaseOption: option,
				MaxNodes:       2,
				LaunchTemplate: "lt-1",
			}
			choose(&group)
			settings := Settings{
				Submit:     Submit{Strict: true, StaleAfter: minutes(10)},
				Partitions: []PartitionSettings{{Name: "gpu", Provider: ProviderEC2, Groups: []GroupSettings{group}}},
			}
			decide := func(platforms map[string]ImagePlatform, comment string) (into []string, atLaunch, atSubmission Verdict, snap *Snapshot) {
				in := facts
				in.Platforms = platforms
				snap = Build(settings, in)
				snap.TakenAt = noon
				req := Request{Partitions: []string{"gpu"}, Nodes: 1, Comment: comment, TimeLimit: Minutes(10)}
				p := snap.Partitions[0]

				admitted, v := AdmitLaunch(req, p, p.Groups[0].Slots[0].Name, snap, noon)
				for _, r := range admitted {
					into = append(into, r.ID)
				}

				return into, v, Admit(req, snap, noon), snap
			}

			all := []string{other, "cr-0000000000000000f"}
			want := all[1:]
			if option == OnDemand {
				want, all = append(slices.Clone(want), ""), append(all, "")
			}

			into, v, submitted, snap := decide(linux, "")
			if !slices.Equal(into, want) || v.Refused || submitted.Refused {
				t.Errorf("%s, %s: into %q, %+v, %+v", name, option, into, v, submitted)
			}

			req := Request{Partitions: []string{"gpu"}, Nodes: 1}
			if passed := MismatchProblems(req, snap, noon); len(passed) != 1 || passed[0].Code != "platform" ||
				!strings.Contains(passed[0].Sentence, other) {
				t.Errorf("%s, %s: passed over %v", name, option, passed)
			}

			if got := snap.PlatformOf("lt-1:7"); got != LinuxUNIX || snap.PlatformOf("lt-1:8") != "" {
				t.Errorf("the snapshot has %q", got)
			}

			_, v, submitted, _ = decide(linux, "capacity_reservation_id="+other)
			for _, v := range []Verdict{v, submitted} {
				for _, says := range []string{
					other,
					rhel,
					"the image of node group gpu is for " + LinuxUNIX,
					"use an image for " + rhel,
				} {
					if !v.Refused || v.Code != Mismatched || !strings.Contains(v.Sentence, says) {
						t.Errorf("%s, %s: %+v does not say %q", name, option, v, says)
					}
				}
			}

			if into, v, submitted, snap := decide(nil, ""); !slices.Equal(into, all) || v.Refused ||
				submitted.Refused ||
				len(MismatchProblems(req, snap, noon)) > 0 {
				t.Errorf("%s, %s, not known: into %q, %+v, %+v", name, option, into, v, submitted)
			}
		}
	}

	if (*Snapshot)(nil).PlatformOf("") != "" {
		t.Error("no snapshot knows a platform")
	}
}
