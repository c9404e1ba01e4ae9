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
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/model"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// TestLong_ModelIsSlurm runs short random programs of verbs on the model and on a real Slurm. After each step both show
// the same jobs, nodes and reservations.
func TestLong_ModelIsSlurm(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)

	var cluster *slurmlab.Cluster

	cluster, err := slurmlab.Start(
		ctx,
		slurmlab.Config{
			Dir:            t.TempDir(),
			SuspendTimeout: time.Second,
			SuspendTime:    time.Hour,
			Extra:          []string{"KillWait=1"},
			CloudGroups:    []slurmlab.NodeGroup{{Prefix: "gpu-", Count: 3, Partition: "gpu", Features: "gpu"}},
			Resume: func(ctx context.Context, nodes []string) {
				for _, node := range nodes {
					_ = cluster.StartNode(ctx, node, "127.0.0.1")
				}
			},
			Suspend: func(_ context.Context, nodes []string) {
				for _, node := range nodes {
					_ = cluster.StopNode(node)
				}
			},
		},
	)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})

	w := model.New(time.Now().Truncate(time.Second))
	w.Slurm.CutsToFloor, w.Slurm.Boot = true, 0
	w.Slurm.Add("gpu", "gpu", 3)

	p := &program{
		T:       t,
		ctx:     ctx,
		Rand:    rand.New(rand.NewPCG(1, 1)),
		model:   w.Slurm,
		real:    &slurm.Client{Conf: cluster.Conf()},
		cluster: cluster,
	}
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
		p.both("drop "+r, func(v slurmVerbs) error { return v.DeleteReservation(p.ctx, r) })
	}

	p.both(
		"power all down",
		func(v slurmVerbs) error { return v.PowerDown(p.ctx, []string{"gpu-1", "gpu-2", "gpu-3"}, "over") },
	)
	p.same()
}

func (p *program) live() []*model.Job {
	return slices.DeleteFunc(slices.Clone(p.model.Jobs), func(j *model.Job) bool { return j.Outcome != "" })
}

// slurmVerbs are those of passes and of hooks.
type slurmVerbs interface {
	lifecycle.Slurm
	Cancel(ctx context.Context, jobs ...string) error
}

// both calls a verb of both: they take or refuse it alike.
func (p *program) both(text string, call func(slurmVerbs) error) {
	p.Helper()
	p.goOn()

	p.steps = append(p.steps, text)
	if real, modeled := call(p.real), call(p.model); (real == nil) != (modeled == nil) {
		p.Fatalf("%s\nSlurm says %v, the model %v", strings.Join(p.steps, "\n"), real, modeled)
	}
}

func (p *program) goOn() { p.model.Model.AdvanceTo(time.Now().Truncate(time.Second)) }

// same waits until both show the same.
func (p *program) same() {
	p.Helper()

	var real, modeled []string

	ctx, cancel := context.WithTimeout(p.ctx, 90*time.Second)
	defer cancel()

	if slurmlab.WaitUntil(ctx, func() bool {
		p.goOn()
		real, modeled = p.shows(p.real), p.shows(p.model)
		return slices.Equal(real, modeled)
	}) != nil {
		p.Fatalf("%s\n(-Slurm +model)\n%s", strings.Join(p.steps, "\n"), cmp.Diff(real, modeled))
	}
}

func (p *program) shows(v lifecycle.Slurm) (all []string) {
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

		all = append(
			all,
			fmt.Sprintf(
				"job %s %s %s on %d of %d nodes, limit %s, at least %s, held %t, by an admin %t, run %d, %q",
				j.Shown,
				j.State,
				j.StateFlag,
				len(j.Nodes),
				j.NumNodes,
				j.TimeLimit,
				j.TimeMin,
				j.Held,
				j.HeldByAdmin() || j.HeldByUnknown(),
				j.Restarts,
				j.AdminComment,
			),
		)
	}

	for _, n := range nodes {
		all = append(
			all,
			fmt.Sprintf("node %s %s up %t off %t reason %q",
				n.Name, n.BaseState(), n.IsUp(), n.PoweredDown(), n.Reason),
		)
	}

	for _, r := range reservations {
		slices.Sort(r.Flags)
		all = append(
			all,
			fmt.Sprintf(
				"%s of %v %s of %v from %s to %s, active %t",
				r.Name,
				r.Nodes,
				strings.Join(r.Flags, ","),
				r.Users,
				model.Clock(r.Start),
				model.Clock(r.End),
				r.Active,
			),
		)
	}

	slices.Sort(all)

	return all
}

