package power

import (
	"cmp"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/model"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

func logless() *journal {
	return NewHook(nil, "", capacity.Settings{}, "", "", slog.New(slog.DiscardHandler)).journal
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
			iforeign := w.has(nil, "i-foreign", "gpu-1", -time.Hour, "")
			iforeign.Tags[capacity.TagCluster] = "other"
			iunmarked := w.has(nil, "i-unmarked", "gpu-1", -time.Hour, "")
			delete(iunmarked.Tags, capacity.TagCluster)

			iended := w.has(nil, "i-ended", "gpu-1", -time.Hour, "")
			iended.State = "shutting-down"
			iindex := w.has(nil, "i-index", "", -time.Hour, "") // known by its launch index
			delete(iindex.Tags, capacity.TagNode)
			iindex.Tags[capacity.TagNodes], iindex.LaunchIndex = "gpu-[0-1]", 1
			iotherindex := w.has(nil, "i-other index", "", -time.Hour, "")
			delete(iotherindex.Tags, capacity.TagNode)
			iotherindex.Tags[capacity.TagNodes] = "gpu-[0-1]"
		}, `
			find instances
			terminate i-1,i-2,i-index
			record suspend ok gpu-[1-2]`, false},
		"by records": {[]state.Record{
			record("resume", "ok", "gpu-[1-3]", time.Minute, "i-1", "i-2", "i-3"), record("resume", "failed",
				"gpu-[2-9]", time.Minute, "i-failed"), record("resume", "ok", "gpu-1", unseenTime+time.Second, "i-old"),
			record("resume", "ok", "gpu-1", -time.Hour, "i-newer"), record("resume", "ok", "gpu-[1-2]", time.Minute,
				"i-one of two"), record("resume", "ok", "gpu-[", time.Minute, "i-x"),
		}, nil, `
			find instances
			terminate i-1,i-2,i-failed
			record suspend ok gpu-[1-2]`, false},
		"what our records have ended, and EC2 shows": {
			[]state.Record{
				record("resume", "ok", "gpu-[1-2]", time.Minute, "i-1", "i-2"),
				record("suspend", "ok", "gpu-2", time.Second, "i-2"),
			},
			func(w *fake) {
				i1 := w.has(nil, "i-1", "gpu-1", -time.Minute, "")
				i1.State = "shutting-down"
			},
			"find instances",
			false,
		},
		"EC2 does not answer": {
			nil,
			nil,
			strings.Repeat("find instances → unknown\n", 9) + "record suspend failed gpu-[1-2]",
			true,
		},
		"EC2 answers late": {nil, func(w *fake) { w.has(nil, "i-1", "gpu-1", -time.Hour, "") }, `
			find instances → unknown
			find instances
			terminate i-1 → refused
			terminate i-1
			record suspend ok gpu-[1-2]`, false},
		"EC2 refuses": {
			nil,
			func(w *fake) { w.has(nil, "i-1", "gpu-1", -time.Hour, "") },
			"find instances\n" + strings.Repeat("terminate i-1 → refused\n", 9) + "record suspend failed gpu-[1-2]",
			true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, c.script, func(t *testing.T, w *fake) {
				if w.remember(t, c.records...); c.has != nil {
					c.has(w)
				}

				ctx, cancel := within(t, suspendBudget)
				defer cancel()

				failure := w.hook(capacity.Settings{}).terminate(ctx, "ml", []string{"gpu-1", "gpu-2"})
				if (failure != nil) != c.fails {
					t.Error(failure)
				}
			})
		})
	}
}

// Nodes that did not boot are given back to Slurm, and their jobs wait longer each time.
func TestGiveBackStories(t *testing.T) {
	launch := state.Record{
		At:        noon,
		Hook:      "resume",
		Code:      "ok",
		Nodes:     "gpu-1",
		Jobs:      []string{"1", "2"},
		Instances: []string{"i-1"},
	}

	again := state.Record{
		At:       noon,
		Hook:     "resume",
		Code:     "not-booted",
		Nodes:    "gpu-1",
		Jobs:     []string{"1"},
		Restarts: []int{7},
	}

	const (
		lost = model.GivenUp
		told = `
			nodes
			power down by force gpu-1
			jobs
			record resume not-booted gpu-1`
	)
	for name, c := range map[string]struct {
		state   string
		records []state.Record
		script  string
	}{
		"all are up":         {model.Idle, nil, "nodes"},
		"Slurm does not say": {lost, nil, strings.Repeat("nodes → unknown\n", 9)},
		"Slurm keeps them":   {lost, nil, "nodes" + strings.Repeat("\npower down by force gpu-1 → unknown", 9)},
		"Slurm answers late": {
			lost,
			nil,
			"nodes → unknown\nnodes\npower down by force gpu-1 → unknown\npower down by force gpu-1\njobs",
		},
		"nobody had them":     {lost, nil, "nodes\npower down by force gpu-1\njobs"},
		"Slurm has forgotten": {lost, []state.Record{launch}, "nodes\npower down by force gpu-1\njobs → unknown"},
		"the first time":      {lost, []state.Record{launch}, told + "\nbegin 1 14s\nadmin comment 1"},
		"the second time":     {lost, []state.Record{launch, again}, told + "\nbegin 1 44s\nadmin comment 1"},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, c.script, func(t *testing.T, w *fake) {
				w.Node("gpu-1").State, w.Node("gpu-2").State = c.state, model.Idle
				w.remember(t, c.records...)
				w.queue(queued(1), nlp(2), queued(3))

				if name == "the second time" {
					w.Console = "pcs-capacity: the image has no curl; install it there"
				}

				ctx, cancel := within(t, suspendBudget)
				defer cancel()

				w.hook(capacity.Settings{}).resetFailedNodes(ctx, []string{"gpu-1", "gpu-2"})

				want := "pcs-capacity: nodes gpu-1 did not boot: the instance did not register with Slurm within " +
					"ResumeTimeout; its console says"
				if w.Console != "" {
					want += ": " + w.Console
				} else {
					want += " why: `aws ec2 get-console-output --latest --output text --instance-id i-1`"
				}

				got := w.said("1")
				if (got != "" || w.Console != "") && !strings.Contains(got, want) {
					t.Error(got)
				}
			})
		})
	}
}

