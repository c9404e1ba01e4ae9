// Package facts reads what is decided on. It decides nothing, and keeps each answer beside its error.
//
// [Read] asks AWS what launches, fences and checks go by: reservations, subnets, images and the reservations of PCS
// compute node groups. What an unanswered question means is the caller's policy:
//
//   - sync goes on with what the last snapshot knew: [Answers.Keep];
//   - a launch is decided on current answers, or not at all: [Answers.Fresh];
//   - check and setup judge the answers and the errors as they are.
//
// [Surveyor] reads a whole site, or a host, for package check: AWS, Slurm, and the files between them.
package facts

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// AWS answers the questions. The adapter ec2 does so at a site, the model in tests.
type AWS interface {
	// Reservations describes reservations by id. One that EC2 does not describe is in missing, with the reason; err
	// is for a query that failed as a whole.
	Reservations(
		ctx context.Context, ids []string,
	) (found []capacity.Reservation, missing []capacity.Missing, err error)
	FindReservations(ctx context.Context, q ec2.ReservationQuery) ([]capacity.Reservation, error)
	FindInstances(ctx context.Context, q capacity.InstanceQuery) ([]capacity.Instance, error)
	// Subnets is to subnets what Reservations is to reservations.
	Subnets(ctx context.Context, ids []string) (found []ec2.Subnet, missing []capacity.Missing, err error)
	// ImagePlatform is the platform of a launch template's image; unknown without the permission to ask.
	ImagePlatform(ctx context.Context, template string) (capacity.ImagePlatform, error)
	// Explain puts an error of EC2 or PCS into words, without parts that differ each time, such as the request id.
	// general: every other call would fail with it too, as with expired credentials.
	Explain(err error) (words string, general bool)
}

// Query says what to ask for.
type Query struct {
	// Groups are asked about by what their settings name: reservations by id and by tag, and subnets.
	Groups []capacity.GroupSettings
	// Reservations and Subnets are ids beside those of Groups.
	Reservations []string
	Subnets      []string
	// Templates are launch templates, for the platforms of their images.
	Templates []string
	// NodeGroups are PCS compute node groups. Held returns those that exist, each with its reservation, "" for none;
	// the reservations are described, too. Failed ones are in failed, with PCS's status and reasons.
	NodeGroups []string
	Held       func(ctx context.Context, groups []string) (held, failed map[string]string, err error)
	// Instances asks for the instances that are tagged with the reservations.
	Instances bool
	// Offline is why AWS cannot be asked at all; nil if it can.
	Offline error
	// FirstLimit bounds each of the first calls; 0 leaves it to the context.
	FirstLimit time.Duration
}

// Answer is a value, or why it is not known.
type Answer[T any] struct {
	Value T
	Err   error
}

func answerOf[T any](value T, err error) Answer[T] { return Answer[T]{value, err} }

// Answers has what AWS said. A question that was not asked has a zero answer.
type Answers struct {
	Selected       map[string]Answer[[]capacity.Reservation] // by the node group that selects them by tag
	Platforms      map[string]Answer[capacity.ImagePlatform] // by launch template
	Subnets        Answer[[]ec2.Subnet]
	MissingSubnets []capacity.Missing
	Held           Answer[map[string]string]
	FailedGroups   map[string]string              // those of Held that failed, with PCS's words
	Reservations   Answer[[]capacity.Reservation] // those described by id
	Missing        []capacity.Missing             // those that EC2 does not describe
	Instances      []capacity.Instance            // with their nodes' tags

	// Asked reports whether there was anything to ask. Down is why no further call would be answered, nil if it would.
	Asked bool
	Down  error

	aws      AWS
	groups   []capacity.GroupSettings
	ids      []string  // the reservations that were to be described
	failures []failure // of the questions, in their order
}

// failure is a question without an answer. doing names one whose answer is needed to know as much as before; it is ""
// for one without which what was known stays true, and for what every call would meet.
type failure struct {
	doing   string
	err     error
	general bool
}

// question is a call to AWS. keep files its answer, with the call's error or why it was not made.
type question struct {
	doing string
	call  func(ctx context.Context) error
	keep  func(err error)
}

