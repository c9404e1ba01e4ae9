package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// This file cancels the ODCRs that hooks and commands created and could not cancel, because they were killed or EC2
// did not answer. It looks only at ODCRs with this cluster's mark (R4).

// Clean cancels this cluster's ODCRs that no longer serve a purpose. It may run at any time, next to hooks and other
// passes. The error is for failed reads; failed cancellations are in the answer.
func Clean(ctx context.Context, s Sources) ([]UnneededHold, error) {
	mark := s.Settings.Cluster
	cluster, err := s.cluster(ctx)
	switch {
	case err == nil && cluster.MarkErr != nil:
		return nil, cluster.MarkErr
	case err == nil:
		mark = cluster.Mark
	case mark == "": // an ODCR past its end can go without asking Slurm
		var markErr error

		mark, markErr = s.State.Mark()
		if markErr != nil {
			return nil, fmt.Errorf("asking Slurm: %w", err)
		}
	}

	held, err := s.readHolds(ctx, mark)
	if err != nil {
		return nil, err
	}

	found := held.findUnneeded()

	// One that cannot be cancelled does not keep the others.
	for _, a := range held.releaseActions(found) {
		if err := a.Do(ctx, s.World); err != nil && a.About.Reservation == "" {
			held.Err = err
		}
	}

	return found, held.Err
}

// releaseHolds is Clean in a pass.
func (p *pass) releaseHolds(ctx context.Context) {
	if !p.readAllHolds(ctx) {
		return
	}

	// Another job may have got the nodes for which an ODCR was created: they are launched into it.
	held := p.view.Holds
	unneeded := slices.DeleteFunc(held.findUnneeded(), func(n UnneededHold) bool {
		return slices.ContainsFunc(p.view.heldSlots(), func(v capacity.SlotState) bool {
			return v.Slot.Name == n.Tags[capacity.TagNodeGroup] && len(p.view.launching(v)) > 0
		})
	})
	p.carryOut(ctx, held.releaseActions(unneeded))

	if held.Err != nil {
		p.addHoldsProblem(held.Err)
	}
}

// hold orders ODCRs for waiting jobs and lets jobs have the nodes that PCS can launch into them.
func (p *pass) hold(ctx context.Context) {
	held := p.view.heldSlots()
	if len(held) == 0 || p.view.Jobs == nil {
		return // that jobs could not be read has been reported
	}

	if !p.readAllHolds(ctx) {
		return
	}

	p.view.Members = map[string][]string{}
	for _, v := range held {
		if !p.view.usesGroup(v) {
			continue
		}

		members, err := p.Groups.Members(ctx, p.view.groupName(v))
		if err != nil {
			words, _ := p.EC2.Explain(err)
			p.addProblem(capacity.HoldGroupUnread, aboutSlot(v), fmt.Sprintf(
				"if it was deleted, run `pcs-capacity setup --on-demand %s --queue %s --node-group %s` again",
				v.Group.InstanceType, v.Partition.Name, v.Group.Name),
				"reading Capacity Reservation group %s: %s; no capacity is held for jobs", p.view.groupName(v), words)

			continue
		}

		p.view.Members[v.Slot.Name] = append([]string{}, members...)
	}

	p.carryOut(ctx, decideSettled(p.view))
	p.carryOut(ctx, decideJoins(p.view))
	p.carryOut(ctx, decideOrders(p.view))
	p.carryOut(ctx, decidePlaces(p.view))
	p.carryOut(ctx, decideRoomNotes(p.view))
	p.carryOut(ctx, decideSizes(p.view))

	for _, v := range held {
		v.Slot.Holding = p.view.holding(v)
	}
}

// lastUnreadGroups returns which groups the last pass could not read. Only a pass reads groups, and only those that it
// needs for waiting jobs: a look would ask AWS for groups that no job needs, or not notice what keeps jobs waiting.
func lastUnreadGroups(s View) []capacity.Problem {
	if s.Old == nil {
		return nil
	}

	return slices.DeleteFunc(slices.Clone(s.Old.Problems), func(p capacity.Problem) bool {
		return p.Code != capacity.HoldGroupUnread
	})
}

// foldHolds adds to the view what orders have brought.
func (p *pass) foldHolds(o Outcome) {
	for _, id := range slices.Sorted(maps.Keys(o.ODCRs)) {
		p.view.Holds.ODCRs = append(p.view.Holds.ODCRs, o.ODCRs[id])
	}

	for id, slot := range o.Joined {
		p.view.Members[slot] = append(p.view.Members[slot], id)
	}

	if len(o.Orders) > 0 {
		p.view.Orders = o.Orders
	}
}

// readAllHolds reads our ODCRs, once in a pass, and reports whether they are known.
func (p *pass) readAllHolds(ctx context.Context) bool {
	if p.view.Holds != nil {
		return true
	}

	if p.Settings.Reserve.MaxInstances == 0 || p.view.NoAWS || p.view.Cluster == nil || p.view.Cluster.MarkErr != nil {
		return false // these failures have been reported
	}

	held, err := p.readHolds(ctx, p.view.Cluster.Mark)
	if err != nil {
		p.addHoldsProblem(err)
		return false
	}

	p.view.Holds = &held

	return true
}

