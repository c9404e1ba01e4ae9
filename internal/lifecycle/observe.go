package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// firstAnswer is how long the first call of a pass may take. The SDK gives up after three attempts and pauses of up
// to 2 and 4 s: a longer call means a dead endpoint, or no credentials.
const firstAnswer = 8 * time.Second

// allAnswers is how long all calls together may take.
const allAnswers = time.Minute

// observation is the AWS half of a snapshot while it is being read. Facts that cannot be read come from the previous
// snapshot, if there is one.
type observation struct {
	Sources
	old  *capacity.Snapshot // empty if there is none
	seen capacity.Seen
	// named are the reservations that node groups name, ids all others to describe.
	named  []string
	ids    []string
	said   capacity.Problems
	failed []error
	absent map[string]time.Time // the ids that EC2 does not describe, each with the time since when
	// asked: AWS has been called. down: no call would be answered.
	asked, down bool
	answers     Answers
}

// Answers counts the calls to AWS and the answered ones.
type Answers struct{ Questions, Answered int }

// All: AWS was called and answered every call.
func (a Answers) All() bool { return a.Questions > 0 && a.Answered == a.Questions }

// observe reads AWS. The error joins the failed reads; the snapshot then holds older facts and keeps the older time,
// so it goes stale.
func (s Sources) observe(ctx context.Context, old *capacity.Snapshot) (*capacity.Snapshot, Answers, error) {
	ctx, cancel := context.WithTimeout(ctx, allAnswers)
	defer cancel()
	o := observation{Sources: s, old: cmp.Or(old, &capacity.Snapshot{})}
	if s.Offline != nil {
		o.down = true
		o.fail(s.Offline.Error())
	}
	for _, v := range o.old.Standings(s.MachineTime().Add(o.old.ClockOffset.Duration)) {
		if v.Reservation.ID != "" && v.Slot.Nodes != "" {
			o.ids = append(o.ids, v.Reservation.ID)
		}
	}
	o.places(ctx)
	o.reservations(ctx)
	o.seen.Before, o.seen.Now = old, o.now()
	if old == nil {
		o.instances(ctx)
	}
	snap := capacity.Build(s.Settings, o.seen)
	snap.Missing = o.absent
	snap.Region = s.EC2.Region()
	snap.Problems = o.said
	snap.TakenAt = o.now().UTC().Truncate(time.Second)
	snap.ClockOffset.Duration = s.EC2.Offset()
	if len(o.failed) > 0 {
		if snap.TakenAt = o.old.TakenAt; s.EC2.Offset() == 0 {
			snap.ClockOffset = o.old.ClockOffset
		}
	}
	return snap, o.answers, errors.Join(o.failed...)
}

// now is AWS's time, as far as it is known.
func (o *observation) now() time.Time { return o.MachineTime().Add(o.EC2.Offset()) }

func (o *observation) problem(code capacity.Code, about capacity.Subject, fix, format string, args ...any) {
	o.said.Add(capacity.Problemf(code, about, fix, format, args...))
}

// need notes why a call failed whose answer the pass needs to know as much as before.
func (o *observation) need(doing string, a answer) (answered bool) {
	if a.words != "" {
		o.fail(fmt.Sprintf("%s: %s", doing, a.words))
	}
	return a.answered
}

// answer is the result of a call. words say why it failed; "" if that has been reported.
type answer struct {
	words    string
	answered bool
}

// sideBySide is the number of concurrent calls: EC2 refills its buckets for Describe calls by 10 a second and more
// (EC2 API Reference, "Request throttling").
const sideBySide = 8

// question is a call to AWS, and what takes its answer.
type question struct {
	ask  func(ctx context.Context) error
	take func(answer)
}

// together makes calls to AWS side by side, and takes the answers in order. An error that every call would meet is
// reported once and stops further calls.
func (o *observation) together(ctx context.Context, questions ...question) {
	o.answers.Questions += len(questions)
	errs := make([]error, len(questions))
	silent := o.down
	if !silent {
		limit := allAnswers
		if !o.asked {
			limit = firstAnswer
		}
		o.asked = o.asked || len(questions) > 0
		var group errgroup.Group
		group.SetLimit(sideBySide)
		for i, q := range questions {
			group.Go(func() error {
				ctx, cancel := context.WithTimeout(ctx, limit)
				defer cancel()
				errs[i] = q.ask(ctx)
				return nil
			})
		}
		_ = group.Wait() // the errors are in errs
	}
	for i, q := range questions {
		var a answer
		switch err := errs[i]; {
		case silent:
		case err == nil:
			a.answered = true
			o.answers.Answered++
		default:
			words, general := o.EC2.Explain(err)
			if !general {
				a.words = words
			} else if !o.down {
				o.down = true
				o.fail(words)
			}
		}
		q.take(a)
	}
}

// fail notes a call that was not answered at all.
func (o *observation) fail(words string) {
	o.failed = append(o.failed, errors.New(words))
	o.problem(capacity.AWSUnanswered, capacity.Subject{}, "", "%s; what was known before is kept", words)
}

