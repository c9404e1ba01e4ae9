package capacity

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Request describes a job as submitted, or as slurmctld has it. A zero field was not given.
type Request struct {
	// Partitions are those in which the job may run; empty for the default partition.
	Partitions []string
	// Account is as given at submission, or as slurmctld has it.
	Account string
	// AccountKnown: the job runs under Account, or under none if that is "". If false, an empty Account stands for the
	// user's default account, which only slurmctld knows.
	AccountKnown bool
	User         string
	QOS          string
	Comment      string
	OldComment   string // the comment before a change
	Started      bool   // the job already runs

	TimeLimit Limit
	TimeMin   Limit
	Begin     time.Time     // the earliest start
	Deadline  time.Time     // when the job must have ended
	Requeue   Requeue       // whether Slurm may requeue the job
	Signal    time.Duration // how long before its limit the job asks for a signal

	Nodes        int  // the least number of nodes
	Counted      bool // Nodes is Slurm's own count, not what the owner wrote
	OneNode      bool // the job runs on one node, whatever else it asks for
	Tasks        int
	TasksPerNode int // the most tasks on one node
	GPUs         int // of the whole job
	GPUsPerNode  int
	GPUsPerTask  int
	CPUsPerTask  int
	Overcommit   bool // tasks may share CPUs

	Constraint  string
	Reservation string // the Slurm reservations that the job may use, as --reservation names them

	// Component: the job is a component of a heterogeneous job, and not the first.
	Component bool
	// NodesBefore is how many nodes of its partitions the components before it need.
	NodesBefore int
}

// targetPartitions returns the partitions that the job may run in, each once.
func (r Request) targetPartitions(snap *Snapshot) (names []string) {
	if len(r.Partitions) == 0 && snap.DefaultPartition != "" {
		return []string{snap.DefaultPartition}
	}

	for _, name := range r.Partitions {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}

	return names
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
	wish, _ := req.Wish()
	was, _ := Request{Comment: req.OldComment}.Wish()
	if req.Started && wish.OnEnd != "" && wish.OnEnd != was.OnEnd {
		return refuse(BadComment,
			"on_end= counts only if it is in the comment before the job starts; this job has started")
	}

	return admit(req, snap, now, func(req Request, wish Wish, p Partition, snap *Snapshot, _ time.Time) Verdict {
		_, v := allowedTurns(req, wish, p, snap)
		return v
	})
}

// admitFunc decides about a job in one of its partitions.
type admitFunc func(req Request, wish Wish, p Partition, snap *Snapshot, now time.Time) Verdict

func admit(req Request, snap *Snapshot, now time.Time, in admitFunc) Verdict {
	names := req.targetPartitions(snap)
	wish, problems := req.Wish()

	var (
		verdicts []Verdict
		parts    []Partition
		foreign  []string
	)
	for _, name := range names {
		p, ok := snap.Partition(name)
		if !ok {
			foreign = append(foreign, name)
			continue
		}

		verdicts = append(verdicts, in(req, wish, p, snap, now))
		parts = append(parts, p)
	}

	// Without a managed partition, a malformed comment is no concern of ours.
	if len(verdicts) == 0 {
		return soften(admitUnmanaged(wish, snap, names), snap, now)
	}

	if len(problems) > 0 {
		return soften(refuse(BadComment, "%s", strings.Join(problems, "; ")), snap, now)
	}

	v := mergeVerdicts(verdicts, len(names), wish.ReservationID != "")
	if len(names) > 1 && !v.Refused {
		v = keepInOneBlock(v, verdicts, parts, foreign, req, snap)
	}

	// Slurm knows one constraint for a job: ours narrows the user's own.
	if v.Edits.Constraint != "" {
		if req.Constraint != "" {
			v.Edits.Constraint = req.Constraint + "&" + v.Edits.Constraint
		}

		if req.Component {
			v.Warnings = append(v.Warnings, apart)
		}
	}

	// Most warnings are only for a job that is accepted, and softening may accept it.
	v = soften(v, snap, now)

	v.Warnings = append(v.Warnings, warnMisspelledKeys(req.Comment)...)
	shortened := req
	shortened.TimeMin = cmp.Or(v.Edits.TimeMin, req.TimeMin)
	for _, text := range []string{
		warnOnEnd(req, wish, snap),
		warnLateSignal(shortened, wish, snap),
		warnFenceBypass(req, snap),
		warnPreempted(req, parts, snap),
	} {
		if text != "" && !v.Refused {
			v.Warnings = append(v.Warnings, text)
		}
	}

	return v
}

