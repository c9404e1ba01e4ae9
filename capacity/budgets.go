package capacity

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// TRES are amounts of what Slurm counts by its names: cpu, mem (in MB), node, billing,
// gres/gpu, …
type TRES map[string]int64

// Meter is a limit on what jobs use over time, and what is taken of it already.
type Meter struct{ Limit, Taken int64 }

// Budget is what a QOS, or an association, lets its jobs use over time, in TRES-minutes; only
// what is limited is in its maps.
type Budget struct {
	// QOS is the name of a QOS. An association has Account, User ("" for the account's own),
	// Partition ("" for all), and, if it is an account's, the account above it in Parent.
	QOS, Account, User, Partition, Parent string
	// PerJob is the most of one job (MaxTRESMinsPerJob).
	PerJob TRES
	// Total is for all jobs together, ever (GrpTRESMins); what running jobs may use until
	// they reach their limits is taken. Running is for that alone (GrpTRESRunMins).
	Total, Running map[string]Meter
	// Wall is for the wall-clock minutes of all jobs (GrpWall), nil if they are not limited;
	// Jobs is how many run.
	Wall *Meter
	Jobs int64
}

// name is the budget's in a sentence.
func (b *Budget) name() string {
	switch {
	case b.QOS != "":
		return "QOS " + b.QOS
	case b.User != "":
		return fmt.Sprintf("user %s in account %s", b.User, b.Account)
	}
	return "account " + b.Account
}

// Budgets are those of a cluster, as far as Slurm shows them.
type Budgets struct{ QOS, Associations []Budget }

// Clone is a copy that shares nothing which Raise changes.
func (b Budgets) Clone() Budgets {
	own := func(all []Budget) []Budget {
		all = slices.Clone(all)
		for i := range all {
			all[i].Total, all[i].Running = maps.Clone(all[i].Total), maps.Clone(all[i].Running)
		}
		return all
	}
	return Budgets{QOS: own(b.QOS), Associations: own(b.Associations)}
}

// Spender is a running job, with what it holds.
type Spender struct {
	User, Account, QOS string
	Partition          Partition
	TRES               TRES
	// Limit is its time limit, Elapsed what it has used of it, in minutes.
	Limit, Elapsed int
}

// Most is the longest limit, in minutes, up to which a running job may be raised, at most
// wanted, and the limit of accounting that keeps it from more, "" if none does. The error says
// why that cannot be known; the job must not be raised then.
//
// Of each limit the first counts of: the partition's QOS, the job's (or the other way round
// with OverPartQOS), the association with those of all its parents: Slurm, "Resource Limits".
func (b *Budgets) Most(s Spender, w Walls, wanted int) (most int, by string, err error) {
	qos, chain, factor, err := b.of(s, w)
	if err != nil {
		return 0, "", err
	}
	most = wanted
	take := func(minutes float64, kind, tres string, of *Budget) {
		if minutes < float64(most) {
			most, by = max(s.Limit, int(math.Floor(minutes))), strings.TrimSuffix(kind+" of "+tres, " of ")+" of "+of.name()
		}
	}
	for _, tres := range slices.Sorted(maps.Keys(s.TRES)) {
		n := s.TRES[tres]
		if n <= 0 {
			continue
		}
		each := float64(n) * factor
		left := func(m Meter) float64 { return float64(s.Limit) + float64(m.Limit-m.Taken)/each }
		for _, of := range first(qos, chain[:1], func(o *Budget) bool { _, ok := o.PerJob[tres]; return ok }) {
			take(float64(of.PerJob[tres])/each, "MaxTRESMinsPerJob", tres, of)
		}
		for _, of := range first(qos, chain, func(o *Budget) bool { _, ok := o.Total[tres]; return ok }) {
			take(left(of.Total[tres]), "GrpTRESMins", tres, of)
		}
		for _, of := range first(qos, chain, func(o *Budget) bool { _, ok := o.Running[tres]; return ok }) {
			take(left(of.Running[tres]), "GrpTRESRunMins", tres, of)
		}
	}
	for _, of := range first(qos, chain, func(o *Budget) bool { return o.Wall != nil }) {
		// All that run use it up together, and slurmctld counts that now and then.
		take(float64(s.Elapsed)+float64(of.Wall.Limit-of.Wall.Taken)/factor/float64(max(1, of.Jobs))-counted, "GrpWall", "", of)
	}
	return most, by, nil
}

// counted is every how many minutes slurmctld counts what running jobs have used
// (PriorityCalcPeriod, unless it is set).
const counted = 5

// Raise takes what a job gets by a longer limit from its budgets, so that the next job cannot
// get it too.
func (b *Budgets) Raise(s Spender, w Walls, limit int) {
	qos, chain, factor, err := b.of(s, w)
	if err != nil {
		return
	}
	for _, of := range slices.Concat(qos, chain) {
		for tres, n := range s.TRES {
			more := int64(math.Ceil(float64(n) * factor * float64(limit-s.Limit)))
			for _, meters := range []map[string]Meter{of.Total, of.Running} {
				if m, ok := meters[tres]; ok {
					m.Taken += more
					meters[tres] = m
				}
			}
		}
	}
}

// first are the budgets that count for a limit that limited looks for: the first QOS that has
// it, else all associations that have it.
func first(qos, chain []*Budget, limited func(*Budget) bool) []*Budget {
	if i := slices.IndexFunc(qos, limited); i >= 0 {
		return qos[i : i+1]
	}
	return slices.DeleteFunc(slices.Clone(chain), func(o *Budget) bool { return !limited(o) })
}

// of are the budgets of a job: its QOS, the one that counts first before the other, and its
// association with those above it.
func (b *Budgets) of(s Spender, w Walls) (qos, chain []*Budget, factor float64, err error) {
	if w.Unknown {
		return nil, nil, 0, errors.New("accounting has not said what binds jobs")
	}
	one, two, _ := w.binding(s.User, s.Account, s.QOS, s.Partition)
	factor = max(1, w.qos(s.QOS).Factor)
	for _, q := range []QOSWall{one, two} {
		if q.Untold {
			return nil, nil, 0, fmt.Errorf("QOS %s limits the TRES-minutes that the running jobs of a user or an account may still use, of which Slurm does not show what is used", q.Name)
		}
		if q.Name == "" {
			continue
		}
		i := slices.IndexFunc(b.QOS, func(o Budget) bool { return strings.EqualFold(o.QOS, q.Name) })
		if i < 0 {
			return nil, nil, 0, fmt.Errorf("slurmctld does not show QOS %s", q.Name)
		}
		if o := &b.QOS[i]; !slices.Contains(qos, o) {
			qos = append(qos, o)
		}
	}
	find := func(account, user, partition string) *Budget {
		i := slices.IndexFunc(b.Associations, func(o Budget) bool {
			return strings.EqualFold(o.Account, account) && o.User == user && o.Partition == partition
		})
		if i < 0 {
			return nil
		}
		return &b.Associations[i]
	}
	own := cmp.Or(find(s.Account, s.User, s.Partition.Name), find(s.Account, s.User, ""))
	if own == nil {
		return nil, nil, 0, fmt.Errorf("slurmctld does not show the association of user %s in account %s", s.User, s.Account)
	}
	chain = append(chain, own)
	for account := s.Account; account != "" && len(chain) < 64; { // else they go round in a circle
		above := find(account, "", "")
		if above == nil {
			return nil, nil, 0, fmt.Errorf("slurmctld does not show account %s", account)
		}
		chain = append(chain, above)
		account = above.Parent
	}
	return qos, chain, factor, nil
}
