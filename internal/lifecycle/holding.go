package lifecycle

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// This file holds capacity for jobs on PCS, which launches nodes itself. A node group with reserve = "per-job" launches
// only into the ODCRs of its Capacity Reservation group, and a guard keeps jobs off all nodes that are not up. When a job
// waits for nodes, a pass creates an ODCR in a zone that has room, adds it to the group, and takes as many nodes out of
// the guard. Slurm then starts the job, and PCS launches its nodes.
//
// Once the nodes run, the ODCR keeps as much room as they use, which costs nothing more, and goes with the last of them.
// It cannot go earlier: EC2 moves instances of the group that run outside of a reservation into the next ODCR of the
// group, and the job for which that one is would find it full. The end of an ODCR is always some minutes away, and each
// pass moves it on: without sync it ends by itself, and its instances go on.
//
// Nothing is remembered that EC2 and Slurm do not show: a pass that is killed at any point leaves an ODCR that the next
// one uses or cancels. The group has room in one zone at a time, so that the nodes of a job are in one zone.

const (
	// holdPoll must pass between two passes while capacity is held: EC2 shows a new ODCR within 15 s.
	holdPoll = 15 * time.Second
	// longestHoldPause bounds the time until capacity is held again for a job that Slurm does not start.
	longestHoldPause = 24 * time.Hour
)

// heldSlots returns the slots whose nodes are launched into held capacity only.
func (s View) heldSlots() []capacity.SlotState {
	return slices.DeleteFunc(s.slotStates(), func(v capacity.SlotState) bool { return !v.LaunchesHeld() || v.Former })
}

func (s View) groupName(v capacity.SlotState) string {
	return capacity.HoldGroupName(s.Cluster.Mark, v.Slot.Name)
}

// usesGroup reports whether this pass needs to know a slot's group.
func (s View) usesGroup(v capacity.SlotState) bool {
	return len(s.awaited(v)) > 0 || len(s.missingNodes(v)) > 0
}

// odcrs returns the live ODCRs for jobs of a slot.
func (s View) odcrs(v capacity.SlotState) (all []capacity.Reservation) {
	for _, r := range s.Holds.ODCRs {
		if r.Tags[capacity.TagNodeGroup] == v.Slot.Name && r.IsLiveAt(s.Now) {
			all = append(all, r)
		}
	}

	return all
}

// awaited returns, of the ODCRs of a slot, those whose free instances are for jobs that are about to start, or whose
// nodes boot.
func (s View) awaited(v capacity.SlotState) []capacity.Reservation {
	return slices.DeleteFunc(s.odcrs(v), func(r capacity.Reservation) bool {
		return !r.IsAwaited(s.Holds.Booting, s.Now)
	})
}

// decideJoins adds ODCRs to their groups that an earlier pass could not add.
func decideJoins(s View) (actions []Action) {
	for _, v := range s.heldSlots() {
		members, known := s.Members[v.Slot.Name]
		for _, r := range s.awaited(v) {
			if !known || slices.Contains(members, r.ID) || r.State != capacity.StateActive {
				continue
			}

			about := aboutSlot(v)
			about.Reservation = r.ID
			text := fmt.Sprintf("add %s to Capacity Reservation group %s", r.ID, s.groupName(v))
			actions = append(actions, newAction("join-group", about, text, func(ctx context.Context, w World) error {
				return join(ctx, w, s.groupName(v), v.Slot.Name, r)
			}))
		}
	}

	return actions
}

// join adds an ODCR to the group of a slot: from then on PCS can launch into it.
func join(ctx context.Context, w World, group, slot string, r capacity.Reservation) error {
	err := w.Groups.Add(ctx, group, []string{r.ARN})
	if err == nil {
		w.Outcome.Joined[r.ID] = slot
	}

	return err
}

// launching returns the nodes of a slot that PCS is about to launch. It sets the address of each that it has launched.
func (s View) launching(v capacity.SlotState) []string {
	return s.Cluster.filterNodes(s.Cluster.SlotNodes(v.Slot.Name), func(n capacity.Node) bool {
		return n.IsBooting() && (n.Address == "" || n.Address == n.Name)
	})
}

// freeInstances returns how many more nodes of a slot have room in some of its ODCRs.
func (s View) freeInstances(v capacity.SlotState, in []capacity.Reservation) int {
	free := 0
	for _, r := range in {
		free += r.Available
	}

	return max(0, free-len(s.launching(v)))
}

