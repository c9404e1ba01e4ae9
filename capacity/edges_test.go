package capacity

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// What no other test decides.

func TestFitAtTheEdges(t *testing.T) {
	timing := twoBlocks().Timing
	need := Need{InstanceType: "p5.48xlarge", Count: 2, Duration: time.Hour}
	changed := func(change func(*Reservation)) []Reservation {
		r := blockA
		change(&r)
		return []Reservation{r}
	}
	for name, c := range map[string]struct {
		need         Need
		reservations []Reservation
		message      string
	}{
		"without subnets the zone is all one":    {need, changed(func(r *Reservation) { r.AZID = "" }), ""},
		"done just in time, boot counted":        {Need{need.InstanceType, 2, time.Hour, noon.Add(70 * time.Minute)}, changed(func(*Reservation) {}), ""},
		"done a minute late":                     {Need{need.InstanceType, 2, time.Hour, noon.Add(69 * time.Minute)}, changed(func(*Reservation) {}), "it could be done by 2026-03-01 13:10 UTC at the earliest"},
		"too long, boot counted":                 {Need{need.InstanceType, 2, 48 * time.Hour, time.Time{}}, changed(func(*Reservation) {}), "its jobs must end by 2026-03-03 11:20 UTC, which leaves 1d23h10m"},
		"too long, and not even boot would fit":  {need, changed(func(r *Reservation) { r.End = noon.Add(45 * time.Minute) }), "its jobs must end by 2026-03-01 12:05 UTC, which leaves 0s"},
		"one less is free":                       {need, changed(func(r *Reservation) { r.Available = 1 }), "1 of its 4 instances are free, 1 fewer than asked"},
		"none is healthy":                        {need, changed(func(r *Reservation) { r.Unhealthy = 5 }), "0 of its 4 instances are healthy, 2 fewer than asked"},
		"a block that is not open yet is free":   {need, changed(func(r *Reservation) { r.State, r.Start, r.Available = StateScheduled, noon.Add(time.Hour), 0 }), ""},
		"a reservation in a state of no use":     {need, changed(func(r *Reservation) { r.State = StatePaymentFailed }), "it is payment-failed"},
		"free places that are not healthy count": {need, changed(func(r *Reservation) { r.Available, r.Unhealthy = 4, 2 }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := Fit(c.need, c.reservations, nil, nil, timing, noon)
			if len(got) != 1 || got[0].Message != c.message || (got[0].Code == OK) != (c.message == "") {
				t.Errorf("got %+v, want %q", got, c.message)
			}
		})
	}
	// Of two that start together the smaller comes first, and leaves the larger for others.
	large, small := blockA, blockA
	large.ID, large.Total, large.Available = "cr-large", 8, 8
	if got := Fit(need, []Reservation{large, small}, nil, nil, timing, noon); got[0].Reservation.ID != small.ID {
		t.Errorf("%s comes first", got[0].Reservation.ID)
	}
}

func TestMatchAtTheEdges(t *testing.T) {
	g := NodeGroup{Name: "gpu-a", InstanceType: "p5.48xlarge", PurchaseOption: CapacityBlock, MaxNodes: 4, Subnets: []Subnet{{"subnet-aaaaaaaa", "use2-az1", "us-east-2a"}}}
	for _, platforms := range [][2]string{{"", ""}, {"Linux/UNIX", ""}, {"", "Windows"}, {"Windows", "Windows"}} {
		g, r := g, blockA
		g.Platform, r.Platform = platforms[0], platforms[1]
		if got := Match(r, g, noon); len(got) > 0 {
			t.Errorf("image %q, reservation %q: %v", platforms[0], platforms[1], got)
		}
	}
	for state, want := range map[State]string{
		StateScheduled: "", StateActive: "",
		StatePaymentPending: "the payment of reservation cr-aaaaaaaaaaaaaaaaa is still pending; run this again once its state is scheduled; EC2 bills within 5 minutes to 12 hours",
		StatePending:        "reservation cr-aaaaaaaaaaaaaaaaa is in state pending; run this again once its state is scheduled or active",
		StateDelayed:        "reservation cr-aaaaaaaaaaaaaaaaa is in state delayed; run this again once its state is scheduled or active",
		StateCancelled:      "reservation cr-aaaaaaaaaaaaaaaaa is cancelled; choose a reservation that is scheduled or active",
		StateExpired:        "reservation cr-aaaaaaaaaaaaaaaaa is expired; choose a reservation that is scheduled or active",
		StatePaymentFailed:  "reservation cr-aaaaaaaaaaaaaaaaa is in state payment-failed, which cannot be used; choose a reservation that is scheduled or active",
	} {
		r, got := blockA, ""
		r.State = state
		if m := StateMismatch(r, noon); m != nil {
			got = m.Text()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", state, got, want)
		}
	}
	r := blockA
	r.AZID, r.AZ = "use2-az3", "us-east-2c"
	if got := Match(r, g, noon); len(got) != 1 || !strings.Contains(got[0].Sentence, "has only subnet-aaaaaaaa in us-east-2a (use2-az1)") {
		t.Errorf("another zone: %v", got)
	}
	g.Subnets = nil
	if got := Match(r, g, noon); len(got) != 1 || !strings.HasSuffix(got[0].Sentence, "has no subnet") {
		t.Errorf("no subnet: %v", got)
	}
}

func TestParseTime(t *testing.T) {
	zone := time.FixedZone("here", -5*60*60)
	now := time.Date(2026, 12, 31, 22, 30, 15, 0, zone)
	for text, want := range map[string]time.Time{
		"now": now, "Today": time.Date(2026, 12, 31, 0, 0, 0, 0, zone), "tomorrow": time.Date(2027, 1, 1, 0, 0, 0, 0, zone),
		"2026-12-01": time.Date(2026, 12, 1, 0, 0, 0, 0, zone), "2026-12-01 08:05": time.Date(2026, 12, 1, 8, 5, 0, 0, zone),
		"2026-12-01T08:05:06": time.Date(2026, 12, 1, 8, 5, 6, 0, zone), "2026-12-01T08:05:06Z": time.Date(2026, 12, 1, 8, 5, 6, 0, time.UTC),
	} {
		if got, err := ParseTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s is %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "yesterday", "2026-13-01", "08:00", "1.12.2026"} {
		if got, err := ParseTime(text, now); err == nil {
			t.Errorf("%q is read as %s", text, got)
		}
	}
}

func TestNodeOfAnInstance(t *testing.T) {
	expand := func(hostlist string) ([]string, error) { return strings.Fields(hostlist), nil }
	launched := map[string]string{TagNodes: "gpu-1 gpu-2"}
	for name, c := range map[string]struct {
		tags  map[string]string
		index int
		want  string
	}{
		"by the launch": {launched, 0, "gpu-1"}, "the last of it": {launched, 1, "gpu-2"}, "past the end": {launched, 2, ""},
		"its own tag": {map[string]string{TagNode: "gpu-7", TagNodes: "gpu-1"}, 0, "gpu-7"}, "no tags": {nil, 0, ""},
	} {
		if got := (Instance{Tags: c.tags, LaunchIndex: c.index}).Node(expand); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	broken := func(string) ([]string, error) { return []string{"gpu-1"}, errors.New("broken") }
	if got := (Instance{Tags: launched}).Node(broken); got != "" {
		t.Errorf("a hostlist that cannot be read: %q", got)
	}
}
