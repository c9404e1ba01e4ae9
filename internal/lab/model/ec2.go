package model

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// EC2 is the region's.
type EC2 struct {
	*Model
	All       []capacity.Reservation // the reservations that there are. A State of "" goes by the time.
	Instances []capacity.Instance    // those that have not been terminated
	Hosts     map[string]string      // EC2's words about hosts that it is about to take away, by instance
	OpensLate time.Duration          // how long after its start EC2 opens a block
	Hidden    []string               // reservations that EC2 leaves out of its answers
	Late      bool                   // what has changed in the last minutes is shown as it was
	// ForSale are the blocks that EC2 sells, each as often as somebody buys it, and the extensions that it has offered.
	ForSale  []capacity.Offering
	Extended map[string][]capacity.Extension // the extensions that were sold, by reservation
	NotPaid  bool                            // payments fail
	// Templates are the newest versions of the launch templates, by name.
	Templates map[string]capacity.LaunchTemplate
	VPC       []ec2.Subnet   // the subnets that it has, beside those that say themselves where they are
	OnDemand  int            // the instances that there is room for outside of the blocks, also in ODCRs of ours
	Zones     map[string]int // the same by zone; nil: all is one
	Pools     *Pools
	Pends     time.Duration // how long a new ODCR is pending
	Console   string        // the last line on the console of each instance
	IDs       int           // how many ids have been given

	// Dates move the dates of the next answers ahead of AWS's clock, one each.
	Dates []time.Duration

	clock  capacity.Clock
	before map[string]change // by id
	tokens map[string]*order // by ClientToken
}

// change keeps the reservation or instance of before its last change; nil if it was not there.
type change struct {
	at  time.Time
	was any
}

// consistent bounds how long EC2 shows what was: the EC2 Developer Guide names five minutes.
const consistent = 5 * time.Minute

// visible returns what EC2 shows of all.
func visible[T any](e *EC2, all []T, id func(T) string) (found []T) {
	late := map[string]bool{}
	for id, c := range e.before {
		if e.Late && e.Now().Sub(c.at) < consistent {
			late[id] = true

			if was, of := c.was.(T); of {
				found = append(found, was)
			}
		}
	}

	found = append(found, slices.DeleteFunc(slices.Clone(all), func(one T) bool { return late[id(one)] })...)
	slices.SortFunc(found, func(a, b T) int { return strings.Compare(id(a), id(b)) })

	return found
}

func (e *EC2) reservations() (all []capacity.Reservation) {
	for _, r := range visible(e, e.All, func(r capacity.Reservation) string { return r.ID }) {
		if !slices.Contains(e.Hidden, r.ID) {
			all = append(all, e.stated(r))
		}
	}

	return all
}

func (e *EC2) instances() []capacity.Instance {
	return visible(e, e.Instances, func(i capacity.Instance) string { return i.ID })
}

// Reserve makes a reservation, which EC2 may show late.
func (e *EC2) Reserve(r capacity.Reservation) {
	e.before[r.ID] = change{at: e.Now()}
	e.All = append(e.All, r)
}

// Change changes a reservation, which EC2 may show late.
func (e *EC2) Change(id string, do func(r *capacity.Reservation)) {
	if r := e.reservation(id); r != nil {
		e.before[id] = change{e.Now(), *r}
		do(r)
	}
}

// End terminates instances, whoever asks for it.
func (e *EC2) End(ids ...string) {
	e.Instances = slices.DeleteFunc(e.Instances, func(i capacity.Instance) bool {
		ends := slices.Contains(ids, i.ID)
		if ends {
			e.before[i.ID] = change{e.Now(), i}
		}

		return ends
	})
}

func (e *EC2) reservation(id string) *capacity.Reservation {
	return checkName(e.All, func(r capacity.Reservation) bool { return r.ID == id })
}

// Real returns a reservation as it is, whatever EC2 shows.
func (e *EC2) Real(id string) (capacity.Reservation, bool) {
	if r := e.reservation(id); r != nil {
		return e.stated(*r), true
	}
	return capacity.Reservation{}, false
}

