package capacity

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Request is a job as submitted, or as slurmctld holds it.
type Request struct {
	Partitions []string // the job may run in; empty means the default one
	Account    string   // as given at submission ("" if not given) or as slurmctld has it
	// AccountKnown: the job runs under Account, or under none if Account is "". If false, Account "" stands for the
	// user's default account, which only slurmctld knows.
	AccountKnown       bool
	User, QOS          string // who submits it, and its --qos; "" if not known or not given
	Comment            string
	TimeLimit, TimeMin Limit
	Begin, Deadline    time.Time     // the earliest start, and when it must have ended; zero if not given
	Requeue            Requeue       // whether the job may be requeued
	Signal             time.Duration // how long before its limit the job asks for a signal; 0 for none
	// Nodes is the least number of nodes, Tasks the number of tasks, TasksPerNode the most tasks on one node; GPUs are of
	// the whole job. Each is 0 if not given.
	Nodes, Tasks, TasksPerNode, GPUs, GPUsPerNode, GPUsPerTask, CPUsPerTask int

	Overcommit bool // tasks may share CPUs
	Counted    bool // Nodes is Slurm's own count, not what the owner wrote
	Constraint string
	// OneNode: the job runs on one node, whatever else it asks for. Component: it is one of a heterogeneous job, and not
	// the first.
	OneNode, Component bool
	Was                string // the comment before a change
	Started            bool   // the job already runs
}

// in are the partitions that the job may run in.
func (r Request) in(snap *Snapshot) []string {
	if len(r.Partitions) == 0 && snap.DefaultPartition != "" {
		return []string{snap.DefaultPartition}
	}
	return r.Partitions
}

// Admit decides whether a job may be submitted and which edits it gets. A job whose partitions are all unmanaged is
// accepted unchanged. A job with several partitions is refused only if all of them refuse it, or if one of them does
// not allow its account. An unmanaged partition takes every job except one that names a reservation.
func Admit(req Request, snap *Snapshot, now time.Time) Verdict {
	return admit(req, snap, now, admitPartition)
}

// AdmitChange decides whether the partition, account or comment of a queued job may change to those of req. It
// ignores time and size: Slurm itself holds back a job that does not fit, and the owner must be able to correct a
// comment. But a running job keeps its on_end.
func AdmitChange(req Request, snap *Snapshot, now time.Time) Verdict {
	if wish, _ := req.Wish(); req.Started && wish.OnEnd != "" {
		if was, _ := (Request{Comment: req.Was}).Wish(); wish.OnEnd != was.OnEnd {
			return refuse(BadComment, "on_end= in a comment counts from before a job starts only; this one has started")
		}
	}
	return admit(req, snap, now, func(req Request, wish Wish, p Partition, snap *Snapshot, _ time.Time) Verdict {
		_, v := entitled(req, wish, p, snap)
		return v
	})
}

type judge func(req Request, wish Wish, p Partition, snap *Snapshot, now time.Time) Verdict

func admit(req Request, snap *Snapshot, now time.Time, in judge) Verdict {
	names := req.in(snap)
	wish, problems := req.Wish()

	var verdicts []Verdict
	var parts []Partition
	var foreign []string
	for _, name := range names {
		if p, ok := snap.Partition(name); ok {
			verdicts, parts = append(verdicts, in(req, wish, p, snap, now)), append(parts, p)
		} else {
			foreign = append(foreign, name)
		}
	}
	if len(verdicts) == 0 {
		return soften(admitUnmanaged(wish, snap, names), snap, now)
	}
	if len(problems) > 0 {
		return soften(refuse(BadComment, "%s", strings.Join(problems, "; ")), snap, now)
	}
	v := combine(verdicts, len(names), wish.ReservationID != "")
	if len(names) > 1 && !v.Refused {
		v = inOneBlock(v, verdicts, parts, foreign, req, snap)
	}
	if v.Edits.Constraint != "" {
		if req.Constraint != "" {
			v.Edits.Constraint = req.Constraint + "&" + v.Edits.Constraint
		}
		if req.Component {
			v.Warnings = append(v.Warnings, apart)
		}
	}
	v = soften(v, snap, now)
	v.Warnings = append(v.Warnings, nearKeys(req.Comment)...)
	for _, text := range []string{endsAnyway(req, wish, snap), lateSignal(req, wish, snap)} {
		if text != "" && !v.Refused {
			v.Warnings = append(v.Warnings, text)
		}
	}
	return v
}

