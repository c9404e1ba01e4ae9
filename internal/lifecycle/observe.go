package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// firstAnswer is how long the first call of a pass may take. The SDK gives up after three attempts and pauses of up
// to 2 and 4 s: a longer call means a dead endpoint, or no credentials.
const firstAnswer = 8 * time.Second

// allAnswers is how long all calls together may take.
const allAnswers = time.Minute

// Answers counts the calls to AWS and the answered ones.
type Answers struct{ Questions, Answered int }

// All: AWS was called and answered every call.
func (a Answers) All() bool { return a.Questions > 0 && a.Answered == a.Questions }

// observe reads AWS. After a failed read the snapshot holds older facts and keeps the older time, so it goes stale.
func (p *pass) observe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, allAnswers)
	defer cancel()
	if p.Offline != nil {
		p.down = true
		p.unanswered(p.Offline.Error())
	}
	old := p.seen.old()
	for _, v := range old.Standings(p.MachineTime().Add(old.ClockOffset.Duration)) {
		if v.Reservation.ID != "" && v.Slot.Nodes != "" {
			p.ids = append(p.ids, v.Reservation.ID)
		}
	}
	p.places(ctx)
	p.reservations(ctx)
	p.aws.Before, p.aws.Now = p.seen.Old, p.now()
	if p.seen.Old == nil {
		p.instances(ctx)
	}
	snap := capacity.Build(p.Settings, p.aws)
	snap.Missing, snap.Problems, snap.Region = p.absent, p.seen.Snap.Problems, p.EC2.Region()
	snap.TakenAt, snap.ClockOffset.Duration = p.now().UTC().Truncate(time.Second), p.EC2.Offset()
	if p.seen.NoAWS {
		if snap.TakenAt = old.TakenAt; p.EC2.Offset() == 0 {
			snap.ClockOffset = old.ClockOffset
		}
	}
	p.seen.Snap = snap
}

