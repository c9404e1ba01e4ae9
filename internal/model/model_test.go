package model_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/model"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// verbs are what the programs call.
type verbs interface {
	Nodes(ctx context.Context, names ...string) ([]capacity.Node, error)
	Reservations(ctx context.Context) ([]capacity.SlurmReservation, error)
	JobsOf(ctx context.Context, partitions []string, wanted func(capacity.Job) bool) (live, ended []capacity.Job, err error)
	Job(ctx context.Context, job string) (capacity.Job, error)
	CreateReservation(ctx context.Context, r capacity.SlurmReservation) error
	UpdateReservation(ctx context.Context, r capacity.SlurmReservation) error
	DropReservation(ctx context.Context, name string) error
	PowerUp(ctx context.Context, nodes []string) error
	PowerDown(ctx context.Context, nodes []string, reason string) error
	PowerDownForce(ctx context.Context, nodes []string, reason string) error
	SetTimeLimit(ctx context.Context, job string, minutes int) error
	Edit(ctx context.Context, edits map[string]capacity.Edits) map[string]error
	RequeueJob(ctx context.Context, before capacity.Job, hold bool) (after capacity.Job, err error)
	Begin(ctx context.Context, job string, at time.Time) error
	UserHold(ctx context.Context, jobs ...string) error
	Release(ctx context.Context, job string) error
	SetAdminComment(ctx context.Context, job, text string) error
}