// A compute node group is made right for what it was set up for, in the subnets of that zone.
func TestConfigureStories(t *testing.T) {
	const right = "configure gpu " + two + " 2,3"
	for name, c := range map[string]struct {
		reservation, was string
		script           string
		code, says       string
	}{
		"it was not right": {two, one, right + "\nrecord resume ok", "", "configured compute node group gpu"},
		"it is right":      {two, two, right + "\nrecord resume ok", "", "compute node group gpu is up to date"},
		"PCS refuses": {
			two,
			one,
			right + " → refused\nrecord resume UnauthorizedOperation",
			"UnauthorizedOperation",
			"You may not",
		},
		"for none": {
			"", "", "record resume failed", "failed",
			"compute node group gpu: it has not been set up for a reservation; run `pcs-capacity setup`",
		},
		"for another": {
			"cr-0fffffffffffffff0", one, "record resume reservation-not-known", "reservation-not-known",
			"is not in the settings of partition gpu",
		},
		"for what is over": {ended, one, "record resume mismatch", "mismatch", ended},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, c.script, func(t *testing.T, w *fake) {
				w.Groups = []pcs.NodeGroup{
					{
						Name:      "gpu",
						Tags:      map[string]string{capacity.TagReservation: c.was},
						SubnetIDs: []string{subnet2, subnetToo},
					},
				}
				snap := twoReservations()

				at := newFacts(snap).place(t, "gpu-1")
				failure := w.hook(capacity.Settings{}).configure(t.Context(), at, c.reservation, snap)
				if (failure == nil) != (c.code == "") || w.kept(t)[0].Code != cmp.Or(c.code, "ok") {
					t.Error(failure)
				}

				if r := w.kept(t)[0]; !strings.Contains(r.Message, c.says) || r.Partition != "gpu" ||
					r.Reservation != c.reservation {
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
		find instances
		terminate i-1,i-recorded
		record suspend ok gpu-1`, func(t *testing.T, w *fake) {
		w.world.Skew = -ahead
		w.remember(
			t,
			[]state.Record{
				{
					At:        aws.Add(-time.Minute),
					Hook:      "resume",
					Code:      "ok",
					Nodes:     "gpu-1",
					Instances: []string{"i-recorded"},
				},
				{
					At:        noon.Add(-time.Minute),
					Hook:      "resume",
					Code:      "ok",
					Nodes:     "gpu-1",
					Instances: []string{"i-long ago"},
				},
			}...)
		w.has(nil, "i-1", "gpu-1", ahead-time.Minute, "")
		w.has(nil, "i-newer", "gpu-1", ahead+time.Minute, "")

		if failure := w.hook(capacity.Settings{}).terminate(t.Context(), "ml", []string{"gpu-1"}); failure != nil ||
			!w.kept(t)[2].At.Equal(aws) {
			t.Errorf("%v, %+v", failure, w.kept(t))
		}
	})
	story(t, `
		record resume not-open gpu-[1-2]
		power down by force gpu-[1-2]
		jobs
		begin 1 10m8s
		admin comment 1`, func(t *testing.T, w *fake) {
		w.world.Skew = -ahead
		notOpen := &refusal{
			Verdict: capacity.Verdict{
				Problem:   capacity.Problem{Code: capacity.NotOpen, Sentence: "It opens later."},
				NotBefore: aws.Add(10 * time.Minute),
			},
		}
		g := pair()
		g.jobs[0] = batch(g.jobs[0])
		w.queue(g.jobs...)

		if err := begun(w, newFacts(nil)).takeDown(failedGroup{group: g, err: notOpen}); err != nil ||
			!w.kept(t)[0].At.Equal(aws) {
			t.Errorf("%v, %+v", err, w.kept(t))
		}
	})
}