func (e *EC2) stated(r capacity.Reservation) capacity.Reservation {
	switch {
	case r.State != "":
	case !r.Kind.IsBlock() && e.Now().Before(r.Created.Add(e.Pends)):
		r.State = capacity.StatePending
	case r.Kind.IsBlock() && e.Now().Before(r.Start.Add(e.OpensLate)):
		r.State = capacity.StateScheduled
	case r.End.IsZero() || e.Now().Before(r.End):
		r.State = capacity.StateActive
	default:
		r.State = capacity.StateExpired
	}

	switch {
	case !r.Kind.IsBlock() && r.Tags[capacity.TagHold] == "":
	case r.State == capacity.StateActive || r.State == capacity.StatePending && !r.Kind.IsBlock():
		r.Available = max(0, r.Total-e.of(r.ID))
	case r.State == capacity.StateExpired && r.Kind.IsBlock():
		r.Total = 0
		r.Available = 0
	default:
		r.Available = 0
	}

	return r
}

// Open reports whether instances of a reservation may run: EC2 takes those of a block back 30 minutes before its end.
func (e *EC2) Open(id string) bool {
	r, _ := e.Real(id)
	return r.State == capacity.StateActive &&
		(r.End.IsZero() || !r.Kind.IsBlock() || e.Now().Before(r.End.Add(-30*time.Minute)))
}

// of counts the instances of a reservation.
func (e *EC2) of(id string) (n int) {
	for _, i := range e.Instances {
		if i.ReservationID == id {
			n++
		}
	}

	return n
}

// room counts the instances for which a reservation has room; "" is outside of all.
func (e *EC2) room(id string) int {
	switch r, _ := e.Real(id); {
	case id == "":
		free := e.OnDemand - e.of("")
		for _, r := range e.All {
			r = e.stated(r)
			if r.Kind == capacity.ODCR && r.State.IsLive() {
				free -= r.Total
			}
		}

		return free
	case !e.Open(id):
		return 0
	default:
		return r.Total - r.Unhealthy - e.of(id)
	}
}

// roomIn counts the instances that a zone has room for outside of all reservations.
func (e *EC2) roomIn(zone string) int {
	if e.Zones == nil {
		return e.room("")
	}

	free := e.Zones[zone]
	for _, i := range e.Instances {
		if i.ReservationID == "" && i.SubnetID == zone {
			free--
		}
	}

	for _, r := range e.All {
		r = e.stated(r)
		if r.Kind == capacity.ODCR && r.AZID == zone && r.State.IsLive() {
			free -= r.Total
		}
	}

	return free
}

// newID gives an id.
func (e *EC2) newID(prefix string) string {
	e.IDs++
	return fmt.Sprint(prefix, e.IDs)
}

// Refusal is an error of EC2.
type Refusal struct {
	Code, Message string
	Outcome       error // capacity.ErrNoRoom, ErrTokenUsed or ErrRefused, or ec2.ErrNotDescribed
}

func (r *Refusal) Error() string        { return strings.TrimSuffix(r.Code+": "+r.Message, ": ") }
func (r *Refusal) ErrorCode() string    { return r.Code }
func (r *Refusal) ErrorMessage() string { return r.Message }
func (r *Refusal) Unwrap() error        { return r.Outcome }

var (
	errNoRoom    = &Refusal{"InsufficientInstanceCapacity", "We have none.", capacity.ErrNoRoom}
	errTokenUsed = &Refusal{"IdempotentParameterMismatch", "It is used.", capacity.ErrTokenUsed}
	errNotFound  = &Refusal{Code: "InvalidCapacityReservationId.NotFound", Outcome: ec2.ErrNotDescribed}
)

// order keeps the request of a ClientToken, and what came of it: EC2 binds a token to the request of its first use.
type order struct {
	request string
	ids     []string
}

