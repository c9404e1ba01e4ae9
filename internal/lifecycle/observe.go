package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// firstAnswer is how long the first question of a pass may take. The SDK gives up after
// three attempts and pauses of up to 2 and 4 s: what takes longer than this is an endpoint
// that is dead, or credentials that nobody has.
const firstAnswer = 8 * time.Second

// allAnswers is how long all of them may take together. A variable for its test alone.
var allAnswers = time.Minute

// observation is AWS's half of a snapshot while it is read. What cannot be read is
// taken from the snapshot before it, if there is one.
type observation struct {
	Sources
	old  *capacity.Snapshot // nil if there is none
	seen capacity.Seen
	// ids are the reservations that have to be described.
	ids      []string
	problems []string
	failed   []error
	// asked: AWS has been asked. down: no question would be answered.
	asked, down bool
}

// observe reads AWS. The error joins what could not be read; the snapshot then holds
// older facts, and keeps the older time, so that it goes stale.
func (s Sources) observe(ctx context.Context, old *capacity.Snapshot) (*capacity.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, allAnswers)
	defer cancel()
	o := observation{Sources: s, old: old}
	before := liveSlots(old, s.MachineTime())
	for _, p := range before {
		o.ids = append(o.ids, p.Groups[0].Slots[0].ReservationIDs...)
	}
	o.subnets(ctx)
	o.members(ctx)
	o.selected(ctx)
	pcsKnown := o.held(ctx)
	o.reservations(ctx)
	o.seen.Before, o.seen.Now = old, o.now()
	if old == nil {
		o.instances(ctx)
	}
	snap := capacity.Build(s.Settings, o.seen)
	snap.Former = former(before, snap, o.now())
	if pcsKnown {
		o.waiting(snap)
	}
	snap.Region = s.EC2.Region()
	snap.Problems = o.problems
	snap.TakenAt = o.now().UTC().Truncate(time.Second)
	snap.ClockOffset.Duration = s.EC2.Offset()
	if len(o.failed) > 0 {
		snap.TakenAt = time.Time{}
		if old != nil {
			snap.TakenAt = old.TakenAt
			if s.EC2.Offset() == 0 {
				snap.ClockOffset = old.ClockOffset
			}
		}
	}
	return snap, errors.Join(o.failed...)
}

// now is AWS's time, as far as it is known.
func (o *observation) now() time.Time { return o.MachineTime().Add(o.EC2.Offset()) }

func (o *observation) problem(format string, args ...any) {
	o.problems = append(o.problems, fmt.Sprintf(format, args...))
}

// ask puts a question to AWS and notes why it was not answered. After what every question
// would meet, which is said once, no more of them are asked.
func (o *observation) ask(ctx context.Context, doing string, question func(ctx context.Context) error) (answered bool) {
	words, answered := o.try(ctx, question)
	if !answered && words != "" {
		o.fail(fmt.Sprintf("%s: %s", doing, words))
	}
	return answered
}

// try is ask for a question that can do without an answer. words are why there is none;
// "" if that has been said.
func (o *observation) try(ctx context.Context, question func(ctx context.Context) error) (words string, answered bool) {
	if o.down {
		return "", false
	}
	if !o.asked {
		o.asked = true
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, firstAnswer)
		defer cancel()
	}
	err := question(ctx)
	if err == nil {
		return "", true
	}
	words, o.down = o.EC2.Explain(err)
	if o.down {
		o.fail(words)
		return "", false
	}
	return words, false
}

// fail notes a question that was not answered at all.
func (o *observation) fail(words string) {
	o.failed = append(o.failed, errors.New(words))
	o.problem("%s; what was known before is kept", words)
}

// members lists the resource groups that node groups select. Resource Groups is a host of its
// own: whatever is wrong with it, EC2 is asked for what was in them before.
func (o *observation) members(ctx context.Context) {
	before, down := o.old.Members(o.Settings), o.down
	o.seen.Members = capacity.Members{}
	for _, group := range o.Settings.SelectedGroups() {
		ctx, cancel := context.WithTimeout(ctx, firstAnswer)
		answered := o.ask(ctx, fmt.Sprintf("listing resource group %s", group), func(ctx context.Context) (err error) {
			o.seen.Members[group], err = o.EC2.GroupMembers(ctx, group)
			return err
		})
		cancel()
		if !answered {
			o.seen.Members[group] = before[group]
		}
		o.ids = append(o.ids, o.seen.Members[group]...)
	}
	o.down = down
}

// selected finds the reservations that node groups choose by their tags.
func (o *observation) selected(ctx context.Context) {
	for _, p := range o.Settings.Partitions {
		for _, g := range p.Groups {
			o.ids = append(o.ids, g.ReservationIDs...)
			if g.Select == nil || g.Select.Group != "" {
				continue
			}
			answered := o.ask(ctx, fmt.Sprintf("finding the reservations of node group %s by tag", g.Name), func(ctx context.Context) error {
				found, err := o.EC2.ReservationsByTag(ctx, g.Select.Tags)
				o.seen.Reservations = append(o.seen.Reservations, found...)
				return err
			})
			if !answered {
				o.ids = append(o.ids, o.selectedBefore(g)...)
			}
		}
	}
}

