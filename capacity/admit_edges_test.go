package capacity

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// partitionLike adds a partition like gpu.
func partitionLike(s *Snapshot, name string, change func(*Partition)) {
	p := s.Partitions[0]
	p.Name = name
	p.Groups = slices.Clone(p.Groups)
	change(&p)
	s.Partitions = append(s.Partitions, p)
}

// largerFirst has block B in the first slot.
func largerFirst(s *Snapshot) { slices.Reverse(s.Partitions[0].Groups[0].Slots) }

// What no other case decides.
func TestAdmitAtTheEdges(t *testing.T) {
	gpu := []string{"gpu"}
	both := []string{"gpu", "more"}
	for name, c := range map[string]struct {
		req     Request
		change  []func(*Snapshot)
		code    Code
		refused bool
		says    []string // all that it says: the message, or the warnings
		edits   Edits
	}{
		"the default partition is ours": {
			req: Request{Nodes: 6, TimeLimit: Minutes(60)}, code: OK, edits: Edits{Constraint: "gpu-b"},
			change: []func(*Snapshot){func(s *Snapshot) { s.DefaultPartition = "gpu" }},
		},
		"two partitions refuse": {
			req: Request{Partitions: both, Nodes: 9, TimeLimit: Minutes(60)}, code: TooManyNodes, refused: true,
			change: []func(*Snapshot){func(s *Snapshot) { partitionLike(s, "more", func(*Partition) {}) }},
			says: []string{"the job asks for 9 nodes, but the largest reservation of partition gpu that it may use " +
				"has 8; use --nodes=8; " +
				"the job asks for 9 nodes, but the largest reservation of partition more that it may use has 8; use " +
				"--nodes=8"},
		},
		"the account is not allowed in the first of two partitions": {
			req:     Request{Partitions: both, Account: "bio", TimeLimit: Minutes(60)},
			code:    AccountNotAllowed,
			refused: true,
			change: []func(*Snapshot){func(s *Snapshot) {
				partitionLike(s, "more", func(*Partition) {})
				s.Partitions[0].AllowAccounts = []string{"nlp", "cv"}
			}},
			says: []string{`account "bio" may not use the reservations of partition gpu; allowed: nlp, cv`},
		},
		"the account is not allowed in the second": {
			req:     Request{Partitions: both, Account: "bio", TimeLimit: Minutes(60)},
			code:    AccountNotAllowed,
			refused: true,
			change: []func(*Snapshot){func(s *Snapshot) {
				partitionLike(s, "more", func(p *Partition) { p.AllowAccounts = []string{"nlp"} })
			}},
			says: []string{`account "bio" may not use the reservations of partition more; allowed: nlp`},
		},
		"a limit of the user's own is kept in any partition": {
			req:    Request{Partitions: both, TimeLimit: Minutes(6000), TimeMin: Minutes(60)},
			code:   OK,
			edits:  Edits{Constraint: "[gpu-a|gpu-b]"},
			change: []func(*Snapshot){func(s *Snapshot) { partitionLike(s, "more", func(*Partition) {}) }},
		},
		"the largest is named, wherever it is": {
			req: Request{Partitions: gpu, Nodes: 9, TimeLimit: Minutes(60)}, code: TooManyNodes, refused: true,
			change: []func(*Snapshot){largerFirst},
			says: []string{
				"the job asks for 9 nodes, but the largest reservation of partition gpu that it may use has 8; use " +
					"--nodes=8",
			},
		},
		"all that has ended is named": {
			req: Request{Partitions: gpu, TimeLimit: Minutes(60)}, code: NoReservation, refused: true,
			change: []func(*Snapshot){func(s *Snapshot) {
				s.Reservations[0].End = noon.Add(40 * time.Minute) // the fence is now
				s.Reservations[1].State = StateCancelled
			}},
			says: []string{
				"no reservation of partition gpu is open or scheduled (jobs on " + blockA.ID +
					" had to end by 2026-03-01 12:00 UTC, " + blockB.ID + " is cancelled); ask an administrator for " +
					"the next block",
			},
		},
		"one is not known, the other has ended": {
			req: Request{Partitions: gpu, TimeLimit: Minutes(60)}, code: NoReservation, refused: true,
			change: []func(*Snapshot){func(s *Snapshot) {
				s.Reservations = s.Reservations[1:]
				s.Reservations[0].State = StateExpired
			}},
			says: []string{
				"no reservation of partition gpu is open or scheduled (" + blockA.ID + " is not described by EC2, " +
					blockB.ID + " is expired); ask an administrator for the next block",
			},
		},
		"none of what it asks for gets its turn": {
			req:     Request{Partitions: gpu, TimeLimit: Minutes(60), Comment: "subnet_id=subnet-bbbbbbbb"},
			code:    NoReservation,
			refused: true,
			change: []func(*Snapshot){func(s *Snapshot) {
				s.Reservations[0].End = time.Time{}
				third := blockB
				third.ID = "cr-00000000000000001"
				s.Reservations = append(s.Reservations, third)
				s.Partitions[0].Groups[0].Slots = []Slot{
					{Name: "gpu", ReservationIDs: []string{blockA.ID, blockB.ID, third.ID}},
				}
			}},
			says: []string{"no reservation of partition gpu is open or scheduled (" + blockB.ID +
				" never gets its turn: " + blockA.ID + " has slot gpu, " +
				"cr-00000000000000001 never gets its turn: " + blockA.ID + " has slot gpu); ask an administrator " +
				"for the next block"},
		},
		"a wish that nothing has": {
			req:     Request{Partitions: gpu, Comment: "instance_type=p4d.24xlarge subnet_id=subnet-0123456789abcdef0"},
			code:    NoMatchingCapacity,
			refused: true,
			says: []string{
				"partition gpu has nothing that matches instance_type=p4d.24xlarge " +
					"subnet_id=subnet-0123456789abcdef0 in --comment; it has cr-aaaaaaaaaaaaaaaaa p5.48xlarge " +
					"use2-az1, cr-bbbbbbbbbbbbbbbbb p5.48xlarge use2-az2",
			},
		},
		"the floor just fits": {
			req: Request{Partitions: gpu}, code: OK,
			change: []func(*Snapshot){onlyA, func(s *Snapshot) { s.Reservations[0].End = noon.Add(70 * time.Minute) }},
			edits:  Edits{TimeLimit: Minutes(30), TimeMin: Minutes(30)},
		},
		"a --begin before the block opens changes nothing": {
			req:     Request{Partitions: gpu, Begin: noon.Add(time.Hour), TimeLimit: Minutes(72 * 60)},
			code:    TooLong,
			refused: true,
			change: []func(*Snapshot){
				func(s *Snapshot) { s.Partitions[0].Groups[0].Slots = s.Partitions[0].Groups[0].Slots[1:] },
			},
			says: []string{"the job needs 3-00:00:00, but jobs on " + blockB.ID +
				" in partition gpu must end by 2026-03-07 11:20 UTC. " +
				"Use --time=2-23:20:00 or less, or --comment on_end=requeue if it can go on from a checkpoint"},
		},
		"the longest is named, wherever it is": {
			req:     Request{Partitions: gpu, TimeLimit: NoLimit},
			code:    TooLong,
			refused: true,
			change:  []func(*Snapshot){largerFirst},
			says: []string{"the job needs UNLIMITED, but jobs on " + blockB.ID +
				" in partition gpu must end by 2026-03-07 11:20 UTC. " +
				"Use --time=2-23:20:00 or less"},
		},
		"as many tasks on a node as its GPUs allow": {
			req:     Request{Partitions: gpu, TimeLimit: Minutes(60), Tasks: 9, TasksPerNode: 4, GPUsPerTask: 4},
			code:    TooManyNodes,
			refused: true,
			change:  []func(*Snapshot){onlyA, func(s *Snapshot) { s.Partitions[0].Groups[0].GPUs = 8 }},
			says: []string{"the job needs 5 nodes of 8 GPUs, " +
				"but the largest reservation of partition gpu that it may use has 4; ask for less"},
		},
		"GPUs, of which nobody knows how many a node has": {
			req:     Request{Partitions: gpu, TimeLimit: Minutes(60), GPUs: 4, Tasks: 9, TasksPerNode: 2},
			code:    TooManyNodes,
			refused: true,
			change:  []func(*Snapshot){onlyA},
			says: []string{
				"the job needs 5 nodes, but the largest reservation of partition gpu that it may use has 4; ask for " +
					"less",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Admit(c.req, twoBlocks(c.change...), noon)
			said := got.Warnings
			if got.Refused {
				said = append([]string{got.Sentence}, said...)
			}

			if got.Code != c.code || got.Refused != c.refused || got.Edits != c.edits {
				t.Errorf(
					"code %s, refused %v, edits %+v; want %s, %v, %+v",
					got.Code,
					got.Refused,
					got.Edits,
					c.code,
					c.refused,
					c.edits,
				)
			}

			if !slices.Equal(said, c.says) {
				t.Errorf("said\n\t%s\nwant\n\t%s", strings.Join(said, "\n\t"), strings.Join(c.says, "\n\t"))
			}
		})
	}
}