// combine merges the verdicts of a job's managed partitions; total counts all its partitions. A job that also lists
// an unmanaged partition gets no limit, with one exception: if every partition that takes the job needs a limit, the
// longest fitted limit serves all of them. Without it the job would be unlimited and never start before a fence.
//
// named: the job names a reservation, which only a managed partition can provide.
func combine(verdicts []Verdict, total int, named bool) Verdict {
	if total == 1 {
		return verdicts[0]
	}
	// Slurm may start the job in any of its partitions, even on a node that is already up.
	if i := slices.IndexFunc(verdicts, func(v Verdict) bool { return v.Code == AccountNotAllowed }); i >= 0 {
		return verdicts[i]
	}
	accepted := slices.DeleteFunc(slices.Clone(verdicts), func(v Verdict) bool { return v.Refused })
	if len(accepted) == 0 && (named || len(verdicts) == total) {
		v := verdicts[0]
		for _, other := range verdicts[1:] {
			v.Message += "; " + other.Message
		}
		if len(verdicts) < total {
			v.Message += "; without capacity_reservation_id the job may run in its other partitions"
		}
		return v
	}
	merged := Verdict{Code: OK}
	for _, v := range accepted {
		merged.Warnings = append(merged.Warnings, v.Warnings...)
	}
	if len(verdicts) < total {
		return merged
	}
	if slices.ContainsFunc(accepted, func(v Verdict) bool { return !v.Edits.TimeLimit.Set }) {
		return merged
	}
	longest := slices.MaxFunc(accepted,
		func(a, b Verdict) int { return a.Edits.TimeLimit.Minutes - b.Edits.TimeLimit.Minutes })
	merged.Edits = longest.Edits
	merged.Edits.Constraint = ""
	return merged
}

// Sentences for a job that may get nodes of several blocks or partitions.
const (
	apart = "the components of this job may get nodes of different blocks; to keep them in one, give each the same " +
		"--constraint, one of those in the brackets that squeue shows (%f)"
	leaveOut = "a job of several nodes keeps to one block of partition %s, and the nodes of partition %s are in none: " +
		"leave out %s, or use --nodes=1"
	neverStarts = "without --time the job never starts in partition %s, whose blocks end"
)

// inOneBlock keeps a job with several partitions in one block, if one of them has several slots: the constraint names
// the slots of all. A partition whose nodes are in no slot cannot be among them. verdicts are those of parts, foreign
// the partitions that are not ours.
func inOneBlock(v Verdict, verdicts []Verdict, parts []Partition, foreign []string, req Request, snap *Snapshot) Verdict {
	var several, ends, slots []string
	out := slices.Clone(foreign)
	for i, one := range verdicts {
		if one.Refused {
			continue
		}
		if one.Edits.TimeLimit.Set && !v.Edits.TimeLimit.Set {
			ends = append(ends, parts[i].Name)
		}
		fs := strings.FieldsFunc(one.Edits.Constraint, func(r rune) bool { return strings.ContainsRune("[|]", r) })
		if len(fs) > 0 {
			several = append(several, parts[i].Name)
		} else if fs = features(candidates(parts[i], snap)); slices.Contains(fs, "") {
			out = append(out, parts[i].Name)
		}
		for _, slot := range fs {
			if !slices.Contains(slots, slot) {
				slots = append(slots, slot)
			}
		}
	}
	if len(ends) > 0 {
		v.Warnings = append(v.Warnings, fmt.Sprintf(neverStarts, strings.Join(ends, ",")))
	}
	switch ours, theirs := strings.Join(several, ","), strings.Join(out, ","); {
	case len(several) == 0 || req.OneNode:
	case len(out) > 0:
		return refuse(WrongPartition, leaveOut, ours, theirs, theirs)
	default:
		v.Edits.Constraint = "[" + strings.Join(slots, "|") + "]"
	}
	return v
}

