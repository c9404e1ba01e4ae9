package capacity

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// The snapshot of these tests: two blocks behind partition gpu, in two slots.
//
//	cr-aaaaaaaaaaaaaaaaa  4 × p5  now-1d … now+2d        slot gpu-a
//	cr-bbbbbbbbbbbbbbbbb  8 × p5  now+3d … now+6d        slot gpu-b
//
// With a reclaim lead of 30 and a margin of 10 minutes, the fences are 40 minutes before the ends.
var (
	noon   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	blockA = Reservation{
		ID:           "cr-aaaaaaaaaaaaaaaaa",
		Kind:         CapacityBlock,
		State:        StateActive,
		InstanceType: "p5.48xlarge",
		AZID:         "use2-az1",
		AZ:           "us-east-2a",
		Total:        4,
		Available:    4,
		Start:        noon.Add(-24 * time.Hour),
		End:          noon.Add(48 * time.Hour),
	}
	blockB = Reservation{
		ID:           "cr-bbbbbbbbbbbbbbbbb",
		Kind:         CapacityBlock,
		State:        StateScheduled,
		InstanceType: "p5.48xlarge",
		AZID:         "use2-az2",
		AZ:           "us-east-2b",
		Tags:         map[string]string{RequestedQuantityTag: "8"},
		Start:        noon.Add(72 * time.Hour),
		End:          noon.Add(144 * time.Hour),
	}
)

func minutes(n int) Duration { return Duration{time.Duration(n) * time.Minute} }

func twoBlocks(change ...func(*Snapshot)) *Snapshot {
	s := &Snapshot{Version: SnapshotVersion, TakenAt: noon, DefaultPartition: "cpu", Submit: Submit{
		Strict:     true,
		StaleAfter: minutes(10),
	}, Timing: Timing{
		DrainMargin: minutes(10), BootAllowance: minutes(10),
		ReclaimLead: minutes(30),
	}, Partitions: []Partition{{
		Name: "gpu", Provider: ProviderPCS, MinTime: minutes(30),
		Groups: []NodeGroup{{
			Name: "gpu", InstanceType: "p5.48xlarge", PurchaseOption: CapacityBlock, MaxNodes: 8,
			Subnets: []Subnet{
				{"subnet-aaaaaaaa", "use2-az1", "us-east-2a"},
				{"subnet-bbbbbbbb", "use2-az2", "us-east-2b"},
			},
			Slots: []Slot{
				{Name: "gpu-a", Feature: "gpu-a", ReservationIDs: []string{blockA.ID}, Nodes: "gpu-a-[1-4]"},
				{Name: "gpu-b", Feature: "gpu-b", ReservationIDs: []string{blockB.ID}, Nodes: "gpu-b-[1-8]"},
			},
		}},
	}}, Reservations: []Reservation{blockA, blockB}}
	for _, c := range change {
		c(s)
	}

	return s
}

func onlyA(s *Snapshot) { s.Partitions[0].Groups[0].Slots = s.Partitions[0].Groups[0].Slots[:1] }
func dynamic(s *Snapshot) {
	s.Partitions[0].Groups[0].Dynamic = true
}
func stale(s *Snapshot)   { s.TakenAt = noon.Add(-time.Hour) }
func lenient(s *Snapshot) { s.Submit.Strict = false }

