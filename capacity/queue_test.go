package capacity

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// waits has a job of nodes with a limit in hours; runs has one that began an hour ago.
func waits(nodes, hours int, comment string) Job {
	return Job{
		Shown:     fmt.Sprintf("%dx%d", nodes, hours),
		Partition: "gpu",
		State:     "PENDING",
		NumNodes:  nodes,
		TimeLimit: Minutes(hours * 60),
		Comment:   comment,
		Batch:     true,
		Requeue:   true,
	}
}

func runs(nodes string, n, hours int, comment string) Job {
	j := waits(n, hours, comment)
	j.State = "RUNNING"
	j.Start = noon.Add(-time.Hour)
	j.Nodes = []string{nodes}

	return j
}

// What comes of a queue on two blocks: A of 4 nodes for 47:20 h, and B of 8 nodes from 72 h to 143:20 h.
func TestQueuePlan(t *testing.T) {
	stated := runs("gpu-a-1", 4, 47, "on_end=requeue")
	stated.AdminComment = AdminNote{Kind: NoteStated, Stated: Minutes(60 * 60)}.String()
	held := waits(1, 1, "")
	held.Held = true
	never := waits(1, 1, "")
	never.Reason = DependencyNeverSatisfied
	endless := runs("gpu-a-1", 4, 1, "")
	endless.TimeLimit = NoLimit
	waitsForever := waits(1, 1, "")
	waitsForever.TimeLimit = NoLimit
	fitted := waits(4, 71, "")
	fitted.TimeMin = Minutes(31)

	for name, c := range map[string]struct {
		jobs   []Job
		by     int
		change func(*Snapshot)
		want   string
	}{
		"all of it":                  {jobs: []Job{waits(4, 24, ""), waits(4, 23, "")}, want: "done after 47h0m0s"},
		"the second block":           {jobs: []Job{waits(4, 48, "")}, want: "done after 120h0m0s"},
		"too long":                   {jobs: []Job{waits(1, 72, ""), waits(1, 1, "")}, want: "undone: 1x72"},
		"too wide":                   {jobs: []Job{waits(9, 1, "")}, want: "undone: 9x1"},
		"it goes on":                 {jobs: []Job{waits(4, 50, "on_end=requeue")}, want: "done after 74h40m0s"},
		"its rest is too long":       {jobs: []Job{waits(4, 120, "on_end=requeue")}, want: "undone: 4x120"},
		"its limit is ours":          {jobs: []Job{fitted}, want: "done after 47h20m0s"},
		"too late":                   {jobs: []Job{waits(4, 24, ""), waits(4, 23, "")}, by: 40, want: "undone: 4x23"},
		"in time":                    {jobs: []Job{waits(4, 24, "")}, by: 24, want: "done after 24h0m0s"},
		"it runs":                    {jobs: []Job{waits(4, 24, ""), runs("gpu-a-2", 1, 3, "")}, want: "done after 26h0m0s"},
		"it runs into the fence":     {jobs: []Job{runs("gpu-a-2", 1, 60, "")}, want: "done after 47h20m0s"},
		"sync has cut its limit":     {jobs: []Job{stated}, want: "done after 83h40m0s"},
		"it runs without a limit":    {jobs: []Job{endless}, want: "done after 47h20m0s"},
		"it waits without a limit":   {jobs: []Job{waitsForever}, want: "undone: 1x1"},
		"held, and unable to start":  {jobs: []Job{held, never}, want: "done after 0s"},
		"another account's block":    {jobs: []Job{waits(1, 1, "")}, change: forNLP, want: "undone: 1x1"},
		"nodes that boot when it is": {jobs: []Job{waits(4, 48, "")}, change: dynamic, want: "done after 120h10m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			q := Queue{Partition: "gpu", Jobs: c.jobs, Now: noon}
			if c.by > 0 {
				q.By = noon.Add(time.Duration(c.by) * time.Hour)
			}

			change := c.change
			if change == nil {
				change = func(*Snapshot) {}
			}

			if got := q.Plan(twoBlocks(change)).describe(); got != c.want {
				t.Errorf("%s, not %s", got, c.want)
			}
		})
	}
}