// soften turns a refusal into a warning where the settings or the snapshot's age require it. A stale snapshot still
// refuses a job that crosses a known end, and a job that is refused for reasons outside AWS, such as its account.
func soften(v Verdict, snap *Snapshot, now time.Time) Verdict {
	stale := snap.Stale(now)
	age := fmt.Sprintf("what pcs-capacity knows is %s old (is `pcs-capacity sync --watch` running?)", FormatDuration(now.Sub(snap.TakenAt)))
	switch {
	case v.Refused && (!snap.Submit.Strict || stale && v.Code.ofAWS()):
		v = Verdict{Code: v.Code, Warnings: append(v.Warnings, v.Message)}
	case stale && v.Edits.TimeMin.Set && snap.TimeMinCollapses:
		v.Warnings = append(v.Warnings,
			fmt.Sprintf("%s: the job may start with only %s and is raised once sync runs", age, v.Edits.TimeMin))
		return v
	}
	if stale && v.Code != OK && v.Code != NotManaged {
		v.Warnings = append(v.Warnings, age)
	}
	return v
}

// admitUnmanaged judges a job without a managed partition: it is refused only if it names a reservation of another
// partition.
func admitUnmanaged(wish Wish, snap *Snapshot, names []string) Verdict {
	v := Verdict{Code: NotManaged}
	if wish.ReservationID == "" {
		return v
	}
	if p, ok := partitionOf(snap, wish.ReservationID); ok {
		return refuse(WrongPartition, "reservation %s belongs to partition %s, not to %s; submit with --partition=%s",
			wish.ReservationID, p.Name, strings.Join(names, ","), p.Name)
	}
	v.Warnings = []string{
		fmt.Sprintf("reservation %s belongs to no partition here; the job runs without it", wish.ReservationID)}
	return v
}

func partitionOf(snap *Snapshot, reservationID string) (Partition, bool) {
	i := slices.IndexFunc(snap.Partitions, func(p Partition) bool { return p.Has(reservationID) })
	if i < 0 {
		return Partition{}, false
	}
	return snap.Partitions[i], true
}

// entitled returns the reservations of a partition that the job's account may use and that its comment asks for.
func entitled(req Request, wish Wish, p Partition, snap *Snapshot) ([]Turn, Verdict) {
	if (req.Account != "" || req.AccountKnown) && !p.Allows(req.Account) {
		if req.Account == "" {
			return nil, refuse(AccountNotAllowed, "a job without an account may not use the reservations of partition %s; submit with --account=%s",
				p.Name, strings.Join(p.AllowAccounts, " or --account="))
		}
		return nil, refuse(AccountNotAllowed, "account %q may not use the reservations of partition %s; allowed: %s",
			clip(req.Account), p.Name, strings.Join(p.AllowAccounts, ", "))
	}
	return selectWanted(named(candidates(p, snap)), wish, p, snap)
}

// named drops candidates that the settings no longer name.
func named(all []Turn) []Turn {
	return slices.DeleteFunc(slices.Clone(all),
		func(c Turn) bool { return c.Slot.Unnamed && c.Reservation.ID == c.Slot.Holds })
}