func (p *pass) addHoldsProblem(err error) {
	words, _ := p.EC2.Explain(err)
	p.addProblem(capacity.HeldNotKnown, capacity.Subject{}, "", "looking for unneeded ODCRs: %s", words)
}

// Holds has the facts about this cluster's ODCRs.
type Holds struct {
	Mark   string
	Ledger []capacity.Hold // what hooks and commands have recorded, as far as it was readable
	Err    error
	ODCRs  []capacity.Reservation // those that EC2 shows
	// Booting has the runs of jobs whose allocated nodes still boot, and false for those of pending jobs; nil if unknown.
	Booting map[capacity.JobRun]bool
	Now     time.Time
}

// readHolds reads our ODCRs, in the order that proves nobody needs them. The error is for failed reads.
func (s Sources) readHolds(ctx context.Context, mark string) (h Holds, err error) {
	h.Mark = mark
	// Before EC2: an order placed from now on is in no ledger that we have read.
	h.Ledger, h.Err = s.State.Holds(time.Time{})

	h.ODCRs, err = s.EC2.FindReservations(ctx, ec2.HoldsQuery(mark))
	if err != nil {
		return h, err
	}

	h.Now = s.now() // known only after EC2's answer
	// After EC2: a hook creates an ODCR for a job that has its nodes already, so a job that is not booting now waits for
	// none of these ODCRs. A pass creates one for a job that is pending.
	if slices.ContainsFunc(h.ODCRs, func(r capacity.Reservation) bool { _, forJobs := r.HoldRuns(); return forJobs }) {
		waits := func(j capacity.Job) bool { return j.Configuring() || j.Pending() }

		jobs, _, err := s.Slurm.JobsOf(ctx, nil, waits)
		if err == nil {
			h.Booting = map[capacity.JobRun]bool{}
		}

		// An ODCR on PCS is for all tasks of an array.
		for _, j := range jobs {
			for _, id := range []int{j.ID, j.ArrayID()} {
				run := capacity.JobRun{ID: id, Restarts: j.Restarts}
				h.Booting[run] = h.Booting[run] || j.Configuring()
			}
		}
	}

	return h, nil
}

// goneEntries returns the ids, or else the tokens, of the ledger's entries for which EC2 shows nothing that lives,
// although it should by now.
func (h Holds) goneEntries() (names []string) {
	for _, e := range h.Ledger {
		shown := func(r capacity.Reservation) bool {
			return (r.ID == e.ReservationID || r.Tags[capacity.TagToken] == e.Token) && r.State.IsLive()
		}
		if e.Since.Before(h.Now.Add(-capacity.LaunchTime)) && !slices.ContainsFunc(h.ODCRs, shown) {
			names = append(names, cmp.Or(e.ReservationID, e.Token))
		}
	}

	return names
}

// UnneededHold is an ODCR of ours that no longer serves a purpose.
type UnneededHold struct {
	capacity.Reservation
	Why      string `json:"why"`
	Released bool   `json:"released"`
	Error    string `json:"error,omitempty"` // why the cancellation failed
}

// findUnneeded returns the ODCRs that no longer serve a purpose (R4).
func (h Holds) findUnneeded() []UnneededHold {
	all := []UnneededHold{}

	// An order whose answer never came: its ODCR may still be on its way to a launch.
	unheard := map[string]bool{}
	for _, e := range h.Ledger {
		unheard[e.Token] = e.ReservationID == ""
	}

	for _, r := range h.ODCRs {
		if why := r.UnneededReason(h.Mark, h.Booting, unheard, h.Now); why != "" {
			all = append(all, UnneededHold{Reservation: r, Why: why})
		}
	}

	return all
}

// releaseActions cancels the ODCRs that no longer serve a purpose, and takes out of the ledger what is gone.
func (h Holds) releaseActions(all []UnneededHold) (actions []Action) {
	for i := range all {
		n := &all[i]
		actions = append(actions, newAction("release", capacity.Subject{Reservation: n.ID}, "give back "+n.String(),
			func(ctx context.Context, w World) error {
				err := w.EC2.CancelODCR(ctx, n.ID)

				// A ledger that could not be read is not written either.
				if err == nil && h.Err == nil {
					err = w.State.RemoveHolds(h.Now, n.ID, n.Tags[capacity.TagToken])
				}

				n.Released = err == nil
				if err != nil {
					n.Error, _ = w.EC2.Explain(err)
					err = fmt.Errorf("%w; %s", err, n.paidText())
				}

				return err
			}))
	}

	if names := h.goneEntries(); len(names) > 0 && h.Err == nil {
		actions = append(actions, newAction("keep-released", capacity.Subject{}, "",
			func(_ context.Context, w World) error { return w.State.RemoveHolds(h.Now, names...) }))
	}

	return actions
}

// String says for people what became of the ODCR.
func (n UnneededHold) String() string {
	text := fmt.Sprintf("%s, %d × %s in %s: %s", n.ID, n.Total, n.InstanceType, n.AZID, n.Why)
	if n.Error != "" {
		text += "; " + n.paidText()
	}

	return text
}

// paidText says until when an ODCR is paid that could not be cancelled.
func (n UnneededHold) paidText() string {
	return fmt.Sprintf(
		"it could not be cancelled: its %d unused instances are billed until EC2 ends it, within an hour of %s",
		n.Available, capacity.FormatUTC(n.End))
}
