package power

import (
	"cmp"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

func logless() *journal {
	return &journal{Logger: slog.New(slog.DiscardHandler), began: time.Now()}
}

// Which instances a power-down ends: those of its nodes, by their tags and by our records, and none
// that was launched after the call. It insists while there is time.
func TestTerminateStories(t *testing.T) {
	record := func(hook, code, nodes string, ago time.Duration, ids ...string) state.Record {
		return state.Record{At: noon.Add(-ago), Hook: hook, Code: code, Nodes: nodes, Instances: ids}
	}
	for name, c := range map[string]struct {
		records []state.Record
		has     func(w *fake)
		script  string
		fails   bool
	}{
		"by tags": {nil, func(w *fake) {
			w.has(nil, "i-2", "gpu-2", -time.Hour, "")
			w.has(nil, "i-1", "gpu-1", clockSlack, "")
			w.has(nil, "i-3", "gpu-3", -time.Hour, "")
			w.has(nil, "i-new", "gpu-1", clockSlack+time.Second, "")
			w.has(nil, "i-foreign", "gpu-1", -time.Hour, "")
			w.instances["i-foreign"].Tags[capacity.TagCluster] = "other"
			w.has(nil, "i-unmarked", "gpu-1", -time.Hour, "")
			delete(w.instances["i-unmarked"].Tags, capacity.TagCluster)
			w.has(nil, "i-ended", "gpu-1", -time.Hour, "")
			w.instances["i-ended"].State = "shutting-down"
			w.has(nil, "i-index", "", -time.Hour, "") // known by its launch index
			delete(w.instances["i-index"].Tags, capacity.TagNode)
			w.instances["i-index"].Tags[capacity.TagNodes], w.instances["i-index"].LaunchIndex = "gpu-[0-1]", 1
			w.has(nil, "i-other index", "", -time.Hour, "")
			delete(w.instances["i-other index"].Tags, capacity.TagNode)
			w.instances["i-other index"].Tags[capacity.TagNodes] = "gpu-[0-1]"
		}, `
			ask-instances
			terminate i-1,i-2,i-index
			record suspend ok gpu-[1-2];`, false},
		"by records": {[]state.Record{record("resume", "ok", "gpu-[1-3]", time.Minute, "i-1", "i-2", "i-3"), record("resume", "failed", "gpu-[2-9]", time.Minute, "i-failed"), record("resume", "ok", "gpu-1", unseenTime+time.Second, "i-old"),
			record("resume", "ok", "gpu-1", -time.Hour, "i-newer"), record("resume", "ok", "gpu-[1-2]", time.Minute, "i-one of two"), record("resume", "ok", "gpu-[", time.Minute, "i-x")}, nil, `
			ask-instances
			terminate i-1,i-2,i-failed
			record suspend ok gpu-[1-2];`, false},
		"what our records have ended, and EC2 shows": {[]state.Record{record("resume", "ok", "gpu-[1-2]", time.Minute, "i-1", "i-2"), record("suspend", "ok", "gpu-2", time.Second, "i-2")}, func(w *fake) {
			w.has(nil, "i-1", "gpu-1", -time.Minute, "")
			w.instances["i-1"].State = "shutting-down"
		}, "ask-instances", false},
		"EC2 does not answer": {nil, nil, strings.Repeat("ask-instances → unknown\n", 9) + "record suspend failed gpu-[1-2];", true},
		"EC2 answers late": {nil, func(w *fake) { w.has(nil, "i-1", "gpu-1", -time.Hour, "") }, `
			ask-instances → unknown
			ask-instances
			terminate i-1 → refused
			terminate i-1
			record suspend ok gpu-[1-2];`, false},
		"EC2 refuses": {nil, func(w *fake) { w.has(nil, "i-1", "gpu-1", -time.Hour, "") }, "ask-instances\n" + strings.Repeat("terminate i-1 → refused\n", 9) + "record suspend failed gpu-[1-2];", true},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, c.script, func(t *testing.T, w *fake) {
				if w.records = c.records; c.has != nil {
					c.has(w)
				}
				ctx, cancel := within(t, suspendBudget)
				defer cancel()
				if failure := terminate(ctx, w, logless(), "ml", []string{"gpu-1", "gpu-2"}); (failure != nil) != c.fails {
					t.Error(failure)
				}
			})
		})
	}
}

