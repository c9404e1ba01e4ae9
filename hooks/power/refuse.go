package power

import (
	"slices"
	"strconv"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// refusal is a reason of ours not to launch.
type refusal struct {
	capacity.Verdict
	kind error // what errors.Is finds it to be; may be nil
}

func (r *refusal) Error() string { return string(r.Code) + ": " + r.Sentence }
func (r *refusal) Unwrap() error { return r.kind }

func refuse(code capacity.Code, format string, args ...any) *refusal {
	return &refusal{
		Verdict: capacity.Verdict{Problem: capacity.Problemf(code, capacity.Subject{}, "", format, args...)},
	}
}

// refusedJob names a job with nodes that it may never have: only its owner can lift the refusal.
type refusedJob struct {
	name      string         // Slurm's for the job, or for a het job as a whole
	jobs      []capacity.Job // its components
	partition string         // which refuses it
	err       error
}

// refusedJobs returns the jobs on the nodes that are refused for good, each judged alone. If one component of a het job
// is refused, all are: Slurm starts them together or not at all.
func (f launchFacts) refusedJobs(jobs []capacity.Job, nodes []string) (refused []refusedJob) {
	for _, j := range jobs {
		r := refusedJob{name: j.Shown, jobs: []capacity.Job{j}}
		if j.HetJobID != 0 {
			// Slurm starts, requeues and cancels the components together, by the id of the first.
			r.name = strconv.Itoa(j.HetJobID)
			r.jobs = slices.DeleteFunc(slices.Clone(jobs), func(o capacity.Job) bool {
				return o.HetJobID != j.HetJobID
			})
		}

		if !j.Allocated() || slices.ContainsFunc(refused, func(o refusedJob) bool { return o.name == r.name }) {
			continue
		}

		// The verdict is the same for all nodes of a slot.
		asked := ""
		for _, n := range j.Nodes {
			at, ours := slotOf(f.settings, n)
			if !ours || at.name == asked || !slices.Contains(nodes, n) {
				continue
			}

			asked = at.name
			if _, v := f.admit(j, at); v.Refused && v.Code.Never() {
				r.partition = at.partition.Name
				r.err = &refusal{Verdict: v}
				refused = append(refused, r)

				break
			}
		}
	}

	return refused
}

// splitRefused divides groups into those without a refused job, and the others: for these nothing is launched. The
// refused jobs leave their groups, whose other jobs Slurm requeues with the nodes.
func splitRefused(groups []group, refused []refusedJob) (without []group, shared []failedGroup) {
	of := map[int]refusedJob{}
	for _, r := range refused {
		for _, j := range r.jobs {
			of[j.ID] = r
		}
	}

	isRefused := func(j capacity.Job) bool { return of[j.ID].err != nil }

	for _, g := range groups {
		i := slices.IndexFunc(g.jobs, isRefused)
		if i < 0 {
			without = append(without, g)
			continue
		}

		p, _ := problemOf(of[g.jobs[i].ID].err)

		// The other jobs of the group are told what they waited with, not why it was refused.
		name := g.jobs[i].Shown
		why := refuse(p.Code, "job %s, for which they were powered up, is refused", name)

		g.jobs = slices.DeleteFunc(slices.Clone(g.jobs), isRefused)
		if len(g.jobs) > 0 {
			why = refuse(capacity.SharedWithRefused, "job %s, which shares these nodes, is refused", name)
		}

		shared = append(shared, failedGroup{group: g, err: why})
	}

	return without, shared
}