// joined returns, of the ODCRs of a slot that are awaited, those of its group: PCS can launch into them.
func (s View) joined(v capacity.SlotState) []capacity.Reservation {
	return slices.DeleteFunc(s.awaited(v), func(r capacity.Reservation) bool {
		return !slices.Contains(s.Members[v.Slot.Name], r.ID)
	})
}

// offNodes returns the nodes of a slot that a job can have only if they are launched.
func (s View) offNodes(v capacity.SlotState) []string {
	byName := s.Cluster.byName()

	return slices.DeleteFunc(slices.Clone(s.Cluster.SlotNodes(v.Slot.Name)), func(name string) bool {
		n, shown := byName[name]
		return shown && (n.IsUp() || n.IsBooting()) // Slurm 22.05 hides nodes that are off
	})
}

// decidePlaces keeps jobs off the nodes of held slots that PCS could not launch.
func decidePlaces(s View) (actions []Action) {
	for _, v := range s.heldSlots() {
		off := s.offNodes(v)
		byName := s.Cluster.byName()
		isUsable := func(name string) bool {
			n, shown := byName[name]
			return !shown || n.PoweredDown() && n.OutState() == ""
		}

		open := s.freeInstances(v, s.joined(v))
		closed := slices.DeleteFunc(off, func(name string) bool {
			opens := open > 0 && isUsable(name)
			if opens {
				open--
			}

			return opens
		})

		var want []capacity.SlurmReservation
		if len(closed) > 0 {
			surplus := s.newGuard(capacity.GuardSurplus, v, "", closed, s.Now, time.Time{})
			want = append(want, surplus.ShiftTimes(s.slurmOffset()))
		}

		have := slices.DeleteFunc(slices.Clone(s.Cluster.Reservations), func(r capacity.SlurmReservation) bool {
			g := r.Guard()
			return g.Kind != capacity.GuardSurplus || g.Slot != v.Slot.Name
		})

		todo, _ := s.diffGuards(want, have, nil, nil)
		for _, g := range todo {
			actions = append(actions, g.action(-s.slurmOffset()))
		}
	}

	return actions
}

// order says for which job of a slot an ODCR is to be created.
type order struct {
	slot  capacity.SlotState
	job   capacity.Job
	tasks int // of an array; 1 for other jobs
	unit  int // the nodes of a task
	ready int // nodes that it need not be given
	most  int // nodes that can be launched at all
}

// count returns the instances for some of the tasks.
func (o order) count(tasks int) int { return tasks*o.unit - o.ready }

// missingNodes returns the orders for the jobs that wait for nodes of a slot, beside the nodes that are idle and those
// that PCS can launch already. The jobs are in the order in which they were submitted: which of them starts, Slurm
// decides.
func (s View) missingNodes(v capacity.SlotState) (all []order) {
	nodes := s.Cluster.SlotNodes(v.Slot.Name)
	idle := len(s.Cluster.filterNodes(nodes, func(n capacity.Node) bool { return n.IsUp() && n.IsIdle() }))
	held := s.freeInstances(v, s.awaited(v))
	ready := idle + held
	most := len(s.offNodes(v)) - held
	total := 0
	smallest := most + 1

	for _, j := range s.remainingJobs() {
		if !s.waitsForNodes(j) || !j.LacksNodes() || !j.InPartition(v.Partition.Name) || j.Reservation != "" {
			continue
		}

		unit, fits := s.needs(j, v)
		if !fits || s.isHeldElsewhere(j, v) {
			continue
		}

		tasks := j.PendingTasks()
		start := min(tasks, ready/unit)
		ready -= start * unit

		// A task that has some nodes waits for the others.
		tasks = min(tasks-start, (ready+most)/unit)
		if tasks == 0 || s.Now.Before(s.pausedUntil(j)) {
			continue
		}

		o := order{
			slot:  v,
			job:   j,
			tasks: tasks,
			unit:  unit,
			ready: ready,
			most:  most,
		}
		ready = 0

		// Beyond all nodes only what may have room where the orders before it have none.
		if n := o.count(tasks); total+n <= most || n < smallest {
			total += n
			smallest = min(smallest, n)

			all = append(all, o)
		}
	}

	return all
}

// isHeldElsewhere reports whether capacity waits for a job in another slot.
func (s View) isHeldElsewhere(j capacity.Job, v capacity.SlotState) bool {
	run := capacity.JobRun{ID: j.ArrayID(), Restarts: j.Restarts}

	return slices.ContainsFunc(s.Holds.ODCRs, func(r capacity.Reservation) bool {
		runs, _ := r.HoldRuns()
		of := r.Tags[capacity.TagNodeGroup]

		return of != "" && of != v.Slot.Name && slices.Contains(runs, run) && r.IsLiveAt(s.Now) &&
			r.IsAwaited(s.Holds.Booting, s.Now)
	})
}