// Nodes that did not boot are given back to Slurm, and their jobs wait longer each time.
func TestGiveBackStories(t *testing.T) {
	launch := state.Record{At: noon, Hook: "resume", Code: "ok", Nodes: "gpu-1", Jobs: []string{"1", "2"}, Instances: []string{"i-1"}}
	again := state.Record{At: noon, Hook: "resume", Code: "not-booted", Nodes: "gpu-1", Jobs: []string{"1"}, Restarts: []int{7}}
	lost := []capacity.Node{{Name: "gpu-1", State: "DOWN+CLOUD+POWERED_DOWN"}, {Name: "gpu-2", State: "IDLE+CLOUD"}, {Name: "gpu-3", State: "DOWN+CLOUD+POWERED_DOWN"}}
	const told = `
			ask-nodes
			down gpu-1
			ask-jobs
			record resume not-booted gpu-1;`
	for name, c := range map[string]struct {
		nodes   []capacity.Node
		records []state.Record
		script  string
	}{
		"all are up":          {lost[1:2], nil, "ask-nodes"},
		"Slurm does not say":  {lost, nil, strings.Repeat("ask-nodes → unknown\n", 9)},
		"Slurm keeps them":    {lost, nil, "ask-nodes" + strings.Repeat("\ndown gpu-1 → unknown", 9)},
		"Slurm answers late":  {lost, nil, "ask-nodes → unknown\nask-nodes\ndown gpu-1 → unknown\ndown gpu-1\nask-jobs"},
		"nobody had them":     {lost, nil, "ask-nodes\ndown gpu-1\nask-jobs"},
		"Slurm has forgotten": {lost, []state.Record{launch}, "ask-nodes\ndown gpu-1\nask-jobs → unknown"},
		"the first time":      {lost, []state.Record{launch}, told + "\ncomment 1"},
		"the second time":     {lost, []state.Record{launch, again}, told + "\nbegin 1 30s\ncomment 1"},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, c.script, func(t *testing.T, w *fake) {
				w.nodes, w.records, w.jobs = c.nodes, c.records, []capacity.Job{queued(1), nlp(2), queued(3)}
				if name == "the second time" {
					w.console = "pcs-capacity: the image has no curl; install it there"
				}
				ctx, cancel := within(t, suspendBudget)
				defer cancel()
				giveBack(ctx, w, logless(), []string{"gpu-1", "gpu-2"})
				if w.console != "" {
					if got, want := w.said["1"], "did not boot: the instance did not register with Slurm within ResumeTimeout; its console says: "+w.console; !strings.Contains(got, want) {
						t.Errorf("%s; want %s", got, want)
					}
				} else if got := w.said["1"]; got != "" && !strings.Contains(got, "pcs-capacity: nodes gpu-1 did not boot: the instance did not register with Slurm within ResumeTimeout; its console says why: `aws ec2 get-console-output --latest --output text --instance-id i-1`") {
					t.Error(got)
				}
			})
		})
	}
}

// A compute node group is made right for what it was set up for, in the subnets of that zone.
func TestConfigureStories(t *testing.T) {
	const right = "configure gpu " + two + " " + subnet2 + "," + subnetToo
	for name, c := range map[string]struct {
		reservation string
		script      string
		code, says  string
	}{
		"it was not right": {two, right + " → changed\nrecord resume ok ;", "", "configured compute node group gpu"},
		"it is right":      {two, right + "\nrecord resume ok ;", "", "compute node group gpu is as it should be"},
		"PCS refuses":      {two, right + " → refused\nrecord resume UnauthorizedOperation ;", "UnauthorizedOperation", "You may not"},
		"for none":         {"", "record resume failed ;", "failed", "compute node group gpu: it was set up for no reservation; run `pcs-capacity setup`"},
		"for another":      {"cr-0fffffffffffffff0", "record resume reservation-not-known ;", "reservation-not-known", "is not in the settings of partition gpu"},
		"for what is over": {ended, "record resume mismatch ;", "mismatch", ended},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, c.script, func(t *testing.T, w *fake) {
				snap := twoReservations()
				failure := configure(t.Context(), w, logless(), "ml", newCall(snap).place(t, "gpu-1"), c.reservation, snap)
				if (failure == nil) != (c.code == "") || w.records[0].Code != cmp.Or(c.code, "ok") {
					t.Error(failure)
				}
				if r := w.records[0]; !strings.Contains(r.Message, c.says) || r.Partition != "gpu" || r.Reservation != c.reservation {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}

// Slurm's times are the machine's; those of EC2 and of our records are AWS's, whose clock is an hour ahead here.
func TestTwoClocks(t *testing.T) {
	const ahead = time.Hour
	aws := noon.Add(ahead)
	story(t, `
		ask-instances
		terminate i-1,i-recorded
		record suspend ok gpu-1;`, func(t *testing.T, w *fake) {
		w.ahead = ahead
		w.records = []state.Record{{At: aws.Add(-time.Minute), Hook: "resume", Code: "ok", Nodes: "gpu-1", Instances: []string{"i-recorded"}},
			{At: noon.Add(-time.Minute), Hook: "resume", Code: "ok", Nodes: "gpu-1", Instances: []string{"i-long ago"}}}
		w.has(nil, "i-1", "gpu-1", ahead-time.Minute, "")
		w.has(nil, "i-newer", "gpu-1", ahead+time.Minute, "")
		if failure := terminate(t.Context(), w, logless(), "ml", []string{"gpu-1"}); failure != nil || !w.records[2].At.Equal(aws) {
			t.Errorf("%v, %+v", failure, w.records)
		}
	})
	story(t, `
		record resume not-open gpu-[1-2];
		down gpu-[1-2]
		ask-jobs
		begin 1 10m0s
		comment 1`, func(t *testing.T, w *fake) {
		w.ahead, w.jobs = ahead, []capacity.Job{queued(1)}
		notOpen := &refusal{Verdict: capacity.Verdict{Code: capacity.NotOpen, Message: "It opens later.", NotBefore: aws.Add(10 * time.Minute)}}
		g := pair()
		g.jobs[0] = batch(g.jobs[0])
		if err := begun(w, newCall(nil)).takeDown(failed{group: g, why: notOpen}); err != nil || !w.records[0].At.Equal(aws) {
			t.Errorf("%v, %+v", err, w.records)
		}
	})
}
