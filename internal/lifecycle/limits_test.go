package lifecycle

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

func TestLimitChanges(t *testing.T) {
	fence := at("3h")
	byNode := map[string]fenced{
		"gpu-1": {slot: "gpu", fence: fence}, "gpu-2": {slot: "gpu", fence: fence},
		"big-1": {slot: "big", fence: at("9h"), maxTime: capacity.Minutes(240)},
		"new-1": {slot: "new", start: at("-1m"), fence: at("9h")},
	}
	// job runs since the start with the limit; its nodes had booted by then.
	job := func(start string, limit capacity.Limit, nodes ...string) capacity.Job {
		j := capacity.Job{ID: 7, State: "RUNNING", Nodes: nodes, Start: at(start), TimeLimit: limit}
		if limit.Bounded() {
			j.End = j.Start.Add(limit.Duration())
		}
		return j
	}
	fit, upTo := state.Mark{Fit: true}, func(minutes int) state.Mark { return state.Mark{Fit: true, UpTo: minutes} }
	for name, c := range map[string]struct {
		job  capacity.Job
		mark state.Mark
		want int // 0: no change
	}{
		"ends before the fence":                       {job: job("-1h", capacity.Minutes(120), "gpu-1"), want: 0},
		"ends at the fence":                           {job: job("0h", capacity.Minutes(180), "gpu-1"), want: 0},
		"crosses by a minute":                         {job: job("1m", capacity.Minutes(180), "gpu-1"), want: 179},
		"crosses by a second":                         {job: job("1s", capacity.Minutes(180), "gpu-1"), want: 179},
		"unlimited":                                   {job: job("-1h", capacity.NoLimit, "gpu-1"), want: 240},
		"should have ended: ends at once":             {job: job("-10h", capacity.Minutes(60*24), "gpu-1"), want: 13 * 60},
		"collapsed to its floor, marked":              {job("0h", capacity.Minutes(30), "gpu-1"), fit, 180},
		"the same without the mark":                   {job: job("0h", capacity.Minutes(30), "gpu-1"), want: 0},
		"marked, within a minute of the fence":        {job("-59s", capacity.Minutes(180), "gpu-1"), fit, 0},
		"marked, crosses":                             {job("0h", capacity.Minutes(300), "gpu-1"), fit, 180},
		"raised to what its owner stated":             {job("0h", capacity.Minutes(30), "gpu-1"), upTo(120), 120},
		"its owner stated more than fits":             {job("0h", capacity.Minutes(30), "gpu-1"), upTo(2880), 180},
		"has what its owner stated":                   {job("0h", capacity.Minutes(30), "gpu-1"), upTo(30), 0},
		"crosses, and its owner stated less":          {job("0h", capacity.Minutes(300), "gpu-1"), upTo(30), 180},
		"never past MaxTime":                          {job("0h", capacity.Minutes(30), "big-1"), fit, 240},
		"at MaxTime already":                          {job("0h", capacity.Minutes(240), "big-1"), fit, 0},
		"on nodes of two slots: the earlier fence":    {job: job("0h", capacity.Minutes(300), "big-1", "gpu-2"), want: 180},
		"from before the slot's turn, over its limit": {job("-1h", capacity.Minutes(60), "new-1"), fit, 0},
		"started on the second":                       {job("-61s", capacity.Minutes(30), "new-1"), fit, 541},
		"unlimited, with Slurm's far end":             {job: capacity.Job{State: "RUNNING", Nodes: []string{"gpu-1"}, Start: at("-1h"), End: at("8760h"), TimeLimit: capacity.NoLimit}, want: 240},
		"no end is known":                             {job: capacity.Job{State: "RUNNING", Nodes: []string{"gpu-1"}, Start: at("-1h"), TimeLimit: capacity.Minutes(600)}, want: 240},
		"not on our nodes":                            {job: job("0h", capacity.Minutes(6000), "cpu-1"), want: 0},
		"nodes still boot: the end is not final yet":  {job: capacity.Job{ID: 7, State: "RUNNING", StateFlag: "CONFIGURING", Nodes: []string{"gpu-1"}, Start: noon, End: at("9h"), TimeLimit: capacity.Minutes(540)}, want: 0},
		"pending": {job: capacity.Job{ID: 7, State: "PENDING", TimeLimit: capacity.Minutes(6000)}, want: 0},
		// Slurm ends a job at boot done + limit; its StartTime may be from before the boot.
		"the end counts, not the start": {job: capacity.Job{ID: 7, State: "RUNNING", Nodes: []string{"gpu-1"}, Start: at("-15m"), End: at("3h10m"), TimeLimit: capacity.Minutes(180)}, want: 170},
	} {
		t.Run(name, func(t *testing.T) {
			changes := limitChanges([]capacity.Job{c.job}, byNode, map[string]state.Mark{"": c.mark}, noon)
			got := 0
			if len(changes) > 0 {
				got = changes[0].minutes
			}
			if got != c.want {
				t.Fatalf("limit %d, want %d", got, c.want)
			}
		})
	}
}

// R2: whatever the start and the limit, after the changes of one pass no job ends past
// the fence, and a second pass has nothing to do.
func TestR2AfterOnePass(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		fence := noon.Add(time.Duration(rng.IntN(3*24*3600)) * time.Second)
		j := capacity.Job{ID: 7, State: "RUNNING", Nodes: []string{"gpu-1"}, Start: noon.Add(-time.Duration(rng.IntN(24*3600)) * time.Second)}
		j.TimeLimit = capacity.Minutes(1 + rng.IntN(5*24*60))
		boot := time.Duration(rng.IntN(900)) * time.Second
		j.End = j.Start.Add(boot).Add(j.TimeLimit.Duration())
		marks := map[string]state.Mark{"": {Fit: rng.IntN(2) == 0}}
		byNode := map[string]fenced{"gpu-1": {slot: "gpu", fence: fence}}
		before := fmt.Sprintf("%+v", j)
		for _, c := range limitChanges([]capacity.Job{j}, byNode, marks, noon) {
			j.TimeLimit = capacity.Minutes(c.minutes)
			j.End = j.Start.Add(boot).Add(j.TimeLimit.Duration())
		}
		began := j.Start.Add(boot)
		if j.End.After(fence) && fence.Sub(began) >= time.Minute {
			t.Fatalf("%s ends at %s, the fence is at %s", before, j.End, fence)
		}
		if again := limitChanges([]capacity.Job{j}, byNode, marks, noon); len(again) > 0 {
			t.Fatalf("%s: a second pass changes the limit again, to %d", before, again[0].minutes)
		}
	}
}