func TestAdmit(t *testing.T) {
	const toFenceA = 47*60 + 20 // minutes from noon to the fence of block A

	const blockBWhole = 72*60 - 40

	gpu := []string{"gpu"}
	for _, c := range []struct {
		name    string
		req     Request
		change  []func(*Snapshot)
		code    Code
		refused bool
		message string // part of the message of a refusal, or of the warnings
		edits   Edits
	}{
		{name: "default partition is not ours", req: Request{}, code: NotManaged},
		{
			name: "unmanaged partition, foreign words in the comment",
			req:  Request{Partitions: []string{"cpu"}, Comment: "capacity=lots time=long"},
			code: NotManaged,
		},
		{
			name:    "unmanaged partition, our reservation",
			req:     Request{Partitions: []string{"cpu"}, Comment: "capacity_reservation_id=" + blockA.ID},
			code:    WrongPartition,
			refused: true,
			message: "--partition=gpu",
		},
		{
			name:    "unmanaged partition, unknown reservation",
			req:     Request{Partitions: []string{"cpu"}, Comment: "capacity_reservation_id=cr-0123456789abcdef0"},
			code:    NotManaged,
			message: "belongs to no partition",
		},
		{
			name:   "fits the open block",
			req:    Request{Partitions: gpu, TimeLimit: Minutes(toFenceA)},
			change: []func(*Snapshot){onlyA},
			code:   OK,
		},
		{
			name:    "one minute too long",
			req:     Request{Partitions: gpu, TimeLimit: Minutes(toFenceA + 1)},
			change:  []func(*Snapshot){onlyA},
			code:    TooLong,
			refused: true,
			message: "Use --time=1-23:20:00 or less",
		},
		{
			name:    "boot counts on dynamic groups",
			req:     Request{Partitions: gpu, TimeLimit: Minutes(toFenceA)},
			change:  []func(*Snapshot){onlyA, dynamic},
			code:    TooLong,
			refused: true,
			message: "Use --time=1-23:10:00 or less",
		},
		{
			name:    "fits only the next block",
			req:     Request{Partitions: gpu, TimeLimit: Minutes(blockBWhole)},
			code:    OK,
			edits:   Edits{Constraint: "[gpu-a|gpu-b]"},
			message: "waits for " + blockB.ID,
		},
		{
			name:    "longer than any block",
			req:     Request{Partitions: gpu, TimeLimit: Minutes(blockBWhole + 1)},
			code:    TooLong,
			refused: true,
			message: blockFitB,
		},
		{
			name: "longer than any block, and it cannot be requeued",
			req: Request{
				Partitions: gpu,
				TimeLimit:  Minutes(blockBWhole + 1),
				Comment:    "on_end=requeue",
				Requeue:    RequeueNo,
			},
			code:    TooLong,
			refused: true,
			message: ". Use --time=" + FormatMinutes(blockBWhole) + " or less",
		},
		{
			name:    "unlimited",
			req:     Request{Partitions: gpu, TimeLimit: NoLimit},
			code:    TooLong,
			refused: true,
			message: "needs UNLIMITED",
		},
		{
			name:   "long, but shrinks by its own --time-min",
			req:    Request{Partitions: gpu, TimeLimit: Minutes(100 * 60), TimeMin: Minutes(60)},
			change: []func(*Snapshot){onlyA},
			code:   OK,
		},
		{
			name: "no limit: the longest block, floor of the partition", req: Request{Partitions: gpu}, code: OK,
			edits: Edits{TimeLimit: Minutes(blockBWhole), TimeMin: Minutes(31), Constraint: "[gpu-a|gpu-b]"},
		},
		{
			name:   "no limit, comment of the user is kept",
			req:    Request{Partitions: gpu, Comment: "run 7", TimeMin: Minutes(90)},
			change: []func(*Snapshot){onlyA},
			code:   OK,
			edits:  Edits{TimeLimit: Minutes(toFenceA), TimeMin: Minutes(90)},
		},
		{
			name: "no limit, capped by MaxTime", req: Request{Partitions: gpu}, code: OK,
			change: []func(*Snapshot){func(s *Snapshot) { s.Partitions[0].MaxTime = Minutes(600) }},
			edits:  Edits{TimeLimit: Minutes(600), TimeMin: Minutes(31), Constraint: "[gpu-a|gpu-b]"},
		},
		{
			name:    "no limit, floor does not fit",
			req:     Request{Partitions: gpu},
			code:    TooLong,
			refused: true,
			message: "no time is left",
			change: []func(*Snapshot){
				onlyA,
				func(s *Snapshot) { s.Reservations[0].End = noon.Add(40*time.Minute + 30*time.Second) },
			},
		},
		{
			name: "no limit on an ODCR without end", req: Request{Partitions: gpu}, code: OK,
			change: []func(*Snapshot){onlyA, func(s *Snapshot) {
				s.Reservations[0].End, s.Reservations[0].Kind = time.Time{}, ODCR
				s.Partitions[0].Groups[0].PurchaseOption = ODCR
			}},
		},
		{
			name:  "reservation of the partition",
			req:   Request{Partitions: gpu, TimeLimit: Minutes(60), Comment: "capacity_reservation_id=" + blockA.ID},
			code:  OK,
			edits: Edits{Constraint: "gpu-a"},
		},
		{
			name:    "reservation of no partition",
			req:     Request{Partitions: gpu, Comment: "capacity_reservation_id=cr-0123456789abcdef0"},
			code:    UnknownReservation,
			refused: true,
			message: blockA.ID,
		},
		{
			name:    "a wish for capacity that is none",
			req:     Request{Partitions: gpu, Comment: "capacity=now"},
			code:    BadComment,
			refused: true,
			message: "capacity=\"now\" in --comment is not valid; write capacity=reserve, capacity=prefer, " +
				"capacity=reuse or capacity=any",
		},
		{
			name:    "nothing is held in a block",
			req:     Request{Partitions: gpu, Comment: "capacity=reserve"},
			code:    NoMatchingCapacity,
			refused: true,
			message: "partition gpu has nothing that matches capacity=reserve in --comment; it has cr-",
		},
		{
			name:    "an end that nobody knows",
			req:     Request{Partitions: gpu, Comment: "on_end=restart"},
			code:    BadComment,
			refused: true,
			message: "write on_end=stop, on_end=requeue or on_end=hold",
		},
		{
			name:    "malformed id",
			req:     Request{Partitions: gpu, Comment: "capacity_reservation_id=cr-x"},
			code:    BadComment,
			refused: true,
			message: "cr-0123456789abcdef0",
		},
		{
			name: "id given twice",
			req: Request{
				Partitions: gpu,
				Comment:    "capacity_reservation_id=" + blockA.ID + ",capacity_reservation_id=" + blockB.ID,
			},
			code:    BadComment,
			refused: true,
			message: "given twice",
		},
		{
			name:  "subnet of one zone",
			req:   Request{Partitions: gpu, TimeLimit: Minutes(60), Comment: "subnet_id=subnet-bbbbbbbb"},
			code:  OK,
			edits: Edits{Constraint: "gpu-b"},
		},
		{
			name:    "instance type that is not there",
			req:     Request{Partitions: gpu, Comment: "instance_type=p4d.24xlarge"},
			code:    NoMatchingCapacity,
			refused: true,
			message: "it has cr-aaaaaaaaaaaaaaaaa p5.48xlarge",
		},
		{
			name:    "account",
			req:     Request{Partitions: gpu, Account: "bio"},
			code:    AccountNotAllowed,
			refused: true,
			message: "allowed: nlp",
			change:  []func(*Snapshot){func(s *Snapshot) { s.Partitions[0].AllowAccounts = []string{"nlp"} }},
		},
		{
			name:    "more nodes than any block",
			req:     Request{Partitions: gpu, Nodes: 9, TimeLimit: Minutes(60)},
			code:    TooManyNodes,
			refused: true,
			message: "--nodes=8",
		},
		{
			name:  "several tasks stay in one block",
			req:   Request{Partitions: gpu, Tasks: 2, TimeLimit: Minutes(60)},
			code:  OK,
			edits: Edits{Constraint: "[gpu-a|gpu-b]"},
		},
		{
			name:  "a job on one node keeps to one block",
			req:   Request{Partitions: gpu, Nodes: 1, Tasks: 2, TimeLimit: Minutes(60)},
			code:  OK,
			edits: Edits{Constraint: "[gpu-a|gpu-b]"},
		},
		{
			name:  "several nodes stay in one block",
			req:   Request{Partitions: gpu, Nodes: 2, TimeLimit: Minutes(60)},
			code:  OK,
			edits: Edits{Constraint: "[gpu-a|gpu-b]"},
		},
		{
			name:  "nodes that only one block has",
			req:   Request{Partitions: gpu, Nodes: 6, TimeLimit: Minutes(60)},
			code:  OK,
			edits: Edits{Constraint: "gpu-b"},
		},
		{
			name:  "the user's constraint is kept beside ours",
			req:   Request{Partitions: gpu, Nodes: 2, TimeLimit: Minutes(60), Constraint: "x&y"},
			code:  OK,
			edits: Edits{Constraint: "x&y&[gpu-a|gpu-b]"},
		},
		{
			name: "the user names a slot",
			req:  Request{Partitions: gpu, Nodes: 2, TimeLimit: Minutes(60), Constraint: "x&gpu-b"},
			code: OK,
		},
		{
			name:    "the user has brackets",
			req:     Request{Partitions: gpu, Nodes: 2, TimeLimit: Minutes(60), Constraint: "[x|y]"},
			code:    OK,
			message: "may give the job nodes of several blocks",
		},
		{
			name: "the user has both blocks, one for all nodes",
			req:  Request{Partitions: gpu, Nodes: 2, TimeLimit: Minutes(60), Constraint: "x&[gpu-a|gpu-b]"},
			code: OK,
		},
		{
			name:    "the user has both blocks, one for each node",
			req:     Request{Partitions: gpu, Nodes: 2, TimeLimit: Minutes(60), Constraint: "gpu-a|gpu-b"},
			code:    OK,
			message: "--constraint='[gpu-a|gpu-b]'",
		},
		{
			name: "the same on one node",
			req:  Request{Partitions: gpu, Nodes: 1, OneNode: true, TimeLimit: Minutes(60), Constraint: "gpu-a|gpu-b"},
			code: OK,
		},
		{
			name:    "a partition named twice",
			req:     Request{Partitions: []string{"gpu", "gpu"}, Nodes: 9, TimeLimit: Minutes(60)},
			code:    TooManyNodes,
			refused: true,
			message: "use --nodes=8",
		},
		{
			name: "components that fit together",
			req: Request{
				Partitions:  gpu,
				Nodes:       4,
				TimeLimit:   Minutes(60),
				Component:   true,
				NodesBefore: 8,
				Constraint:  "gpu-a",
			},
			code: OK,
		},
		{
			name: "components that do not",
			req: Request{
				Partitions:  gpu,
				Nodes:       4,
				TimeLimit:   Minutes(60),
				Component:   true,
				NodesBefore: 9,
				Constraint:  "gpu-a",
			},
			code:    OK,
			message: "the components of this job need 13 nodes of partition gpu together, but its blocks have 12",
		},
		{
			name: "prose",
			req: Request{
				Partitions: gpu,
				Nodes:      4,
				TimeLimit:  Minutes(60),
				Constraint: "gpu-a",
				Comment:    "capacity=full run",
			},
			code:    OK,
			message: "capacity=full in --comment changes nothing",
		},
		{
			name: "prose, the other way round",
			req: Request{
				Partitions: gpu,
				Nodes:      4,
				TimeLimit:  Minutes(60),
				Constraint: "gpu-a",
				Comment:    "test capacity=full",
			},
			code:    OK,
			message: "capacity=full in --comment changes nothing",
		},
		{
			name:    "no prose",
			req:     Request{Partitions: gpu, Comment: "capacity=full"},
			code:    BadComment,
			refused: true,
			message: "write capacity=reserve",
		},
		{
			name:    "no prose beside a key",
			req:     Request{Partitions: gpu, Comment: "capacity=full on_end=stop"},
			code:    BadComment,
			refused: true,
			message: "write capacity=reserve",
		},
		{
			name:    "the second of two components",
			req:     Request{Partitions: gpu, TimeLimit: Minutes(60), Component: true},
			code:    OK,
			message: "may get nodes of different blocks",
			edits:   Edits{Constraint: "[gpu-a|gpu-b]"},
		},
		{
			name:    "failed hosts are told",
			req:     Request{Partitions: gpu, Nodes: 4, TimeLimit: Minutes(60)},
			code:    OK,
			message: "3 of the 4 hosts of",
			change:  []func(*Snapshot){onlyA, func(s *Snapshot) { s.Reservations[0].Unhealthy = 1 }},
		},
		{
			name:    "all have ended",
			req:     Request{Partitions: gpu},
			code:    NoReservation,
			refused: true,
			message: "cr-aaaaaaaaaaaaaaaaa is expired",
			change:  []func(*Snapshot){onlyA, func(s *Snapshot) { s.Reservations[0].State = StateExpired }},
		},
		{
			name:    "behind the fence",
			req:     Request{Partitions: gpu},
			code:    NoReservation,
			refused: true,
			message: "jobs on cr-aaaaaaaaaaaaaaaaa had to end by 2026-03-01 11:50 UTC",
			change:  []func(*Snapshot){onlyA, func(s *Snapshot) { s.Reservations[0].End = noon.Add(30 * time.Minute) }},
		},
		{
			name:    "a state that nobody knows is unusable",
			req:     Request{Partitions: gpu},
			code:    NoReservation,
			refused: true,
			message: "is frozen",
			change:  []func(*Snapshot){onlyA, func(s *Snapshot) { s.Reservations[0].State = "frozen" }},
		},
		{
			name:    "EC2 did not describe it",
			req:     Request{Partitions: gpu},
			code:    ReservationNotKnown,
			message: "unchecked",
			change:  []func(*Snapshot){onlyA, func(s *Snapshot) { s.Reservations = nil }},
		},
		{
			name:    "R8: one that EC2 does not know, the other has ended",
			req:     Request{Partitions: gpu},
			code:    NoReservation,
			refused: true,
			message: "(cr-aaaaaaaaaaaaaaaaa is expired, cr-bbbbbbbbbbbbbbbbb is not described by EC2); ask",
			change: []func(*Snapshot){func(s *Snapshot) {
				s.Reservations = s.Reservations[:1]
				s.Reservations[0].State = StateExpired
			}},
		},
		{
			name:    "R8: one that EC2 does not know, the other is too short",
			req:     Request{Partitions: gpu, TimeLimit: NoLimit},
			code:    TooLong,
			refused: true,
			message: blockA.ID,
			change:  []func(*Snapshot){func(s *Snapshot) { s.Reservations = s.Reservations[:1] }},
		},
		{
			name:    "R8: the job names the one that EC2 does not know",
			req:     Request{Partitions: gpu, Comment: "capacity_reservation_id=" + blockB.ID},
			code:    ReservationNotKnown,
			message: "unchecked",
			change:  []func(*Snapshot){func(s *Snapshot) { s.Reservations = s.Reservations[:1] }},
		},
		{
			name:    "not strict: warned and let through",
			req:     Request{Partitions: gpu, Nodes: 9, TimeLimit: Minutes(60)},
			change:  []func(*Snapshot){lenient},
			code:    TooManyNodes,
			message: "--nodes=8",
		},
		{
			name:    "stale: let through",
			req:     Request{Partitions: gpu, Nodes: 9, TimeLimit: Minutes(60)},
			change:  []func(*Snapshot){stale},
			code:    TooManyNodes,
			message: "1h old",
		},
		{
			name: "stale, and sync has to raise the limit", req: Request{Partitions: gpu}, code: OK,
			message: "1h old (is `pcs-capacity sync --watch` running?): the job may start with only 00:31:00 and is " +
				"raised once sync runs",
			change: []func(*Snapshot){onlyA, stale, func(s *Snapshot) { s.TimeMinCollapses = true }},
			edits:  Edits{TimeLimit: Minutes(toFenceA), TimeMin: Minutes(31)},
		},
		{
			name:   "stale, but this Slurm fits the limit itself",
			req:    Request{Partitions: gpu},
			code:   OK,
			change: []func(*Snapshot){onlyA, stale},
			edits:  Edits{TimeLimit: Minutes(toFenceA), TimeMin: Minutes(31)},
		},
		{
			name:    "stale: a known end still refuses",
			req:     Request{Partitions: gpu, TimeLimit: NoLimit},
			change:  []func(*Snapshot){stale},
			code:    TooLong,
			refused: true,
			message: "UNLIMITED",
		},
		{
			name:    "two partitions, one not ours",
			req:     Request{Partitions: []string{"gpu", "cpu"}, TimeLimit: Minutes(60)},
			code:    WrongPartition,
			refused: true,
			message: "a job of several nodes keeps to one block of partition gpu, and the nodes of partition cpu " +
				"are in none: leave out cpu, or use --nodes=1",
		},
		{
			name: "the same on one node",
			req:  Request{Partitions: []string{"gpu", "cpu"}, OneNode: true, TimeLimit: Minutes(60)},
			code: OK,
		},
		{
			name:    "the same without a limit",
			req:     Request{Partitions: []string{"gpu", "cpu"}, OneNode: true},
			code:    OK,
			message: "without --time the job never starts in partition gpu, whose blocks end",
		},
		{
			name:    "no limit, less time than the floor is left",
			req:     Request{Partitions: gpu},
			code:    TooLong,
			refused: true,
			message: "a job without --time needs at least 00:30:00 (min_time of partition gpu)",
			change:  []func(*Snapshot){onlyA, func(s *Snapshot) { s.Reservations[0].End = noon.Add(60 * time.Minute) }},
		},
		{
			name: "two partitions of ours: the longer limit serves both",
			req:  Request{Partitions: []string{"short", "gpu", "mid"}},
			code: OK,
			change: []func(*Snapshot){onlyA, func(s *Snapshot) {
				for name, maxTime := range map[string]int{"short": 60, "mid": 600} {
					p := s.Partitions[0]
					p.Name, p.MaxTime = name, Minutes(maxTime)
					s.Partitions = append(s.Partitions, p)
				}
			}},
			edits: Edits{TimeLimit: Minutes(toFenceA), TimeMin: Minutes(31)},
		},
		{
			name: "two partitions of ours, one of them over: fitted to the other",
			req:  Request{Partitions: []string{"old", "gpu"}},
			code: OK,
			change: []func(*Snapshot){onlyA, func(s *Snapshot) {
				old := s.Partitions[0]
				old.Name, old.Groups = "old", []NodeGroup{
					{
						Name: "old",
						Slots: []Slot{
							{Name: "old-a", Feature: "old-a", ReservationIDs: []string{"cr-00000000000000001"}},
						},
					},
				}
				s.Partitions = append(s.Partitions, old)
				s.Reservations = append(s.Reservations, Reservation{
					ID:    "cr-00000000000000001",
					Kind:  CapacityBlock,
					State: StateExpired,
					Start: noon.Add(-48 * time.Hour),
					End:   noon.Add(-24 * time.Hour),
				})
			}},
			edits: Edits{TimeLimit: Minutes(toFenceA), TimeMin: Minutes(31)},
		},
		{
			name: "two partitions, one not ours, and a reservation of ours",
			req: Request{
				Partitions: []string{"gpu", "cpu"},
				OneNode:    true,
				TimeLimit:  Minutes(60),
				Comment:    "capacity_reservation_id=" + blockA.ID,
			},
			code: OK,
		},
		{
			name: "two partitions, one not ours, and a reservation of neither",
			req: Request{
				Partitions: []string{"gpu", "cpu"},
				Comment:    "capacity_reservation_id=cr-0123456789abcdef0",
			},
			code:    UnknownReservation,
			refused: true,
			message: "no reservation cr-0123456789abcdef0; it has cr-aaaaaaaaaaaaaaaaa p5.48xlarge use2-az1, " +
				"cr-bbbbbbbbbbbbbbbbb p5.48xlarge use2-az2; without capacity_reservation_id the job may run in its " +
				"other partitions",
		},
		{
			name:    "two partitions, one not ours, and a reservation that has ended",
			req:     Request{Partitions: []string{"cpu", "gpu"}, Comment: "capacity_reservation_id=" + blockA.ID},
			code:    NoReservation,
			refused: true,
			message: "without capacity_reservation_id the job may run in its other partitions",
			change:  []func(*Snapshot){func(s *Snapshot) { s.Reservations[0].State = StateExpired }},
		},
		{
			name: "two partitions of ours, and a reservation of neither",
			req: Request{
				Partitions: []string{"gpu", "more"},
				Comment:    "capacity_reservation_id=cr-0123456789abcdef0",
			},
			code:    UnknownReservation,
			refused: true,
			message: "partition more has no reservation",
			change: []func(*Snapshot){func(s *Snapshot) {
				more := s.Partitions[0]
				more.Name = "more"
				s.Partitions = append(s.Partitions, more)
			}},
		},
		{
			name: "two partitions, refused by ours, the other takes it",
			req:  Request{Partitions: []string{"gpu", "cpu"}, Nodes: 9},
			code: OK,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Admit(c.req, twoBlocks(c.change...), noon)
			said := got.Sentence + "\n" + strings.Join(got.Warnings, "\n")
			if got.Code != c.code || got.Refused != c.refused || !strings.Contains(said, c.message) {
				t.Errorf(
					"got code %s, refused %v, saying %q; want %s, %v, %q",
					got.Code,
					got.Refused,
					said,
					c.code,
					c.refused,
					c.message,
				)
			}

			if c.message != "" && strings.Count(said, c.message) > 1 {
				t.Errorf("says twice: %q", said)
			}

			if got.Edits != c.edits {
				t.Errorf("edits %+v, want %+v", got.Edits, c.edits)
			}

			if c.message == "" && strings.TrimSpace(said) != "" {
				t.Errorf("said %q, want nothing", said)
			}
		})
	}
}