// places reads what depends on no other answer: the subnets' zones, the reservations that node groups name or select
// by tags, the platforms of launch templates' images, and the reservations of the PCS compute node groups.
func (o *observation) places(ctx context.Context) {
	var subnets, groups []string
	var selects []capacity.GroupSettings
	for _, p := range o.Settings.Partitions {
		for _, g := range p.Groups {
			subnets = append(subnets, g.SubnetIDs...)
			o.named = append(o.named, g.ReservationIDs...)
			if g.Select != nil {
				selects = append(selects, g)
			}
			if p.Provider == capacity.ProviderPCS {
				groups = append(groups, capacity.SlotNames(p.Provider, g.Name)...)
			}
		}
	}
	slices.Sort(subnets)
	subnets = slices.Compact(subnets)

	slices.Sort(o.named)
	o.named = slices.Compact(o.named)
	var questions []question
	for _, g := range selects {
		var found []capacity.Reservation
		questions = append(questions, question{func(ctx context.Context) (err error) {
			found, err = o.EC2.ReservationsByTag(ctx, g.Select.Tags)
			return err
		}, func(a answer) {
			o.seen.Reservations = append(o.seen.Reservations, found...)
			if !o.need(fmt.Sprintf("finding the reservations of node group %s by tag", g.Name), a) {
				o.ids = append(o.ids, o.selectedBefore(g)...)
			}
		}})
	}
	o.seen.Platforms = map[string]capacity.ImagePlatform{}
	for _, t := range o.Settings.LaunchTemplates() {
		var image capacity.ImagePlatform
		questions = append(questions, question{func(ctx context.Context) (err error) {
			image, err = o.EC2.ImagePlatform(ctx, t)
			return err
		}, func(a answer) {
			if image.Platform == "" { // a version never changes, so earlier answers stay true
				image.Platform = o.old.PlatformOf(image.Template)
			}
			if o.seen.Platforms[t] = image; a.words != "" {
				o.problem(capacity.AWSUnanswered, capacity.Subject{}, "", "%s; what was known before is kept", a.words)
			}
		}})
	}
	if len(subnets) > 0 {
		var missing []capacity.Missing
		questions = append(questions, question{func(ctx context.Context) (err error) {
			o.seen.Subnets, missing, err = o.EC2.KnownSubnets(ctx, subnets)
			return err
		}, func(a answer) { o.subnets(subnets, missing, a) }})
	}
	if len(groups) > 0 {
		questions = append(questions, question{func(ctx context.Context) (err error) {
			o.seen.Held, err = o.Held(ctx, groups)
			return err
		}, func(a answer) { o.held(groups, a) }})
	}
	// Last: the tags may find some already.
	o.together(ctx, append(questions, o.describe(o.named)...)...)
}

func (o *observation) selectedBefore(g capacity.GroupSettings) (ids []string) {
	for _, r := range o.old.Reservations {
		if g.Select.Matches(r) {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// held takes PCS's answer about its compute node groups. Without it they hold what they held before.
func (o *observation) held(names []string, a answer) {
	if !o.need("reading the compute node groups "+strings.Join(names, ", "), a) { // about some perhaps
		o.seen.Held = nil
	}
	for _, id := range o.seen.Held {
		if id != "" {
			o.ids = append(o.ids, id)
		}
	}
}

// subnets takes EC2's answer about the subnets' zones. Unanswered zones stay as they were.
func (o *observation) subnets(ids []string, missing []capacity.Missing, a answer) {
	if a.words != "" {
		o.problem(capacity.AWSUnanswered, capacity.Subject{}, "", "%s; the zones of %s are as they were", a.words,
			strings.Join(ids, ", "))
	}
	for _, m := range missing {
		words, _ := o.EC2.Explain(m.Err)
		o.problem("subnet-not-known", capacity.Subject{}, "check its id and the region",
			"EC2 does not describe subnet %s: %s", m.ID, words)
	}
	for _, at := range capacity.Places(o.old.Partitions) {
		o.seen.Subnets = append(o.seen.Subnets, at.Group.Subnets...)
	}
}

// instances finds the instances in the reservations, which show the reservations' slots when no snapshot does.
func (o *observation) instances(ctx context.Context) {
	var ids []string
	for _, r := range o.seen.Reservations {
		ids = append(ids, r.ID)
	}
	if len(ids) == 0 {
		return
	}
	o.together(ctx, question{func(ctx context.Context) error {
		found, err := o.EC2.InstancesByTag(ctx, map[string][]string{capacity.TagReservation: ids})
		o.seen.Instances = capacity.WithNodes(found, hostlist.Expand)
		return err
	}, func(a answer) {
		if a.words != "" {
			o.problem("slots-not-known", capacity.Subject{}, "",
				"asking EC2 which slots the reservations have: %s; they may be taken for others than before", a.words)
		}
	}})
}

// mismatches says why launches into a slot's current reservation would fail.
func mismatches(snap *capacity.Snapshot, now time.Time) (problems []capacity.Problem) {
	for _, v := range snap.Standings(now) {
		if v.Reservation.ID == "" || v.Former {
			continue
		}
		for _, m := range capacity.Lasting(capacity.Match(v.Reservation, *v.Group, now)) {
			m.About.Partition, m.About.Slot = v.Partition.Name, v.Slot.Name
			problems = append(problems, m)
		}
	}
	return problems
}
