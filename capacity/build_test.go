package capacity

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// slots writes the slots of the first node group: "gpu-a: cr-1 cr-2; gpu-b: cr-3".
func slots(snap *Snapshot) string {
	var all []string
	for _, s := range snap.Partitions[0].Groups[0].Slots {
		all = append(all, strings.TrimSpace(s.Name+": "+strings.Join(s.ReservationIDs, " ")))
	}
	return strings.Join(all, "; ")
}

func TestBuildFillsTheSlots(t *testing.T) {
	r := func(id string, state State) Reservation { return Reservation{ID: id, State: state} }
	live := []Reservation{r("1", StateActive), r("2", StateScheduled), r("3", StateScheduled)}
	for name, c := range map[string]struct {
		provider Provider
		seen     Seen
		want     string
	}{
		"ec2: one slot, in the order of the settings": {ProviderEC2, Seen{Reservations: live}, "gpu: 1 2 3"},
		"pcs: in turn": {ProviderPCS, Seen{Reservations: live}, "gpu-a: 1 3; gpu-b: 2"},
		"pcs: what a slot was set up for comes first": {ProviderPCS, Seen{Reservations: live, Held: map[string]string{"gpu-a": "3"}}, "gpu-a: 3 2; gpu-b: 1"},
		"pcs: a slot that was set up for none":        {ProviderPCS, Seen{Reservations: live, Held: map[string]string{"gpu-a": ""}}, "gpu-a: 1 3; gpu-b: 2"},
		"pcs: set up for one of no settings":          {ProviderPCS, Seen{Reservations: live, Held: map[string]string{"gpu-b": "9"}}, "gpu-a: 1 2; gpu-b: 9 3"},
		"pcs: those that ended come last": {ProviderPCS, Seen{Reservations: []Reservation{r("1", StateExpired), live[1], live[2]}},
			"gpu-a: 2 1; gpu-b: 3"},
		"pcs: what EC2 does not describe may still open": {ProviderPCS, Seen{Reservations: live[1:]}, "gpu-a: 1 3; gpu-b: 2"},
	} {
		t.Run(name, func(t *testing.T) {
			settings := Settings{Partitions: []PartitionSettings{{Provider: c.provider, Groups: []GroupSettings{{Name: "gpu", ReservationIDs: []string{"1", "2", "3"}}}}}}
			if got := slots(Build(settings, c.seen)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestBuildSelectsByTags(t *testing.T) {
	r := func(id, team string, start time.Duration) Reservation {
		return Reservation{ID: id, State: StateActive, Tags: map[string]string{"team": team, "use": "train"}, Start: noon.Add(start)}
	}
	seen := Seen{Reservations: []Reservation{r("late", "nlp*", 2), r("early", "nlp*", 1), r("other", "nlp1", 0), r("late", "nlp*", 2), {ID: "bare"}}}
	for want, tags := range map[string]map[string]string{
		"gpu: early late": {"team": "nlp*"}, // literal: not nlp1
		"gpu: other":      {"team": "nlp1", "use": "train"},
		"gpu:":            {"team": "nlp1", "use": "test"},
	} {
		settings := Settings{Partitions: []PartitionSettings{{Groups: []GroupSettings{{Name: "gpu", Select: &Select{Tags: tags}}}}}}
		snap := Build(settings, seen)
		if got := slots(snap); got != want {
			t.Errorf("%v: got %q, want %q", tags, got, want)
		}
		if len(snap.Reservations) != 4 {
			t.Errorf("%d reservations, want each of the 4 once", len(snap.Reservations))
		}
	}
	if (&Select{}).Matches(Reservation{}) || (*Select)(nil).Matches(Reservation{}) {
		t.Error("no tags choose everything")
	}
}

func TestBuildTakesTheSubnetsInTheOrderOfTheSettings(t *testing.T) {
	settings := Settings{Partitions: []PartitionSettings{{Groups: []GroupSettings{{SubnetIDs: []string{"b", "gone", "a"}}}}}}
	seen := Seen{Subnets: []Subnet{{ID: "a", AZID: "1"}, {ID: "b", AZID: "2"}, {ID: "c"}, {ID: "a", AZID: "older"}}}
	want := []Subnet{{ID: "b", AZID: "2"}, {ID: "a", AZID: "1"}}
	if got := Build(settings, seen).Partitions[0].Groups[0].Subnets; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

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

// What squeue shows of a job, and what it means.
func TestJobStates(t *testing.T) {
	batch := Job{State: "RUNNING", Batch: true, Requeue: true}
	for name, c := range map[string]struct {
		job  Job
		want string // what is true of it
	}{
		"pending":                {Job{State: "PENDING"}, "pending settled active"},
		"requeued, in cleanup":   {Job{State: "PENDING", StateFlag: "COMPLETING", Reason: "Cleaning"}, "pending completing active"},
		"in cleanup since 22.05": {Job{State: "PENDING", Held: true, Start: noon}, "pending admin-held active"},
		"held by its user":       {Job{State: "PENDING", Held: true, Reason: "JobHeldUser"}, "pending settled active"},
		"held by us":             {Job{State: "PENDING", Held: true, Reason: "JobHeldAdmin"}, "pending settled admin-held active"},
		"requeued held":          {Job{State: "PENDING", Held: true, Reason: "job_requeued_in_held_state"}, "pending settled admin-held untold active"},
		"told, not held":         {Job{State: "PENDING", Reason: "job requeued in held state"}, "pending settled active"},
		"estimated":              {Job{State: "PENDING", Start: noon}, "pending settled active"},
		"booting":                {Job{State: "RUNNING", StateFlag: "CONFIGURING"}, "configuring allocated active"},
		"running":                {Job{State: "RUNNING"}, "running allocated active"},
		"suspended":              {Job{State: "SUSPENDED"}, "allocated active"},
		"batch":                  {batch, "running allocated active requeues"},
		"batch, --no-requeue":    {Job{State: "RUNNING", Batch: true}, "running allocated active"},
		"srun":                   {Job{State: "RUNNING", Requeue: true}, "running allocated active"},
		"completing":             {Job{State: "COMPLETED", StateFlag: "COMPLETING"}, "completing active"},
		"completed":              {Job{State: "COMPLETED"}, "ended"},
		"timed out":              {Job{State: "TIMEOUT"}, "ended"},
		"unknown":                {Job{State: "PONDERING"}, ""},
	} {
		j := c.job
		got := ""
		for _, is := range []struct {
			what string
			true bool
		}{{"pending", j.Pending()}, {"completing", j.Completing()}, {"settled", j.Settled()}, {"admin-held", j.AdminHeld()}, {"untold", j.HoldUntold()},
			{"configuring", j.Configuring()}, {"running", j.Running()}, {"allocated", j.Allocated()}, {"active", j.Active()}, {"ended", j.Ended()}, {"requeues", j.Requeues()}} {
			if is.true {
				got += " " + is.what
			}
		}
		if want := c.want; got != want && got != " "+want {
			t.Errorf("%s:%s, want %s", name, got, want)
		}
	}
}

func TestJobNames(t *testing.T) {
	for shown, names := range map[string]map[string]bool{
		"7": {"7": true, "7_3": false, "70": false}, "7_3": {"7": true, "7_3": true, "7_4": false}, "7+1": {"7": true, "7+1": true, "7+2": false}, "70": {"7": false},
	} {
		for name, want := range names {
			if got := (Job{Shown: shown}).Is(name); got != want {
				t.Errorf("%s is %s: %t", shown, name, got)
			}
		}
	}
	j := Job{Partition: "cpu,gpu"}
	if !j.In("cpu") || !j.In("gpu") || j.In("gp") || len(j.Partitions()) != 2 {
		t.Errorf("in %q", j.Partitions())
	}
}

// Slurm's clock may be another than AWS's, by which everything is decided.
func TestJobByAnotherClock(t *testing.T) {
	s := twoBlocks(func(s *Snapshot) { s.ClockOffset.Duration = time.Hour })
	j := Job{Partition: "gpu", Account: "nlp", Eligible: noon}
	if r := s.Request(j); !r.Begin.Equal(noon.Add(time.Hour)) || !r.Deadline.IsZero() || !r.AccountKnown || r.Account != "nlp" {
		t.Errorf("asks %+v", r)
	}
	r := SlurmReservation{Start: noon, End: noon.Add(time.Hour)}
	if got := r.ByClock(time.Hour); !got.Start.Equal(noon.Add(time.Hour)) || !got.End.Equal(noon.Add(2*time.Hour)) {
		t.Errorf("%+v", got)
	}
	if got := (SlurmReservation{Start: noon}).ByClock(time.Hour); !got.End.IsZero() {
		t.Errorf("a reservation without an end: %+v", got)
	}
}
