package capacity

import (
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

// What no other test decides.

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