const blockFitB = "--time=2-23:20:00"

// R2 at admission: an accepted job ends by the fence, counted from its earliest start, boot included.
func TestR2_AdmittedJobsEndBeforeTheFence(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	accepted := 0
	for range 20000 {
		r := blockA
		r.Start = noon.Add(time.Duration(rng.IntN(6000)-3000) * time.Minute)
		r.End = r.Start.Add(time.Duration(rng.IntN(6000)) * time.Minute)
		r.UltraServer = rng.IntN(2) == 0
		snap := twoBlocks(onlyA)
		snap.Reservations = []Reservation{r}

		snap.Partitions[0].Groups[0].Dynamic = rng.IntN(2) == 0
		req := Request{Partitions: []string{"gpu"}}
		if rng.IntN(3) > 0 {
			req.TimeLimit = Minutes(rng.IntN(6000))
		}

		if rng.IntN(2) == 0 {
			req.Begin = noon.Add(time.Duration(rng.IntN(6000)-1000) * time.Minute)
		}

		start := later(later(noon, req.Begin), r.Start)

		v := Admit(req, snap, noon)
		if v.Refused {
			continue
		}

		accepted++

		limit, lead := req.TimeLimit, 30*time.Minute
		if !limit.Set {
			limit = v.Edits.TimeMin // Slurm fits the limit between floor and fence
			if v.Edits.TimeLimit.Duration() > snap.Timing.Window(r).Fence.Sub(start) {
				t.Fatalf("limit %s crosses the fence of %+v", v.Edits.TimeLimit, snap.Timing.Window(r))
			}
		}

		if r.UltraServer {
			lead = 60 * time.Minute
		}

		end := start.Add(limit.Duration())
		if snap.Partitions[0].Groups[0].Dynamic {
			end = end.Add(10 * time.Minute)
		}

		if fence := r.End.Add(-lead - 10*time.Minute); end.After(fence) {
			t.Fatalf("accepted %+v, which ends at %s, after the fence %s", req, end, fence)
		}
	}

	if accepted < 1000 {
		t.Errorf("only %d of 20000 random jobs were accepted; the test sees too little", accepted)
	}
}

