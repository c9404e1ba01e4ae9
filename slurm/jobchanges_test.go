package slurm_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// A change of one task, of the pending tasks, or of one component of a het job, changes
// that and nothing else, also where Slurm has one id for it and for the whole.
func changesOfOneJob(t *testing.T, cluster *slurmlab.Cluster, client *slurm.Client) {
	ctx := deadline(t)
	// Components of a het job never share a node.
	array := submit(t, cluster, "sleep 1000", "-n1", "-t", "60", "-a", "0-2%2")
	held := submit(t, cluster, "sleep 1000", "-H", "-t", "60", "-a", "0-8:2,11,12%3")
	het := submit(t, cluster, "sleep 1000", "-p", "gpu", "-n1", "-t", "60", ":", "-p", "gpu", "-n1", "-t", "60")
	all := func() map[string]capacity.Job {
		jobs, err := client.Jobs(ctx)
		check(t, err)

		byName := map[string]capacity.Job{}
		for _, j := range jobs {
			byName[j.Shown] = j
		}

		return byName
	}
	task := func(n int) string { return fmt.Sprintf("%d_%d", array, n) }
	component := func(n int) string { return fmt.Sprintf("%d+%d", het, n) }
	running := func(names ...string) {
		t.Helper()
		poll(t, fmt.Sprint(names), func() (map[string]capacity.Job, bool) {
			jobs := all()
			for _, name := range names {
				if j := jobs[name]; !j.Running() {
					return jobs, false
				}
			}

			return jobs, true
		})
	}
	running(task(0), task(1), component(0), component(1))
	_, err := cluster.Command(ctx, "scancel", task(0))
	check(t, err)
	running(task(2))

	pending := fmt.Sprintf("%d_[0,2,4,6,8,11-12%%3]", held)
	if jobs := all(); jobs[task(2)].ID != array || jobs[component(0)].ID != het || jobs[pending].ID != held {
		t.Fatalf("the ids are not those of the whole: the test proves nothing: %+v", jobs)
	}

	limits := func() map[string]int {
		limits := map[string]int{}
		for name, j := range all() {
			if j.Active() {
				limits[name] = j.TimeLimit.Minutes
			}
		}

		return limits
	}
	want := map[string]int{task(1): 60, task(2): 60, component(0): 60, component(1): 60, pending: 60}
	for i, name := range []string{task(2), component(0), component(1), pending, task(1)} {
		want[name] = 20 + i
		check(t, client.SetTimeLimit(ctx, name, 20+i))

		if diff := cmp.Diff(want, limits()); diff != "" {
			t.Fatalf("after the limit of %s was changed (-want +got)\n%s", name, diff)
		}
	}

	for _, name := range []string{task(2), component(0), component(1), pending} {
		check(t, client.SetAdminComment(ctx, "of "+name, name))
	}

	check(t, client.Notify(ctx, component(1), "x"))
	_, err = client.RequeueJob(ctx, all()[task(2)], true)
	check(t, err)
	_, err = client.RequeueJob(ctx, all()[component(1)], false) // Slurm requeues both together
	check(t, err)
	poll(t, "requeued jobs", func() (map[string]capacity.Job, bool) {
		jobs := all()
		a, b, c := jobs[task(2)], jobs[component(0)], jobs[component(1)]
		return jobs, a.Pending() && a.Held && b.Restarts == 1 && c.Restarts == 1
	})
	check(t, client.Release(ctx, task(2)))
	check(t, client.UserHold(ctx, component(0), task(2)))

	jobs := all()
	for _, name := range []string{task(2), component(0), component(1), pending} {
		if j := jobs[name]; j.AdminComment != "of "+name {
			t.Errorf("AdminComment of %s: %q", name, j.AdminComment)
		}
	}

	if j := jobs[task(1)]; !j.Running() || j.Restarts != 0 || j.AdminComment != "" {
		t.Errorf("task 1 was touched: %+v", j)
	}

	if !jobs[task(2)].Held || !jobs[component(0)].Held || jobs[component(1)].Held {
		t.Errorf("%+v", jobs)
	}

	check(t, client.SetAdminComment(ctx, "of both", task(2), pending))
	check(t, client.Cancel(ctx, task(1), component(1)))
	poll(t, "cancelled jobs", func() (map[string]capacity.Job, bool) {
		jobs = all()
		return jobs, !jobs[task(1)].Active() && !jobs[component(0)].Active()
	})

	if jobs[task(2)].AdminComment != "of both" || jobs[pending].AdminComment != "of both" || !jobs[task(2)].Held ||
		!jobs[pending].Active() {
		t.Errorf("%+v", jobs)
	}

	for _, bad := range []string{
		"", "0", "-1", "12_", "12+", "12_[]", "12_[4-1]", "12_[1-2", "12,13", "12 ", "12_[0-99999999]", "12_[0-8:2]",
	} {
		if err := client.SetTimeLimit(ctx, bad, 5); err == nil || errors.As(err, new(*slurm.CallError)) {
			t.Errorf("job %q: %v; want it refused before any call", bad, err)
		}
	}
}

