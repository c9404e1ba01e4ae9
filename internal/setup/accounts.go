package setup

import (
	"maps"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// lock is Slurm's setting of a queue that lets accounts in: the submit filter only tells
// users, this keeps them out.
const lock = "AllowAccounts"

// allowAccounts are the accounts that Slurm shall let into the queue: those of the
// partition's settings, else those asked for.
func (in *inspection) allowAccounts() []string {
	if in.request.Config != nil {
		if p, found := in.request.Config.Partition(in.request.Queue); found && len(p.AllowAccounts) > 0 {
			return p.AllowAccounts
		}
	}
	return in.request.AllowAccounts
}

func (in *inspection) checkAccounts() {
	asked, has := in.request.AllowAccounts, in.allowAccounts()
	if len(asked) > 0 && !sameSet(asked, has) {
		p, _ := in.request.Config.Partition(in.request.Queue)
		in.problem(capacity.AllowAccounts, "change allow_accounts in "+p.File+", and leave out --allow-accounts",
			"partition %q lets accounts %s in, not %s", in.request.Queue, strings.Join(has, ","), strings.Join(asked, ","))
	}
}

// queueSettings returns the wanted Slurm settings of the queue. now are those that it
// has; the same accounts in another order are left as they are.
func (w *wanted) queueSettings(now map[string]string) map[string]string {
	switch {
	case len(w.allowAccounts) == 0:
		return nil
	case sameAccounts(now[lock], w.allowAccounts):
		return map[string]string{lock: now[lock]}
	}
	return map[string]string{lock: strings.Join(w.allowAccounts, ",")}
}

// sameAccounts compares as Slurm does, which does not tell capital letters apart.
func sameAccounts(list string, accounts []string) bool {
	lower := func(names []string) []string {
		set := map[string]bool{}
		for _, name := range names {
			set[strings.ToLower(strings.TrimSpace(name))] = true
		}
		return slices.Sorted(maps.Keys(set))
	}
	return list != "" && slices.Equal(lower(strings.Split(list, ",")), lower(accounts))
}

// addLock adds the lock to the step, and reports whether it changes.
func (s *Step) addLock(q pcs.Queue, want *wanted) bool {
	to := want.queueSettings(q.SlurmSettings)[lock]
	now := q.SlurmSettings[lock]
	if to != "" && now != to && q.ID != "" {
		s.add(lock, orNone(now)+" → "+to)
		return true
	}
	s.add(lock, to)
	return false
}
