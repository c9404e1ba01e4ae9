package lifecycle

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// jobStory is what a pass sees of jobs, which a story changes, and what each decision makes of it.
type jobStory struct {
	*testing.T
	seen Seen
	text strings.Builder
}

const jobStoriesFile = "testdata/jobs.txt"

// TestJobStories compares the decisions about jobs, step by step, with the session in testdata. A
// decision that is asked twice says the same, and leaves what was seen as it was. After a change on
// purpose: go test -run TestJobStories -update.
func TestJobStories(t *testing.T) {
	var got strings.Builder
	for _, s := range jobStories {
		one := &jobStory{T: t, seen: Seen{Cluster: &Cluster{KillWait: 30 * time.Second, slots: map[string][]string{"gpu": {"gpu-1", "gpu-2", "gpu-3", "gpu-4"}}},
			Marks: map[string]state.Mark{}, Now: noon}}
		one.seen.Snap = oneSlot("ec2", []string{"cr-0"}, block("cr-0", "-1h", "3h40m", capacity.StateActive))
		one.seen.Snap.TakenAt, one.seen.Snap.Submit = noon, capacity.Submit{Strict: true, StaleAfter: capacity.Duration{Duration: 100 * time.Hour}}
		one.seen.Snap.Reservations[0].Total = 4
		part := &one.seen.Snap.Partitions[0]
		part.OnEnd, part.MinTime, part.Groups[0].PurchaseOption = capacity.RequeueAtEnd, capacity.Duration{Duration: 30 * time.Minute}, capacity.CapacityBlock
		one.say("== %s", s.name)
		s.play(one)
		got.WriteString(one.text.String() + "\n")
	}
	if *update {
		if err := os.WriteFile(jobStoriesFile, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(jobStoriesFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("(-%s +this)\n%s", jobStoriesFile, diff)
	}
}

func (s *jobStory) say(format string, args ...any) { fmt.Fprintf(&s.text, format+"\n", args...) }

// since is a time of a story: 2h58m30s after noon.
func since(t time.Time) string { return t.Sub(noon).String() }

// at makes it a time after noon.
func (s *jobStory) at(offset string) { s.seen.Now = at(offset) }

// nextBlock is one that opens at 5h.
func (s *jobStory) nextBlock() {
	next := block("cr-1", "5h", "29h", capacity.StateScheduled)
	next.Total = 4
	s.seen.Snap.Reservations = append(s.seen.Snap.Reservations, next)
	slot := &s.seen.Snap.Partitions[0].Groups[0].Slots[0]
	slot.ReservationIDs = append(slot.ReservationIDs, "cr-1")
}

// runs is a job that runs on nodes since noon; of no limit without minutes.
func (s *jobStory) runs(shown string, minutes int, nodes ...string) *capacity.Job {
	j := capacity.Job{Shown: shown, Partition: "gpu", User: "alice", Account: "nlp", State: "RUNNING", Batch: true, Requeue: true, NumNodes: len(nodes), Nodes: nodes,
		Start: noon, TimeLimit: capacity.NoLimit}
	if minutes > 0 {
		j.TimeLimit, j.End = capacity.Minutes(minutes), noon.Add(time.Duration(minutes)*time.Minute)
	}
	s.seen.Jobs = append(s.seen.Jobs, j)
	return &s.seen.Jobs[len(s.seen.Jobs)-1]
}

// waits is a job that waits for one node.
func (s *jobStory) waits(shown string, limit capacity.Limit) *capacity.Job {
	j := s.runs(shown, 0, "gpu-1")
	j.State, j.Nodes, j.TimeLimit, j.Start = "PENDING", nil, limit, time.Time{}
	return j
}

// decide has a decision made, and writes it down.
func (s *jobStory) decide(name string, decision func(Seen) []capacity.Effect) []capacity.Effect {
	s.Helper()
	before := fmt.Sprintf("%+v %+v", s.seen, *s.seen.Snap)
	effects := decision(s.seen)
	if diff := gocmp.Diff(fmt.Sprintf("%+v", effects), fmt.Sprintf("%+v", decision(s.seen))); diff != "" {
		s.Errorf("%s says otherwise when it is asked again: %s", name, diff)
	}
	if diff := gocmp.Diff(before, fmt.Sprintf("%+v %+v", s.seen, *s.seen.Snap)); diff != "" {
		s.Errorf("%s changes what was seen: %s", name, diff)
	}
	nothing := ""
	if len(effects) == 0 {
		nothing = " nothing"
	}
	s.say("%s %s:%s", since(s.seen.Now), name, nothing)
	for _, e := range effects {
		s.say("  %s", strings.ReplaceAll(shownEffect(e), "\n", "\n    "))
	}
	return effects
}

// comes is what comes of effects: all is done, but for what fails or is answered otherwise.
func (s *jobStory) comes(effects []capacity.Effect, answers map[string]Answer) {
	var results []Result
	for _, e := range effects {
		a := answers[e.Code()]
		if a.Err != nil {
			s.say("  %s fails: %v", e.Code(), a.Err)
		}
		if a.NotTried {
			s.say("  %s no longer fits job %s", e.Code(), e.About().Job)
		}
		if a.Held {
			s.say("  %s leaves job %s held", e.Code(), e.About().Job)
		}
		results = append(results, Result{e, a})
	}
	s.seen.Marks, s.seen.MarksFile, s.seen.Off = learn(s.seen.Marks, results), kept(s.seen.MarksFile, results), offNodes(s.seen.Off, results)
	s.say("  known: %s; taken off: %s", shownMarks(s.seen.Marks), cmp.Or(strings.Join(slices.Sorted(maps.Keys(s.seen.Off)), ","), "none"))
}

func shownMarks(marks map[string]state.Mark) string {
	var all []string
	for _, job := range slices.Sorted(maps.Keys(marks)) {
		m := marks[job]
		words := []string{}
		add := func(is bool, format string, args ...any) {
			if is {
				words = append(words, fmt.Sprintf(format, args...))
			}
		}
		add(m.Restarts > 0, "restarts=%d", m.Restarts)
		add(m.Fit, "fit")
		add(m.UpTo > 0, "up to %d", m.UpTo)
		add(m.OnEnd != "", "on_end=%s", m.OnEnd)
		add(m.Told > 0, "told=%d", m.Told)
		add(m.Ends > 0, "ends=%d", m.Ends)
		add(m.EndedAt > 0, "ended at %s", since(time.Unix(m.EndedAt, 0)))
		add(m.Ending, "ending")
		add(m.Release, "release")
		add(m.From != 0, "cut from %d to %d", m.From, m.Cut)
		all = append(all, fmt.Sprintf("%s(%s)", job, strings.Join(words, " ")))
	}
	return strings.Join(all, " ")
}

// shownEffect is an effect with all that it carries.
func shownEffect(e capacity.Effect) string {
	then := func(r Requeued) string {
		text := ""
		if r.Limit > 0 {
			text += fmt.Sprintf("\nthen: a limit of %d minutes", r.Limit)
		}
		if !r.Fence.IsZero() {
			text += "\nthen: not before " + since(r.Fence)
		}
		if r.Held {
			text += "\nthen: release"
		}
		return text
	}
	text := e.Code()
	if sentence := e.Sentence(capacity.Will); sentence != "" {
		text += ": " + sentence
	} else if job := e.About().Job; job != "" {
		text += " " + job
	}
	switch e := e.(type) {
	case KeepMarks:
		text += fmt.Sprintf(": %s, in place of %s", shownMarks(e.Marks), cmp.Or(shownMarks(e.Before), "what is not known"))
	case RequeueJob:
		text += "\nnote: " + e.Note + then(e.Requeued)
	case FinishRequeue:
		text += then(e.Requeued)
	case TellJob:
		text += "\ntext: " + e.Text
		if e.Deaf {
			text += "\nit may not hear"
		}
	case FitJob:
		text += fmt.Sprintf("\nsays %q", e.Job.AdminComment)
	case TellOwner:
		if e.Quiet {
			text += "\ntext: " + e.Text
		}
	case EndHold:
		text += fmt.Sprintf("\nadmin %t, over %t: %s", e.Admin, e.Over, e.Note)
	}
	return text
}

var jobStories = []struct {
	name string
	play func(*jobStory)
}{
	{"a job is requeued at its fence, with the limit of the next block", func(s *jobStory) {
		s.nextBlock()
		j := s.runs("7", 181, "gpu-1")
		s.seen.Marks["7"] = state.Mark{Fit: true}
		j.TimeMin = capacity.Minutes(30)
		s.at("2h58m29s")
		s.decide("endings", endings)
		s.at("2h58m30s")
		s.comes(s.decide("endings", endings), nil)
		s.say("it waits, and nothing is left to do")
		j.State, j.Nodes, j.Restarts = "PENDING", nil, 1
		s.decide("unfinished", unfinished)
		s.say("it starts again in front of the same fence, which is counted once")
		j.State, j.Nodes, j.Start = "RUNNING", []string{"gpu-1"}, at("2h58m40s")
		s.at("2h59m")
		s.comes(s.decide("endings", endings), nil)
	}},
	{"clocks apart: the fence is Slurm's, sentences are AWS's", func(s *jobStory) {
		s.seen.Snap.ClockOffset.Duration = -10 * time.Minute
		s.runs("7", 195, "gpu-1")
		s.runs("8", 0, "gpu-2").Requeue = false
		s.at("2h58m29s")
		s.decide("endings", endings)
		s.at("2h58m30s")
		s.decide("endings", endings)
	}},
	{"a job that Slurm would start again at once is held meanwhile", func(s *jobStory) {
		j := s.runs("7", 181, "gpu-1")
		j.TimeMin = capacity.Minutes(1)
		s.at("2h58m30s")
		held := s.decide("endings", endings)
		s.comes(held, map[string]Answer{"requeue-job": {Held: true}})
		s.say("the next pass goes on, until it is released")
		j.State, j.Nodes, j.Held, j.Reason = "PENDING", nil, true, "JobHeldAdmin"
		s.comes(s.decide("unfinished", unfinished), map[string]Answer{"finish-requeue": {Held: true}})
		s.comes(s.decide("unfinished", unfinished), nil)
		s.decide("unfinished", unfinished)
	}},
	{"killed after the requeue: what is left is done by the next pass", func(s *jobStory) {
		s.nextBlock()
		s.at("2h59m")
		for shown, mark := range map[string]state.Mark{"1": {Ending: true, Fit: true}, "2": {Ending: true, Fit: true, UpTo: 90}, "3": {Ending: true, Release: true, EndedAt: at("3h").Unix()}, "4": {Ending: true, Ends: 5}, "5": {Fit: true}} {
			s.seen.Marks[shown] = mark
		}
		for _, shown := range []string{"5", "1", "2", "3", "4"} {
			s.waits(shown, capacity.Minutes(60))
		}
		s.seen.Jobs[3].Held = true
		s.seen.Jobs[4].Held, s.seen.Jobs[4].Reason = true, "JobHeldAdmin"
		s.comes(s.decide("unfinished", unfinished), nil)
	}},
	{"a job that its owner holds while it runs waits held, and needs no hold of ours", func(s *jobStory) {
		j := s.runs("7", 181, "gpu-1")
		j.TimeMin, j.Held, j.Reason = capacity.Minutes(1), true, "JobHeldUser"
		s.at("2h58m30s")
		s.decide("endings", endings)
	}},
	{"marks that could not be written are written at the end", func(s *jobStory) {
		s.runs("7", 181, "gpu-1")
		s.at("2h59m")
		s.comes(s.decide("endings", endings), nil)
		s.decide("keepMarks", keepMarks)
		s.comes(s.decide("endings", endings), map[string]Answer{"keep-marks": {Err: errors.New("no space left on device")}})
		s.decide("keepMarks", keepMarks)
	}},
	{"limits go by the fence as Slurm has it", func(s *jobStory) {
		s.runs("7", 181, "gpu-1")
		s.seen.Cluster.Reservations = []capacity.SlurmReservation{reservation("pcs-capacity-fence-gpu.cr-0."+me, []string{"gpu-1"}, at("2h59m58s"), time.Time{})}
		s.decide("limits", limits)
	}},
	{"the sixth fence holds a job; when that fails, it counts still", func(s *jobStory) {
		s.runs("7", 181, "gpu-1")
		s.seen.Marks["7"] = state.Mark{Ends: 5, EndedAt: at("-9h").Unix()}
		s.at("2h59m")
		hold := s.decide("endings", endings)
		s.comes(hold, map[string]Answer{"hold-job": {Err: errors.New("the job still runs, although Slurm took the change")}})
		s.comes(s.decide("endings", endings), nil)
	}},
	{"a requeue that fails is tried again, and counted once", func(s *jobStory) {
		s.runs("7", 181, "gpu-1")
		s.at("2h59m")
		s.comes(s.decide("endings", endings), map[string]Answer{"requeue-job": {Err: errors.New("slurmctld is busy")}})
		s.comes(s.decide("endings", endings), nil)
	}},
	{"a hook has held the job since it was read: a requeue is not tried, nor is its rest", func(s *jobStory) {
		changed := map[string]Answer{"requeue-job": {NotTried: true}, "hold-job": {NotTried: true}, "finish-requeue": {NotTried: true}}
		j := s.runs("7", 181, "gpu-1")
		j.TimeMin = capacity.Minutes(1)
		s.at("2h59m")
		s.comes(s.decide("endings", endings), changed)
		s.seen.Marks["7"] = state.Mark{Ends: 5, EndedAt: at("-9h").Unix()}
		s.comes(s.decide("endings", endings), changed)
		s.say("its rest is tried again, whether the job has changed or cannot be read")
		s.seen.Marks["7"] = state.Mark{Ends: 5, Ending: true, Release: true, EndedAt: at("3h").Unix()}
		j.State, j.Nodes, j.Held, j.Reason = "PENDING", nil, true, "JobHeldAdmin"
		s.comes(s.decide("unfinished", unfinished), changed)
		s.comes(s.decide("unfinished", unfinished), map[string]Answer{"finish-requeue": {Err: errors.New("squeue: Socket timed out")}})
	}},
	{"what on_end says, for the partition and for jobs of their own mind", func(s *jobStory) {
		for _, shown := range []string{"1", "2", "3", "4"} {
			s.runs(shown, 181, "gpu-"+shown)
		}
		s.seen.Marks["2"], s.seen.Marks["3"] = state.Mark{OnEnd: capacity.HoldAtEnd}, state.Mark{OnEnd: capacity.StopAtEnd}
		s.seen.Marks["4"] = state.Mark{OnEnd: capacity.HoldAtEnd}
		s.seen.Jobs[3].Held, s.seen.Jobs[3].Reason = true, "JobHeldAdmin"
		s.at("2h59m")
		s.decide("endings", endings)
		s.say("with a next block")
		s.nextBlock()
		s.decide("endings", endings)
	}},
	{"a job goes on in the first block that is long enough", func(s *jobStory) {
		s.nextBlock()
		s.seen.Snap.Reservations[1].End = at("6h")
		third := block("cr-2", "9h", "99h", capacity.StateScheduled)
		third.Total = 4
		s.seen.Snap.Reservations = append(s.seen.Snap.Reservations, third)
		slot := &s.seen.Snap.Partitions[0].Groups[0].Slots[0]
		slot.ReservationIDs = append(slot.ReservationIDs, "cr-2")
		s.runs("7", 181, "gpu-1")
		s.at("2h59m")
		s.decide("endings", endings)
	}},
	{"a het job is requeued once, a job on two slots by the earlier fence", func(s *jobStory) {
		s.runs("7+0", 181, "gpu-1")
		s.runs("7+1", 181, "gpu-2")
		s.runs("8", 181, "gpu-3", "big-1")
		s.seen.Cluster.slots["big"] = []string{"big-1"}
		s.seen.Snap.Partitions[0].Groups[0].Slots = append(s.seen.Snap.Partitions[0].Groups[0].Slots, capacity.Slot{Name: "big", ReservationIDs: []string{"cr-2"}})
		s.seen.Snap.Reservations = append(s.seen.Snap.Reservations, block("cr-2", "-1h", "2h", capacity.StateActive))
		s.at("1h19m")
		s.decide("endings", endings)
		s.at("2h59m")
		s.decide("endings", endings)
	}},
	{"a job that cannot be requeued is told at 60, 15 and 5 minutes, once each", func(s *jobStory) {
		s.runs("7", 181, "gpu-1").Requeue = false
		for _, now := range []string{"1h59m", "2h", "2h1m", "2h45m", "2h46m", "2h55m", "2h59m", "3h"} {
			s.at(now)
			if told := s.decide("endings", endings); len(told) > 0 {
				s.comes(told, map[string]Answer{"tell-job": {Err: errors.New("the step has ended")}})
			}
		}
	}},
	{"limits: lowered to the fence, raised up to what a job may have", func(s *jobStory) {
		s.runs("1", 300, "gpu-1")
		s.runs("2", 0, "gpu-1")
		for shown, mark := range map[string]state.Mark{"3": {Fit: true}, "4": {Fit: true, UpTo: 90}, "5": {}, "6": {Fit: true}} {
			s.seen.Marks[shown] = mark
		}
		for _, shown := range []string{"3", "4", "5", "6"} {
			s.runs(shown, 30, "gpu-2").TimeMin = capacity.Minutes(10)
		}
		s.runs("7", 300, "gpu-1").StateFlag = "CONFIGURING"
		s.runs("8", 300, "gpu-1").State = "SUSPENDED"
		s.seen.Off = map[string]bool{"6": true}
		s.at("10m")
		s.decide("limits", limits)
		s.say("the slot's turn is a new one: a job of the block before is not raised")
		s.seen.Snap.Reservations[0].Start = at("5m")
		s.decide("limits", limits)
	}},
	{"limits: an end moves to an earlier time and back, and then goes", func(s *jobStory) {
		r := &s.seen.Snap.Reservations[0]
		jobs := []*capacity.Job{}
		for i, minutes := range []int{120, 0, 300, 120} {
			s.runs(string(rune('1'+i)), minutes, "gpu-1")
		}
		for i := range s.seen.Jobs {
			jobs = append(jobs, &s.seen.Jobs[i])
		}
		jobs[3].AdminComment = "see ticket 12"
		pass := func(what, now, end string) {
			s.say("%s", what)
			s.at(now)
			if r.End = at(end); end == "-1000h" {
				r.End = time.Time{}
			}
			s.seen.Marks = trustedMarks(&capacity.Snapshot{}, s.seen.Jobs, s.seen.Marks)
			effects := s.decide("limits", limits)
			s.comes(effects, nil)
			for _, e := range effects {
				i := slices.IndexFunc(s.seen.Jobs, func(j capacity.Job) bool { return j.Shown == e.About().Job })
				switch e := e.(type) {
				case SetLimit:
					jobs[i].TimeLimit = capacity.Minutes(e.Minutes)
					jobs[i].End = jobs[i].Start.Add(jobs[i].TimeLimit.Duration())
				case TellOwner:
					jobs[i].AdminComment = e.Text
				}
			}
		}
		pass("the fence is at 3h", "10m", "3h40m")
		pass("it moves to 1h30m", "11m", "2h10m")
		pass("and back; the owner of job 4 has a shorter limit by now", "12m", "2h10m")
		jobs[3].TimeLimit, jobs[3].End = capacity.Minutes(60), noon.Add(time.Hour)
		pass("", "13m", "3h40m")
		pass("nothing is left to do", "14m", "3h40m")
		r.Kind = capacity.ODCR
		s.seen.Snap.Partitions[0].Groups[0].PurchaseOption = "odcr"
		pass("the reservation no longer ends", "15m", "-1000h")
		pass("nothing is left to do", "16m", "-1000h")
	}},
	{"limits: accounting leaves one job less, and limits the use of others over time", func(s *jobStory) {
		s.seen.Snap.Walls = capacity.NewWalls([]capacity.QOSWall{{Name: "short", MaxWall: capacity.Minutes(60)}, {Name: "metered", Metered: true}}, nil, nil)
		for i, qos := range []string{"short", "metered", "metered", "metered"} {
			j := s.runs(fmt.Sprint(i+1), 30, "gpu-1")
			j.QOS, j.TimeMin = qos, capacity.Minutes(10)
			s.seen.Marks[j.Shown] = state.Mark{Fit: true}
		}
		s.at("10m")
		s.decide("limits", limits)
	}},
	{"waiting jobs: one gets a limit, one can have none, one never starts", func(s *jobStory) {
		s.waits("1", capacity.NoLimit)
		s.waits("2", capacity.NoLimit).NumNodes = 9
		s.waits("3", capacity.Minutes(60)).NumNodes = 9
		s.waits("4", capacity.Minutes(60))
		s.waits("5", capacity.NoLimit)
		s.waits("6", capacity.NoLimit).AdminComment = neverWords + ": too long"
		s.seen.Off = map[string]bool{"5": true}
		s.decide("waiting", waiting)
		s.say("without AWS")
		s.seen.NoAWS = true
		s.decide("waiting", waiting)
	}},
	{"holds of ours end, and an administrator's stay", func(s *jobStory) {
		hold := func(shown, until, begin, reason string) {
			j := s.waits(shown, capacity.Minutes(60))
			j.Held, j.Reason, j.Eligible = true, reason, at(begin)
			j.AdminComment = capacity.HoldNote(at(until), "its block has ended")
		}
		hold("1", "-1h", "-1h", "JobHeldAdmin")
		hold("2", "-1h", "-5s", "JobHeldAdmin")
		hold("3", "-1h", "-5s", "job_requeued_in_held_state")
		hold("4", "-1h", "-1h", "JobHeldUser")
		hold("5", "1h", "-1h", "JobHeldAdmin") // changed, so that it is admitted
		hold("6", "1h", "-1h", "JobHeldAdmin")
		s.seen.Jobs[5].NumNodes = 9
		hold("7", "-1h", "-1h", "JobHeldAdmin")
		s.seen.Jobs[6].AdminComment = "ask bob"
		hold("8", "-1h", "-1h", "JobHeldAdmin")
		s.seen.Jobs[7].Start = at("-2h") // its last run is not cleaned up
		s.decide("endedHolds", endedHolds)
	}},
}

// A pass gives so many jobs their limits, and tells so many owners; the next one goes on.
func TestSoManyJobsAPass(t *testing.T) {
	var lacking []unfit
	for i := range fitsAPass + 1 {
		lacking = append(lacking, unfit{job: capacity.Job{Shown: fmt.Sprint(i)}}, unfit{job: capacity.Job{Shown: fmt.Sprint(i)}, why: "too long"})
	}
	if n := len(missingLimits(lacking)); n != 2*fitsAPass {
		t.Errorf("%d changes", n)
	}
	seen := Seen{Snap: oneSlot("ec2", nil), Cluster: &Cluster{}, Now: noon}
	seen.Snap.Submit.Strict, seen.Snap.TakenAt, seen.Snap.Submit.StaleAfter.Duration = true, noon, time.Hour
	for i := range tellsAPass + 1 {
		seen.Jobs = append(seen.Jobs, capacity.Job{Shown: fmt.Sprint(i), Partition: "gpu", State: "PENDING", NumNodes: 1, TimeLimit: capacity.Minutes(60)})
	}
	if n := len(tellWaiting(seen, nil)); n != tellsAPass {
		t.Errorf("%d owners are told", n)
	}
}
