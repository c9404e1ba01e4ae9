package main

import (
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/explain"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// What `when` and `left` say of each world: the code, the line of when, and the limit of left.
func TestWhen(t *testing.T) {
	const boots = 10 * time.Minute // the allowance, which is not to spare

	group := func(s *capacity.Snapshot) *capacity.NodeGroup { return &s.Partitions[0].Groups[0] }
	idle := func(n int) *explain.Queue { return &explain.Queue{Idle: map[string]int{"gpu": n}} }
	holds := func(s *capacity.Snapshot) {
		group(s).PurchaseOption, group(s).Slots[0].ReservationIDs = capacity.OnDemand, nil
		group(s).Reserve = capacity.ReservePerJob
		s.Partitions[0].Provider = capacity.ProviderPCS
	}

	for name, c := range map[string]struct {
		change func(*capacity.Snapshot)
		limit  capacity.Limit
		queue  *explain.Queue
		at     time.Duration
		code   capacity.Code
		line   string
		left   string
	}{
		"now":           {nil, capacity.Minutes(120), idle(2), 0, "now", "now, with 3h10m to spare", "05:09:00"},
		"all of it":     {nil, capacity.Limit{}, idle(4), 0, "now", "now, for up to 05:10:00", "05:09:00"},
		"to the minute": {nil, capacity.Minutes(310), idle(4), 0, "now", "now, with 0s to spare", "05:09:00"},
		"too few are idle": {
			nil,
			capacity.Minutes(120),
			idle(1),
			0,
			"waits-in-queue",
			"when nodes are free: it needs 2, and 1 are idle, with 3h10m to spare",
			"05:09:00",
		},
		"Slurm is silent": {
			nil,
			capacity.Minutes(120),
			nil,
			0,
			"waits-in-queue",
			"when nodes are free: Slurm did not answer, with 3h10m to spare",
			"05:09:00",
		},
		"others wait": {
			nil,
			capacity.Minutes(120),
			&explain.Queue{Idle: map[string]int{"gpu": 4}, Waiting: map[string]int{"gpu": 3}},
			0,
			"waits-in-queue",
			"when its turn comes: other jobs wait for nodes (3), with 3h10m to spare",
			"05:09:00",
		},
		"in the next block": {
			nil,
			capacity.Minutes(311),
			idle(4),
			0,
			"next-block",
			"Fri 22:00, in the next block, with 1d17h to spare",
			"05:09:00",
		},
		"before a block": {
			nil,
			capacity.Minutes(60),
			idle(4),
			7 * time.Hour,
			"next-block",
			"Fri 22:00, in the next block, with 1d22h to spare",
			"",
		},
		"the last minute": {
			nil,
			capacity.Minutes(1),
			idle(4),
			5*time.Hour + 20*time.Minute - boots - 90*time.Second,
			"now",
			"now, with 30s to spare",
			"",
		},
		"never": {
			nil,
			capacity.Minutes(9999),
			idle(4),
			0,
			"too-long",
			"not as things are (too-long): the job needs 6-22:39:00, but jobs on cr-0e2000000000000a2 in partition " +
				"gpu must end by 2026-11-22 21:20 UTC. Use --time=1-23:10:00 or less, or --comment on_end=requeue if it can go on from a checkpoint",
			"05:09:00",
		},
		"never, not strict": {
			func(s *capacity.Snapshot) {
				s.Submit.Strict = false
			},
			capacity.Minutes(9999),
			idle(4),
			0,
			"too-long",
			"not as things are (too-long): the job needs 6-22:39:00, but jobs on cr-0e2000000000000a2 in partition " +
				"gpu must end by 2026-11-22 21:20 UTC. Use --time=1-23:10:00 or less, or --comment on_end=requeue if it can go on from a checkpoint",
			"05:09:00",
		},
		"MaxTime": {func(s *capacity.Snapshot) {
			s.Partitions[0].MaxTime = capacity.Minutes(90)
		}, capacity.Limit{}, idle(4), 0, "now", "now, for up to 01:30:00", "01:30:00"},
		"a failed host": {
			func(s *capacity.Snapshot) {
				s.Reservations[0].Unhealthy = 3
			},
			capacity.Minutes(120),
			idle(4),
			0,
			"hosts-failed",
			"when failed hosts are back: the job needs 2 nodes, and 1 of the 4 hosts of cr-0e2000000000000a1 are " +
				"usable, with 3h10m to spare",
			"05:09:00",
		},
		"EC2 is late": {
			func(s *capacity.Snapshot) {
				s.Reservations[0].State = capacity.StateScheduled
			},
			capacity.Minutes(120),
			idle(4),
			0,
			"waits-to-open",
			"as soon as EC2 opens cr-0e2000000000000a1, which it shows as scheduled, with 3h10m to spare",
			"",
		},
		"EC2 did not tell": {
			func(s *capacity.Snapshot) {
				s.Reservations = nil
			},
			capacity.Minutes(120),
			idle(4),
			0,
			"reservation-not-known",
			"unknown (reservation-not-known): cr-0e2000000000000a1 is not described by EC2, cr-0e2000000000000a2 is " +
				"not described by EC2; the job is let through unchecked",
			"",
		},
		"without an end": {func(s *capacity.Snapshot) {
			s.Reservations[0].End = time.Time{}
			s.Reservations[0].Kind = capacity.ODCR
			group(s).PurchaseOption = capacity.ODCR
		}, capacity.Minutes(120), idle(4), 0, "now", "now, without an end", "UNLIMITED"},
		"on demand": {
			func(s *capacity.Snapshot) {
				group(s).PurchaseOption, group(s).Slots[0].ReservationIDs = capacity.OnDemand, nil
			},
			capacity.Minutes(120),
			idle(4),
			0,
			"on-demand",
			"when EC2 has room: its nodes are launched on demand, without an end",
			"UNLIMITED",
		},
		"held on demand": {
			holds,
			capacity.Minutes(120),
			idle(0),
			0,
			"on-demand",
			"when a zone has room: sync holds capacity for it, and its nodes are launched on demand, without an end",
			"UNLIMITED",
		},
		"held, and nodes are up": {holds, capacity.Minutes(120), idle(4), 0, "now", "now, without an end", "UNLIMITED"},
		"held, behind others": {
			holds,
			capacity.Minutes(120),
			&explain.Queue{Waiting: map[string]int{"gpu": 2}},
			0,
			"waits-in-queue",
			"when its turn comes: other jobs wait for nodes (2), without an end",
			"UNLIMITED",
		},
		"held, and sync does not run": {
			func(s *capacity.Snapshot) { holds(s); s.TakenAt = s.TakenAt.Add(-time.Hour) },
			capacity.Minutes(120),
			idle(0),
			0,
			"waits-for-hold",
			"not as things are (waits-for-hold): sync, which holds capacity for jobs, does not run or does not reach AWS",
			"UNLIMITED",
		},
		"an account that may": {func(s *capacity.Snapshot) {
			s.Partitions[0].AllowAccounts = nil
		}, capacity.Minutes(120), idle(4), 0, "now", "now, with 3h10m to spare", "05:09:00"},
	} {
		t.Run(name, func(t *testing.T) {
			snap, now := explainWorld(t), simStart.Add(c.at)
			snap.TakenAt = now
			if c.at > 6*time.Hour {
				snap.Reservations[0].State = capacity.StateExpired
			}

			if c.change != nil {
				c.change(snap)
			}

			req := capacity.Request{Partitions: []string{"gpu"}, Nodes: 2, TimeLimit: c.limit}
			start := explain.When(req, capacity.Admit(req, snap, now), snap, c.queue, now)
			term := &terminal.Terminal{UTC: true}
			if got := formatStart(term, start, now); start.Code != c.code || got != c.line {
				t.Errorf("%s: %s\nwant %s: %s", start.Code, got, c.code, c.line)
			}

			left := explain.Longest(req, capacity.Admit(req, snap, now), snap, now)
			if left.TimeLimit != c.left {
				t.Errorf("left: %q, want %q", left.TimeLimit, c.left)
			}

			if left.TimeLimit == "" || left.TimeLimit == "UNLIMITED" {
				return
			}
			// R2: a job with this limit, submitted a minute later, still fits what is open.
			limit, err := capacity.ParseLimit(left.TimeLimit)
			if err != nil {
				t.Fatal(err)
			}

			req.TimeLimit = limit
			later := now.Add(time.Minute)
			if start := explain.When(req, capacity.Admit(req, snap, later), snap, idle(4),
				later); start.Code != "now" &&
				start.Code != "hosts-failed" {
				t.Errorf("a minute later %s is %s", left.TimeLimit, start.Code)
			}
		})
	}
}

// A job that names a Slurm reservation whose jobs heed no fence hears of it.
func TestWhenNamesAReservation(t *testing.T) {
	snap := explainWorld(t)
	snap.TakenAt = simStart
	snap.FenceBypasses = map[string]time.Time{"course": simStart.Add(5 * time.Hour)}
	for name, warned := range map[string]bool{"": false, "other": false, "course": true} {
		job := jobSize{Partition: "gpu", Nodes: "1", Account: "nlp", Reservation: name}

		req, verdict, err := job.judge(capacity.Minutes(60), snap, simStart)
		if err != nil {
			t.Fatal(err)
		}

		start := explain.When(req, verdict, snap, nil, simStart)
		if (len(start.Warnings) > 0) != warned {
			t.Errorf("--reservation=%s: %q", name, start.Warnings)
		}
	}
}

func TestLimitAndNodes(t *testing.T) {
	for text, want := range map[string]capacity.Limit{
		"90":        capacity.Minutes(90),
		"90:30":     capacity.Minutes(91),
		"12:00:00":  capacity.Minutes(720),
		"2-0":       capacity.Minutes(2880),
		"UNLIMITED": capacity.NoLimit,
		"12h":       capacity.Minutes(720),
		"2d12h":     capacity.Minutes(3600),
		"90s":       capacity.Minutes(2),
		"soon":      {},
		"-2h":       {},
		"0h":        {},
	} {
		var l jobLimit
		if err := l.UnmarshalText([]byte(text)); l.Limit != want || (err == nil) != want.Set {
			t.Errorf("%q: %v, %v", text, l.Limit, err)
		}
	}

	for text, good := range map[string]bool{
		"4":    true,
		"4-8":  true,
		"1k":   true,
		"0":    false,
		"four": false,
		"4,5":  false,
		"-4":   false,
		"":     false,
	} {
		var n nodeCount
		if err := n.UnmarshalText([]byte(text)); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}