// needs returns the number of nodes that a job needs of a slot; false if it cannot run there.
func (s View) needs(j capacity.Job, v capacity.SlotState) (nodes int, fits bool) {
	for _, p := range capacity.Prospects(s.Snap.Request(j), s.Snap, s.Now) {
		if p.Slot.Name == v.Slot.Name && p.Reservation.ID == "" {
			return max(1, p.Needs), true
		}
	}

	return 0, false
}

// pausedUntil returns when capacity is held again for a job: Slurm has left some unused that was held for it. Some
// reasons for which Slurm does not start a job are not in squeue. It is zero for other jobs.
func (s View) pausedUntil(j capacity.Job) time.Time {
	last := s.JobRecords[recordKey(j.Shown)].Unused
	if last == nil {
		return time.Time{}
	}

	pause := min(capacity.StartTime<<min(last.Times, 10), longestHoldPause)

	return time.Unix(last.At, 0).Add(pause)
}

// decideOrders creates an ODCR for each job that lacks nodes.
func decideOrders(s View) (actions []Action) {
	// An order whose answer was lost may have created an ODCR that EC2 does not show yet.
	lost := func(h capacity.Hold) bool { return h.ReservationID == "" && h.Since.After(s.Now.Add(-holdPoll)) }
	if slices.ContainsFunc(s.Holds.Ledger, lost) {
		return nil
	}

	for _, v := range s.heldSlots() {
		if s.Members[v.Slot.Name] == nil {
			continue
		}

		for _, o := range s.missingNodes(v) {
			about := aboutSlot(v)
			about.Job = o.job.Shown
			text := fmt.Sprintf("hold %d × %s for job %s", o.count(o.tasks), v.Group.InstanceType, o.job.Shown)
			actions = append(actions, newAction("hold", about, text, func(ctx context.Context, w World) error {
				return o.carryOut(ctx, w, s)
			}))
		}
	}

	return actions
}

// carryOut creates the ODCR in the first zone that has room for it, and adds it to the group. If no zone has room for
// all tasks of an array, it asks for half as many.
func (o order) carryOut(ctx context.Context, w World, s View) error {
	// It has been held in another slot a moment ago.
	if words, ordered := w.Outcome.Orders[o.job.Shown]; ordered && words == "" {
		return errMoot
	}

	var refused error

	zones, all := o.zones(s, w.Outcome)
	for tasks := o.tasks; tasks > 0 && o.count(tasks) > 0; tasks /= 2 {
		n := o.count(tasks)
		if w.Outcome.Ordered[o.slot.Slot.Name]+n > o.most {
			continue
		}

		for _, zone := range zones {
			place := o.slot.Group.InstanceType + " " + zone
			if full := w.Outcome.Full[place]; full.count > 0 && n >= full.count {
				refused = full.err
				continue
			}

			r, err := o.create(ctx, w, s, zone, n)
			if errors.Is(err, capacity.ErrNoRoom) {
				w.Outcome.Full[place] = fullZone{n, err}
				refused = err

				continue
			}

			if err != nil {
				w.Outcome.Orders[o.job.Shown], _ = w.EC2.Explain(err)
				return err
			}

			w.Outcome.Ordered[o.slot.Slot.Name] += n
			w.Outcome.ODCRs[r.ID] = r
			w.Outcome.Orders[o.job.Shown] = ""

			// A group takes no pending one: a later pass adds it.
			if r.State != capacity.StateActive {
				return nil
			}

			return join(ctx, w, s.groupName(o.slot), o.slot.Slot.Name, r)
		}
	}

	if refused != nil && all {
		w.Outcome.Orders[o.job.Shown], _ = w.EC2.Explain(refused)
	}

	return errMoot
}

// fullZone says how many instances a zone has refused, and why.
type fullZone struct {
	count int
	err   error
}

// zones returns the zones to try: that of the free capacity which the group has now, else all of the subnets in the
// order of the settings.
func (o order) zones(s View, done Outcome) (zones []string, all bool) {
	slot := o.slot.Slot.Name
	for _, r := range slices.AppendSeq(s.awaited(o.slot), maps.Values(done.ODCRs)) {
		if r.Tags[capacity.TagNodeGroup] == slot && r.Available > 0 {
			return []string{r.AZID}, false
		}
	}

	wish, _ := o.job.Wish()
	for _, subnet := range o.slot.Group.Subnets {
		asked := wish.SubnetID == "" || wish.SubnetID == subnet.ID
		if asked && !slices.Contains(zones, subnet.AZID) {
			zones = append(zones, subnet.AZID)
		}
	}

	return zones, true
}

