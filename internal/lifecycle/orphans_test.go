package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/hooks/power"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/model"
)

// runsHooks has Slurm call the real programs, each in a clock of its own that begins with Slurm's.
func (st *stage) runsHooks() {
	st.Setenv("SLURM_RESUME_FILE", "")
	st.slurm.ResumeTimeout = 10 * time.Minute

	run := func(program func(context.Context, *power.Hook) error) func(nodes []string) {
		return func(nodes []string) {
			synctest.Test(st.T, func(*testing.T) {
				time.Sleep(time.Until(st.slurm.Now))
				host := model.Host{Slurm: st.slurm, EC2: st.aws, PCS: st.PCS, Dir: st.sources.State}
				site := power.NewHook(
					host,
					st.sources.State,
					st.sources.Settings,
					"",
					hostlist.Compress(nodes),
					slog.New(slog.DiscardHandler),
				)

				var running sync.WaitGroup
				running.Go(func() { _ = program(st.T.Context(), site) })
				running.Wait()
			})
		}
	}
	st.slurm.Resume, st.slurm.Suspend = run(power.PowerUp), run(power.PowerDown)
}

// The answers of a launch are lost for as long as its hook tries, and EC2 shows its instance late: the hooks cannot end
// it, and its place stays taken. sync ends it, also where the node is up again at an address that EC2 does not show.
func TestOrphanOfALostLaunchEnds(t *testing.T) {
	for name, address := range map[string]string{
		"at the address of its instance":   "",
		"at that of a second network card": "10.9.9.9",
	} {
		t.Run(name, func(t *testing.T) {
			st := newStage(t)
			st.Before = nil // hooks call side by side
			st.runsHooks()
			st.block("cr-open", "solo", -time.Hour, 24*time.Hour, 4)
			st.aws.Late = true
			st.sources.Settings.Partitions[0].Groups[0].Dynamic = true // sync itself powers nothing up
			st.pass(time.Minute)

			lost := true
			st.After = func(c model.Call) error {
				if lost && c.Verb == "launch" {
					return errors.Join(errors.New("connection reset by peer"), ec2.ErrUndecided)
				}
				return nil
			}
			st.slurm.RequeueDelay = 5 * time.Second // the nodes are powered up again before EC2 shows anything
			j := st.slurm.Submit(model.Job{
				Job: capacity.Job{
					Partition: "solo",
					Account:   "nlp",
					Batch:     true,
					Requeue:   true,
					NumNodes:  1,
					TimeLimit: capacity.Minutes(120),
				},
				Work: time.Hour,
			})
			st.AdvanceTo(st.Now().Add(time.Second))

			if lost = false; len(st.aws.Instances) != 1 || j.State != "PENDING" {
				t.Fatalf("%d instances, the job is %s: %s", len(st.aws.Instances), j.State, j.AdminComment)
			}

			orphan := st.aws.Instances[0].ID

			for minute := 2; minute < 12; minute++ {
				st.pass(time.Duration(minute) * time.Minute)

				if n := st.slurm.Node("solo-1"); address != "" && n.IsUp() {
					n.Address = address
				}
			}

			left := capacity.InstanceIDs(st.aws.Instances)
			if !j.Running() || j.Nodes[0] != "solo-1" || slices.Contains(left, orphan) || len(left) != 1 {
				t.Errorf(
					"%s of %s runs still: %q; the job is %s on %q\n%s",
					orphan,
					"solo-1",
					left,
					j.State,
					j.Nodes,
					st.tape.String(),
				)
			}
		})
	}
}