func TestAdmitLaunch(t *testing.T) {
	other := Partition{
		Name: "big",
		Groups: []NodeGroup{
			{Name: "big", Slots: []Slot{{Name: "big", ReservationIDs: []string{"cr-ccccccccccccccccc"}}}},
		},
	}
	ec2 := func(s *Snapshot) { // one slot, both blocks in turn
		g := &s.Partitions[0].Groups[0]
		g.Dynamic = true
		g.Slots = []Slot{{Name: "gpu", ReservationIDs: []string{blockA.ID, blockB.ID}, Nodes: "gpu-[1-4]"}}

		s.Partitions = append(s.Partitions, other)
	}
	for _, c := range []struct {
		name   string
		req    Request
		change func(*Snapshot)
		at     time.Time
		want   string
		code   Code
	}{
		{name: "the open one", want: blockA.ID, code: OK},
		{
			name: "a limit that no longer fits is lowered later",
			req:  Request{TimeLimit: Minutes(100000)},
			want: blockA.ID,
			code: OK,
		},
		{name: "named", req: Request{Comment: "capacity_reservation_id=" + blockA.ID}, want: blockA.ID, code: OK},
		{name: "named, not open yet", req: Request{Comment: "capacity_reservation_id=" + blockB.ID}, code: NotOpen},
		{
			name: "named, another partition's",
			req:  Request{Comment: "capacity_reservation_id=cr-ccccccccccccccccc"},
			code: WrongPartition,
		},
		{
			name: "named, nobody's",
			req:  Request{Comment: "capacity_reservation_id=cr-ddddddddddddddddd"},
			code: UnknownReservation,
		},
		{
			name:   "account",
			change: func(s *Snapshot) { s.Partitions[0].AllowAccounts = []string{"nlp"} },
			code:   AccountNotAllowed,
		},
		{name: "between the blocks", at: noon.Add(50 * time.Hour), code: NotOpen},
		{
			name: "boot and floor just fit",
			at:   noon.Add(47*time.Hour + 20*time.Minute - 40*time.Minute),
			want: blockA.ID,
			code: OK,
		},
		{
			name: "boot and floor no longer fit",
			at:   noon.Add(47*time.Hour + 20*time.Minute - 39*time.Minute),
			code: TooLong,
		},
		{
			name: "a shorter limit still fits",
			req:  Request{TimeLimit: Minutes(5)},
			at:   noon.Add(47*time.Hour + 20*time.Minute - 15*time.Minute),
			want: blockA.ID,
			code: OK,
		},
		{
			name: "a shorter --time-min still fits, whatever limit Slurm has given",
			req:  Request{TimeLimit: Minutes(13), TimeMin: Minutes(2)},
			at:   noon.Add(47*time.Hour + 20*time.Minute - 13*time.Minute),
			want: blockA.ID,
			code: OK,
		},
		{
			name: "it no longer fits",
			req:  Request{TimeLimit: Minutes(13), TimeMin: Minutes(4)},
			at:   noon.Add(47*time.Hour + 20*time.Minute - 13*time.Minute),
			code: TooLong,
		},
		{name: "wrong zone", change: func(s *Snapshot) { s.Reservations[0].AZID = "use2-az9" }, code: Mismatched},
	} {
		t.Run(c.name, func(t *testing.T) {
			snap := twoBlocks(ec2)
			if c.change != nil {
				c.change(snap)
			}

			at := c.at
			if at.IsZero() {
				at = noon
			}

			p := snap.Partitions[0]

			r, v := AdmitLaunch(c.req, p, p.Groups[0].Slots[0].Name, snap, at)

			var id string
			if len(r) > 0 {
				id = r[0].ID
			}

			if id != c.want || len(r) > 1 || v.Code != c.code || v.Refused != (c.code != OK) {
				t.Errorf("got %v, %+v; want %q, %s", r, v, c.want, c.code)
			}
		})
	}
}

func ExampleFormatMinutes() {
	fmt.Println(FormatMinutes(90), FormatMinutes(47*60+20))
	// Output: 01:30:00 1-23:20:00
}