// create creates the ODCR. It is in the ledger before it is ordered, and until it is certain that it does not exist.
func (o order) create(ctx context.Context, w World, s View, zone string, count int) (capacity.Reservation, error) {
	request := o.request(s, zone, count)
	entry := capacity.Hold{
		Token:        request.ClientToken,
		InstanceType: request.InstanceType,
		Count:        count,
		Since:        s.Now,
		Until:        request.End,
	}

	_, err := w.State.AddHold(entry, s.Now, s.Settings.Reserve.Allows)
	if errors.Is(err, capacity.ErrReserveLimit) {
		return capacity.Reservation{}, fmt.Errorf("%w: %w", capacity.ErrNoRoom, err)
	}

	if err != nil {
		return capacity.Reservation{}, err
	}

	r, err := w.EC2.CreateODCR(ctx, request)
	if capacity.CreatedNothing(err) {
		err = errors.Join(err, w.State.RemoveHolds(s.Now, request.ClientToken))
	}

	if err != nil {
		return capacity.Reservation{}, err // what EC2 may have created, a later pass finds by its tags
	}

	entry.ReservationID = r.ID
	r.Total = count // EC2 may report it later
	r.Available = count

	// Only EC2 knows how many of them move into the ODCR.
	if s.runOutside(o.slot) {
		r.Available = 0
	}

	_, err = w.State.AddHold(entry, s.Now, s.Settings.Reserve.Allows)

	return r, err
}

// runOutside reports whether nodes of a slot run outside of its ODCRs, because these have ended while sync did not run.
func (s View) runOutside(v capacity.SlotState) bool {
	inside := 0
	for _, r := range s.odcrs(v) {
		inside += r.Used()
	}

	nodes := s.Cluster.SlotNodes(v.Slot.Name)

	return inside+len(s.launching(v)) < len(nodes)-len(s.offNodes(v))
}

// request returns what EC2 is asked for.
func (o order) request(s View, zone string, count int) capacity.HoldOrder {
	group := o.slot.Group
	run := capacity.JobRun{ID: o.job.ArrayID(), Restarts: o.job.Restarts}

	// EC2 binds a token to its first use, also one that it has refused: each order has its own.
	token := fmt.Sprint(s.Cluster.Mark, o.slot.Slot.Name, o.job.Shown, zone, count, s.Now.UnixNano())

	return capacity.HoldOrder{
		ClientToken:  fmt.Sprintf("%x", sha256.Sum256([]byte(token))),
		InstanceType: group.InstanceType,
		AZID:         zone,
		Platform:     cmp.Or(group.Platform, capacity.LinuxUNIX),
		Count:        count,
		End:          s.holdEnd(),
		Tags: map[string]string{
			capacity.TagCluster:   s.Cluster.Mark,
			capacity.TagPartition: o.slot.Partition.Name,
			capacity.TagNodeGroup: o.slot.Slot.Name,
			capacity.TagJob:       o.job.Shown,
			capacity.TagHold:      capacity.HoldJobs([]capacity.JobRun{run}),
			capacity.TagName:      "held for job " + o.job.Shown,
		},
	}
}

// holdTime is the time from now to the end of an ODCR that is needed: what a start and a boot may take.
func (s View) holdTime() time.Duration {
	return max(capacity.HoldTime, capacity.StartTime+s.Snap.Timing.BootAllowance.Duration)
}

// holdEnd is in whole seconds, as EC2 takes it.
func (s View) holdEnd() time.Time { return s.Now.Add(s.holdTime()).Truncate(time.Second) }