func admitPartition(req Request, wish Wish, p Partition, snap *Snapshot, now time.Time) Verdict {
	all := candidates(p, snap)
	wanted, v := entitled(req, wish, p, snap)
	if v.Refused {
		return v
	}
	known := slices.DeleteFunc(slices.Clone(wanted), func(c Turn) bool { return c.Unknown })
	if len(known) == 0 && len(wanted) > 0 {
		return Verdict{Code: ReservationNotKnown, Warnings: []string{fmt.Sprintf(
			"EC2 did not describe %s when it was last asked; the job is let through unchecked", ids(wanted))}}
	}
	// One id that EC2 does not know does not hide the other reservations (R8).
	known = slices.DeleteFunc(known, func(c Turn) bool { return c.Never || c.ended(now) })
	if len(known) == 0 {
		return refuseEnded(wanted, named(all), wish, p, now)
	}
	matching := slices.DeleteFunc(slices.Clone(known), func(c Turn) bool { return len(c.mismatches()) > 0 })
	if len(matching) == 0 {
		m := known[0].mismatches()[0]
		return refuse(Mismatched, "%s; nothing can be launched for the job: ask an administrator to %s", m.Sentence, m.Fix)
	}
	known = matching
	largeEnough := slices.DeleteFunc(slices.Clone(known), func(c Turn) bool { return !c.holds(req) })
	if len(largeEnough) == 0 {
		return refuseSize(req, slices.MaxFunc(known, func(a, b Turn) int { return a.size() - b.size() }), p)
	}
	if v = admitTime(req, largeEnough, p, snap, now); v.Refused {
		return v
	}
	v.Edits.Constraint = constraint(req, largeEnough, all)
	here := req
	here.Partitions = []string{p.Name}
	if few, short := ShortOfHosts(here, snap, now); short {
		v.Warnings = append(v.Warnings,
			fmt.Sprintf("%s; it waits until the others are back: use --nodes=%d to run now", few.FewHosts(), few.Usable))
	}
	return v
}

// candidates returns all reservations of a partition, slot by slot, in the order of their turns. A node group without
// reservations (on-demand) has one candidate, whose window is unbounded.
func candidates(p Partition, snap *Snapshot) (all []Turn) {
	for _, at := range Places([]Partition{p}) {
		if !at.Group.PurchaseOption.Reserved() {
			all = append(append(all, reused(at, snap)...), Turn{Place: at})
		}
		all = append(all, snap.Turns(at)...)
	}
	return all
}

// boots reports whether nodes may have to boot for the job. Only static PCS nodes are always up.
func (c Turn) boots() bool { return c.Group.Dynamic || c.Partition.Provider.Launches() }

// selectWanted keeps the candidates that the job's comment asks for; all of them if it asks for none.
func selectWanted(all []Turn, wish Wish, p Partition, snap *Snapshot) ([]Turn, Verdict) {
	if id := wish.ReservationID; id != "" && !p.Has(id) {
		v := refuse(UnknownReservation, "partition %s has no reservation %s; it has %s", p.Name, id, cmp.Or(ids(all), "none"))
		if other, ok := partitionOf(snap, id); ok {
			v = refuse(WrongPartition, "reservation %s belongs to partition %s, not to %s; submit with --partition=%s", id,
				other.Name, p.Name, other.Name)
		}
		return nil, v
	}
	if v := p.refuseHold(wish, snap); v.Refused {
		return nil, v
	}
	wanted := slices.DeleteFunc(slices.Clone(all), func(c Turn) bool { return !c.suits(wish) })
	if len(wanted) == 0 && len(all) > 0 {
		return nil, refuse(NoMatchingCapacity, "partition %s has nothing that matches%s%s%s%s in --comment; it has %s", p.Name,
			word(" capacity=", string(wish.Capacity)), word(" capacity_reservation_id=", wish.ReservationID),
			word(" instance_type=", wish.InstanceType), word(" subnet_id=", wish.SubnetID), offers(all))
	}
	return wanted, Verdict{Code: OK}
}

func (c Turn) suits(w Wish) bool {
	if w.ReservationID != "" && c.Reservation.ID != w.ReservationID {
		return false
	}
	if w.Capacity == ReuseCapacity && c.onDemand() {
		return false
	}
	if w.InstanceType != "" && !slices.Contains(c.types(), w.InstanceType) {
		return false
	}
	if w.SubnetID == "" {
		return true
	}
	return slices.ContainsFunc(c.Group.Subnets, func(s Subnet) bool {
		return s.ID == w.SubnetID && (c.Reservation.AZID == "" || s.AZID == c.Reservation.AZID)
	})
}

// ended reports whether the candidate can never be used again.
func (c Turn) ended(now time.Time) bool {
	if c.onDemand() {
		return false
	}
	return !c.Reservation.State.Live() || !c.Window.Unbounded() && !c.Window.Fence.After(now)
}

