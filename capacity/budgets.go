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

// TRES are amounts by Slurm's resource names: cpu, mem (in MB), node, billing, gres/gpu, …
type TRES map[string]int64

// Meter is a limit on use over time, and the amount already taken.
type Meter struct{ Limit, Taken int64 }

// Budget is the use over time that a QOS or an association allows its jobs, in TRES-minutes. Its maps have only
// limited resources.
type Budget struct {
	// QOS names a QOS. An association has Account, User ("" for the account's own), Partition ("" for all) and, if it
	// is an account's, the parent account in Parent.
	QOS, Account, User, Partition, Parent string
	// PerJob is the limit for one job (MaxTRESMinsPerJob).
	PerJob TRES
	// Total limits all jobs together, for ever (GrpTRESMins); running jobs count with the use that their limits allow.
	// Running limits running jobs alone (GrpTRESRunMins).
	Total, Running map[string]Meter
	// Wall limits the wall-clock minutes of all jobs (GrpWall), nil for no limit; Jobs counts the running ones.
	Wall *Meter
	Jobs int64
}

// name is how a sentence names the budget.
func (b *Budget) name() string {
	switch {
	case b.QOS != "":
		return "QOS " + b.QOS
	case b.User != "":
		return fmt.Sprintf("user %s in account %s", b.User, b.Account)
	}
	return "account " + b.Account
}

// Budgets are the budgets of a cluster, as far as Slurm shows them.
type Budgets struct{ QOS, Associations []Budget }

// Clone copies everything that Raise changes.
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

// Spender is a running job with the resources that it holds.
type Spender struct {
	User, Account, QOS string
	Partition          Partition
	TRES               TRES
	// Limit is the job's time limit and Elapsed its run time, in minutes.
	Limit, Elapsed int
}

// Most returns the longest limit in minutes, at most wanted, to which a running job may be raised, and the accounting
// limit that caps it, "" if none does. On an error the answer is unknown and the job must not be raised.
//
// For each limit, the first of these that sets it counts: the partition's QOS, the job's QOS (the other way round
// with OverPartQOS), the association with all its parents (Slurm, "Resource Limits").
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
		// All running jobs use it up together, and slurmctld updates the count only from time to time.
		take(float64(s.Elapsed)+float64(of.Wall.Limit-of.Wall.Taken)/factor/float64(max(1, of.Jobs))-counted, "GrpWall",
			"", of)
	}
	return most, by, nil
}

// counted is the period, in minutes, in which slurmctld counts the use of running jobs (the default of
// PriorityCalcPeriod).
const counted = 5

// Raise charges the budgets for a job's longer limit, so the next job cannot get the same share.
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

// first returns the budgets that count for a limit, which limited recognizes: the first QOS that has it, else all
// associations that have it.
func first(qos, chain []*Budget, limited func(*Budget) bool) []*Budget {
	if i := slices.IndexFunc(qos, limited); i >= 0 {
		return qos[i : i+1]
	}
	return slices.DeleteFunc(slices.Clone(chain), func(o *Budget) bool { return !limited(o) })
}

// of returns the budgets of a job: its QOS in the order in which they count, then its association with the parents.
func (b *Budgets) of(s Spender, w Walls) (qos, chain []*Budget, factor float64, err error) {
	if w.Unknown {
		return nil, nil, 0, errors.New("accounting has not said what binds jobs")
	}
	one, two, _ := w.binding(s.User, s.Account, s.QOS, s.Partition)
	factor = max(1, w.qos(s.QOS).Factor)
	for _, q := range []QOSWall{one, two} {
		if q.Untold {
			return nil, nil, 0, fmt.Errorf(
				"QOS %s limits the TRES-minutes that the running jobs of a user or an account may still use, of which Slurm does not show what is used",
				q.Name)
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
	for account := s.Account; account != "" && len(chain) < 64; { // guards against a cycle of accounts
		above := find(account, "", "")
		if above == nil {
			return nil, nil, 0, fmt.Errorf("slurmctld does not show account %s", account)
		}
		chain = append(chain, above)
		account = above.Parent
	}
	return qos, chain, factor, nil
}