// newQuestion returns the question that a call answers.
func newQuestion[T any](doing string, call func(ctx context.Context) (T, error), keep func(Answer[T])) question {
	var value T

	return question{
		doing: doing,
		call: func(ctx context.Context) (err error) {
			value, err = call(ctx)
			return err
		},
		keep: func(err error) { keep(Answer[T]{value, err}) },
	}
}

// maxCalls is the number of concurrent calls: EC2 refills its buckets for Describe calls by 10 a second and more
// (EC2 API Reference, "Request throttling").
const maxCalls = 8

// Read asks in two rounds: what q names, and the reservations that only PCS names. The instances need both.
func Read(ctx context.Context, aws AWS, q Query) Answers {
	a := Answers{
		aws:       aws,
		groups:    q.Groups,
		Selected:  map[string]Answer[[]capacity.Reservation]{},
		Platforms: map[string]Answer[capacity.ImagePlatform]{},
	}
	if q.Offline != nil {
		a.Down = q.Offline
		a.failures = []failure{{err: q.Offline, general: true}}
	}

	ids := slices.Clone(q.Reservations)
	subnets := slices.Clone(q.Subnets)
	for _, g := range q.Groups {
		ids = append(ids, g.ReservationIDs...)
		subnets = append(subnets, g.SubnetIDs...)
	}

	a.ask(ctx, q.FirstLimit, slices.Concat(
		a.selections(),
		a.images(q.Templates),
		a.subnets(sorted(subnets)),
		a.held(q),
		a.descriptions(sorted(ids)),
	))

	// Only PCS knows these: node groups keep a reservation that the settings no longer name.
	var others []string
	for _, id := range a.Held.Value {
		if !slices.Contains(ids, id) && !a.known(id) {
			others = append(others, id)
		}
	}

	a.ask(ctx, 0, a.descriptions(sorted(others)))

	if q.Instances {
		a.ask(ctx, 0, a.instances())
	}

	return a
}

// sorted returns the ids in their order, each once.
func sorted(ids []string) []string {
	ids = slices.DeleteFunc(slices.Sorted(slices.Values(ids)), func(id string) bool { return id == "" })
	return slices.Compact(ids)
}

// selections asks for the reservations that node groups select by tag.
func (a *Answers) selections() (all []question) {
	for _, g := range a.groups {
		if g.Select == nil {
			continue
		}

		all = append(all, newQuestion("finding the reservations of node group "+g.Name+" by tag",
			func(ctx context.Context) ([]capacity.Reservation, error) {
				return a.aws.FindReservations(ctx, ec2.ReservationQuery{Tags: g.Select.Tags})
			},
			func(found Answer[[]capacity.Reservation]) { a.Selected[g.Name] = found }))
	}

	return all
}

// images asks for the platforms of launch templates' images.
func (a *Answers) images(templates []string) (all []question) {
	for _, template := range templates {
		all = append(all, newQuestion("",
			func(ctx context.Context) (capacity.ImagePlatform, error) { return a.aws.ImagePlatform(ctx, template) },
			func(image Answer[capacity.ImagePlatform]) { a.Platforms[template] = image }))
	}

	return all
}

// subnets asks about subnets by id.
func (a *Answers) subnets(ids []string) []question {
	if len(ids) == 0 {
		return nil
	}

	return []question{newQuestion("",
		func(ctx context.Context) (found []ec2.Subnet, err error) {
			found, a.MissingSubnets, err = a.aws.Subnets(ctx, ids)
			return found, err
		},
		func(found Answer[[]ec2.Subnet]) { a.Subnets = found })}
}

// held asks which reservations PCS compute node groups have.
func (a *Answers) held(q Query) []question {
	if len(q.NodeGroups) == 0 {
		return nil
	}

	return []question{newQuestion("reading the compute node groups "+strings.Join(q.NodeGroups, ", "),
		func(ctx context.Context) (held map[string]string, err error) {
			held, a.FailedGroups, err = q.Held(ctx, q.NodeGroups)
			return held, err
		},
		func(held Answer[map[string]string]) { a.Held = held })}
}

