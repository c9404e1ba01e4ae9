package capacity

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// A job that is requeued at the fence gets a --time-min, and none that has to fit does.
func TestRunToFence(t *testing.T) {
	const days = 24 * 60

	long := Request{Partitions: []string{"gpu"}, TimeLimit: Minutes(6 * days), Comment: "on_end=requeue"}
	runs := "the job can start now, runs until 2026-03-03 11:20 UTC, and goes on from 2026-03-04 12:00 UTC"
	edited := Edits{TimeMin: Minutes(32)}
	refused := "the job needs 6-00:00:00"

	for name, c := range map[string]struct {
		change func(*Request, *Snapshot)
		edits  Edits
		says   string // the refusal, or the warning that counts; "" for neither
	}{
		"longer than every block": {func(*Request, *Snapshot) {}, edited, runs},
		"as the partition has it": {
			func(r *Request, s *Snapshot) { r.Comment, s.Partitions[0].OnEnd = "", RequeueAtEnd }, edited, runs,
		},
		"held at the fence": {
			func(r *Request, _ *Snapshot) { r.Comment = "on_end=hold" }, edited,
			"runs until 2026-03-03 11:20 UTC, and is then held until you release it",
		},
		"it fits": {func(r *Request, _ *Snapshot) { r.TimeLimit = Minutes(60) }, edited, ""},
		"it fits the next block whole, and starts now": {
			func(r *Request, _ *Snapshot) { r.TimeLimit = Minutes(2*days + 60) }, edited, runs,
		},
		"no other block is known": {
			func(_ *Request, s *Snapshot) { onlyA(s) }, edited, "and goes on in the next block",
		},
		"it begins later": {
			func(r *Request, _ *Snapshot) { r.Begin = noon.Add(24 * time.Hour) }, edited,
			"the job starts at 2026-03-02 12:00 UTC, runs until 2026-03-03 11:20 UTC, and goes on from",
		},
		"too little is left of the first block": {
			func(r *Request, _ *Snapshot) { r.Begin = noon.Add(47 * time.Hour) }, edited,
			"the job starts at 2026-03-04 12:00 UTC, runs until 2026-03-07 11:20 UTC",
		},
		"too little is left of any": {
			func(r *Request, s *Snapshot) { onlyA(s); r.Begin = noon.Add(47 * time.Hour) }, Edits{}, refused,
		},
		"stopped":               {func(r *Request, _ *Snapshot) { r.Comment = "on_end=stop" }, Edits{}, refused},
		"the default":           {func(r *Request, _ *Snapshot) { r.Comment = "" }, Edits{}, orRunToFence},
		"of several components": {func(r *Request, _ *Snapshot) { r.Component = true }, Edits{}, refused},
		"of srun":               {func(r *Request, _ *Snapshot) { r.Requeue = RequeueNever }, Edits{}, refused},
		"with --no-requeue":     {func(r *Request, _ *Snapshot) { r.Requeue = RequeueNo }, Edits{}, refused},
		"its own --time-min":    {func(r *Request, _ *Snapshot) { r.TimeMin = Minutes(300) }, Edits{}, runs},
		"one that never fits":   {func(r *Request, _ *Snapshot) { r.TimeMin = Minutes(5 * days) }, Edits{}, "needs 5-00:00:00"},
		"use over time is limited": {
			func(_ *Request, s *Snapshot) { s.Walls.QOS = map[string]Wall{NormalQOS: {Metered: true}} }, Edits{}, refused,
		},
		"a limit that is no longer than the floor": {
			func(r *Request, _ *Snapshot) { r.TimeLimit = Minutes(32) }, Edits{}, "",
		},
		"its deadline comes first": {
			func(r *Request, _ *Snapshot) { r.Deadline = noon.Add(24 * time.Hour) }, Edits{}, refused,
		},
		"its deadline comes before the second fence": {
			func(r *Request, _ *Snapshot) { r.Deadline = noon.Add(100 * time.Hour) }, Edits{}, refused,
		},
		"somewhere nothing ends it": {
			func(_ *Request, s *Snapshot) { s.Reservations[1].End = time.Time{} }, Edits{}, "",
		},
		"one partition of two is not ours": {
			func(r *Request, s *Snapshot) { r.Partitions = []string{"gpu", "cpu"}; onlyA(s) }, Edits{}, "",
		},
		"one partition of two stops it": {
			func(r *Request, s *Snapshot) {
				onlyA(s)

				r.Partitions = []string{"gpu", "stops"}
				r.Comment = ""
				r.TimeLimit = Minutes(60)
				s.Partitions[0].OnEnd = RequeueAtEnd
				s.Partitions = append(s.Partitions, s.Partitions[0])
				s.Partitions[1].Name = "stops"
				s.Partitions[1].OnEnd = StopAtEnd
			}, Edits{}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			req := long
			snap := twoBlocks()
			c.change(&req, snap)

			v := Admit(req, snap, noon)

			v.Edits.Constraint = "" // [gpu-a|gpu-b], which other tests are about
			if v.Edits != c.edits {
				t.Errorf("edits %+v, want %+v", v.Edits, c.edits)
			}

			says := strings.Join(append(v.Warnings, v.Sentence, "the job "+DescribeRuns(req, v, snap, noon)), "\n")
			says = strings.TrimSuffix(says, "the job ")
			says = strings.Trim(says, "\n")

			if !strings.Contains(says, c.says) || c.says == "" && says != "" {
				t.Errorf("says %q, want %q", says, c.says)
			}

			// slurmctld then has the job with its edits, and judges it the same.
			req.TimeMin.Set = req.TimeMin.Set || v.Edits.TimeMin.Set
			req.TimeMin.Minutes = max(req.TimeMin.Minutes, v.Edits.TimeMin.Minutes)
			if again := Admit(req, snap, noon); again.Refused != v.Refused || again.Edits.TimeMin.Set {
				t.Errorf("with its edits: %+v, without: %+v", again, v)
			}
		})
	}
}

// A job's runs add up to its limit, none crosses a fence, and none begins before the one before it has ended.
func TestExpectedRuns(t *testing.T) {
	req := Request{Partitions: []string{"gpu"}, TimeLimit: Minutes(7 * 24 * 60), Comment: "on_end=requeue"}
	snap := twoBlocks(dynamic) // each run boots for 10 minutes

	fenceA := noon.Add(47*time.Hour + 20*time.Minute)
	fenceB := noon.Add(143*time.Hour + 20*time.Minute)
	want := []ExpectedRun{
		{blockA.ID, noon, fenceA, RequeueAtEnd},
		{blockB.ID, blockB.Start, fenceB, RequeueAtEnd},
	}
	if got := ExpectedRuns(req, snap, noon); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}

	// The second run ends with the work.
	req.TimeLimit = Minutes(3 * 24 * 60)
	want[1].To = blockB.Start.Add(3*24*time.Hour - (47*time.Hour + 10*time.Minute))
	want[1].AtEnd = ""
	if got := ExpectedRuns(req, snap, noon); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}

	// A block that overlaps takes over at the fence.
	snap.Reservations[1].Start = noon.Add(time.Hour)

	snap.Reservations[1].State = StateActive
	want[1].From = fenceA
	want[1].To = fenceA.Add(3*24*time.Hour - (47*time.Hour + 10*time.Minute))
	if got := ExpectedRuns(req, snap, noon); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