// mergeVerdicts merges the verdicts of a job's managed partitions; total counts all its partitions. A job that also
// lists an unmanaged partition gets no limit, with one exception: if every partition that takes the job needs a limit,
// the longest fitted limit serves all of them. Without it the job would be unlimited and never start before a fence.
//
// named: the job names a reservation, which only a managed partition can provide.
func mergeVerdicts(verdicts []Verdict, total int, named bool) Verdict {
	if total == 1 {
		return verdicts[0]
	}

	// Slurm may start the job in any of its partitions, even on a node that is already up.
	if i := slices.IndexFunc(verdicts, func(v Verdict) bool { return v.Code == AccountNotAllowed }); i >= 0 {
		return verdicts[i]
	}

	accepted := slices.DeleteFunc(slices.Clone(verdicts), func(v Verdict) bool { return v.Refused })

	// Nobody takes the job. The user learns what each partition says, since mending one may be enough.
	if len(accepted) == 0 && (named || len(verdicts) == total) {
		v := verdicts[0]
		for _, other := range verdicts[1:] {
			v.Sentence += "; " + other.Sentence
		}

		if len(verdicts) < total {
			v.Sentence += "; without capacity_reservation_id the job may run in its other partitions"
		}

		return v
	}

	merged := Verdict{Problem: Problem{Code: OK}}
	for _, v := range accepted {
		merged.Warnings = append(merged.Warnings, v.Warnings...)
	}

	// An unmanaged partition can take the job as it is, so nothing is edited.
	if len(verdicts) < total {
		return merged
	}

	// One of them takes the job as it is.
	if slices.ContainsFunc(accepted, func(v Verdict) bool { return !v.Edits.TimeMin.Set }) {
		return merged
	}

	// Slurm fits the longest limit to whichever partition starts the job.
	longest := slices.MaxFunc(accepted, func(a, b Verdict) int {
		return cmp.Or(a.Edits.TimeLimit.Minutes-b.Edits.TimeLimit.Minutes, b.Edits.TimeMin.Minutes-a.Edits.TimeMin.Minutes)
	})
	merged.Edits = longest.Edits

	// That of one partition would exclude the nodes of the others.
	merged.Edits.Constraint = ""

	return merged
}

// Sentences for a job that may get nodes of several blocks or partitions.
const (
	apart = "the components of this job may get nodes of different blocks; to keep them in one, give each the same " +
		"--constraint, one of those in the brackets that squeue shows (%f)"
	leaveOut = "a job of several nodes keeps to one block of partition %s, and the nodes of partition %s are in " +
		"none: leave out %s, or use --nodes=1"
	neverStarts = "without --time the job never starts in partition %s, whose blocks end"
)