func (o *observation) selectedBefore(g capacity.GroupSettings) []string {
	var ids []string
	if o.old != nil {
		for _, r := range o.old.Reservations {
			if g.Select.Matches(r, nil) {
				ids = append(ids, r.ID)
			}
		}
	}
	return ids
}

// held learns which PCS compute node groups there are and what each was set up for. It
// reports whether PCS was asked and answered.
func (o *observation) held(ctx context.Context) (answered bool) {
	var names []string
	for _, p := range o.Settings.Partitions {
		for _, g := range p.Groups {
			if p.Provider == capacity.ProviderPCS {
				names = append(names, capacity.SlotNames(p.Provider, g.Name)...)
			}
		}
	}
	if len(names) == 0 {
		return false
	}
	answered = o.ask(ctx, "reading the compute node groups "+strings.Join(names, ", "), func(ctx context.Context) (err error) {
		o.seen.Held, err = o.PCS.Held(ctx, names)
		return err
	})
	if !answered {
		o.seen.Held = o.heldBefore(names)
	}
	for _, name := range names {
		if id := o.seen.Held[name]; id != "" {
			o.ids = append(o.ids, id)
		}
	}
	return answered
}

// heldBefore is what slots had in the older snapshot.
func (o *observation) heldBefore(names []string) map[string]string {
	held := map[string]string{}
	if o.old != nil {
		for _, v := range views(o.old, o.now()) {
			if slices.Contains(names, v.slot.Name) && len(v.slot.ReservationIDs) > 0 {
				held[v.slot.Name] = v.slot.ReservationIDs[0]
			}
		}
	}
	return held
}

// waiting names, for each PCS node group with a slot that is free, the reservation that
// comes next and has no compute node group yet.
func (o *observation) waiting(snap *capacity.Snapshot) {
	for _, p := range snap.Partitions {
		for _, g := range p.Groups {
			free := false
			var next string
			var opens time.Time
			for _, s := range g.Slots {
				holds, exists := o.seen.Held[s.Name]
				free = free || !exists
				for _, id := range s.ReservationIDs {
					r, known := snap.Reservation(id)
					if id != holds && (!known || r.State.Live()) && (next == "" || r.Start.Before(opens)) {
						next, opens = id, r.Start
					}
				}
			}
			if p.Provider == capacity.ProviderPCS && free && next != "" && !o.Settings.RollsOver(p.Name) {
				o.problem("reservation %s has no compute node group yet; run `pcs-capacity setup --reservation %s --queue %s --node-group %s`", next, next, p.Name, g.Name)
			}
		}
	}
}

// subnets looks up the zones of all subnets. What is not known now is as it was.
func (o *observation) subnets(ctx context.Context) {
	var ids []string
	for _, p := range o.Settings.Partitions {
		for _, g := range p.Groups {
			ids = append(ids, g.SubnetIDs...)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if len(ids) > 0 {
		var missing []capacity.Missing
		words, answered := o.try(ctx, func(ctx context.Context) (err error) {
			o.seen.Subnets, missing, err = o.EC2.KnownSubnets(ctx, ids)
			return err
		})
		if !answered && words != "" {
			o.problem("%s; the zones of %s are as they were", words, strings.Join(ids, ", "))
		}
		for _, m := range missing {
			words, _ := o.EC2.Explain(m.Err)
			o.problem("EC2 does not describe subnet %s: %s; check its id and the region", m.ID, words)
		}
	}
	if o.old != nil {
		for _, p := range o.old.Partitions {
			for _, g := range p.Groups {
				o.seen.Subnets = append(o.seen.Subnets, g.Subnets...)
			}
		}
	}
}

// instances finds what runs in the reservations. It tells which slots they have, when no
// snapshot does.
func (o *observation) instances(ctx context.Context) {
	var ids []string
	for _, r := range o.seen.Reservations {
		ids = append(ids, r.ID)
	}
	if len(ids) == 0 {
		return
	}
	words, answered := o.try(ctx, func(ctx context.Context) error {
		found, err := o.EC2.InstancesByTag(ctx, map[string][]string{capacity.TagReservation: ids})
		o.seen.Instances = capacity.WithNodes(found, o.Slurm.Expand)
		return err
	})
	if !answered && words != "" {
		o.problem("asking EC2 which slots the reservations have: %s; they may be taken for others than before", words)
	}
}

// mismatches names what keeps a slot's current reservation from being launched into.
func mismatches(snap *capacity.Snapshot, now time.Time) []string {
	var problems []string
	for _, v := range views(snap, now) {
		if v.current.ID == "" || v.former {
			continue
		}
		for _, m := range capacity.Lasting(capacity.Match(v.current, v.group, now)) {
			problems = append(problems, m.String())
		}
	}
	return problems
}