// What a job's --begin and --deadline leave of a block is what its limit has to fit into.
func TestAdmitBeginAndDeadline(t *testing.T) {
	fenceA := blockA.End.Add(-40 * time.Minute)
	endless := func(s *Snapshot) {
		s.Reservations[0].End, s.Reservations[0].Kind = time.Time{}, ODCR
		s.Partitions[0].Groups[0].PurchaseOption = ODCR
	}
	hour := Minutes(60)
	for _, c := range []struct {
		name    string
		req     Request
		change  []func(*Snapshot)
		code    Code
		refused bool
		message string
		edits   Edits
		both    bool // blocks: else only A
	}{
		{name: "begins just in time", req: Request{TimeLimit: hour, Begin: fenceA.Add(-time.Hour)}, code: OK},
		{
			name:    "begins a minute too late",
			req:     Request{TimeLimit: hour, Begin: fenceA.Add(-59 * time.Minute)},
			code:    TooLong,
			refused: true,
			message: "the job needs 01:00:00, but it begins at 2026-03-03 10:21 UTC (--begin), and jobs on " +
				"cr-aaaaaaaaaaaaaaaaa in partition gpu must end by 2026-03-03 11:20 UTC. Use --time=00:59:00 or less",
		},
		{
			name:    "boot counts after the begin",
			req:     Request{TimeLimit: hour, Begin: fenceA.Add(-time.Hour)},
			change:  []func(*Snapshot){dynamic},
			code:    TooLong,
			refused: true,
			message: "00:50:00",
		},
		{
			name:    "begins after the fence",
			req:     Request{TimeLimit: hour, Begin: fenceA.Add(time.Hour)},
			code:    TooLong,
			refused: true,
			message: "no time is left before that; use an earlier --begin, or wait for the next block",
		},
		{
			name: "a begin that has passed changes nothing",
			req:  Request{TimeLimit: hour, Begin: noon.Add(-time.Hour)},
			code: OK,
		},
		{
			name:    "begins after the fence, no limit",
			req:     Request{Begin: fenceA.Add(time.Hour)},
			code:    TooLong,
			refused: true,
			message: "a job without --time needs at least 00:30:00 (min_time of partition gpu), but it begins at",
		},
		{
			name: "no limit: fitted from the begin on", req: Request{Begin: fenceA.Add(-2 * time.Hour)}, code: OK,
			edits: Edits{TimeLimit: Minutes(120), TimeMin: Minutes(31)},
		},
		{name: "ends by its deadline", req: Request{TimeLimit: hour, Deadline: noon.Add(time.Hour)}, code: OK},
		{
			name:    "cannot end by its deadline",
			req:     Request{TimeLimit: hour, Deadline: noon.Add(59 * time.Minute)},
			code:    TooLong,
			refused: true,
			message: "its --deadline is 2026-03-01 12:59 UTC. Use --time=00:59:00 or less",
		},
		{
			name:    "its deadline has passed",
			req:     Request{TimeLimit: hour, Deadline: noon.Add(-time.Minute)},
			code:    TooLong,
			refused: true,
			message: "use a later --deadline",
		},
		{
			name:    "deadline after the fence",
			req:     Request{TimeLimit: Minutes(100 * 60), Deadline: fenceA.Add(200 * time.Hour)},
			code:    TooLong,
			refused: true,
			message: "must end by",
		},
		{
			name: "no limit: fitted to the deadline", req: Request{Deadline: noon.Add(90 * time.Minute)}, code: OK,
			edits: Edits{TimeLimit: Minutes(90), TimeMin: Minutes(31)},
		},
		{
			name:    "begin and deadline",
			req:     Request{TimeLimit: hour, Begin: noon.Add(2 * time.Hour), Deadline: noon.Add(150 * time.Minute)},
			code:    TooLong,
			refused: true,
			message: "it begins at 2026-03-01 14:00 UTC (--begin), and its --deadline is 2026-03-01 14:30 UTC. Use " +
				"--time=00:30:00 or less",
		},
		{
			name:    "no end: only the deadline counts",
			req:     Request{TimeLimit: hour, Deadline: noon.Add(30 * time.Minute)},
			change:  []func(*Snapshot){endless},
			code:    TooLong,
			refused: true,
			message: "--deadline",
		},
		{
			name:   "no end and no deadline",
			req:    Request{TimeLimit: NoLimit, Begin: noon.Add(9999 * time.Hour)},
			change: []func(*Snapshot){endless},
			code:   OK,
		},
		{
			name: "deadline before the block opens",
			req: Request{
				TimeLimit: hour,
				Deadline:  noon.Add(time.Hour),
				Comment:   "capacity_reservation_id=" + blockB.ID,
			},
			both:    true,
			code:    TooLong,
			refused: true,
			message: "reservation cr-bbbbbbbbbbbbbbbbb of partition gpu opens at 2026-03-04 12:00 UTC, and its " +
				"--deadline is 2026-03-01 13:00 UTC and no time is left",
		},
		{
			name:    "begins in the second block",
			req:     Request{TimeLimit: hour, Begin: fenceA},
			both:    true,
			code:    OK,
			edits:   Edits{Constraint: "[gpu-a|gpu-b]"},
			message: "waits for cr-bbbbbbbbbbbbbbbbb",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.req.Partitions = []string{"gpu"}
			if !c.both {
				c.change = append(c.change, onlyA)
			}

			v := Admit(c.req, twoBlocks(c.change...), noon)
			said := v.Sentence + strings.Join(v.Warnings, "\n")
			if v.Code != c.code || v.Refused != c.refused || !strings.Contains(said, c.message) {
				t.Errorf(
					"got %s, refused %v, saying %q; want %s, %v, %q",
					v.Code,
					v.Refused,
					said,
					c.code,
					c.refused,
					c.message,
				)
			}

			if v.Edits != c.edits {
				t.Errorf("edits %+v, want %+v", v.Edits, c.edits)
			}
		})
	}
}

