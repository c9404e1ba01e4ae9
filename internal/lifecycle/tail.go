package lifecycle

import (
	"fmt"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// The tail of a block is the time before its fence into which no waiting job fits. Its nodes are paid for.

// demand counts the jobs that wait for nodes of an open reservation and could run there.
type demand struct {
	fits        int // before the fence
	tooLong     int
	requeueable int // of those: they would run if their owners let them be requeued at the fence
}

// isTail reports whether jobs wait, and all of them are too long.
func (d demand) isTail() bool { return d.fits == 0 && d.tooLong > 0 }

// demands returns the demand for each open reservation.
func (s View) demands() map[string]demand {
	all := map[string]demand{}
	alike := map[jobKey]map[string]demand{} // by reservation
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if !s.waitsForNodes(*j) {
			continue
		}

		key := keyOf(j, s.Now)
		one, known := alike[key]
		if !known {
			one = s.demandOf(s.Snap.Request(*j))
			alike[key] = one
		}

		for id, d := range one {
			sum := all[id]
			sum.fits += d.fits
			sum.tooLong += d.tooLong
			sum.requeueable += d.requeueable
			all[id] = sum
		}
	}

	return all
}

// demandOf returns the demand of one job.
func (s View) demandOf(req capacity.Request) map[string]demand {
	one := map[string]demand{}
	for _, p := range capacity.Prospects(req, s.Snap, s.Now) {
		switch {
		case p.Window.Start.After(s.Now):
		case p.Fits:
			one[p.Reservation.ID] = demand{fits: 1}
		case p.CouldRunToFence(req, s.Snap):
			one[p.Reservation.ID] = demand{tooLong: 1, requeueable: 1}
		default:
			one[p.Reservation.ID] = demand{tooLong: 1}
		}
	}

	return one
}

// TailProblems reports nodes that stay idle until the fence, although jobs wait. It is for who has read jobs without a
// pass.
func TailProblems(
	snap *capacity.Snapshot, cluster *Cluster, jobs []capacity.Job, now time.Time,
) []capacity.Problem {
	return checkTails(View{Snap: snap, Cluster: cluster, Jobs: jobs, Now: now})
}

// checkTails reports nodes that stay idle until the fence, although jobs wait.
func checkTails(s View) (problems []capacity.Problem) {
	if s.Cluster == nil {
		return nil
	}

	// A node that is powered down takes a place of the block, and is launched when a job needs it.
	isIdle := func(n capacity.Node) bool { return n.IsIdle() || n.PoweredDown() }

	waiting := s.demands()
	for _, v := range s.slotStates() {
		idle := len(s.Cluster.filterNodes(s.Cluster.SlotNodes(v.Slot.Name), isIdle))
		d := waiting[v.Reservation.ID]
		left := v.Window.Fence.Sub(s.Now)

		// Behind min_time no job starts, whatever it asks for.
		if idle == 0 || !d.isTail() || left <= v.Partition.MinTime.Duration {
			continue
		}

		could := ""
		if d.requeueable > 0 {
			could = fmt.Sprintf("; %d could be requeued there (on_end=requeue)", d.requeueable)
		}

		problems = append(problems, capacity.Problemf(capacity.TailIdle, capacity.Subject{
			Partition:   v.Partition.Name,
			Slot:        v.Slot.Name,
			Reservation: v.Reservation.ID,
		}, "", "%s idle until the fence in %s, %s not fit%s", plural(idle, "node", "nodes"),
			capacity.FormatUntil(left), plural(d.tooLong, "waiting job does", "waiting jobs do"), could))
	}

	return problems
}

// plural counts things: "1 node", "2 nodes".
func plural(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}