func one[T any](p *program, of ...T) T { return of[p.IntN(len(of))] }

func (p *program) cancel(j *model.Job) {
	p.both("cancel "+j.Shown, func(v slurmVerbs) error { return v.Cancel(p.ctx, j.Shown) })
}

func (p *program) submit() {
	j := capacity.Job{
		Partition:  "gpu",
		Batch:      true,
		Requeue:    one(p, true, true, false),
		NumNodes:   one(p, 1, 2),
		TimeLimit:  one(p, capacity.NoLimit, capacity.Minutes(30), capacity.Minutes(600)),
		Constraint: "",
		Comment:    "any",
	}
	args := []string{
		"--exclusive",
		"-p",
		"gpu",
		"-N",
		fmt.Sprint(j.NumNodes),
		"-t",
		j.TimeLimit.String(),
		"--comment",
		j.Comment,
		"--requeue",
	}
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
	r := capacity.SlurmReservation{
		Name:  name,
		Nodes: slices.Sorted(slices.Values(append([]string{"gpu-3"}, one(p, "gpu-1", "gpu-2")))),
		Flags: []string{"MAINT", "IGNORE_JOBS"},
		Users: []string{"root"},
		Start: now.Add(one(p, -time.Hour, 2*time.Second, time.Hour, 5*time.Hour)),
	}
	if one(p, true, false) {
		r.End = now.Add(10 * time.Hour)
	}

	minutes, hold := one(p, 15, 45, 1200), one(p, true, false)
	switch what := p.IntN(14); what {
	case 0:
		p.cancel(j)
	case 1, 2:
		p.both(
			fmt.Sprintf("create %s %v %s %s", name, r.Nodes, r.Start.Sub(now), r.End.Sub(now)),
			func(v slurmVerbs) error { return v.CreateReservation(ctx, r) },
		)
	case 3:
		r.Active = !p.model.Fences[name].Start.After(now) && p.model.Fences[name].Name != ""
		p.both(
			fmt.Sprintf("update %s %v %s %s", name, r.Nodes, r.Start.Sub(now), r.End.Sub(now)),
			func(v slurmVerbs) error { return v.UpdateReservation(ctx, r) },
		)
	case 4:
		p.both("drop "+name, func(v slurmVerbs) error { return v.DeleteReservation(ctx, name) })
	case 5:
		p.both("power up "+node[0], func(v slurmVerbs) error { return v.PowerUp(ctx, node) })
	case 6:
		p.both("power down "+node[0], func(v slurmVerbs) error { return v.PowerDown(ctx, node, "enough") })
	case 7:
		if p.model.Node(node[0]).Job != nil { // else it completes until slurmctld takes its slurmd for lost
			return
		}

		p.both(
			"power down by force "+node[0],
			func(v slurmVerbs) error { return v.PowerDownForce(ctx, node, "broken") },
		)
	case 8:
		p.both(
			fmt.Sprintf("limit of %s: %d", job, minutes),
			func(v slurmVerbs) error { return v.SetTimeLimit(ctx, job, minutes) },
		)
	case 9:
		e := map[string]capacity.Edits{job: {TimeLimit: capacity.Minutes(minutes), TimeMin: capacity.Minutes(10)}}
		p.both(fmt.Sprintf("edit %s: %d", job, minutes), func(v slurmVerbs) error { return v.Edit(ctx, e)[job] })
	case 10:
		p.both(
			fmt.Sprintf("requeue %s, held %t", job, hold),
			func(v slurmVerbs) error { _, err := v.RequeueJob(ctx, j.Job, hold); return err },
		)
	case 11:
		p.both("user hold "+job, func(v slurmVerbs) error { return v.UserHold(ctx, job) })
	case 12:
		p.both("release "+job, func(v slurmVerbs) error { return v.Release(ctx, job) })
	case 13:
		p.both("admin comment "+job, func(v slurmVerbs) error { return v.SetAdminComment(ctx, "told "+name, job) })
	}
}