// slurmctld may accept a change and apply another one; here a site's job_submit.lua does.
func changesWithoutEffect(t *testing.T, cluster *slurmlab.Cluster, client *slurm.Client) {
	job := fmt.Sprint(submit(t, cluster, "sleep 1000", "-J", "theirs", "-t", "10"))
	held := fmt.Sprint(submit(t, cluster, "sleep 1000", "-J", "theirs", "-H"))
	if err := client.Edit(deadline(t), map[string]capacity.Edits{
		held: {TimeLimit: capacity.Minutes(5)},
	})[held]; !errors.Is(
		err,
		slurm.ErrNoEffect,
	) {
		t.Errorf("edits: error %v, want one that says that they have no effect", err)
	}

	for _, err := range []error{
		client.SetTimeLimit(deadline(t), job, 5),
		client.SetAdminComment(deadline(t), "ours", job),
	} {
		if !errors.Is(err, slurm.ErrNoEffect) || !strings.Contains(err.Error(), "job "+job) {
			t.Errorf("error %v, want one that says that it has no effect", err)
		}
	}

	check(t, client.SetTimeLimit(deadline(t), job, 3))
}

// Changes of pending jobs are read back, and a refused one does not stop the others.
func edits(t *testing.T, cluster *slurmlab.Cluster, client *slurm.Client) {
	ctx := deadline(t)
	name := func(args ...string) string {
		return fmt.Sprint(submit(t, cluster, "sleep 1000", append(args, "-p", "gpu", "-H")...))
	}
	one, tooShort := name("--comment=a;b 'c'"), name()
	tasks := name("-a", "0-8:2,11,12%3") + "_[0,2,4,6,8,11-12%3]"
	edit := capacity.Edits{TimeLimit: capacity.Minutes(60), TimeMin: capacity.Minutes(30), Constraint: "[gpu|h100]"}

	failed := client.Edit(ctx, map[string]capacity.Edits{
		one: edit, tasks: edit, "99999": edit,
		tooShort: {TimeLimit: capacity.Minutes(10), TimeMin: capacity.Minutes(30)},
	})
	if len(failed) != 1 || failed[tooShort] == nil || !strings.Contains(failed[tooShort].Error(), "time-min") {
		t.Fatalf("failed: %v", failed)
	}

	jobs, err := client.Jobs(ctx)
	check(t, err)

	seen := 0
	for _, j := range jobs {
		if id := j.Shown; id == one || id == tasks {
			seen++

			if got := (capacity.Edits{
				TimeLimit:  j.TimeLimit,
				TimeMin:    j.TimeMin,
				Constraint: j.Constraint,
			}); got != edit ||
				id == one && j.Comment != "a;b 'c'" {
				t.Errorf("job %s has %+v", id, got)
			}
		}
	}

	if seen != 2 {
		t.Errorf("%d of 2 jobs: %+v", seen, jobs)
	}
}
