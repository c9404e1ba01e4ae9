package capacity

import (
	"cmp"
	"slices"
)

// Walls are the longest limits (MaxWall) that QOS and associations of Slurm's accounting
// let jobs have, as far as any bind: what is not here is not limited. A job with a longer
// limit is refused, or waits for ever.
type Walls struct {
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
}

// NormalQOS is the QOS of jobs for which nothing says another one.
const NormalQOS = "normal"

// NewWalls keeps what binds of all that there is. accounts are the users' default accounts.
func NewWalls(qos []QOSWall, associations []Association, accounts map[string]string) Walls {
	var w Walls
	for _, q := range qos {
		if q.MaxWall.Bounded() {
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
		if a.MaxWall != general.MaxWall || a.DefaultQOS != general.DefaultQOS {
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
	if account == "" {
		account = w.Accounts[user]
	}
	a := w.association(user, account, p.Name)
	of := func(name string) QOSWall {
		if i := slices.IndexFunc(w.QOS, func(q QOSWall) bool { return q.Name == name }); i >= 0 {
			return w.QOS[i]
		}
		return QOSWall{}
	}
	own, partitions := of(cmp.Or(qos, a.DefaultQOS, NormalQOS)), of(p.QOS)
	first, second := partitions, own
	if own.OverPartition {
		first, second = own, partitions
	}
	return cmp.Or(first.MaxWall, second.MaxWall, a.MaxWall)
}

// shortest is the shortest of all limits; it is not set if there is none.
func (w Walls) shortest() Limit {
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