// What a job needs is counted from all that it asks for, not from --nodes alone. Block A has 4 nodes of 8 GPUs.
func TestAdmitSize(t *testing.T) {
	eight := func(s *Snapshot) { s.Partitions[0].Groups[0].GPUs = 8 }
	for _, c := range []struct {
		name    string
		req     Request
		unknown bool // how many GPUs a node has
		refused bool
		message string
	}{
		{name: "nodes", req: Request{Nodes: 4}},
		{
			name:    "too many nodes",
			req:     Request{Nodes: 5},
			refused: true,
			message: "the job asks for 5 nodes, but the largest reservation of partition gpu that it may use has 4; " +
				"use --nodes=4",
		},
		{name: "GPUs", req: Request{GPUs: 32}},
		{
			name:    "too many GPUs",
			req:     Request{GPUs: 33, Tasks: 1},
			refused: true,
			message: "the job needs 5 nodes of 8 GPUs, but the largest reservation of partition gpu that it may use " +
				"has 4; ask for less",
		},
		{name: "too many GPUs, nobody knows how many a node has", req: Request{GPUs: 33}, unknown: true},
		{name: "GPUs a node", req: Request{Nodes: 4, GPUsPerNode: 8}},
		{
			name:    "more GPUs a node than it has",
			req:     Request{Nodes: 1, GPUsPerNode: 16},
			refused: true,
			message: "the job asks for 16 GPUs on one node, but those of partition gpu (p5.48xlarge) have 8",
		},
		{name: "tasks a node", req: Request{Tasks: 8, TasksPerNode: 2}},
		{
			name:    "too many tasks a node",
			req:     Request{Tasks: 9, TasksPerNode: 2},
			refused: true,
			message: "the job needs 5 nodes, but",
		},
		{name: "tasks alone can share a node", req: Request{Tasks: 500}},
		{name: "GPUs a task", req: Request{Tasks: 8, GPUsPerTask: 4}},
		{
			name:    "too many GPUs a task",
			req:     Request{Tasks: 9, GPUsPerTask: 4},
			refused: true,
			message: "the job needs 5 nodes of 8 GPUs",
		},
		{
			name:    "a task's GPUs are on one node",
			req:     Request{Tasks: 5, GPUsPerTask: 5},
			refused: true,
			message: "the job needs 5 nodes",
		},
		{
			name:    "more GPUs a task than a node has",
			req:     Request{Tasks: 1, GPUsPerTask: 9},
			refused: true,
			message: "asks for 9 GPUs on one node",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			snap := twoBlocks(onlyA, eight)
			if c.unknown {
				snap = twoBlocks(onlyA)
			}

			c.req.Partitions, c.req.TimeLimit = []string{"gpu"}, Minutes(60)
			v := Admit(c.req, snap, noon)
			if v.Refused != c.refused || v.Refused && v.Code != TooManyNodes ||
				!strings.Contains(v.Sentence, c.message) {
				t.Errorf("got %+v, want refused %v: %s", v, c.refused, c.message)
			}
		})
	}
}