// bound returns the order of a token, new if the token is; it fails for another request than that.
func (e *EC2) bound(token string, request any) (o *order, err error) {
	text := fmt.Sprintf("%+v", request)
	if e.tokens[token] == nil {
		e.tokens[token] = &order{request: text}
	}

	o = e.tokens[token]
	if o.request != text {
		return nil, errTokenUsed
	}

	return o, nil
}

// Launch launches instances, or none if there is not room for all. A repeated order answers with what it launched
// before.
func (e *EC2) Launch(_ context.Context, l capacity.Launch) ([]capacity.Instance, error) {
	text := fmt.Sprintf(
		"%s into %s in %s, token %s",
		cmp.Or(capacity.LaunchedNodes(l.Tags), l.Tags[capacity.TagNode]),
		cmp.Or(l.ReservationID, string(l.Kind)),
		l.SubnetID,
		l.ClientToken,
	)

	return answer(
		e.Model,
		Call{Verb: "launch", Text: text, Change: true, EC2: true},
		func() ([]capacity.Instance, error) { return e.launch(l) },
	)
}

func (e *EC2) launch(l capacity.Launch) (launched []capacity.Instance, err error) {
	o, err := e.bound(l.ClientToken, l)
	if err != nil {
		return nil, err
	}

	if o.ids == nil {
		room := e.room(l.ReservationID)
		if room < l.Count {
			return nil, errNoRoom
		}

		for index := range l.Count {
			i := capacity.Instance{
				ID:            e.newID("i-"),
				PrivateIP:     fmt.Sprintf("10.0.%d.%d", e.IDs/250, 1+e.IDs%250),
				State:         "running",
				Type:          l.InstanceType,
				SubnetID:      l.SubnetID,
				ReservationID: l.ReservationID,
				LaunchIndex:   index,
				Launched:      e.Now().Truncate(time.Second),
				Tags:          maps.Clone(l.Tags),
			}
			e.before[i.ID] = change{at: e.Now()}
			e.Instances, o.ids = append(e.Instances, i), append(o.ids, i.ID)
		}
	}

	for _, i := range e.Instances {
		if slices.Contains(o.ids, i.ID) {
			launched = append(launched, i)
		}
	}

	if len(launched) < len(o.ids) { // some have been terminated
		return nil, errTokenUsed
	}

	return launched, nil
}

// CreateODCR makes an ODCR that others have no part in. A repeated order answers with the one that it made.
func (e *EC2) CreateODCR(_ context.Context, o capacity.HoldOrder) (capacity.Reservation, error) {
	text := fmt.Sprintf("of %d %s in %s, token %s", o.Count, o.InstanceType, o.AZID, o.ClientToken)

	return answer(
		e.Model,
		Call{Verb: "create ODCR", Text: text, Change: true, EC2: true},
		func() (r capacity.Reservation, err error) {
			made, err := e.bound(o.ClientToken, o)
			switch {
			case err != nil:
				return r, err
			case made.ids == nil && e.roomIn(o.AZID) < o.Count:
				return r, errNoRoom
			case made.ids == nil:
				made.ids = []string{e.newID("cr-odcr-")}
				tags := maps.Clone(o.Tags)
				tags[capacity.TagToken] = o.ClientToken
				e.Reserve(
					capacity.Reservation{
						ID:           made.ids[0],
						ARN:          arnPrefix + made.ids[0],
						Kind:         capacity.ODCR,
						InstanceType: o.InstanceType,
						AZID:         o.AZID,
						Platform:     o.Platform,
						Total:        o.Count,
						Available:    o.Count,
						Start:        e.Now(),
						End:          o.End,
						Created:      e.Now(),
						Tags:         tags,
					},
				)
			}

			r, _ = e.Real(made.ids[0])

			return r, nil
		},
	)
}

// CancelODCR cancels an ODCR. Its instances go on.
func (e *EC2) CancelODCR(_ context.Context, id string) error {
	return e.change("cancel reservation", id, func() error {
		e.Change(id, func(r *capacity.Reservation) { r.State = capacity.StateCancelled })
		e.leave(id)

		return nil
	})
}