func (p QueuePlan) describe() string {
	var names []string
	for _, j := range p.Undone {
		names = append(names, j.Name)
	}

	switch {
	case names != nil:
		return "undone: " + strings.Join(names, " ")
	case p.Done.IsZero():
		return "done after 0s"
	}

	return "done after " + p.Done.Sub(noon).String()
}

// The share is of all that is paid until the fences, also while a block waits for its slot.
func TestShareOfAQueue(t *testing.T) {
	q := Queue{Partition: "gpu", Jobs: []Job{waits(4, 47, "")}, Now: noon}
	if p := q.Plan(twoBlocks(onlyA)); p.Share() != "99%" || p.Used != 188*time.Hour {
		t.Errorf("%s, %v of %v", p.Share(), p.Used, p.Usable)
	}

	if p := q.Plan(twoBlocks()); p.Share() != "24%" {
		t.Errorf("two blocks: %s, %v of %v", p.Share(), p.Used, p.Usable)
	}

	early := func(s *Snapshot) {
		slot := &s.Partitions[0].Groups[0].Slots[0]
		slot.ReservationIDs = append(slot.ReservationIDs, blockB.ID)
		s.Partitions[0].Groups[0].Slots = s.Partitions[0].Groups[0].Slots[:1]
		s.Reservations[1].Start = noon
	}
	if p := q.Plan(twoBlocks(early)); p.Usable != 4*(47*time.Hour+20*time.Minute)+8*(143*time.Hour+20*time.Minute) {
		t.Errorf("one behind the other: %v", p.Usable)
	}

	if p := q.Plan(&Snapshot{}); p.Share() != "" {
		t.Errorf("no partition: %s", p.Share())
	}
}

// A snapshot with a reservation that is not there differs in nothing else, and the one that it was made of in nothing.
func TestWithReservation(t *testing.T) {
	c := blockB
	c.ID = "cr-ccccccccccccccccc"
	odcr := c
	odcr.Kind = ODCR
	longer := blockA
	longer.End = noon.Add(90 * time.Hour)

	for name, c := range map[string]struct {
		r    Reservation
		want string
	}{
		"a longer one":        {longer, "A 90h, B 144h"},
		"a new one":           {c, "A 48h, B 144h, C 144h in gpu-a"},
		"one of another kind": {odcr, "A 48h, B 144h, C 144h"},
	} {
		t.Run(name, func(t *testing.T) {
			s := twoBlocks()
			with := s.With("gpu", c.r)

			var all []string
			for _, r := range with.Reservations {
				text := fmt.Sprintf("%s %dh", strings.ToUpper(r.ID[3:4]), r.End.Sub(noon)/time.Hour)
				for _, at := range AllSlots(with.Partitions) {
					for _, id := range at.Slot.ReservationIDs[1:] {
						if id == r.ID {
							text += " in " + at.Slot.Name
						}
					}
				}

				all = append(all, text)
			}

			if got := strings.Join(all, ", "); got != c.want {
				t.Errorf("%s, not %s", got, c.want)
			}

			if len(s.Reservations) != 2 || !s.Reservations[0].End.Equal(blockA.End) ||
				len(AllSlots(s.Partitions)[0].Slot.ReservationIDs) != 1 {
				t.Errorf("the snapshot itself: %+v", s)
			}
		})
	}
}

// BenchmarkQueuePlan plans 5,000 jobs on 64 nodes.
func BenchmarkQueuePlan(b *testing.B) {
	q := Queue{Partition: "gpu", Now: noon}
	for i := range 5000 {
		j := waits(1+i*7%16, 1, "")
		j.TimeLimit = Minutes(30 + i*37%2000)
		q.Jobs = append(q.Jobs, j)
	}

	snap := twoBlocks(func(s *Snapshot) {
		s.Reservations[0].Total = 64
		s.Reservations[0].End = noon.Add(24 * 182 * time.Hour)
		s.Partitions[0].Groups[0].MaxNodes = 64
	})
	for b.Loop() {
		q.Plan(snap)
	}
}
