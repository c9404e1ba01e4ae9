package capacity

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Which partitions the Lua scripts may judge, and by which rooms.
func TestQuicks(t *testing.T) {
	const fenceA, fenceB = "2026-03-03T11:20", "2026-03-07T11:20"
	full := fmt.Sprintf("gpu nlp floor 30 most 0 wall 0 | %s 2026-02-28T12:00 %s %s 4 of 4 gpus 8", blockA.ID, fenceA, fenceA)
	one := func(change func(*Snapshot)) func(*Snapshot) {
		return func(s *Snapshot) {
			onlyA(s)
			s.Partitions[0].AllowAccounts, s.Partitions[0].Groups[0].GPUs = []string{"nlp"}, 8
			if change != nil {
				change(s)
			}
		}
	}
	reservation := func(change func(*Reservation)) func(*Snapshot) {
		return one(func(s *Snapshot) { change(&s.Reservations[0]) })
	}
	for name, c := range map[string]struct {
		change func(*Snapshot)
		want   string
	}{
		"one block":               {one(nil), full},
		"a constraint is needed":  {nil, ""},
		"a MaxTime":               {one(func(s *Snapshot) { s.Partitions[0].MaxTime = Minutes(1) }), strings.Replace(full, "most 0", "most 1", 1)},
		"a MaxTime of nothing":    {one(func(s *Snapshot) { s.Partitions[0].MaxTime = Minutes(0) }), ""},
		"a wall":                  {one(func(s *Snapshot) { s.Walls.QOS = []QOSWall{{Name: "normal", MaxWall: Minutes(99)}} }), strings.Replace(full, "wall 0", "wall 99", 1)},
		"booting takes its time":  {one(func(s *Snapshot) { dynamic(s) }), strings.Replace(full, "T12:00 2026-03-03T11:20", "T12:00 2026-03-03T11:10", 1)},
		"a block that EC2 forgot": {one(func(s *Snapshot) { s.Reservations = s.Reservations[1:] }), ""},
		"a block that has ended":  {reservation(func(r *Reservation) { r.State = StateExpired }), ""},
		"of another type":         {reservation(func(r *Reservation) { r.InstanceType = "p4d.24xlarge" }), ""},
		"a block to come":         {reservation(func(r *Reservation) { r.State, r.Start = StateScheduled, noon.Add(time.Hour) }), strings.NewReplacer("2026-02-28T12:00", "2026-03-01T13:00", "4 of 4", "0 of 4").Replace(full)},
		"a failed host":           {reservation(func(r *Reservation) { r.Unhealthy = 1 }), strings.Replace(full, "4 of 4", "3 of 4", 1)},
		"one behind it, which never opens": {one(func(s *Snapshot) {
			s.Partitions[0].Groups[0].Slots[0].ReservationIDs = []string{blockA.ID, blockB.ID}
			s.Partitions[0].Groups[0].Slots[0].Holds = blockA.ID
			s.Reservations[1].Start, s.Reservations[1].End, s.Reservations[1].AZID = noon, noon.Add(24*time.Hour), "use2-az1"
		}), full},
		"one behind it": {one(func(s *Snapshot) {
			s.Partitions[0].Groups[0].Slots[0].ReservationIDs = []string{blockA.ID, blockB.ID}
		}), full + fmt.Sprintf(" | %s 2026-03-04T12:00 %s %s 0 of 8 gpus 8", blockB.ID, fenceB, fenceB)},
		"on demand": {one(func(s *Snapshot) {
			g := &s.Partitions[0].Groups[0]
			g.PurchaseOption, g.Slots = OnDemand, []Slot{{Name: "gpu", Nodes: "gpu-[1-8]"}}
		}), "gpu nlp floor 30 most 0 wall 0 |  0001-01-01T00:00 0001-01-01T00:00 0001-01-01T00:00 8 of 8 gpus 8"},
		"behind a partition that is left out": {one(func(s *Snapshot) {
			p := s.Partitions[0]
			s.Partitions[0].Name, s.Partitions[0].MaxTime = "locked", Minutes(0)
			s.Partitions = append(s.Partitions, p)
		}), full},
	} {
		s := twoBlocks()
		if c.change != nil {
			c.change(s)
		}
		var got []string
		for _, q := range Quicks(s) {
			text := fmt.Sprintf("%s %s floor %d most %d wall %d", q.Partition, strings.Join(q.Accounts, ","), q.Floor, q.Most, q.Wall)
			for _, r := range q.Rooms {
				const form = "2006-01-02T15:04"
				text += fmt.Sprintf(" | %s %s %s %s %d of %d gpus %d", r.ID, r.From.Format(form), r.Last.Format(form), r.Fence.Format(form), r.Usable, r.Nodes, r.GPUs)
			}
			got = append(got, text)
		}
		if got := strings.Join(got, "\n"); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

// What the scripts say while the snapshot is fresh, and what once it is stale.
func TestSentences(t *testing.T) {
	names := func(change ...func(*Snapshot)) string {
		var all []string
		for _, s := range Sentences(twoBlocks(change...)) {
			all = append(all, fmt.Sprintf("%s %t %t", s.Name, s.Refuses, s.RefusesLater))
		}
		return strings.Join(all, ", ")
	}
	const strict = "too-long true true, too-many-nodes true false, begins false false, waits false false, age false false"
	if got := names(); got != strict {
		t.Errorf("%s\nwant %s", got, strict)
	}
	if got := names(func(s *Snapshot) { s.TimeMinCollapses = true }); got != strict+", raised false false" {
		t.Errorf("with a Slurm that lowers limits: %s", got)
	}
	if got, want := names(lenient), strings.ReplaceAll(strict, "true", "false"); got != want {
		t.Errorf("lenient: %s", got)
	}
}

// A shorter wall of any kind counts for all jobs: the scripts do not know whose it is.
func TestShortestWall(t *testing.T) {
	for name, c := range map[string]struct {
		walls Walls
		want  Limit
	}{
		"none":              {Walls{QOS: []QOSWall{{Name: "a"}}}, Limit{}},
		"of a QOS":          {Walls{QOS: []QOSWall{{Name: "a", MaxWall: Minutes(60)}, {Name: "b", MaxWall: Minutes(30)}}}, Minutes(30)},
		"of the first":      {Walls{QOS: []QOSWall{{Name: "a", MaxWall: Minutes(30)}, {Name: "b", MaxWall: Minutes(60)}}}, Minutes(30)},
		"of an association": {Walls{QOS: []QOSWall{{Name: "a", MaxWall: Minutes(60)}}, Associations: []Association{{Account: "x", MaxWall: Minutes(20)}}}, Minutes(20)},
		"unlimited":         {Walls{QOS: []QOSWall{{Name: "a", MaxWall: NoLimit}}}, Limit{}},
		"not known":         {Walls{Unknown: true}, Minutes(1)},
		"a metered QOS":     {Walls{QOS: []QOSWall{{Name: "a", Metered: true}}}, Minutes(1)},
		"a metered account": {Walls{Associations: []Association{{Account: "x", Metered: true}}}, Minutes(1)},
	} {
		if got := c.walls.shortest(); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