// keepInOneBlock keeps a job with several partitions in one block, if one of them has several slots: the constraint
// names the slots of all. A partition whose nodes are in no slot cannot be among them. verdicts are those of parts,
// foreign the partitions that are not ours.
func keepInOneBlock(
	v Verdict, verdicts []Verdict, parts []Partition, foreign []string, req Request, snap *Snapshot,
) Verdict {
	var several, ends, slots []string

	out := slices.Clone(foreign)
	for i, one := range verdicts {
		if one.Refused {
			continue
		}

		// This partition wanted to set a limit, and the merged verdict sets none.
		if one.Edits.TimeLimit.Set && !v.Edits.TimeLimit.Set {
			ends = append(ends, parts[i].Name)
		}

		fs := strings.FieldsFunc(one.Edits.Constraint, func(r rune) bool { return strings.ContainsRune("[|]", r) })
		if len(fs) > 0 {
			several = append(several, parts[i].Name)
		} else {
			fs = features(candidates(parts[i], snap))
		}

		if slices.Contains(fs, "") {
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

	// Nothing to keep together.
	if len(several) == 0 || req.OneNode {
		return v
	}

	// A constraint would exclude these nodes altogether.
	if len(out) > 0 {
		theirs := strings.Join(out, ",")
		return refuse(WrongPartition, leaveOut, strings.Join(several, ","), theirs, theirs)
	}

	v.Edits.Constraint = "[" + strings.Join(slots, "|") + "]"

	return v
}

// soften turns a refusal into a warning where the settings or the snapshot's age require it. A stale snapshot still
// refuses a job that crosses a known end, and a job that is refused for reasons outside AWS, such as its account.
func soften(v Verdict, snap *Snapshot, now time.Time) Verdict {
	stale := snap.IsStale(now)
	age := fmt.Sprintf("what pcs-capacity knows is %s old (is `pcs-capacity sync --watch` running?)",
		FormatDuration(now.Sub(snap.TakenAt)))

	switch {
	case v.Refused && (!snap.Submit.Strict || stale && v.Code.AppearsAt(AtStale)):
		v = Verdict{Problem: Problem{Code: v.Code}, Warnings: append(v.Warnings, v.Sentence)}
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
	v := Verdict{Problem: Problem{Code: NotManaged}}
	if wish.ReservationID == "" {
		return v
	}

	// The user surely wanted that reservation; unmanaged nodes would run the job elsewhere without a word.
	if v := refuseOther(snap, wish.ReservationID, strings.Join(names, ",")); v.Refused {
		return v
	}

	v.Warnings = []string{
		fmt.Sprintf("reservation %s belongs to no partition here; the job runs without it", wish.ReservationID),
	}

	return v
}

// refuseOther refuses a job of some partitions that names a reservation of another; zero for other jobs.
func refuseOther(snap *Snapshot, id, partitions string) Verdict {
	for _, p := range snap.Partitions {
		if p.HasReservation(id) {
			return refuse(WrongPartition,
				"reservation %s belongs to partition %s, not to %s; submit with --partition=%s",
				id, p.Name, partitions, p.Name)
		}
	}

	return Verdict{}
}

// allowedTurns returns the reservations of a partition that the job's account may use and that its comment asks for.
func allowedTurns(req Request, wish Wish, p Partition, snap *Snapshot) ([]Turn, Verdict) {
	if (req.Account != "" || req.AccountKnown) && !p.AllowsAccount(req.Account) {
		// There is no account to name in the sentence.
		if req.Account == "" {
			return nil, refuse(AccountNotAllowed,
				"a job without an account may not use the reservations of partition %s; submit with --account=%s",
				p.Name, strings.Join(p.AllowAccounts, " or --account="))
		}

		return nil, refuse(AccountNotAllowed, "account %q may not use the reservations of partition %s; allowed: %s",
			truncate(req.Account), p.Name, strings.Join(p.AllowAccounts, ", "))
	}

	// A slot may still hold a reservation that the settings no longer name.
	all := slices.DeleteFunc(candidates(p, snap), func(c Turn) bool {
		return c.Slot.Unnamed && c.Reservation.ID == c.Slot.Occupant
	})

	if id := wish.ReservationID; id != "" && !p.HasReservation(id) {
		if v := refuseOther(snap, id, p.Name); v.Refused {
			return nil, v
		}

		return nil, refuse(UnknownReservation, "partition %s has no reservation %s; it has %s",
			p.Name, id, formatOffers(all))
	}

	wanted := slices.DeleteFunc(slices.Clone(all), func(c Turn) bool { return !c.matchesWish(wish, snap) })
	if len(wanted) == 0 && len(all) > 0 {
		return nil, refuse(NoMatchingCapacity, "partition %s has nothing that matches%s%s%s%s in --comment; it has %s",
			p.Name,
			formatPair(" capacity=", string(wish.Capacity)),
			formatPair(" capacity_reservation_id=", wish.ReservationID),
			formatPair(" instance_type=", wish.InstanceType),
			formatPair(" subnet_id=", wish.SubnetID),
			formatOffers(all))
	}

	return wanted, Verdict{Problem: Problem{Code: OK}}
}

func admitPartition(req Request, wish Wish, p Partition, snap *Snapshot, now time.Time) Verdict {
	wanted, v := allowedTurns(req, wish, p, snap)
	if v.Refused {
		return v
	}

	all, v := prospects(wanted, req, snap, now)
	switch {
	case v.Code == ReservationNotKnown:
		return Verdict{
			Problem:  Problem{Code: v.Code},
			Warnings: []string{v.Sentence + "; the job is let through unchecked"},
		}
	case v.Code == NoReservation:
		what := "no reservation of partition " + p.Name + " is open or scheduled"
		do := "ask an administrator for the next block"
		if wish.ReservationID != "" {
			what = "the reservation that the job names can no longer be used"
			do = "name another, or none"
		}

		if v.Sentence != "" {
			what += " (" + v.Sentence + ")"
		}

		return refuse(v.Code, "%s; %s", what, do)
	case v.Refused:
		return v
	}

	// The job fits somewhere. The rest is when, and on which nodes.
	v = admitTime(req, all, snap, now)
	if v.Refused {
		return v
	}

	v.Edits.Constraint = constraint(req, all, candidates(p, snap))
	for _, text := range []string{v.setNeeds(req, all), warnSeveralBlocks(req, all, candidates(p, snap))} {
		if text != "" {
			v.Warnings = append(v.Warnings, text)
		}
	}

	// Only a warning: failed hosts come back, and Slurm keeps the job until then.
	if few, short := HostShortage(all, now); short {
		v.Warnings = append(v.Warnings, fmt.Sprintf("%s; it waits until the others are back: use --nodes=%d to run now",
			few.ShortageText(), few.Usable))
	}

	return v
}

// candidates returns all reservations of a partition, slot by slot, in the order of their turns. A node group without
// reservations (on-demand) has one candidate, whose window is unbounded.
func candidates(p Partition, snap *Snapshot) (all []Turn) {
	for _, at := range AllSlots([]Partition{p}) {
		if !at.Group.PurchaseOption.IsReserved() {
			// Paid reservations are used up before anything is launched on demand.
			all = append(append(all, reusedTurns(at, snap)...), Turn{SlotRef: at})
		}

		all = append(all, snap.Turns(at)...)
	}

	return all
}

// matchesWish reports whether the turn is what a job's comment asks for.
func (c Turn) matchesWish(w Wish, snap *Snapshot) bool {
	holds := !c.Group.PurchaseOption.IsReserved() && !snap.ReserveOff &&
		(c.Partition.Provider.Launches() || c.LaunchesHeld())
	switch {
	case w.ReservationID != "" && c.Reservation.ID != w.ReservationID,
		w.Capacity == ReuseCapacity && c.onDemand(),
		w.Capacity == ReserveCapacity && !holds,
		w.InstanceType != "" && !slices.Contains(c.types(), w.InstanceType):
		return false
	}

	return w.SubnetID == "" || slices.ContainsFunc(c.Group.Subnets, func(s Subnet) bool {
		return s.ID == w.SubnetID && (c.Reservation.AZID == "" || s.AZID == c.Reservation.AZID)
	})
}

// constraint returns the node feature expression that keeps a job in one of the slots that it may use. It is "" if
// there is one slot, and if the user's own constraint names slots or is more than features that each node must have.
func constraint(req Request, usable []Prospect, all []Turn) string {
	may := features(usable)
	total := features(all)

	own := strings.Split(req.Constraint, "&")
	namesSlot := slices.ContainsFunc(own, func(f string) bool { return slices.Contains(total, f) })
	if len(total) < 2 || slices.Contains(may, "") || namesSlot || strings.ContainsAny(req.Constraint, "[]()|*") {
		return ""
	}

	// Brackets around one feature mean the same, and users read them in squeue.
	if len(may) == 1 {
		return may[0]
	}

	return "[" + strings.Join(may, "|") + "]"
}

// warnSeveralBlocks returns the warning for a job whose own constraint lets Slurm give it nodes of several blocks; ""
// for others. Slurm takes alternatives in brackets for all nodes together, and other ones for each node by itself.
func warnSeveralBlocks(req Request, usable []Prospect, all []Turn) string {
	slots := features(all)
	if req.OneNode || len(slots) < 2 || slices.Contains(slots, "") || !strings.ContainsAny(req.Constraint, "[]()|*") {
		return ""
	}

	named := strings.FieldsFunc(req.Constraint, func(r rune) bool { return strings.ContainsRune("[]()|&*", r) })
	isSlot := func(name string) bool { return slices.Contains(slots, name) }

	// An alternative outside the brackets is chosen for each node by itself.
	byItself, rest, _ := strings.Cut(req.Constraint, "[")
	_, after, _ := strings.Cut(rest, "]")
	if slices.ContainsFunc(named, isSlot) && !strings.Contains(byItself+after, "|") {
		return ""
	}

	return fmt.Sprintf(
		"with this --constraint Slurm may give the job nodes of several blocks; to keep it in one, name them in "+
			"brackets: --constraint='[%s]'",
		strings.Join(features(usable), "|"))
}

// setNeeds notes how many nodes the job needs. It returns the warning for a component of a heterogeneous job that
// needs, with those before it, more nodes than the partition has; "" for others.
func (v *Verdict) setNeeds(req Request, all []Prospect) string {
	most := map[string]int{} // nodes by slot

	v.Needs = all[0].Needs
	for _, p := range all {
		most[p.Slot.Name] = max(most[p.Slot.Name], p.size())
		v.Needs = min(v.Needs, p.Needs)
	}

	v.Needs = max(1, v.Needs)

	has := 0
	for _, n := range most {
		has += n
	}

	if need := req.NodesBefore + v.Needs; req.NodesBefore > 0 && need > has {
		return fmt.Sprintf(
			"the components of this job need %d nodes of partition %s together, but its blocks have %d: it waits for "+
				"ever, unless components share nodes",
			need, all[0].Partition.Name, has)
	}

	return ""
}

// features returns the distinct slot features of the candidates, in order.
func features[T interface{ feature() string }](cs []T) (all []string) {
	for _, c := range cs {
		if !slices.Contains(all, c.feature()) {
			all = append(all, c.feature())
		}
	}

	return all
}

func formatOffers(cs []Turn) string {
	var all []string
	for _, c := range cs {
		offer := fmt.Sprintf("%s %s %s", c.Reservation.ID, c.Group.InstanceType, c.Reservation.AZID)
		all = append(all, strings.TrimSpace(offer))
	}

	return cmp.Or(strings.Join(all, ", "), "none")
}

func formatPair(key, value string) string {
	if value == "" {
		return ""
	}
	return key + value
}
