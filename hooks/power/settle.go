package power

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// settle tells Slurm where launched nodes are, and sends those down that were not, unless their
// jobs are tried apart.
func (u *powerUp) settle(outcomes []outcome) {
	u.address(outcomes)
	var failed []outcome
	var launched []state.Record
	for _, o := range outcomes {
		if o.err == nil {
			launched = append(launched, u.succeeded(o)...)
		} else {
			failed = append(failed, o)
		}
	}
	if len(launched) > 0 {
		u.record(launched...)
	}
	for _, o := range byReason(u.tryApart(failed)) {
		// Launches must not have used up the time for this.
		ctx, cancel := context.WithTimeout(u.last, u.budget/failuresOfBudget)
		err := u.failed(ctx, o)
		cancel()
		u.mu.Lock()
		u.errs = append(u.errs, err)
		u.mu.Unlock()
	}
}

// byReason puts what failed for one reason together: it is handled in one go.
func byReason(outcomes []outcome) (failed []outcome) {
	for _, o := range outcomes {
		i := slices.IndexFunc(failed, func(f outcome) bool { return f.err == o.err })
		if i < 0 {
			failed = append(failed, o)
			continue
		}
		f := &failed[i]
		f.nodes, f.jobs = append(slices.Clone(f.nodes), o.nodes...), append(slices.Clone(f.jobs), o.jobs...)
		f.launched, f.behind = both(f.launched, o.launched), both(f.behind, o.behind)
	}
	return failed
}

// both is a new map of what a and b have.
func both[V any](a, b map[string]V) map[string]V {
	all := map[string]V{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

// address tells Slurm where launched nodes are, in one call. It keeps trying while there
// is time: a launched node without its address is lost.
func (u *powerUp) address(outcomes []outcome) {
	addresses := map[string]netip.Addr{}
	for i := range outcomes {
		o := &outcomes[i]
		for n, l := range o.launched {
			ip, err := netip.ParseAddr(l.instance.PrivateIP)
			if err != nil {
				o.err = cmp.Or(o.err, fmt.Errorf("instance %s has no private address: %w", l.instance.ID, err))
			}
			addresses[n] = ip
		}
		if o.err != nil {
			for n := range o.launched {
				delete(addresses, n)
			}
		}
	}
	if len(addresses) == 0 {
		return
	}
	attempts, cancel := context.WithTimeout(u.last, u.budget/4)
	defer cancel()
	var err error
	for {
		if err = u.Slurm.SetAddresses(attempts, addresses); err == nil {
			return
		}
		u.Log.Error("setting node addresses", "err", err)
		select {
		case <-attempts.Done():
			for i := range outcomes {
				if outcomes[i].err == nil {
					outcomes[i].err = err
				}
			}
			return
		case <-time.After(time.Second):
		}
	}
}

// succeeded are the records of a group that was launched, one for each reservation.
func (u *powerUp) succeeded(o outcome) (all []state.Record) {
	records := map[string]*state.Record{}
	nodes := map[string][]string{}
	for _, n := range o.nodes {
		l := o.launched[n]
		at, _ := u.placeOf(n)
		if records[l.reservation] == nil {
			records[l.reservation] = &state.Record{At: u.now(), Hook: "resume", Partition: at.partition.Name, Jobs: o.shown(),
				Reservation: l.reservation, Code: string(capacity.OK), Message: "launched"}
		}
		record := records[l.reservation]
		record.Instances = append(record.Instances, l.instance.ID)
		nodes[l.reservation] = append(nodes[l.reservation], n)
	}
	for reservation, record := range records {
		record.Nodes = u.Slurm.Hostlist(nodes[reservation])
		all = append(all, *record)
	}
	return all
}
