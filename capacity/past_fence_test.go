package capacity

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// Which reservations of a site let jobs through a fence. The rules are those of job_test_resv in reservation.c, seen on
// 22.05: a job in MAINT ran through both kinds of fence, one in OVERLAP through a guest's, one in neither waited.
func TestPastFences(t *testing.T) {
	at := time.Date(2027, 1, 1, 12, 0, 0, 0, time.UTC)
	fence := func(p Provider) SlurmReservation {
		return SlurmReservation{
			Name:  Guard{Kind: GuardFence, Slot: "gpu", Block: "cr-1", Owner: "0123abcd"}.String(),
			Nodes: []string{"gpu-1", "gpu-2"},
			Start: at,
			Users: []string{"root"},
			Flags: p.GuardFlags(),
		}
	}
	for name, c := range map[string]struct {
		flags  string
		end    time.Duration // from the fence on; 0 for none
		users  string
		node   string
		normal bool // it lets jobs through a fence with MAINT
		guest  bool // and through one without
	}{
		"no flags":                  {flags: "SPEC_NODES"},
		"MAINT":                     {flags: "MAINT,IGNORE_JOBS", normal: true, guest: true},
		"OVERLAP":                   {flags: "OVERLAP", guest: true},
		"FLEX alone":                {flags: "FLEX"},
		"MAINT for root alone":      {flags: "MAINT", users: "root"},
		"MAINT for root and others": {flags: "MAINT", users: "root,alice", normal: true, guest: true},
		"MAINT on other nodes":      {flags: "MAINT", node: "cpu-1"},
		"MAINT until the fence":     {flags: "MAINT", end: -time.Nanosecond},
		"MAINT past the fence":      {flags: "MAINT", end: time.Hour, normal: true, guest: true},
		"MAINT,FLEX until then":     {flags: "MAINT,FLEX", end: -time.Nanosecond, normal: true, guest: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := SlurmReservation{
				Name:  "site",
				Nodes: []string{"gpu-2"},
				Flags: strings.Split(c.flags, ","),
				Users: []string{"alice"},
			}
			if c.users != "" {
				r.Users = strings.Split(c.users, ",")
			}

			if c.node != "" {
				r.Nodes = []string{c.node}
			}

			if c.end != 0 {
				r.End = at.Add(c.end)
			}

			for provider, want := range map[Provider]bool{ProviderEC2: c.normal, ProviderNone: c.guest} {
				past := FindFenceBypasses([]SlurmReservation{r, fence(provider)})
				first, is := past["site"]
				if is != want || is && !first.Start.Equal(at) || len(past) > 1 {
					t.Errorf("%s: %v", provider, past)
				}
			}
		})
	}

	// The first of several fences counts.
	later := fence(ProviderEC2)
	later.Start = at.Add(time.Hour)
	site := SlurmReservation{Name: "site", Nodes: []string{"gpu-1"}, Flags: []string{"MAINT"}}
	if past := FindFenceBypasses([]SlurmReservation{later, site, fence(ProviderEC2)}); !past["site"].Start.Equal(at) {
		t.Error(past)
	}

	snap := &Snapshot{FenceBypasses: map[string]time.Time{"site": at}}
	for names, warned := range map[string]bool{"": false, "other": false, "site": true, "other,site": true} {
		v := Admit(Request{Partitions: []string{"gpu"}, Reservation: names}, withPartition(snap), at)
		if slices.ContainsFunc(
			v.Warnings,
			func(w string) bool { return strings.Contains(w, "end by 2027-01-01 12:00 UTC") },
		) != warned {
			t.Errorf("--reservation=%s: %q", names, v.Warnings)
		}
	}
}

// withPartition adds partition gpu, whose nodes are launched on demand.
func withPartition(snap *Snapshot) *Snapshot {
	snap.Partitions = []Partition{
		{Name: "gpu", Provider: ProviderEC2, Groups: []NodeGroup{{Name: "gpu", PurchaseOption: OnDemand, MaxNodes: 4}}},
	}

	return snap
}
