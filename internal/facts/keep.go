package facts

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// MissingFor bounds how long a live reservation keeps its facts while EC2 leaves it out of its answers. EC2 shows a
// missing reservation again within minutes ("Eventual consistency" in the EC2 Developer Guide names five); the
// shortest block lasts a day.
const MissingFor = time.Hour

// Kept has the facts that a pass of sync goes by.
type Kept struct {
	capacity.Facts

	// Told has the ids that EC2 has described in this reading, Missing those that it does not describe, with the time
	// since when.
	Told    map[string]bool
	Missing map[string]time.Time
	// Unanswered are the questions whose answers were needed to know as much as before.
	Unanswered []error
	Problems   capacity.Problems

	old     *capacity.Snapshot
	explain func(error) (words string, general bool)
}

// Keep returns the answers, completed by what the last snapshot knew: jobs run behind a fence, and a pass that knows
// less than the one before must not open it. old may be nil; now is AWS's time.
func (a Answers) Keep(old *capacity.Snapshot, now time.Time) *Kept {
	k := &Kept{
		Facts:   a.Facts(now),
		Told:    map[string]bool{},
		Missing: map[string]time.Time{},
		old:     cmp.Or(old, &capacity.Snapshot{}),
		explain: a.aws.Explain,
	}
	k.Before = old
	for _, r := range k.Reservations {
		k.Told[r.ID] = true
	}

	k.report(a.failures)
	k.keepSubnets(a.MissingSubnets)

	// A version of a launch template never changes, so that earlier answers stay true.
	for template, image := range k.Platforms {
		image.Platform = cmp.Or(image.Platform, k.old.PlatformOf(image.Template))
		k.Platforms[template] = image
	}

	if a.Held.Err != nil { // PCS may have answered about some; all hold what they held before
		k.Held = nil
	}

	for _, m := range a.Missing {
		if !k.Told[m.ID] {
			k.keepMissing(m)
		}
	}

	k.keepUnanswered(a)

	k.Remembered = map[string]bool{}
	for _, r := range k.Reservations {
		k.Remembered[r.ID] = !k.Told[r.ID]
	}

	// EC2 may have stopped answering questions about blocks. A block never turns into an UltraServer or back.
	for i := range k.Reservations {
		r := &k.Reservations[i]
		before, ok := k.old.Reservation(r.ID)
		r.UltraServer = r.UltraServer || before.UltraServer
		if ok && r.HealthUnknown {
			r.Unhealthy = before.Unhealthy
		}
	}

	return k
}

func (k *Kept) say(code capacity.Code, about capacity.Subject, fix, format string, args ...any) {
	k.Problems.Add(capacity.Problemf(code, about, fix, format, args...))
}

// report names the questions without an answer.
func (k *Kept) report(failures []failure) {
	for _, f := range failures {
		words, _ := k.explain(f.err)
		if f.doing != "" {
			words = f.doing + ": " + words
		}

		if f.general || f.doing != "" {
			k.Unanswered = append(k.Unanswered, errors.New(words))
		}

		k.say(capacity.AWSUnanswered, capacity.Subject{}, "", "%s; what was known before is kept", words)
	}
}

// keepSubnets adds the zones that were known before.
func (k *Kept) keepSubnets(missing []capacity.Missing) {
	for _, m := range missing {
		words, _ := k.explain(m.Err)
		k.say(capacity.SubnetNotKnown, capacity.Subject{}, "check its id and the region",
			"EC2 does not describe subnet %s: %s", m.ID, words)
	}

	for _, at := range capacity.AllSlots(k.old.Partitions) {
		k.Subnets = append(k.Subnets, at.Group.Subnets...)
	}
}

// keepUnanswered keeps the reservations about which EC2 was asked without an answer, by id or by tag.
func (k *Kept) keepUnanswered(a Answers) {
	for _, r := range k.old.Reservations {
		isMissing := slices.ContainsFunc(a.Missing, func(m capacity.Missing) bool { return m.ID == r.ID })
		if k.Told[r.ID] || isMissing {
			continue
		}

		unanswered := slices.Contains(a.ids, r.ID)
		for _, g := range a.groups {
			unanswered = unanswered || g.Select != nil && a.Selected[g.Name].Err != nil && g.Select.Matches(r)
		}

		if unanswered {
			k.Reservations = append(k.Reservations, r)
		}
	}
}

// keepMissing keeps the facts of a reservation that EC2 does not describe, if it was live recently.
func (k *Kept) keepMissing(m capacity.Missing) {
	words, _ := k.explain(m.Err)
	r, known := k.old.Reservation(m.ID)
	about := capacity.Subject{Reservation: m.ID}
	switch {
	case m.Unread:
		if known {
			k.Reservations = append(k.Reservations, r)
		}

		k.say(capacity.AWSUnanswered, about, "",
			"EC2's answer about reservation %s cannot be read: %s; what was known of it is kept", m.ID, words)

		return
	case known && !r.IsLiveAt(k.Now): // EC2 forgets what ended long ago
		k.Reservations = append(k.Reservations, r)
		return
	}

	// From the first pass that missed it, so that the time runs out even if sync restarts.
	since := cmp.Or(k.old.Missing[m.ID], k.Now.UTC().Truncate(time.Second))
	k.Missing[m.ID] = since

	if until := since.Add(MissingFor); known && k.Now.Before(until) {
		k.Reservations = append(k.Reservations, r)
		k.say(capacity.ReservationMissing, about, "",
			"EC2 has not described reservation %s since %s: %s; what was known of it is kept until %s",
			m.ID, capacity.FormatUTC(since), words, capacity.FormatUTC(until))

		return
	}

	k.say(capacity.ReservationNotKnown, about, "check its id and the region",
		"EC2 does not describe reservation %s: %s", m.ID, words)
}
