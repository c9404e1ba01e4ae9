package capacity

import (
	"slices"
	"testing"
	"time"
)

func codes(ms []Problem) []string {
	var cs []string
	for _, m := range ms {
		cs = append(cs, string(m.Code))
	}
	return cs
}

func TestMatchReturnsEveryMismatch(t *testing.T) {
	fitting := NodeGroup{Name: "gpu-a", InstanceType: "p5.48xlarge", PurchaseOption: CapacityBlock, MaxNodes: 4, Platform: "Linux/UNIX",
		Subnets: []Subnet{{"subnet-aaaaaaaa", "use2-az1", "us-east-2a"}}}
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
		{"expired, without instances", func(r *Reservation, g *NodeGroup) { r.State, r.Total = StateExpired, 0 }, []string{"expired"}},
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

// R10: the same name is another zone in another account, and the other way round.
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

// Jobs may run over their limits: the fence, by which all limits go, is that much earlier.
func TestOverTimeMovesTheFence(t *testing.T) {
	end := time.Date(2027, 1, 2, 11, 30, 0, 0, time.UTC)
	timing := Timing{DrainMargin: Duration{10 * time.Minute}, ReclaimLead: Duration{30 * time.Minute}, OverTime: Duration{15 * time.Minute}}
	if w := timing.Window(Reservation{Kind: CapacityBlock, End: end}); !w.Fence.Equal(end.Add(-55*time.Minute)) || !w.Reclaim.Equal(end.Add(-30*time.Minute)) {
		t.Errorf("%+v", w)
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
		whole := w.Fence.Sub(w.Start)
		for now, want := range map[time.Duration]time.Duration{-time.Hour: whole, time.Hour: whole - time.Hour, whole + time.Minute: -time.Minute} {
			if room := w.Room(w.Start.Add(now)); room != want {
				t.Errorf("%s: %s after the start there is room for %s, want %s", c.name, now, room, want)
			}
		}
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
	}{{0, Limit{}, 10}, {time.Second, Limit{}, 11}, {5 * time.Minute, Limit{}, 15}, {5 * time.Minute, Minutes(12), 12}, {0, NoLimit, 10}, {-time.Hour, Limit{}, 0}} {
		if got := FitLimit(noon, fence, c.elapsed, c.max); got != c.want {
			t.Errorf("elapsed %s, max %s: %d minutes, want %d", c.elapsed, c.max, got, c.want)
		}
	}
}

func TestSizeOfABlockBeforeItOpens(t *testing.T) {
	if got := blockB.Size(); got != 8 {
		t.Errorf("a scheduled block reports size %d, want the 8 that were bought", got)
	}
	r := blockA
	r.Unhealthy = 1
	if r.Size() != 4 || r.UsableSize() != 3 {
		t.Errorf("size %d, usable %d; want 4 and 3", r.Size(), r.UsableSize())
	}
}