// TestLong_ModelIsSlurm runs short random programs of verbs on the model and on a real Slurm. After each step both show
// the same jobs, nodes and reservations.
func TestLong_ModelIsSlurm(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	var cluster *slurmlab.Cluster
	cluster, err := slurmlab.Start(ctx, slurmlab.Config{Dir: t.TempDir(), SuspendTimeout: time.Second, SuspendTime: time.Hour, Extra: []string{"KillWait=1"},
		CloudGroups: []slurmlab.NodeGroup{{Prefix: "gpu-", Count: 3, Partition: "gpu", Features: "gpu"}},
		Resume: func(ctx context.Context, nodes []string) {
			for _, node := range nodes {
				_ = cluster.StartNode(ctx, node, "127.0.0.1")
			}
		},
		Suspend: func(_ context.Context, nodes []string) {
			for _, node := range nodes {
				_ = cluster.StopNode(node)
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	w := model.New(time.Now().Truncate(time.Second))
	w.Slurm.Old, w.Slurm.Boot = true, 0
	w.Slurm.Add("gpu", "gpu", 3)
	p := &program{T: t, ctx: ctx, Rand: rand.New(rand.NewPCG(1, 1)), model: w.Slurm, real: &slurm.Client{Conf: cluster.Conf()}, cluster: cluster}
	for range 8 {
		p.run(10)
	}
}

type program struct {
	*testing.T
	*rand.Rand
	ctx     context.Context
	model   *model.Slurm
	real    *slurm.Client
	cluster *slurmlab.Cluster
	steps   []string
}

func (p *program) run(steps int) {
	p.steps = nil
	for range steps {
		p.step()
		p.same()
	}
	for _, j := range p.live() {
		p.cancel(j)
	}
	for _, r := range slices.Sorted(maps.Keys(p.model.Fences)) {
		p.both("drop "+r, func(v verbs) error { return v.DropReservation(p.ctx, r) })
	}
	p.both("power all down", func(v verbs) error { return v.PowerDown(p.ctx, []string{"gpu-1", "gpu-2", "gpu-3"}, "over") })
	p.same()
}

func (p *program) live() []*model.Job {
	return slices.DeleteFunc(slices.Clone(p.model.Jobs), func(j *model.Job) bool { return j.Over != "" })
}

// both calls a verb of both: they take or refuse it alike.
func (p *program) both(text string, call func(verbs) error) {
	p.Helper()
	p.goOn()
	p.steps = append(p.steps, text)
	if real, modeled := call(p.real), call(p.model); (real == nil) != (modeled == nil) {
		p.Fatalf("%s\nSlurm says %v, the model %v", strings.Join(p.steps, "\n"), real, modeled)
	}
}

func (p *program) goOn() { p.model.World.GoTo(time.Now().Truncate(time.Second)) }

// same waits until both show the same.
func (p *program) same() {
	p.Helper()
	var real, modeled []string
	ctx, cancel := context.WithTimeout(p.ctx, 90*time.Second)
	defer cancel()
	if slurmlab.Until(ctx, func() bool {
		p.goOn()
		real, modeled = p.shows(p.real), p.shows(p.model)
		return slices.Equal(real, modeled)
	}) != nil {
		p.Fatalf("%s\n(-Slurm +model)\n%s", strings.Join(p.steps, "\n"), cmp.Diff(real, modeled))
	}
}

func (p *program) shows(v verbs) (all []string) {
	jobs, _, err := v.JobsOf(p.ctx, nil, nil)
	nodes, noNodes := v.Nodes(p.ctx, "gpu-1", "gpu-2", "gpu-3")
	reservations, noReservations := v.Reservations(p.ctx)
	if err := errors.Join(err, noNodes, noReservations); err != nil {
		p.Fatal(err)
	}
	for _, j := range jobs {
		if j.TimeMin.Bounded() { // an old Slurm starts it with any limit from there on
			j.TimeLimit = j.TimeMin
		}
		all = append(all, fmt.Sprintf("job %s %s %s on %d of %d nodes, limit %s, at least %s, held %t, by an admin %t, run %d, %q", j.Shown, j.State, j.StateFlag, len(j.Nodes), j.NumNodes,
			j.TimeLimit, j.TimeMin, j.Held, j.AdminHeld() || j.HoldUntold(), j.Restarts, j.AdminComment))
	}
	for _, n := range nodes {
		all = append(all, fmt.Sprintf("node %s %s up %t off %t reason %q", n.Name, n.Base(), n.Up(), n.PoweredDown(), n.Reason))
	}
	for _, r := range reservations {
		slices.Sort(r.Flags)
		all = append(all, fmt.Sprintf("%s of %v %s of %v from %s to %s, active %t", r.Name, r.Nodes, strings.Join(r.Flags, ","), r.Users, model.Clock(r.Start), model.Clock(r.End), r.Active))
	}
	slices.Sort(all)
	return all
}

func one[T any](p *program, of ...T) T { return of[p.IntN(len(of))] }

func (p *program) cancel(j *model.Job) {
	p.steps = append(p.steps, "cancel "+j.Shown)
	if err := p.real.Cancel(p.ctx, j.Shown); err != nil {
		p.Fatal(err)
	}
	p.model.End(j, "CANCELLED")
}

func (p *program) submit() {
	j := capacity.Job{Partition: "gpu", Batch: true, Requeue: one(p, true, true, false), NumNodes: one(p, 1, 2), TimeLimit: one(p, capacity.NoLimit, capacity.Minutes(30), capacity.Minutes(600)),
		Constraint: "", Comment: "any"}
	args := []string{"--exclusive", "-p", "gpu", "-N", fmt.Sprint(j.NumNodes), "-t", j.TimeLimit.String(), "--comment", j.Comment, "--requeue"}
	if !j.Requeue {
		args[len(args)-1] = "--no-requeue"
	}
	if one(p, true, false) && j.TimeLimit.Minutes == 600 {
		j.TimeMin = capacity.Minutes(20)
		args = append(args, "--time-min=20")
	}
	p.goOn()
	id, err := p.cluster.Submit(p.ctx, "sleep 10000", args...)
	if err != nil {
		p.Fatal(err)
	}
	p.steps = append(p.steps, fmt.Sprint("job ", id, " ", args))
	if mine := p.model.Submit(model.Job{Job: j, Work: 1000 * time.Hour}); mine.Shown != id {
		p.Fatalf("job %s is job %s of the model", id, mine.Shown)
	}
}

func (p *program) step() {
	live, ctx, now := p.live(), p.ctx, time.Now().Truncate(time.Second)
	if len(live) == 0 || p.IntN(6) == 0 {
		p.submit()
		return
	}
	j := live[p.IntN(len(live))]
	job, name, node := j.Shown, one(p, "fence", "wait"), []string{one(p, "gpu-1", "gpu-2", "gpu-3")}
	r := capacity.SlurmReservation{Name: name, Nodes: slices.Sorted(slices.Values(append([]string{"gpu-3"}, one(p, "gpu-1", "gpu-2")))), Flags: []string{"MAINT", "IGNORE_JOBS"}, Users: []string{"root"},
		Start: now.Add(one(p, -time.Hour, 2*time.Second, time.Hour, 5*time.Hour))}
	if one(p, true, false) {
		r.End = now.Add(10 * time.Hour)
	}
	minutes, hold := one(p, 15, 45, 1200), one(p, true, false)
	switch what := p.IntN(14); what {
	case 0:
		p.cancel(j)
	case 1, 2:
		p.both(fmt.Sprintf("create %s %v %s %s", name, r.Nodes, r.Start.Sub(now), r.End.Sub(now)), func(v verbs) error { return v.CreateReservation(ctx, r) })
	case 3:
		r.Active = !p.model.Fences[name].Start.After(now) && p.model.Fences[name].Name != ""
		p.both(fmt.Sprintf("update %s %v %s %s", name, r.Nodes, r.Start.Sub(now), r.End.Sub(now)), func(v verbs) error { return v.UpdateReservation(ctx, r) })
	case 4:
		p.both("drop "+name, func(v verbs) error { return v.DropReservation(ctx, name) })
	case 5:
		p.both("power up "+node[0], func(v verbs) error { return v.PowerUp(ctx, node) })
	case 6:
		p.both("power down "+node[0], func(v verbs) error { return v.PowerDown(ctx, node, "enough") })
	case 7:
		if p.model.Node(node[0]).Job != nil { // else it completes until slurmctld takes its slurmd for lost
			return
		}
		p.both("power down by force "+node[0], func(v verbs) error { return v.PowerDownForce(ctx, node, "broken") })
	case 8:
		p.both(fmt.Sprintf("limit of %s: %d", job, minutes), func(v verbs) error { return v.SetTimeLimit(ctx, job, minutes) })
	case 9:
		e := map[string]capacity.Edits{job: {TimeLimit: capacity.Minutes(minutes), TimeMin: capacity.Minutes(10)}}
		p.both(fmt.Sprintf("edit %s: %d", job, minutes), func(v verbs) error { return v.Edit(ctx, e)[job] })
	case 10:
		p.both(fmt.Sprintf("requeue %s, held %t", job, hold), func(v verbs) error { _, err := v.RequeueJob(ctx, j.Job, hold); return err })
	case 11:
		p.both("user hold "+job, func(v verbs) error { return v.UserHold(ctx, job) })
	case 12:
		p.both("release "+job, func(v verbs) error { return v.Release(ctx, job) })
	case 13:
		p.both("admin comment "+job, func(v verbs) error { return v.SetAdminComment(ctx, job, "told "+name) })
	}
}
