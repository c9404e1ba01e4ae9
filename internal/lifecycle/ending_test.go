package lifecycle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// atFence is what a pass sees of jobs at a time: their block's fence is at 3h, KillWait is 30 s.
func atFence(now string, onEnd capacity.OnEnd, jobs ...capacity.Job) Seen {
	snap := oneSlot("ec2", []string{"cr-0"}, block("cr-0", "-1h", "3h40m", capacity.StateActive))
	snap.Partitions[0].OnEnd = onEnd
	return Seen{Snap: snap, Cluster: &Cluster{Config: slurm.Config{KillWait: 30 * time.Second}, slots: map[string][]string{"gpu": {"gpu-1", "gpu-2"}}}, Jobs: jobs, Marks: map[string]state.Mark{}, Now: at(now)}
}

// What happens to a job whose fence is at 3h; KillWait is 30 s, so that jobs are requeued
// at 2h58m30s.
func TestEndings(t *testing.T) {
	job := capacity.Job{ID: 7, Shown: "7", State: "RUNNING", Nodes: []string{"gpu-1"}, Start: noon, End: at("3h1m"), TimeLimit: capacity.Minutes(181), Batch: true, Requeue: true}
	with := func(change func(j *capacity.Job)) capacity.Job { j := job; change(&j); return j }
	ends := with(func(j *capacity.Job) { j.End, j.TimeLimit = at("3h"), capacity.Minutes(180) })
	once := with(func(j *capacity.Job) { j.Requeue = false })
	for name, c := range map[string]struct {
		job   capacity.Job
		onEnd capacity.OnEnd
		mark  state.Mark
		now   string
		want  string
	}{
		"the partition stops jobs":            {job, "stop", state.Mark{}, "2h59m", ""},
		"the partition requeues jobs":         {job, "requeue", state.Mark{}, "2h58m30s", "requeue-job"},
		"a second before":                     {job, "requeue", state.Mark{}, "2h58m29s", ""},
		"the fence has passed, it still runs": {job, "requeue", state.Mark{}, "3h1m", "requeue-job"},
		"the partition holds jobs":            {job, "hold", state.Mark{}, "2h58m30s", "hold-job"},
		"the job asks for a requeue":          {job, "stop", state.Mark{OnEnd: "requeue"}, "2h58m30s", "requeue-job"},
		"the job asks to be stopped":          {job, "requeue", state.Mark{OnEnd: "stop"}, "2h58m30s", ""},
		"requeued four times":                 {job, "requeue", state.Mark{Ends: 4}, "2h59m", "requeue-job"},
		"requeued five times":                 {job, "requeue", state.Mark{Ends: 5}, "2h59m", "hold-job"},
		"an administrator holds it as it is":  {with(func(j *capacity.Job) { j.Held, j.Reason = true, "JobHeldAdmin" }), "hold", state.Mark{Ends: 5}, "2h59m", "requeue-job"},
		"its owner holds it as it is":         {with(func(j *capacity.Job) { j.Held, j.Reason = true, "JobHeldUser" }), "hold", state.Mark{}, "2h59m", "hold-job"},
		"started again before that fence":     {job, "requeue", state.Mark{Ends: 5, EndedAt: at("3h").Unix()}, "2h59m", "requeue-job"},
		"its nodes still boot":                {with(func(j *capacity.Job) { j.StateFlag = "CONFIGURING" }), "requeue", state.Mark{}, "2h59m", "requeue-job"},
		"suspended":                           {with(func(j *capacity.Job) { j.State = "SUSPENDED" }), "requeue", state.Mark{}, "2h58m30s", "resume-job"},
		"suspended, and it is to end":         {with(func(j *capacity.Job) { j.State, j.End = "SUSPENDED", at("1h") }), "stop", state.Mark{}, "2h58m30s", "resume-job"},
		"suspended a second before":           {with(func(j *capacity.Job) { j.State = "SUSPENDED" }), "stop", state.Mark{}, "2h58m29s", ""},
		"its owner's limit ends it":           {ends, "requeue", state.Mark{}, "2h59m", ""},
		"the same where jobs are held":        {ends, "hold", state.Mark{}, "2h59m", ""},
		"a limit that sync has lowered":       {ends, "requeue", state.Mark{Cut: 180, From: 240}, "2h59m", "requeue-job"},
		"a limit that the filter has set":     {ends, "requeue", state.Mark{Fit: true}, "2h59m", "requeue-job"},
		"pending":                             {with(func(j *capacity.Job) { j.State = "PENDING" }), "requeue", state.Mark{}, "2h59m", ""},
		"on other nodes":                      {with(func(j *capacity.Job) { j.Nodes = []string{"cpu-1"} }), "requeue", state.Mark{}, "2h59m", ""},
		"--no-requeue is told":                {once, "requeue", state.Mark{}, "2h", "tell 60"},
		"not yet":                             {once, "requeue", state.Mark{}, "1h59m59s", ""},
		"has been told":                       {once, "requeue", state.Mark{Told: 60}, "2h44m", ""},
		"told again":                          {once, "requeue", state.Mark{Told: 60}, "2h45m", "tell 15"},
		"and again":                           {once, "stop", state.Mark{Told: 15}, "2h55m", "tell 5"},
		"only once each":                      {once, "stop", state.Mark{Told: 5}, "2h59m", ""},
		"late":                                {once, "stop", state.Mark{}, "2h56m", "tell 5"},
		"too late":                            {once, "stop", state.Mark{}, "3h", ""},
		"of srun":                             {with(func(j *capacity.Job) { j.Batch = false }), "requeue", state.Mark{}, "2h", "tell 60"},
		"it boots, so nobody would hear":      {with(func(j *capacity.Job) { j.Requeue, j.StateFlag = false, "CONFIGURING" }), "stop", state.Mark{}, "2h", ""},
		"its own limit ends it before":        {with(func(j *capacity.Job) { j.Requeue, j.End = false, at("2h50m") }), "stop", state.Mark{}, "2h", ""},
		"it has no limit":                     {with(func(j *capacity.Job) { j.Requeue, j.TimeLimit, j.End = false, capacity.NoLimit, time.Time{} }), "stop", state.Mark{}, "2h", "tell 60"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			seen := atFence(c.now, c.onEnd, with(func(j *capacity.Job) { j.Shown, j.Nodes = "6", []string{"cpu-2"} }), c.job)
			seen.Marks["7"] = c.mark
			for _, a := range endings(seen) {
				if got += strings.TrimPrefix(a.Code, "keep-marks"); a.Code == "tell-job" {
					if err := a.Do(t.Context(), World{Slurm: &oneJob{}}); err != nil {
						t.Fatal(err)
					}
					got = fmt.Sprintf("tell %d", seen.Marks["7"].Told)
				}
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	// Both components of a het job are requeued by one call.
	het := []capacity.Job{with(func(j *capacity.Job) { j.Shown = "7+0" }), with(func(j *capacity.Job) { j.Shown = "7+1" })}
	if got := endings(atFence("2h59m", "requeue", het...)); len(got) != 2 || got[1].About.Job != "7+0" {
		t.Errorf("a het job: %+v", got)
	}
}