// descriptions asks about reservations by id.
func (a *Answers) descriptions(ids []string) []question {
	if len(ids) == 0 {
		return nil
	}

	a.ids = append(a.ids, ids...)

	var missing []capacity.Missing

	return []question{newQuestion("describing reservations "+strings.Join(ids, ", "),
		func(ctx context.Context) (found []capacity.Reservation, err error) {
			found, missing, err = a.aws.Reservations(ctx, ids)
			return found, err
		},
		func(found Answer[[]capacity.Reservation]) {
			a.Reservations.Value = append(a.Reservations.Value, found.Value...)
			a.Reservations.Err = cmp.Or(a.Reservations.Err, found.Err)
			a.Missing = append(a.Missing, missing...)
		})}
}

// instances asks for the instances in the reservations, which show the reservations' slots when no snapshot does.
func (a *Answers) instances() []question {
	var ids []string
	for _, r := range a.described() {
		ids = append(ids, r.ID)
	}

	if len(ids) == 0 {
		return nil
	}

	tagged := capacity.InstanceQuery{Tags: map[string][]string{capacity.TagReservation: ids}}

	return []question{newQuestion("",
		func(ctx context.Context) ([]capacity.Instance, error) { return a.aws.FindInstances(ctx, tagged) },
		func(found Answer[[]capacity.Instance]) { a.Instances = capacity.WithNodes(found.Value) })}
}

// ask makes calls side by side, and then files their answers in order. An error that every call would meet stops
// further calls. limit bounds each call; 0 leaves it to the context.
func (a *Answers) ask(ctx context.Context, limit time.Duration, questions []question) {
	a.Asked = a.Asked || len(questions) > 0
	errs := make([]error, len(questions))
	down := a.Down

	var group errgroup.Group
	group.SetLimit(maxCalls)

	for i, q := range questions {
		group.Go(func() error {
			ctx := ctx
			if limit > 0 {
				var cancel func()

				ctx, cancel = context.WithTimeout(ctx, limit)
				defer cancel()
			}

			errs[i] = down
			if down == nil {
				errs[i] = q.call(ctx)
			}

			return nil
		})
	}

	_ = group.Wait() // the errors are in errs

	for i, q := range questions {
		q.keep(errs[i])

		if errs[i] == nil || down != nil {
			continue
		}

		// Expired credentials are reported once, not for each question.
		_, general := a.aws.Explain(errs[i])
		if general && a.Down == nil {
			a.Down = errs[i]
			a.failures = append(a.failures, failure{err: errs[i], general: true})
		}

		if !general {
			a.failures = append(a.failures, failure{doing: q.doing, err: errs[i]})
		}
	}
}

// described returns the reservations that EC2 described, those that tags selected first. Some may be there twice.
func (a Answers) described() (all []capacity.Reservation) {
	for _, group := range slices.Sorted(maps.Keys(a.Selected)) {
		all = append(all, a.Selected[group].Value...)
	}

	return append(all, a.Reservations.Value...)
}

func (a Answers) known(id string) bool {
	return slices.ContainsFunc(a.described(), func(r capacity.Reservation) bool { return r.ID == id })
}

// Facts returns the answers as they are, at now in AWS's time.
func (a Answers) Facts(now time.Time) capacity.Facts {
	f := capacity.Facts{
		Reservations: a.described(),
		Subnets:      ec2.PlainSubnets(a.Subnets.Value),
		Platforms:    map[string]capacity.ImagePlatform{},
		Held:         a.Held.Value,
		Instances:    a.Instances,
		Now:          now,
	}
	for template, image := range a.Platforms {
		f.Platforms[template] = image.Value
	}

	return f
}

// Fresh returns the facts for a launch: an answer that is missing is an error. A reservation that EC2 leaves out still
// has its slot, which no other may take: it stays as the last snapshot has it. last may be nil.
func (a Answers) Fresh(last *capacity.Snapshot, now time.Time) (capacity.Facts, error) {
	for _, failed := range a.failures {
		return capacity.Facts{}, fmt.Errorf("%s: %w", cmp.Or(failed.doing, "asking EC2"), failed.err)
	}

	f := a.Facts(now)
	f.Before = last
	if last == nil {
		return f, nil
	}

	// Left out for a moment is not gone: a launch must not take its slot.
	for _, m := range a.Missing {
		if r, ok := last.Reservation(m.ID); ok && r.IsLiveAt(now) {
			f.Reservations = append(f.Reservations, r)
		}
	}

	return f, nil
}
