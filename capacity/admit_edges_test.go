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
		"the default partition is ours": {req: Request{Nodes: 6, TimeLimit: Minutes(60)}, code: OK, edits: Edits{Constraint: "gpu-b"},
			change: []func(*Snapshot){func(s *Snapshot) { s.DefaultPartition = "gpu" }}},
		"two partitions refuse": {req: Request{Partitions: both, Nodes: 9, TimeLimit: Minutes(60)}, code: TooManyNodes, refused: true,
			change: []func(*Snapshot){func(s *Snapshot) { partitionLike(s, "more", func(*Partition) {}) }},
			says: []string{"the job asks for 9 nodes, but the largest reservation of partition gpu that it may use has 8; use --nodes=8; " +
				"the job asks for 9 nodes, but the largest reservation of partition more that it may use has 8; use --nodes=8"}},
		"the account is not allowed in the first of two partitions": {req: Request{Partitions: both, Account: "bio", TimeLimit: Minutes(60)}, code: AccountNotAllowed, refused: true,
			change: []func(*Snapshot){func(s *Snapshot) {
				partitionLike(s, "more", func(*Partition) {})
				s.Partitions[0].AllowAccounts = []string{"nlp", "cv"}
			}},
			says: []string{`account "bio" may not use the reservations of partition gpu; allowed: nlp, cv`}},
		"the account is not allowed in the second": {req: Request{Partitions: both, Account: "bio", TimeLimit: Minutes(60)}, code: AccountNotAllowed, refused: true,
			change: []func(*Snapshot){func(s *Snapshot) {
				partitionLike(s, "more", func(p *Partition) { p.AllowAccounts = []string{"nlp"} })
			}},
			says: []string{`account "bio" may not use the reservations of partition more; allowed: nlp`}},
		"a limit of the user's own is kept in any partition": {req: Request{Partitions: both, TimeLimit: Minutes(6000), TimeMin: Minutes(60)}, code: OK, edits: Edits{Constraint: "[gpu-a|gpu-b]"},
			change: []func(*Snapshot){func(s *Snapshot) { partitionLike(s, "more", func(*Partition) {}) }}},
		"the largest is named, wherever it is": {req: Request{Partitions: gpu, Nodes: 9, TimeLimit: Minutes(60)}, code: TooManyNodes, refused: true,
			change: []func(*Snapshot){largerFirst},
			says:   []string{"the job asks for 9 nodes, but the largest reservation of partition gpu that it may use has 8; use --nodes=8"}},
		"all that has ended is named": {req: Request{Partitions: gpu, TimeLimit: Minutes(60)}, code: NoReservation, refused: true,
			change: []func(*Snapshot){func(s *Snapshot) {
				s.Reservations[0].End = noon.Add(40 * time.Minute) // the fence is now
				s.Reservations[1].State = StateCancelled
			}},
			says: []string{"no reservation of partition gpu is open or scheduled (jobs on " + blockA.ID + " had to end by 2026-03-01 12:00 UTC, " + blockB.ID + " is cancelled); ask an administrator for the next block"}},
		"one is not known, the other has ended": {req: Request{Partitions: gpu, TimeLimit: Minutes(60)}, code: NoReservation, refused: true,
			change: []func(*Snapshot){func(s *Snapshot) {
				s.Reservations = s.Reservations[1:]
				s.Reservations[0].State = StateExpired
			}},
			says: []string{"no reservation of partition gpu is open or scheduled (EC2 does not know " + blockA.ID + ", " + blockB.ID + " is expired); ask an administrator for the next block"}},
		"none of what it asks for gets its turn": {req: Request{Partitions: gpu, TimeLimit: Minutes(60), Comment: "subnet_id=subnet-bbbbbbbb"}, code: NoReservation, refused: true,
			change: []func(*Snapshot){func(s *Snapshot) {
				s.Reservations[0].End = time.Time{}
				third := blockB
				third.ID = "cr-00000000000000001"
				s.Reservations = append(s.Reservations, third)
				s.Partitions[0].Groups[0].Slots = []Slot{{Name: "gpu", ReservationIDs: []string{blockA.ID, blockB.ID, third.ID}}}
			}},
			says: []string{"no reservation of partition gpu is open or scheduled (" + blockB.ID + " never gets its turn: " + blockA.ID + " has slot gpu, " +
				"cr-00000000000000001 never gets its turn: " + blockA.ID + " has slot gpu); ask an administrator for the next block"}},
		"a wish that nothing has": {req: Request{Partitions: gpu, Comment: "instance_type=p4d.24xlarge subnet_id=subnet-0123456789abcdef0"}, code: NoMatchingCapacity, refused: true,
			says: []string{"partition gpu has nothing that matches instance_type=p4d.24xlarge subnet_id=subnet-0123456789abcdef0 in --comment; it has cr-aaaaaaaaaaaaaaaaa p5.48xlarge use2-az1, cr-bbbbbbbbbbbbbbbbb p5.48xlarge use2-az2"}},
		"the floor just fits": {req: Request{Partitions: gpu}, code: OK,
			change: []func(*Snapshot){onlyA, func(s *Snapshot) { s.Reservations[0].End = noon.Add(70 * time.Minute) }},
			edits:  Edits{TimeLimit: Minutes(30), TimeMin: Minutes(30)}},
		"a --begin before the block opens changes nothing": {req: Request{Partitions: gpu, Begin: noon.Add(time.Hour), TimeLimit: Minutes(72 * 60)}, code: TooLong, refused: true,
			change: []func(*Snapshot){func(s *Snapshot) { s.Partitions[0].Groups[0].Slots = s.Partitions[0].Groups[0].Slots[1:] }},
			says: []string{"the job needs 3-00:00:00, but jobs on " + blockB.ID + " in partition gpu must end by 2026-03-07 11:20 UTC. " +
				"Use --time=2-23:20:00 or less"}},
		"the longest is named, wherever it is": {req: Request{Partitions: gpu, TimeLimit: NoLimit}, code: TooLong, refused: true, change: []func(*Snapshot){largerFirst},
			says: []string{"the job needs UNLIMITED, but jobs on " + blockB.ID + " in partition gpu must end by 2026-03-07 11:20 UTC. " +
				"Use --time=2-23:20:00 or less"}},
		"as many tasks on a node as its GPUs allow": {req: Request{Partitions: gpu, TimeLimit: Minutes(60), Tasks: 9, TasksPerNode: 4, GPUsPerTask: 4}, code: TooManyNodes, refused: true,
			change: []func(*Snapshot){onlyA, func(s *Snapshot) { s.Partitions[0].Groups[0].GPUs = 8 }},
			says: []string{"the job needs 5 nodes (--gpus-per-task=4, --ntasks=9, --ntasks-per-node=4, 8 GPUs a node), " +
				"but the largest reservation of partition gpu that it may use has 4; ask for less"}},
		"GPUs, of which nobody knows how many a node has": {req: Request{Partitions: gpu, TimeLimit: Minutes(60), GPUs: 4, Tasks: 9, TasksPerNode: 2}, code: TooManyNodes, refused: true,
			change: []func(*Snapshot){onlyA},
			says:   []string{"the job needs 5 nodes (--gpus=4, --ntasks=9, --ntasks-per-node=2), but the largest reservation of partition gpu that it may use has 4; ask for less"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Admit(c.req, twoBlocks(c.change...), noon)
			said := got.Warnings
			if got.Refused {
				said = append([]string{got.Message}, said...)
			}
			if got.Code != c.code || got.Refused != c.refused || got.Edits != c.edits {
				t.Errorf("code %s, refused %v, edits %+v; want %s, %v, %+v", got.Code, got.Refused, got.Edits, c.code, c.refused, c.edits)
			}
			if !slices.Equal(said, c.says) {
				t.Errorf("said\n\t%s\nwant\n\t%s", strings.Join(said, "\n\t"), strings.Join(c.says, "\n\t"))
			}
		})
	}
}