// mismatches returns why EC2 would never accept a launch into the candidate.
func (c Turn) mismatches() []Problem {
	if c.onDemand() {
		return nil
	}
	return slices.DeleteFunc(Lasting(Match(c.Reservation, *c.Group, c.Window.Start)), func(m Problem) bool {
		return m.Code == WrongZone && len(c.Group.Subnets) == 0 // nobody knows the subnets' zones
	})
}

// size is the number of nodes that one job can have in the candidate, healthy that without failed hosts.
func (c Turn) size() int    { return c.atMost(c.Reservation.Size()) }
func (c Turn) healthy() int { return c.atMost(c.Reservation.UsableSize()) }

func (c Turn) atMost(places int) int {
	if most := c.Group.MaxNodes; c.onDemand() || most > 0 && most < places {
		return most
	}
	return places
}

// constraint is the node feature expression that keeps a job in one of the slots that it may use. It is "" if there is
// one slot, and if the user's own constraint names slots or is more than features that each node must have.
func constraint(req Request, usable, all []Turn) string {
	may, total := features(usable), features(all)
	own := strings.Split(req.Constraint, "&")
	if len(total) < 2 || slices.Contains(may, "") || strings.ContainsAny(req.Constraint, "[]()|*") ||
		slices.ContainsFunc(own, func(f string) bool { return slices.Contains(total, f) }) {
		return ""
	}
	if len(may) == 1 {
		return may[0]
	}
	return "[" + strings.Join(may, "|") + "]"
}

// features returns the distinct slot features of the candidates, in order.
func features(cs []Turn) []string {
	seen := map[string]bool{}
	return list(cs, func(c Turn) (string, bool) {
		known := seen[c.Slot.Feature]
		seen[c.Slot.Feature] = true
		return c.Slot.Feature, !known
	})
}

// list has what of says about each of all, where it says something.
func list[T any](all []T, of func(T) (text string, is bool)) (texts []string) {
	for _, one := range all {
		if text, is := of(one); is {
			texts = append(texts, text)
		}
	}
	return texts
}

// refuseEnded refuses a job whose reservations have all ended. If the job named one, the message names the
// reservations that it could use instead.
func refuseEnded(ended, all []Turn, wish Wish, p Partition, now time.Time) Verdict {
	var instead []string
	for _, c := range all {
		switch {
		case c.Unknown || c.Never || c.ended(now) || c.Reservation.ID == "":
		case c.Window.Start.After(now):
			instead = append(instead, fmt.Sprintf("%s, which opens at %s", c.Reservation.ID, FormatUTC(c.Window.Start)))
		default:
			instead = append(instead, c.Reservation.ID+", which is open")
		}
	}
	if wish.ReservationID == "" || len(instead) == 0 {
		return refuse(NoReservation, "no reservation of partition %s is open or scheduled%s; ask an administrator for the next block",
			p.Name, endedList(ended))
	}
	return refuse(NoReservation, "the reservation that the job names can no longer be used%s; name %s, or none", endedList(ended),
		strings.Join(instead, ", or "))
}

func ids(cs []Turn) string {
	return strings.Join(list(cs, func(c Turn) (string, bool) { return c.Reservation.ID, c.Reservation.ID != "" }), ", ")
}

// endedList says why each candidate can no longer be used.
func endedList(cs []Turn) string {
	parts := list(cs, func(c Turn) (string, bool) {
		switch r := c.Reservation; {
		case c.Unknown:
			return fmt.Sprintf("EC2 does not know %s", r.ID), true
		case c.Never:
			return fmt.Sprintf("%s never gets its turn: %s has slot %s", r.ID, c.Behind, c.Slot.Name), true
		case r.State.Live(): // its fence has passed
			return fmt.Sprintf("jobs on %s had to end by %s", r.ID, FormatUTC(c.Window.Fence)), true
		default:
			return fmt.Sprintf("%s is %s", r.ID, r.State), true
		}
	})
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

func offers(cs []Turn) string {
	return strings.Join(list(cs, func(c Turn) (string, bool) {
		return strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Reservation.ID, c.Group.InstanceType, c.Reservation.AZID)), true
	}), ", ")
}

func word(key, value string) string {
	if value == "" {
		return ""
	}
	return key + value
}
