package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// spent is a Slurm that says what accounting leaves.
type spent struct {
	simSlurm
	budgets capacity.Budgets
	held    map[string]capacity.TRES
	err     error
	asked   int
}

func (s *spent) Budgets(context.Context) (capacity.Budgets, error) {
	s.asked++
	return s.budgets, s.err
}
func (s *spent) Held(context.Context, []string) (map[string]capacity.TRES, error) {
	return s.held, nil
}

// A raise ends where accounting leaves no more, and there is none where that is not known;
// both are said. Lower limits, and jobs that nothing limits, are as they were.
func TestRaisesStayWithinBudgets(t *testing.T) {
	const job, note = 30, "time limits of running jobs: "
	raise := func(n int, to int) limitChange {
		return limitChange{job: capacity.Job{Shown: fmt.Sprint(n), Partition: "gpu", Account: "nlp", User: "ann", QOS: "normal", Start: at("-10m"), End: at("20m"), TimeLimit: capacity.Minutes(job)},
			minutes: to, slot: "gpu", fence: at("3h")}
	}
	budgets := func(account capacity.Budget) capacity.Budgets {
		account.Account = "nlp"
		return capacity.Budgets{QOS: []capacity.Budget{{QOS: "normal"}}, Associations: []capacity.Budget{account, {Account: "nlp", User: "ann"}}}
	}
	metered := capacity.Walls{Associations: []capacity.Association{{Account: "nlp", Metered: true}}}
	total := func() capacity.Budget {
		return capacity.Budget{Total: map[string]capacity.Meter{"cpu": {Limit: 1000, Taken: 520}}}
	}
	eight := map[string]capacity.TRES{"1": {"cpu": 8}, "2": {"cpu": 8}}
	const by = "GrpTRESMins of cpu of account nlp"
	for name, c := range map[string]struct {
		walls    capacity.Walls
		slurm    spent
		changes  []limitChange
		want     []int
		notes    []string
		problems int
		asked    int
	}{
		"no limits of that kind": {changes: []limitChange{raise(1, 180)}, want: []int{180}},
		"room for all":           {walls: metered, slurm: spent{budgets: budgets(capacity.Budget{}), held: eight}, changes: []limitChange{raise(1, 180), raise(2, 180)}, want: []int{180, 180}, asked: 1},
		"the first takes it all": {walls: metered, slurm: spent{budgets: budgets(total()), held: eight}, changes: []limitChange{raise(1, 180), raise(2, 180)},
			want: []int{90}, notes: []string{note + by + " leaves less than the time to the fence (jobs 1, 2)"}, asked: 1},
		"a little for each": {walls: metered, slurm: spent{budgets: budgets(total()), held: eight}, changes: []limitChange{raise(1, 50), raise(2, 180)},
			want: []int{50, 70}, notes: []string{note + by + " leaves less than the time to the fence (job 2)"}, asked: 1},
		"the time that it has run counts": {walls: metered, slurm: spent{budgets: budgets(capacity.Budget{Wall: &capacity.Meter{Limit: 100, Taken: 10}, Jobs: 1}), held: eight}, changes: []limitChange{raise(1, 180)},
			want: []int{95}, notes: []string{note + "GrpWall of account nlp leaves less than the time to the fence (job 1)"}, asked: 1},
		"a lower limit": {walls: metered, slurm: spent{budgets: budgets(total()), held: eight}, changes: []limitChange{raise(1, 20)}, want: []int{20}},
		"what jobs hold is not said": {walls: metered, slurm: spent{budgets: budgets(capacity.Budget{})}, changes: []limitChange{raise(1, 180), raise(2, 20)},
			want: []int{20}, notes: []string{note + "not raised to the fence, because nobody knows what accounting leaves: slurmctld does not say what the job holds (job 1)"}, asked: 1},
		"slurmctld does not answer": {walls: metered, slurm: spent{err: errors.New("no")}, changes: []limitChange{raise(1, 180), raise(2, 20)}, want: []int{20}, problems: 1, asked: 1},
		"accounting never did": {walls: capacity.Walls{Unknown: true}, slurm: spent{budgets: budgets(capacity.Budget{}), held: eight}, changes: []limitChange{raise(1, 180)},
			notes: []string{note + "not raised to the fence, because nobody knows what accounting leaves: accounting has not said what binds jobs (job 1)"}, asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := passOf(Sources{}.at(&c.slurm, nil), Seen{Snap: oneSlot("ec2", nil), Now: noon})
			p.seen.Snap.Walls = c.walls
			var got []int
			if slices.ContainsFunc(c.changes, p.seen.metered) {
				p.readBudgets(t.Context(), []string{"gpu"})
			}
			within, problems := withinBudgets(p.seen, c.changes)
			p.seen.Snap.Add(problems...)
			for _, change := range within {
				got = append(got, change.minutes)
			}
			if diff := cmp.Diff(c.want, got) + cmp.Diff(c.notes, p.seen.Snap.Notes); diff != "" || len(p.seen.Snap.Problems) != c.problems || c.slurm.asked != c.asked {
				t.Errorf("%s\nproblems %q, asked %d times", diff, p.seen.Snap.Problems, c.slurm.asked)
			}
		})
	}
	for jobs, ends := range map[int]string{10: "jobs 7, 7, 7, 7, 7, 7, 7, 7, 7, 7", 12: ", 7 and 2 more"} {
		if named := some(strings.Fields(strings.Repeat("7 ", jobs))); !strings.HasSuffix(named, ends) {
			t.Errorf("%d jobs: %s", jobs, named)
		}
	}
}