// need notes why a call failed whose answer the pass needs to know as much as before.
func (p *pass) need(doing string, a answer) (answered bool) {
	if a.words != "" {
		p.unanswered(fmt.Sprintf("%s: %s", doing, a.words))
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
func (p *pass) together(ctx context.Context, questions ...question) {
	p.answers.Questions += len(questions)
	errs := make([]error, len(questions))
	silent := p.down
	if !silent {
		limit := allAnswers
		if !p.asked {
			limit = firstAnswer
		}
		p.asked = p.asked || len(questions) > 0
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
			p.answers.Answered++
		default:
			words, general := p.EC2.Explain(err)
			if !general {
				a.words = words
			} else if !p.down {
				p.down = true
				p.unanswered(words)
			}
		}
		q.take(a)
	}
}

// unanswered notes a call that was not answered at all.
func (p *pass) unanswered(words string) {
	p.seen.NoAWS = true
	p.fail(errors.New(words))
	p.kept("%s; what was known before is kept", words)
}

// kept names a question that AWS did not answer, and what the pass keeps instead.
func (p *pass) kept(format string, args ...any) {
	p.say(capacity.AWSUnanswered, capacity.Subject{}, "", format, args...)
}

// places reads what depends on no other answer: the subnets' zones, the reservations that node groups name or select
// by tags, the platforms of launch templates' images, and the reservations of the PCS compute node groups.
func (p *pass) places(ctx context.Context) {
	var subnets, groups []string
	var selects []capacity.GroupSettings
	for _, part := range p.Settings.Partitions {
		for _, g := range part.Groups {
			subnets = append(subnets, g.SubnetIDs...)
			p.named = append(p.named, g.ReservationIDs...)
			if g.Select != nil {
				selects = append(selects, g)
			}
			if part.Provider == capacity.ProviderPCS {
				groups = append(groups, capacity.SlotNames(part.Provider, g.Name)...)
			}
		}
	}
	slices.Sort(subnets)
	subnets = slices.Compact(subnets)

	slices.Sort(p.named)
	p.named = slices.Compact(p.named)
	var questions []question
	for _, g := range selects {
		var found []capacity.Reservation
		questions = append(questions, question{func(ctx context.Context) (err error) {
			found, err = p.EC2.ReservationsByTag(ctx, g.Select.Tags)
			return err
		}, func(a answer) {
			p.aws.Reservations = append(p.aws.Reservations, found...)
			if !p.need(fmt.Sprintf("finding the reservations of node group %s by tag", g.Name), a) {
				p.ids = append(p.ids, p.selectedBefore(g)...)
			}
		}})
	}
	p.aws.Platforms = map[string]capacity.ImagePlatform{}
	for _, t := range p.Settings.LaunchTemplates() {
		var image capacity.ImagePlatform
		questions = append(questions, question{func(ctx context.Context) (err error) {
			image, err = p.EC2.ImagePlatform(ctx, t)
			return err
		}, func(a answer) {
			if image.Platform == "" { // a version never changes, so earlier answers stay true
				image.Platform = p.seen.old().PlatformOf(image.Template)
			}
			if p.aws.Platforms[t] = image; a.words != "" {
				p.kept("%s; what was known before is kept", a.words)
			}
		}})
	}
	if len(subnets) > 0 {
		var missing []capacity.Missing
		questions = append(questions, question{func(ctx context.Context) (err error) {
			p.aws.Subnets, missing, err = p.EC2.KnownSubnets(ctx, subnets)
			return err
		}, func(a answer) { p.subnets(subnets, missing, a) }})
	}
	if len(groups) > 0 {
		questions = append(questions, question{func(ctx context.Context) (err error) {
			p.aws.Held, err = p.Held(ctx, groups)
			return err
		}, func(a answer) { p.held(groups, a) }})
	}
	// Last: the tags may find some already.
	p.together(ctx, append(questions, p.describe(p.named)...)...)
}

func (p *pass) selectedBefore(g capacity.GroupSettings) (ids []string) {
	for _, r := range p.seen.old().Reservations {
		if g.Select.Matches(r) {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// held takes PCS's answer about its compute node groups. Without it they hold what they held before.
func (p *pass) held(names []string, a answer) {
	if !p.need("reading the compute node groups "+strings.Join(names, ", "), a) { // about some perhaps
		p.aws.Held = nil
	}
	for _, id := range p.aws.Held {
		if id != "" {
			p.ids = append(p.ids, id)
		}
	}
}

// subnets takes EC2's answer about the subnets' zones. Unanswered zones stay as they were.
func (p *pass) subnets(ids []string, missing []capacity.Missing, a answer) {
	if a.words != "" {
		p.kept("%s; the zones of %s are unchanged", a.words,
			strings.Join(ids, ", "))
	}
	for _, m := range missing {
		words, _ := p.EC2.Explain(m.Err)
		p.say("subnet-not-known", capacity.Subject{}, "check its id and the region",
			"EC2 does not describe subnet %s: %s", m.ID, words)
	}
	for _, at := range capacity.Places(p.seen.old().Partitions) {
		p.aws.Subnets = append(p.aws.Subnets, at.Group.Subnets...)
	}
}

// instances finds the instances in the reservations, which show the reservations' slots when no snapshot does.
func (p *pass) instances(ctx context.Context) {
	var ids []string
	for _, r := range p.aws.Reservations {
		ids = append(ids, r.ID)
	}
	if len(ids) == 0 {
		return
	}
	p.together(ctx, question{func(ctx context.Context) error {
		found, err := p.EC2.InstancesByTag(ctx, map[string][]string{capacity.TagReservation: ids})
		p.aws.Instances = capacity.WithNodes(found)
		return err
	}, func(a answer) {
		if a.words != "" {
			p.say("slots-not-known", capacity.Subject{}, "",
				"asking EC2 which slots the reservations have: %s; they may be taken for others than before", a.words)
		}
	}})
}

// mismatches says why launches into a slot's current reservation would fail.
func mismatches(s Seen) (problems []capacity.Problem) {
	for _, v := range s.slots() {
		if v.Reservation.ID == "" || v.Former {
			continue
		}
		for _, m := range capacity.Lasting(capacity.Match(v.Reservation, *v.Group, s.Now)) {
			m.About.Partition, m.About.Slot = v.Partition.Name, v.Slot.Name
			problems = append(problems, m)
		}
	}
	return problems
}
