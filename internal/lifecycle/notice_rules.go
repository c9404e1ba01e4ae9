package lifecycle

import (
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// The times of notices: how long before a fence people are told of it, how long nodes of an open block may have no job,
// how long before its fence the last block of a slot must have one that follows, and how long before the last moment to
// buy an extension they are told of it.
const (
	fenceNear  = time.Hour
	idleAfter  = 30 * time.Minute
	successor  = 14 * 24 * time.Hour
	timeToBuy  = 24 * time.Hour
	lastLength = 26 * 7 * 24 * time.Hour // the longest extension (EC2 API Reference, DescribeCapacityBlockOfferings)
)

// noticeView holds what the rules of notices look at: a pass that is over.
type noticeView struct {
	Report
	snap  *capacity.Snapshot
	slots []capacity.SlotState
	told  map[string]time.Time // the ledger: see dueNotices
}

// A rule returns the notices of its kind that apply now, whether people have heard of them or not.
var (
	noticeRules = []func(noticeView) []Notice{lostHeartbeat, slotNotices, blocksSetUp, troubles, refusedJobs}
	slotRules   = []func(noticeView, capacity.SlotState) []Notice{
		blocksClosed, blockOpened, fenceIsNear, noSuccessor, extensionDue, nodesIdle,
	}
)

// slotNotices applies the rules of slots, slot by slot.
func slotNotices(v noticeView) (all []Notice) {
	for _, s := range v.slots {
		for _, rule := range slotRules {
			all = append(all, rule(v, s)...)
		}
	}

	return all
}

func newNotice(code capacity.Code, about capacity.Subject, key, format string, args ...any) Notice {
	return Notice{Problem: capacity.Problemf(code, about, "", format, args...), key: noticeKey(code, key)}
}

func lostHeartbeat(v noticeView) []Notice {
	last := v.snap.TakenAt

	lost := v.At.Sub(last)
	if lost <= capacity.StaleAfter {
		return nil
	}

	return []Notice{newNotice(capacity.HeartbeatLost, capacity.Subject{}, formatKeyTime(last),
		"AWS last answered %s ago, at %s; fences stay in place, but changes to reservations go unnoticed",
		capacity.FormatDuration(lost), capacity.FormatUTC(last))}
}

func formatKeyTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// blocksClosed tells that reservations are over, if people were told that they opened.
func blocksClosed(v noticeView, s capacity.SlotState) (all []Notice) {
	for _, id := range s.Slot.ReservationIDs {
		r, known := v.snap.Reservation(id)
		_, opened := v.told[noticeKey(capacity.BlockOpened, id)]
		if !known || !opened || r.IsLiveAt(v.At) {
			continue
		}

		about := aboutSlot(s)
		about.Reservation = id
		all = append(all, newNotice(capacity.BlockClosed, about, id,
			"%s of slot %s is over (%s)", id, s.Slot.Name, r.State))
	}

	return all
}

func blockOpened(v noticeView, s capacity.SlotState) []Notice {
	r := s.Reservation
	if !v.hasBegun(s) || r.State != capacity.StateActive {
		return nil
	}

	until := ""
	if !s.Window.Unbounded() {
		until = ", jobs must end by " + capacity.FormatUTC(s.Window.Fence)
	}

	return []Notice{newNotice(capacity.BlockOpened, aboutSlot(s), r.ID,
		"%s is open: %d x %s for slot %s%s", r.ID, r.Size(), r.InstanceType, s.Slot.Name, until)}
}

func fenceIsNear(v noticeView, s capacity.SlotState) []Notice {
	left := s.Window.Fence.Sub(v.At)
	if !v.isBeforeFence(s) || left > fenceNear {
		return nil
	}

	return []Notice{newNotice(capacity.FenceNear, aboutSlot(s), fenceKey(s),
		"jobs on %s must end by %s, in %s", s.Reservation.ID, capacity.FormatUTC(s.Window.Fence),
		capacity.FormatUntil(left))}
}

func noSuccessor(v noticeView, s capacity.SlotState) []Notice {
	left := s.Window.Fence.Sub(v.At)
	if !v.isBeforeFence(s) || left > successor || s.Next.Reservation.ID != "" || hasSuccessor(s, v.slots) {
		return nil
	}

	return []Notice{newNotice(capacity.NoSuccessor, aboutSlot(s), fenceKey(s),
		"no block follows %[2]s in slot %[1]s, where jobs must end by %[3]s", s.Slot.Name, s.Reservation.ID,
		capacity.FormatUTC(s.Window.Fence))}
}

// hasSuccessor reports whether another slot of a node group has a block that ends later.
func hasSuccessor(s capacity.SlotState, all []capacity.SlotState) bool {
	return slices.ContainsFunc(all, func(o capacity.SlotState) bool {
		return o.Group.Name == s.Group.Name &&
			(o.Window.End.After(s.Window.End) || o.Next.Window.End.After(s.Window.End))
	})
}

// extensionDue tells that the queue needs an extension of a block, while there is time to buy one.
func extensionDue(v noticeView, s capacity.SlotState) []Notice {
	by := s.Window.ExtendBy()
	left := by.Sub(v.At)
	_, told := v.told[noticeKey(capacity.BuyBy, fenceKey(s))]
	if told || !s.Reservation.Kind.IsBlock() || !v.isBeforeFence(s) || left <= 0 || left > timeToBuy {
		return nil // most passes need not plan the queue
	}

	queue := capacity.Queue{Partition: s.Partition.Name, Jobs: v.Jobs, Now: v.At}
	queue.Jobs = excludeJobs(v.Jobs, func(j capacity.Job) bool { return !j.InPartition(queue.Partition) })
	longer := s.Reservation
	longer.End = longer.End.Add(lastLength)

	undone := len(queue.Plan(v.snap).Undone)

	helped := undone - len(queue.Plan(v.snap.With(queue.Partition, longer)).Undone)
	if helped <= 0 {
		return nil
	}

	return []Notice{newNotice(capacity.BuyBy, aboutSlot(s), fenceKey(s),
		"an extension of %s would let %s of partition %s get done that otherwise will not, as its fence is at %s; buy "+
			"it by %s, as its payment can take 12 hours", s.Reservation.ID, plural(helped, "job", "jobs"),
		queue.Partition, capacity.FormatUTC(s.Window.Fence), capacity.FormatUTC(by))}
}

func nodesIdle(v noticeView, s capacity.SlotState) []Notice {
	idle := countIdle(s, v.Cluster)
	since, recorded := v.told[idleKey(s)]
	if !v.isBeforeFence(s) || idle == 0 || !recorded || v.At.Sub(since) < idleAfter {
		return nil
	}

	return []Notice{newNotice(capacity.NodesIdle, aboutSlot(s), s.Slot.Name+" "+formatKeyTime(since),
		"%d nodes of slot %s, paid for in %s, have been idle since %s", idle, s.Slot.Name,
		s.Reservation.ID, capacity.FormatUTC(since))}
}

// recordIdle records since when slots have idle nodes. Without an answer of Slurm's the record stays.
func recordIdle(v noticeView) {
	for _, s := range v.slots {
		_, recorded := v.told[idleKey(s)]
		switch {
		case v.Cluster == nil:
		case countIdle(s, v.Cluster) == 0 || s.Reservation.State != capacity.StateActive:
			delete(v.told, idleKey(s))
		case !recorded:
			v.told[idleKey(s)] = v.At.UTC().Truncate(time.Second)
		}
	}
}

func idleKey(s capacity.SlotState) string { return "idling " + s.Slot.Name }

// countIdle returns the number of a slot's idle nodes; 0 without an answer of Slurm's.
func countIdle(s capacity.SlotState, cluster *Cluster) int {
	if cluster == nil {
		return 0
	}

	isIdle := func(n capacity.Node) bool { return nodeClass(n) == "idle" }

	return len(cluster.filterNodes(cluster.SlotNodes(s.Slot.Name), isIdle))
}

func blocksSetUp(v noticeView) (all []Notice) {
	for _, r := range v.Rolling {
		if r.Ready && r.Block.Start.After(v.At) {
			all = append(all, newNotice(capacity.BlockSetUp, r.about(), r.Block.ID,
				"%s is set up: it gets slot %s at %s", r.Block.ID, r.Slot, capacity.FormatUTC(r.Block.Start)))
		}
	}

	return all
}

// troubles tells of the problems that the pass found.
func troubles(v noticeView) (all []Notice) {
	for _, p := range v.All() {
		if p.Code.AppearsAt(capacity.AtNotice) {
			all = append(all, newNotice(p.Code, p.About, p.Sentence, "%s", p.Text()))
		}
	}

	return all
}

// maxJobNotices bounds the jobs that one pass reports: each delivery may take some seconds.
const maxJobNotices = 20

// refusedJobs tells of jobs whose owners were told, in the AdminComment, that they can never start: the site can tell
// them in another way. Jobs beyond the bound are left to a later pass.
func refusedJobs(v noticeView) (all []Notice) {
	untold := 0
	for _, j := range v.Jobs {
		note, _ := capacity.ParseAdminNote(j.AdminComment)
		if j.State != "PENDING" || !note.Refuses() {
			continue
		}

		n := newNotice(capacity.NeverStarts, capacity.Subject{Partition: j.Partition, Job: j.Shown}, j.Shown,
			"job %s of %s: %s", j.Shown, j.User, note.Sentence())
		n.User = j.User

		_, told := v.told[n.key]
		if !told {
			untold++
		}

		if told || untold <= maxJobNotices {
			all = append(all, n)
		}
	}

	return all
}

// fenceKey names the fence of a slot: after an extension it is another.
func fenceKey(s capacity.SlotState) string {
	return s.Reservation.ID + " " + formatKeyTime(s.Window.Fence)
}

// hasBegun reports whether the slot's reservation has started.
func (v noticeView) hasBegun(s capacity.SlotState) bool {
	return s.Reservation.ID != "" && !s.Window.Start.After(v.At)
}

// isBeforeFence reports whether the slot's reservation has started and has a fence that is still to come.
func (v noticeView) isBeforeFence(s capacity.SlotState) bool {
	return v.hasBegun(s) && !s.Window.Unbounded() && s.Window.Fence.After(v.At)
}
