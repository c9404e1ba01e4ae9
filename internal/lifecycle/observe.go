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
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// firstAnswer bounds the first call of a pass. The SDK gives up after three attempts and pauses of up
// to 2 and 4 s: a longer call means a dead endpoint, or no credentials.
const firstAnswer = 8 * time.Second

// allAnswers bounds all calls together.
const allAnswers = time.Minute

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

	p.aws.Before = p.seen.Old
	p.aws.Now = p.now()
	if p.seen.Old == nil {
		p.instances(ctx)
	}

	snap := capacity.Build(p.Settings, p.aws)
	snap.Missing = p.absent
	snap.Problems = p.seen.Snap.Problems
	snap.Region = p.EC2.Region()
	snap.TakenAt = p.now().UTC().Truncate(time.Second)
	snap.ClockOffset.Duration = p.EC2.Offset()

	if p.seen.NoAWS { // the facts are as old as the last answers
		snap.TakenAt = old.TakenAt
		if p.EC2.Offset() == 0 {
			snap.ClockOffset = old.ClockOffset
		}
	}

	p.seen.Snap = snap
}

// sideBySide is the number of concurrent calls: EC2 refills its buckets for Describe calls by 10 a second and more
// (EC2 API Reference, "Request throttling").
const sideBySide = 8

// question is a call to AWS, and what takes its answer. doing names a call whose answer the pass needs to know as much
// as before; it is "" for one without which the pass keeps what was known.
type question struct {
	doing string
	ask   func(ctx context.Context) error
	take  func(answered bool)
}

// together makes calls to AWS side by side, and takes the answers in order. An error that every call would meet is
// reported once and stops further calls.
func (p *pass) together(ctx context.Context, questions ...question) {
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
		answered := !silent && errs[i] == nil
		if !silent && !answered {
			switch words, general := p.EC2.Explain(errs[i]); {
			case general && p.down:
			case general:
				p.down = true
				p.unanswered(words)
			case q.doing != "":
				p.unanswered(q.doing + ": " + words)
			default:
				p.kept(words)
			}
		}

		q.take(answered)
	}
}

// unanswered notes a call that was not answered at all.
func (p *pass) unanswered(words string) {
	p.seen.NoAWS = true
	p.fail(errors.New(words))
	p.kept(words)
}

// kept names a question that AWS did not answer.
func (p *pass) kept(words string) {
	p.say(capacity.AWSUnanswered, capacity.Subject{}, "", "%s; what was known before is kept", words)
}

// places reads what depends on no other answer: the subnets' zones, the reservations that node groups name or select
// by tags, the platforms of launch templates' images, and the reservations of the PCS compute node groups.
func (p *pass) places(ctx context.Context) {
	var (
		subnets, groups []string
		selects         []capacity.GroupSettings
	)
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
	slices.Sort(p.named)

	subnets = slices.Compact(subnets)
	p.named = slices.Compact(p.named)

	var questions []question
	for _, g := range selects {
		questions = append(questions, p.askSelected(g))
	}

	p.aws.Platforms = map[string]capacity.ImagePlatform{}
	for _, template := range p.Settings.LaunchTemplates() {
		questions = append(questions, p.askPlatform(template))
	}

	if len(subnets) > 0 {
		questions = append(questions, p.askSubnets(subnets))
	}

	if len(groups) > 0 {
		questions = append(questions, p.askHeld(groups))
	}
	// Last: the tags may find some already.
	p.together(ctx, append(questions, p.describe(p.named)...)...)
}

// askSelected asks for the reservations with a node group's tags. Without an answer, those that it had are described
// by id.
func (p *pass) askSelected(g capacity.GroupSettings) question {
	var found []capacity.Reservation

	return question{
		doing: fmt.Sprintf("finding the reservations of node group %s by tag", g.Name),
		ask: func(ctx context.Context) (err error) {
			found, err = p.EC2.FindReservations(ctx, ec2.ReservationQuery{Tags: g.Select.Tags})
			return err
		},
		take: func(answered bool) {
			p.told(found...)

			for _, r := range p.seen.old().Reservations {
				if !answered && g.Select.Matches(r) {
					p.ids = append(p.ids, r.ID)
				}
			}
		},
	}
}

// askPlatform asks for the platform of a launch template's image.
func (p *pass) askPlatform(template string) question {
	var image capacity.ImagePlatform

	return question{
		ask: func(ctx context.Context) (err error) {
			image, err = p.EC2.ImagePlatform(ctx, template)
			return err
		},
		take: func(bool) {
			if image.Platform == "" { // a version never changes, so earlier answers stay true
				image.Platform = p.seen.old().PlatformOf(image.Template)
			}

			p.aws.Platforms[template] = image
		},
	}
}

// askSubnets asks for the zones of subnets.
func (p *pass) askSubnets(ids []string) question {
	var missing []capacity.Missing

	return question{
		ask: func(ctx context.Context) error {
			found, bad, err := p.EC2.Subnets(ctx, ids)
			p.aws.Subnets = ec2.Plain(found)
			missing = bad
			return err
		},
		take: func(bool) { p.subnets(missing) },
	}
}

// askHeld asks PCS for the reservations that compute node groups hold.
func (p *pass) askHeld(groups []string) question {
	return question{
		doing: "reading the compute node groups " + strings.Join(groups, ", "),
		ask: func(ctx context.Context) (err error) {
			p.aws.Held, err = p.Held(ctx, groups)
			return err
		},
		take: func(answered bool) {
			if !answered { // about some perhaps; they hold what they held before
				p.aws.Held = nil
			}

			for _, id := range p.aws.Held {
				if id != "" {
					p.ids = append(p.ids, id)
				}
			}
		},
	}
}

// subnets takes EC2's answer about the subnets' zones. Unanswered zones stay as they were.
func (p *pass) subnets(missing []capacity.Missing) {
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

	p.together(ctx, question{
		ask: func(ctx context.Context) error {
			tagged := capacity.InstanceQuery{Tags: map[string][]string{capacity.TagReservation: ids}}
			found, err := p.EC2.FindInstances(ctx, tagged)
			p.aws.Instances = capacity.WithNodes(found)

			return err
		},
		take: func(bool) {},
	})
}

// mismatches says why launches into a slot's current reservation would fail.
func mismatches(s Seen) (problems []capacity.Problem) {
	for _, v := range s.slots() {
		if v.Reservation.ID == "" || v.Former {
			continue
		}

		for _, m := range capacity.Lasting(capacity.Match(v.Reservation, *v.Group, s.Now)) {
			m.About.Partition = v.Partition.Name
			m.About.Slot = v.Slot.Name
			problems = append(problems, m)
		}
	}

	return problems
}
