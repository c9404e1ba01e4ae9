package capacity

import (
	"strings"
	"testing"
	"time"
)

func TestFit(t *testing.T) {
	odcr := Reservation{ID: "cr-ccccccccccccccccc", Kind: ODCR, State: StateActive, InstanceType: "p5.48xlarge", AZID: "use2-az1", Total: 9, Available: 2}
	all := []Reservation{odcr, blockB, blockA, {ID: "cr-other", InstanceType: "p4d.24xlarge", State: StateActive, Total: 99}}
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
		{"a minute more: the next block", Need{Count: 2, Duration: 47*time.Hour + 11*time.Minute}, nil, blockB.ID, OK, ""},
		{"longer than any block: the ODCR", Need{Count: 2, Duration: 24 * 30 * time.Hour}, nil, odcr.ID, OK, ""},
		{"more than the open block has", Need{Count: 5, Duration: time.Hour}, nil, blockB.ID, OK, ""},
		{"more than anything has: the largest", Need{Count: 20, Duration: time.Hour}, nil, blockB.ID, TooManyNodes, "12 fewer"},
		{"to be done before the next block", Need{Count: 5, Duration: time.Hour, By: noon.Add(time.Hour)}, nil, blockA.ID, TooManyNodes, "1 fewer"},
		{"no subnet in the zone", Need{Count: 2, Duration: time.Hour}, []Subnet{{"subnet-0", "use2-az9", "us-east-2c"}}, blockA.ID, Mismatched, "no subnet"},
		{"a subnet in one zone", Need{Count: 2, Duration: time.Hour}, []Subnet{{"subnet-0", "use2-az2", "us-east-2b"}}, blockB.ID, OK, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.need.InstanceType = "p5.48xlarge"
			got := Fit(c.need, all, c.subnets, nil, timing, noon)
			if len(got) != 3 {
				t.Fatalf("%d answers, want one for each reservation of the type", len(got))
			}
			if got[0].Reservation.ID != c.first || got[0].Code != c.code || !strings.Contains(got[0].Message, c.message) {
				t.Errorf("got %s %s %q; want %s %s %q", got[0].Reservation.ID, got[0].Code, got[0].Message, c.first, c.code, c.message)
			}
		})
	}
	placeless := blockA
	placeless.AZID = ""
	if got := Fit(Need{InstanceType: "p5.48xlarge", Count: 2, Duration: time.Hour}, []Reservation{placeless}, []Subnet{{"subnet-0", "use2-az2", "us-east-2b"}}, nil, timing, noon); got[0].Code != Mismatched || !strings.Contains(got[0].Message, "does not say") {
		t.Errorf("a block whose zone is not known: %+v", got[0])
	}
	busy := blockA
	busy.Available = 1
	if got := Fit(Need{InstanceType: "p5.48xlarge", Count: 2, Duration: time.Hour}, []Reservation{busy}, nil, nil, timing, noon); got[0].Code != TooManyNodes || !strings.Contains(got[0].Message, "1 of its 4") {
		t.Errorf("a block in use: %+v", got[0])
	}
}

// What is named as nearest lacks the least part of what is asked for: not a block with 4 minutes
// left where another one has 2 hours.
func TestFitNamesTheNearest(t *testing.T) {
	timing := twoBlocks().Timing
	used := timing.BootAllowance.Duration + timing.DrainMargin.Duration + timing.ReclaimLead.Duration
	block := func(id string, total int, left time.Duration) Reservation {
		return Reservation{ID: id, Kind: CapacityBlock, State: StateActive, InstanceType: "p5.48xlarge", AZID: "use2-az1", Total: total, Available: total,
			Start: noon.Add(-time.Hour), End: noon.Add(left + used)}
	}
	ended := block("cr-ended", 16, 10*time.Hour)
	ended.State = StateExpired
	all := []Reservation{ended, block("cr-4m", 4, 4*time.Minute), block("cr-2h", 8, 2*time.Hour), block("cr-1h", 4, time.Hour)}
	odcr := block("cr-odcr", 4, 3*time.Hour)
	odcr.Kind = ODCR
	for name, c := range map[string]struct {
		need Need
		all  []Reservation
		want string
	}{
		"too long":                      {Need{Count: 2, Duration: 24 * time.Hour}, all, "cr-2h cr-1h cr-4m cr-ended"},
		"too long, also for an ODCR":    {Need{Count: 2, Duration: 24 * time.Hour}, append(all[:3:3], odcr), "cr-odcr cr-2h cr-4m cr-ended"},
		"too many":                      {Need{Count: 9, Duration: time.Minute}, all, "cr-2h cr-4m cr-1h cr-ended"},
		"a node less, or much too long": {Need{Count: 5, Duration: time.Hour}, all[:2], "cr-4m cr-ended"},
		"one that fits goes first":      {Need{Count: 2, Duration: 90 * time.Minute}, all, "cr-2h cr-1h cr-4m cr-ended"},
	} {
		c.need.InstanceType = "p5.48xlarge"
		var got []string
		for _, f := range Fit(c.need, c.all, nil, nil, timing, noon) {
			got = append(got, f.Reservation.ID)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

// Idle nodes of our own are places, too.
func TestFitCountsIdleNodes(t *testing.T) {
	busy := blockA
	busy.Available = 1
	for count, want := range map[int]string{3: "", 4: "3 of its 4 instances are free, idle nodes included, 1 fewer than asked"} {
		got := Fit(Need{InstanceType: "p5.48xlarge", Count: count, Duration: time.Hour}, []Reservation{busy}, nil, map[string]int{busy.ID: 2}, twoBlocks().Timing, noon)
		if got[0].Message != want || (got[0].Code == OK) != (want == "") {
			t.Errorf("%d of a block with 1 free and 2 idle: %s %q, want %q", count, got[0].Code, got[0].Message, want)
		}
	}
}