// Terminate ends instances.
func (e *EC2) Terminate(_ context.Context, instances []capacity.Instance) error {
	ids := capacity.InstanceIDs(instances)
	return e.change("terminate", strings.Join(ids, ","), func() error { e.End(ids...); return nil })
}

// read makes a call that changes nothing.
func read[T any](e *EC2, verb, text string, what func() T) (T, error) {
	return answer(e.Model, Call{Verb: verb, Text: text, EC2: true}, func() (T, error) { return what(), nil })
}

// find answers a read: of all that EC2 shows then, with those that are asked for.
func find[T any](e *EC2, verb, text string, all func() []T, is func(T) bool) ([]T, error) {
	return read(e, verb, text, func() []T { return slices.DeleteFunc(all(), func(one T) bool { return !is(one) }) })
}

// Reservations describes them by id.
func (e *EC2) Reservations(
	_ context.Context,
	ids []string,
) (found []capacity.Reservation, missing []capacity.Missing, err error) {
	all, err := read(e, "describe reservations", "", e.reservations)
	if err != nil {
		return nil, nil, err
	}

	for _, id := range ids {
		if r := checkName(all, func(r capacity.Reservation) bool { return r.ID == id }); r != nil {
			found = append(found, *r)
		} else {
			missing = append(missing, capacity.Missing{ID: id, Err: errNotFound})
		}
	}

	return found, missing, nil
}

// FindReservations lists those with all of the tags, in one of the states.
func (e *EC2) FindReservations(_ context.Context, q ec2.ReservationQuery) ([]capacity.Reservation, error) {
	return find(e, "find reservations", "", e.reservations, func(r capacity.Reservation) bool {
		return (&capacity.Select{Tags: q.Tags}).Matches(r) && (q.TagKey == "" || r.Tags[q.TagKey] != "") &&
			(q.States == nil || slices.Contains(q.States, r.State))
	})
}

// FindInstances lists those that EC2 shows.
func (e *EC2) FindInstances(_ context.Context, q capacity.InstanceQuery) ([]capacity.Instance, error) {
	return find(e, "find instances", strings.Join(q.IDs, ","), e.instances, func(i capacity.Instance) bool {
		for key, values := range q.Tags {
			if !slices.Contains(values, i.Tags[key]) {
				return false
			}
		}

		cluster, _, _ := strings.Cut(i.Tags[capacity.TagCluster], "/")

		return (q.IDs == nil || slices.Contains(q.IDs, i.ID)) && (q.ClusterName == "" || cluster == q.ClusterName)
	})
}

func (e *EC2) Impaired(context.Context) (map[string]string, error) {
	return read(e, "describe hosts", "", func() map[string]string { return e.Hosts })
}

// BootFailure returns Console.
func (e *EC2) BootFailure(context.Context, string) (string, error) {
	return read(e, "read a console", "", func() string { return e.Console })
}

// Account returns the id of the account, always the same.
func (e *EC2) Account(context.Context) (string, error) {
	return read(e, "account", "", func() string { return "111122223333" })
}

// Region returns the name of its region, always the same.
func (e *EC2) Region() string { return "us-east-2" }

// date has the asker learn AWS's time from an answer.
func (e *EC2) date() {
	wrong := time.Duration(0)
	if len(e.Dates) > 0 {
		wrong = e.Dates[0]
		e.Dates = e.Dates[1:]
	}

	e.clock.Observe(wrong - e.Skew)
}

// Offset returns AWS's time minus the machine's, whose clock is Slurm's.
func (e *EC2) Offset() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()

	if e.clock == (capacity.Clock{}) { // nobody has asked it anything
		return -e.Skew
	}

	return e.clock.Offset()
}

// Explain has no other words for an error.
func (e *EC2) Explain(err error) (words string, general bool) { return err.Error(), false }

// Withheld returns nothing: all calls are allowed.
func (e *EC2) Withheld() []string { return nil }

// OnWait has nothing to tell: EC2 has no request limits here.
func (e *EC2) OnWait(func(ec2.Wait)) {}
