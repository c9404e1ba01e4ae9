package capacity

import (
	"cmp"
	"slices"
)

// Walls are the longest limits (MaxWall) that QOS and associations of Slurm's accounting
// let jobs have, as far as any bind: what is not here is not limited. A job with a longer
// limit is refused, or waits for ever. What QOS and associations let jobs use over time is in
// [Budgets]; Walls say for whom there are any.
type Walls struct {
	// Unknown: accounting binds jobs, and has never said how.
	Unknown      bool          `json:"unknown,omitempty"`
	QOS          []QOSWall     `json:"qos,omitempty"`
	Associations []Association `json:"associations,omitempty"`
	// Accounts are the default accounts of users.
	Accounts map[string]string `json:"accounts,omitempty"`
}

// QOSWall is the limit of one QOS.
type QOSWall struct {
	Name    string `json:"name"`
	MaxWall Limit  `json:"max_wall"`
	// OverPartition: it counts before the QOS of the partition (OverPartQOS).
	OverPartition bool `json:"over_partition,omitempty"`
	// Metered: it limits what jobs use over time, in TRES-minutes or as GrpWall. Untold: in a
	// way of which Slurm does not show how much is used (MaxTRESRunMinsPerUser, …PerAccount).
	Metered bool `json:"metered,omitempty"`
	Untold  bool `json:"untold,omitempty"`
	// Factor is by how much more than they use its jobs count (UsageFactor); 0 is 1.
	Factor float64 `json:"factor,omitempty"`
}

// Association is what Slurm's accounting says of an account, or of a user in it; limits of
// its parents are in it.
type Association struct {
	Account string `json:"account"`
	// User is "" for the account's own; Partition is "" for all.
	User      string `json:"user,omitempty"`
	Partition string `json:"partition,omitempty"`
	MaxWall   Limit  `json:"max_wall,omitzero"`
	// DefaultQOS is that of jobs that name none; "" is NormalQOS.
	DefaultQOS string `json:"default_qos,omitempty"`
	// Metered: it, or a parent, limits what jobs use over time.
	Metered bool `json:"metered,omitempty"`
}

// NormalQOS is the QOS of jobs for which nothing says another one.
const NormalQOS = "normal"

// NewWalls keeps what binds of all that there is. accounts are the users' default accounts.
func NewWalls(qos []QOSWall, associations []Association, accounts map[string]string) Walls {
	var w Walls
	for _, q := range qos {
		if q.MaxWall.Bounded() || q.Metered || q.Untold || q.Factor > 1 {
			w.QOS = append(w.QOS, q)
		}
	}
	// Those of accounts first, then of users: each is left out where it says what the more
	// general one says.
	sorted := slices.SortedFunc(slices.Values(associations), func(a, b Association) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.User, b.User), cmp.Compare(a.Partition, b.Partition))
	})
	for _, a := range sorted {
		if a.DefaultQOS == NormalQOS {
			a.DefaultQOS = ""
		}
		if !a.MaxWall.Bounded() {
			a.MaxWall = Limit{}
		}
		general := w.association(a.User, a.Account, a.Partition)
		if a.MaxWall != general.MaxWall || a.DefaultQOS != general.DefaultQOS || a.Metered != general.Metered {
			w.Associations = append(w.Associations, a)
		}
	}
	for user, account := range accounts {
		ofAccount := slices.ContainsFunc(w.Associations, func(a Association) bool {
			return a.Account == account && (a.User == "" || a.User == user)
		})
		if ofAccount {
			if w.Accounts == nil {
				w.Accounts = map[string]string{}
			}
			w.Accounts[user] = account
		}
	}
	return w
}

// association is what counts for a user's jobs in a partition: the most special one.
func (w Walls) association(user, account, partition string) Association {
	best, weight := Association{}, -1
	for _, a := range w.Associations {
		if a.Account != account || a.User != "" && a.User != user || a.Partition != "" && a.Partition != partition {
			continue
		}
		special := 0
		if a.User != "" {
			special++
		}
		if a.Partition != "" {
			special++
		}
		if special > weight {
			best, weight = a, special
		}
	}
	return best
}

// Wall is the longest limit that accounting lets a job have in a partition; it is not set
// if there is none. account and qos are "" where the job names none.
//
// Slurm asks the partition's QOS first, then the job's, then the association; the first of
// them that has a limit counts: Slurm, "Resource Limits".
func (w Walls) Wall(user, account, qos string, p Partition) Limit {
	first, second, a := w.binding(user, account, qos, p)
	return cmp.Or(first.MaxWall, second.MaxWall, a.MaxWall)
}

// Metered reports whether accounting limits what the jobs use over time, or nobody knows.
func (w Walls) Metered(user, account, qos string, p Partition) bool {
	first, second, a := w.binding(user, account, qos, p)
	return w.Unknown || first.Metered || second.Metered || first.Untold || second.Untold || a.Metered
}

// binding are the two QOS of a job, the one that counts first before the other, and what
// counts for its user.
func (w Walls) binding(user, account, qos string, p Partition) (first, second QOSWall, a Association) {
	if account == "" {
		account = w.Accounts[user]
	}
	a = w.association(user, account, p.Name)
	own, partitions := w.qos(cmp.Or(qos, a.DefaultQOS, NormalQOS)), w.qos(p.QOS)
	if own.OverPartition {
		return own, partitions, a
	}
	return partitions, own, a
}

// qos is a QOS by its name; one of no name, or that binds nobody, has no limits.
func (w Walls) qos(name string) QOSWall {
	if i := slices.IndexFunc(w.QOS, func(q QOSWall) bool { return q.Name == name }); i >= 0 {
		return w.QOS[i]
	}
	return QOSWall{Name: name}
}

// shortest is the shortest of all limits; it is not set if there is none. It is the least that
// there can be where some are metered.
func (w Walls) shortest() Limit {
	if w.Unknown || slices.ContainsFunc(w.QOS, func(q QOSWall) bool { return q.Metered || q.Untold }) ||
		slices.ContainsFunc(w.Associations, func(a Association) bool { return a.Metered }) {
		return Minutes(1)
	}
	var least Limit
	take := func(l Limit) {
		if l.Bounded() && (!least.Set || l.Minutes < least.Minutes) {
			least = l
		}
	}
	for _, q := range w.QOS {
		take(q.MaxWall)
	}
	for _, a := range w.Associations {
		take(a.MaxWall)
	}
	return least
}