// TestModelIsEC2 runs a random program of launches, terminations and hours on the model and on the simulated EC2, over
// the wire. After each step both show the same block and instances.
func TestModelIsEC2(t *testing.T) {
	const block = "cr-0e2000000000000a1" // 16 × p5.48xlarge, open

	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	clock := awssim.NewClock(now, 0)

	sim, err := awssim.New(nil, clock)
	if err != nil {
		t.Fatal(err)
	}
	defer sim.Close()

	if err := sim.Serve(t.Setenv); err != nil {
		t.Fatal(err)
	}

	real, err := ec2.New(t.Context(), ec2.Options{})
	if err != nil {
		t.Fatal(err)
	}

	w := model.New(now)
	shows := func(e lifecycle.EC2) (all []string) {
		found, _, err := e.Reservations(t.Context(), []string{block})
		instances, noInstances := e.FindInstances(
			t.Context(),
			capacity.InstanceQuery{Tags: map[string][]string{capacity.TagCluster: {model.Mark}}},
		)
		if err := errors.Join(err, noInstances); err != nil {
			t.Fatal(err)
		}

		for _, r := range found {
			all = append(all, fmt.Sprintf("%s %s, %d of %d free", r.ID, r.State, r.Available, r.Total))
		}

		for _, i := range instances {
			if !i.Ended() {
				in := "an ODCR"
				if i.ReservationID == block || i.ReservationID == "" {
					in = i.ReservationID
				}

				all = append(all, fmt.Sprintf("%s %d in %s", i.Tags[capacity.TagNode], i.LaunchIndex, in))
			}
		}

		slices.Sort(all)

		return all
	}

	found, _, err := real.Reservations(t.Context(), []string{block})
	if err != nil {
		t.Fatal(err)
	}

	found[0].State = "" // by its times
	w.EC2.Reserve(found[0])
	w.EC2.OnDemand = 2 // as in the default scenario
	random, ids, steps := rand.New(rand.NewPCG(1, 1)), map[string]map[ec2Verbs]string{}, []string{}
	// both calls a verb of both, which come to the same, and files the ids that they answer with.
	both := func(text string, call func(e ec2Verbs) (ids []string, err error)) {
		t.Helper()

		steps = append(steps, text)
		theirs, refused := call(real)
		mine, err := call(w.EC2)
		if kind(refused) != kind(err) || len(theirs) != len(mine) {
			t.Fatalf("%s\nEC2 says %v, %v, the model %v, %v", strings.Join(steps, "\n"), theirs, refused, mine, err)
		}

		for i := range mine {
			ids[mine[i]] = map[ec2Verbs]string{real: theirs[i], w.EC2: mine[i]}
		}
	}

	var (
		launches []capacity.Launch
		orders   []capacity.HoldOrder
	)

	into := []string{block}
	for n := range 120 {
		ours := w.EC2.Instances
		switch what := random.IntN(11); {
		case what == 0:
			steps = append(steps, "hours pass")
			now = now.Add(time.Duration(1+random.IntN(5)) * time.Hour)
		case what == 1 && len(ours) > 0:
			id := ours[random.IntN(len(ours))].ID
			both("terminate "+id, func(e ec2Verbs) ([]string, error) {
				return nil, e.Terminate(t.Context(), []capacity.Instance{{ID: ids[id][e]}})
			})
		case what == 2 && len(launches) > 0:
			again := launches[random.IntN(len(launches))]
			if random.IntN(2) == 0 {
				again.Count++
			}

			both(fmt.Sprintf("launch %d again, token %s", again.Count, again.ClientToken), launch(t, again, ids))
		case what == 3:
			o := capacity.HoldOrder{
				ClientToken:  fmt.Sprint("odcr-", n),
				InstanceType: "p5.48xlarge",
				AZID:         "use2-az1",
				Platform:     "Linux/UNIX",
				Count:        1 + random.IntN(3),
				End:          now.Add(6 * time.Hour),
				Tags:         map[string]string{capacity.TagCluster: model.Mark, capacity.TagHold: capacity.HoldProbe},
			}
			if len(orders) > 0 && random.IntN(3) == 0 {
				if o = orders[random.IntN(len(orders))]; random.IntN(2) == 0 {
					o.End = o.End.Add(time.Minute)
				}
			}

			both(
				fmt.Sprintf("create ODCR of %d, token %s", o.Count, o.ClientToken),
				func(e ec2Verbs) ([]string, error) {
					r, err := e.CreateODCR(t.Context(), o)
					if err != nil {
						return nil, err
					}

					if e == w.EC2 && !slices.Contains(into, r.ID) {
						into, orders = append(into, r.ID), append(orders, o)
					}

					return []string{r.ID}, nil
				},
			)
		case what == 4 && len(into) > 1:
			id := into[len(into)-1]
			both("cancel "+id, func(e ec2Verbs) ([]string, error) { return nil, e.CancelODCR(t.Context(), ids[id][e]) })
		default:
			id := []string{block, into[len(into)-1]}[random.IntN(2)]
			l := capacity.Launch{
				ClientToken:    fmt.Sprint("launch-", n),
				LaunchTemplate: "lt-0e2000000000000a2",
				InstanceType:   "p5.48xlarge",
				SubnetID:       "subnet-0e200000000000a01",
				ReservationID:  id,
				Kind:           capacity.ODCR,
				Count:          1 + random.IntN(4),
				Tags: map[string]string{
					capacity.TagCluster: model.Mark,
					capacity.TagNode:    fmt.Sprintf("gpu-%d", n),
				},
			}
			if id == block {
				l.Kind = capacity.CapacityBlock
			}

			launches = append(launches, l)
			both(
				fmt.Sprintf("launch %d into %s, token %s", l.Count, id, l.ClientToken),
				launch(t, l, ids),
			)
		}

		now = now.Add(5 * time.Minute)
		clock.Set(now)
		w.AdvanceTo(now)

		if diff := cmp.Diff(shows(real), shows(w.EC2)); diff != "" {
			t.Fatalf("%s\n(-EC2 +model)\n%s", strings.Join(steps, "\n"), diff)
		}
	}
}

// ec2Verbs are those of hooks.
type ec2Verbs interface {
	Launch(ctx context.Context, l capacity.Launch) ([]capacity.Instance, error)
	Terminate(ctx context.Context, instances []capacity.Instance) error
	CreateODCR(ctx context.Context, o capacity.HoldOrder) (capacity.Reservation, error)
	CancelODCR(ctx context.Context, id string) error
}

func launch(t *testing.T, l capacity.Launch, ids map[string]map[ec2Verbs]string) func(e ec2Verbs) ([]string, error) {
	return func(e ec2Verbs) (launched []string, err error) {
		order := l
		if of, made := ids[l.ReservationID]; made {
			order.ReservationID = of[e]
		}

		all, err := e.Launch(t.Context(), order)
		for _, i := range all {
			launched = append(launched, i.ID)
		}

		return launched, err
	}
}

// kind is what a caller makes of an error.
func kind(err error) string {
	for name, is := range map[string]error{
		"no room":    capacity.ErrNoRoom,
		"token used": capacity.ErrTokenUsed,
		"refused":    capacity.ErrRefused,
	} {
		if errors.Is(err, is) {
			return name
		}
	}

	return fmt.Sprint(err)
}