// decideSizes gives ODCRs whose nodes run the number of instances that these use, and moves the ends of those that are
// in use. An ODCR that nobody uses is cancelled with the other unneeded ones.
func decideSizes(s View) (actions []Action) {
	for _, v := range s.heldSlots() {
		launches := len(s.launching(v)) > 0
		for _, r := range s.odcrs(v) {
			awaited := r.IsAwaited(s.Holds.Booting, s.Now)
			if !awaited && r.Used() == 0 || r.State != capacity.StateActive { // a pending one cannot be changed
				continue
			}

			size := r.Total
			end := r.End
			text := fmt.Sprintf("move the end of %s, whose instances run", r.ID)

			// The free instances may be for the nodes of another job.
			if !awaited && !launches && r.Available > 0 {
				size = r.Used()
				text = fmt.Sprintf("give back %d of the %d instances of %s, which nobody uses", r.Available, r.Total, r.ID)
			}

			if r.End.Sub(s.Now) < s.holdTime()/2 {
				end = s.holdEnd()
			}

			if size == r.Total && end.Equal(r.End) {
				continue
			}

			about := aboutSlot(v)
			about.Reservation = r.ID
			actions = append(actions, newAction("resize", about, text, func(ctx context.Context, w World) error {
				return w.EC2.ModifyODCR(ctx, r.ID, size, end)
			}))
		}
	}

	return actions
}

// decideSettled records what it has cost to hold capacity, once: when the nodes run for which it was held, or when
// nobody has used it. The ledger has the ODCR until then.
func decideSettled(s View) (actions []Action) {
	for _, v := range s.heldSlots() {
		for _, r := range s.odcrs(v) {
			listed := slices.ContainsFunc(s.Holds.Ledger, func(h capacity.Hold) bool { return h.ReservationID == r.ID })
			if !listed || r.IsAwaited(s.Holds.Booting, s.Now) {
				continue
			}

			actions = append(actions, newAction("keep-held", aboutSlot(v), "", func(ctx context.Context, w World) error {
				inside, err := w.EC2.FindInstances(ctx, capacity.InstanceQuery{Reservation: r.ID})
				if err == nil {
					err = w.State.RemoveHolds(s.Now, r.ID)
				}

				if err != nil {
					return err
				}

				return w.State.AppendRecords(state.HeldRecord(r, inside, s.nowInSeconds()))
			}))
		}
	}

	return append(actions, saveUnused(s)...)
}

// saveUnused records the jobs that Slurm has not started although capacity was held for them.
func saveUnused(s View) []Action {
	records := map[string]state.JobRecord{}
	for _, v := range s.heldSlots() {
		for _, r := range s.odcrs(v) {
			runs, _ := r.HoldRuns()
			for _, j := range s.remainingJobs() {
				run := capacity.JobRun{ID: j.ArrayID(), Restarts: j.Restarts}
				if !j.Pending() || r.Used() > 0 || r.IsAwaited(s.Holds.Booting, s.Now) || !slices.Contains(runs, run) {
					continue
				}

				key := recordKey(j.Shown)
				record := s.JobRecords[key]

				now := state.Unused{Times: 1, At: s.Now.Unix()}
				if record.Unused != nil {
					now.Times += record.Unused.Times
				}

				record.Unused = &now
				records[key] = record
			}
		}
	}

	return saveJobRecords(s, records)
}

// decideRoomNotes tells the owners of jobs for which no capacity could be held why, once, and when that is over.
func decideRoomNotes(s View) (actions []Action) {
	for _, j := range s.remainingJobs() {
		refused, asked := s.Orders[j.Shown]
		says, ours := capacity.ParseAdminNote(j.AdminComment)
		if !asked || j.AdminComment != "" && !ours || len(actions) == maxNotesPerPass {
			continue
		}

		note := says
		note.Kind = capacity.NoteNoRoom
		switch {
		case refused != "":
			note.Text = refused + "; sync tries again in each pass"
		case says.Kind == capacity.NoteNoRoom:
			note.Kind = capacity.NoteStartsAgain
			note.Text = ""
		default:
			continue
		}

		if note.String() != j.AdminComment {
			text := fmt.Sprintf("tell the owner of job %s: %s", j.Shown, note.Sentence())
			actions = append(actions, noteAction(j, note, text))
		}
	}

	return actions
}

// holding returns what is held for jobs of a slot; nil if nothing is to be said.
func (s View) holding(v capacity.SlotState) *capacity.Holding {
	h := capacity.Holding{Paused: map[string]time.Time{}}
	for _, r := range s.awaited(v) {
		h.AZID = r.AZID
		h.Count += r.Total
		h.Free += r.Available
		h.Jobs = append(h.Jobs, r.Tags[capacity.TagJob])
	}

	slices.Sort(h.Jobs)
	h.Jobs = slices.Compact(h.Jobs)

	for _, j := range s.remainingJobs() {
		until := s.pausedUntil(j)
		if j.Pending() && j.InPartition(v.Partition.Name) && until.After(s.Now) {
			h.Paused[j.Shown] = until
		}
	}

	if h.Count == 0 && len(h.Paused) == 0 {
		return nil
	}

	return &h
}
