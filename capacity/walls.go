package capacity

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Walls are the longest limits (MaxWall) that QOS and associations of Slurm's accounting allow jobs. A missing entry
// means no limit. A job with a longer limit is refused, or waits for ever. Walls also say whose use
// over time is limited.
type Walls struct {
	Unknown      bool              `json:"unknown,omitempty"` // accounting limits jobs, but the limits were never read
	QOS          []QOSWall         `json:"qos,omitempty"`
	Associations []Association     `json:"associations,omitempty"`
	Accounts     map[string]string `json:"accounts,omitempty"` // the default accounts of users
}

// QOSWall is the limit of one QOS.
type QOSWall struct {
	Name          string `json:"name"`
	MaxWall       Limit  `json:"max_wall"`
	OverPartition bool   `json:"over_partition,omitempty"` // this QOS counts before the partition's QOS (OverPartQOS)
	Metered       bool   `json:"metered,omitempty"`        // the QOS limits use over time, in TRES-minutes or by GrpWall
}

// Association is Slurm's association of an account, or of a user in it, with the limits of its parents included.
type Association struct {
	Account string `json:"account"`
	// User is "" for the account's own association, Partition "" for all partitions.
	User       string `json:"user,omitempty"`
	Partition  string `json:"partition,omitempty"`
	MaxWall    Limit  `json:"max_wall,omitzero"`
	DefaultQOS string `json:"default_qos,omitempty"` // the QOS of jobs that name none; "" stands for NormalQOS
	Metered    bool   `json:"metered,omitempty"`     // the association or a parent limits use over time
}

// NormalQOS is the QOS of jobs without any other.
const NormalQOS = "normal"

// NewWalls keeps the limits that bind some job. accounts are the users' default accounts.
func NewWalls(qos []QOSWall, associations []Association, accounts map[string]string) Walls {
	var w Walls
	for _, q := range qos {
		if q.MaxWall.Bounded() || q.Metered {
			w.QOS = append(w.QOS, q)
		}
	}
	// Accounts come first, then users: an association that repeats the more general one is left out.
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
	w.Accounts = maps.Clone(accounts)
	maps.DeleteFunc(w.Accounts, func(user, account string) bool {
		return !slices.ContainsFunc(w.Associations, func(a Association) bool {
			return a.Account == account && (a.User == "" || a.User == user)
		})
	})
	return w
}

// association is the most specific association for a user's jobs in a partition.
func (w Walls) association(user, account, partition string) Association {
	best, weight := Association{}, -1
	for _, a := range w.Associations {
		if a.Account != account || a.User != "" && a.User != user || a.Partition != "" && a.Partition != partition {
			continue
		}
		special := rank(a.User != "") + rank(a.Partition != "")
		if special > weight {
			best, weight = a, special
		}
	}
	return best
}

// MaxWall is the longest limit that accounting allows a job in a partition, unset if there is none; metered: accounting
// limits the job's use over time, or nobody knows. account and qos are "" if the job names none.
//
// Slurm asks the partition's QOS first, then the job's, then the association. The first of them that has a limit
// counts (Slurm, "Resource Limits").
func (w Walls) MaxWall(user, account, qos string, p Partition) (most Limit, metered bool) {
	if account == "" {
		account = w.Accounts[user]
	}
	a := w.association(user, account, p.Name)
	first, second := w.qos(p.QOS), w.qos(cmp.Or(qos, a.DefaultQOS, NormalQOS))
	if second.OverPartition {
		first, second = second, first
	}
	return cmp.Or(first.MaxWall, second.MaxWall, a.MaxWall), w.Unknown || first.Metered || second.Metered || a.Metered
}

// qos finds a QOS by name; an unnamed or unlisted QOS has no limits.
func (w Walls) qos(name string) QOSWall {
	if i := slices.IndexFunc(w.QOS, func(q QOSWall) bool { return q.Name == name }); i >= 0 {
		return w.QOS[i]
	}
	return QOSWall{Name: name}
}

// SlurmPartition is a partition as Slurm shows it; PCS calls it a queue. A [Partition] is one of our settings.
type SlurmPartition struct {
	Name          string
	Default       bool   // jobs without -p go there
	State         string // UP, DOWN, DRAIN, INACTIVE
	Nodes         []string
	MaxTime       Limit         // unset only if Slurm does not print it
	DefaultTime   Limit         // the limit of a job that states none; Slurm shows it as the job's own limit
	OverTime      Limit         // how much longer than its limit a job may run; unset: that of slurm.conf
	AllowAccounts []string      // empty: every account
	QOS           string        // its limits apply to all jobs; empty: none
	ResumeTimeout time.Duration // 0: that of slurm.conf
	SuspendTime   time.Duration // 0: that of slurm.conf; slurm.Never: idle nodes stay up
	Unread        string        // what Slurm shows and nobody can read
}

// OverTime is the most by which jobs of the named partitions may run longer than their limits: NoLimit where no limit
// ends a job. of is that of slurm.conf.
func OverTime(partitions []SlurmPartition, named []string, of Limit) (most Limit) {
	for _, p := range partitions {
		over := p.OverTime
		if !over.Set {
			over = of
		}
		if slices.Contains(named, p.Name) && !most.Unlimited && (over.Unlimited || over.Minutes > most.Minutes) {
			most = over
		}
	}
	return most
}
