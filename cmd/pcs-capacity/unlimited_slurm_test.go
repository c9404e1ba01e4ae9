package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Jobs that no filter saw get from a pass what it would have given them, and then start.
func TestSyncFitsJobsWithoutALimit(t *testing.T) {
	hookstest.Beside(t)
	for name, options := range map[string]string{"no limit": "", "the limit of the partition": "DefaultTime=5-00:00:00"} {
		t.Run(name, func(t *testing.T) {
			if !ownProcess(t) {
				return
			}
			r := newRehearsalOn(t, func(c *slurmlab.Config) {
				c.Partitions = append(c.Partitions, slurmlab.Partition{Name: "gpu", Options: options})
			})
			plain := r.submit("-H")
			said := r.submit("-H", "--comment=run 7")
			array := r.submit("-H", "--array=1-4%2")
			half := r.submit("--array=1-3", "-w", "gpu-1")
			moved := r.submit("-H", "-p", "static")
			if err := (&slurm.Client{Conf: r.cluster.Conf()}).SetPartition(r.ctx, moved, "gpu", ""); err != nil {
				t.Fatal(err)
			}
			wide := r.submit("-H", "-N2") // that only one node group has
			het := r.submit("-H", ":", "-H", "-p", "gpu")
			own := r.submit("-H", "-t", "6-0")
			mixed := r.submit("-H", "-p", "gpu,static")
			never := r.submit("-H", "--time-min=4-0")
			r.runs(half + "_1")
			before := map[string]capacity.Job{own: r.shown(own), mixed: r.shown(mixed), never: r.shown(never)}

			set := func() []string {
				t.Helper()
				return slices.DeleteFunc(r.sync(), func(d string) bool { return !strings.HasPrefix(d, "set-limit") })
			}
			got := set()
			want := []string{"set-limit  " + plain, "set-limit  " + said, "set-limit  " + array + "_[1-4%2]", "set-limit  " + half + "_[2-3]", "set-limit  " + moved,
				"set-limit  " + wide, "set-limit  " + het + "+0", "set-limit  " + het + "+1"}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Fatalf("did %q, want %q", got, want)
			}
			fence := r.fence("cr-0e2000000000000b2")
			for id, comment := range map[string]string{plain: "time=fit", said: "run 7 time=fit", array + "_[1-4%2]": "time=fit", half + "_[2-3]": "time=fit", moved: "time=fit",
				het + "+0": "time=fit", het + "+1": "time=fit"} {
				j := r.shown(id)
				if left := fence.Sub(r.sim.Clock().Now()) - j.TimeLimit.Duration(); !j.TimeLimit.Bounded() || left < 0 || left > 2*60e9 || j.TimeMin != capacity.Minutes(1) || j.Comment != comment {
					t.Errorf("job %s: %s at least %s, %q; %s short of the fence", id, j.TimeLimit, j.TimeMin, j.Comment, left)
				}
			}
			if j := r.shown(wide); j.TimeLimit.Minutes > 3 || j.Constraint != "gpu" {
				t.Errorf("job %s of two nodes: %s, constraint %q", wide, j.TimeLimit, j.Constraint)
			}
			for id, was := range before {
				if j := r.shown(id); j.TimeLimit != was.TimeLimit || j.TimeMin != was.TimeMin || j.Comment != was.Comment {
					t.Errorf("job %s is changed: %+v, was %+v", id, j, was)
				}
			}
			if told := r.shown(never).AdminComment; !strings.HasPrefix(told, "pcs-capacity: without a time limit this job can never start") || !strings.Contains(told, "needs 4-00:00:00") {
				t.Errorf("its owner is told %q", told)
			}
			if shown := r.document().UserProblems; !slices.ContainsFunc(shown, func(p string) bool { return strings.HasPrefix(p, "job "+never+" can never start") }) {
				t.Errorf("status does not name job %s: %q", never, shown)
			}
			if again := set(); len(again) != 0 {
				t.Errorf("the next pass did %q", again)
			}
			r.scontrol("release", plain)
			r.running(plain)
		})
	}
}
