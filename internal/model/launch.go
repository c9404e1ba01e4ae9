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
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

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
)

// order is what a ClientToken was used for, and what came of it: EC2 binds a token to the request of its first use.
type order struct {
	request string
	ids     []string
}

// bound is the order of a token, new if the token is; it fails for another request than that.
func (e *EC2) bound(token string, request any) (o *order, err error) {
	text := fmt.Sprintf("%+v", request)
	if e.tokens[token] == nil {
		e.tokens[token] = &order{request: text}
	}
	if o = e.tokens[token]; o.request != text {
		return nil, errTokenUsed
	}
	return o, nil
}

// free is how many more instances there is room for outside of the blocks.
func (e *EC2) free() int {
	free := e.OnDemand
	for _, r := range e.All {
		if r = e.stated(r); r.Kind == capacity.ODCR && r.State.Live() {
			free -= r.Total
		}
	}
	return free - e.Of("")
}

// Launch launches instances: as many as there is room for, or none if these are too few. A repeated order answers with
// what it launched before.
func (e *EC2) Launch(_ context.Context, l capacity.Launch) (launched []capacity.Instance, err error) {
	text := fmt.Sprintf("%s into %s in %s, token %s", cmp.Or(capacity.LaunchedNodes(l.Tags), l.Tags[capacity.TagNode]), cmp.Or(l.ReservationID, string(l.Kind)),
		l.SubnetID, l.ClientToken)
	err = e.Do(Call{Verb: "launch", Text: text, Change: true, EC2: true}, func() error {
		launched, err = e.launch(l)
		return err
	})
	if err != nil {
		return nil, err
	}
	return launched, nil
}

func (e *EC2) launch(l capacity.Launch) (launched []capacity.Instance, err error) {
	o, err := e.bound(l.ClientToken, l)
	if err != nil {
		return nil, err
	}
	if o.ids != nil {
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
	room := e.free()
	if l.ReservationID != "" {
		room = e.Free(l.ReservationID)
	}
	if room < max(1, cmp.Or(l.Least, l.Count)) {
		return nil, errNoRoom
	}
	for index := range min(room, l.Count) {
		e.IDs++
		i := capacity.Instance{ID: fmt.Sprintf("i-%d", e.IDs), PrivateIP: fmt.Sprintf("10.0.%d.%d", e.IDs/250, 1+e.IDs%250), State: "running", Type: l.InstanceType,
			SubnetID: l.SubnetID, ReservationID: l.ReservationID, LaunchIndex: index, Launched: e.Now().Truncate(time.Second), Tags: maps.Clone(l.Tags)}
		e.before[i.ID] = change{at: e.Now()}
		e.Instances, launched, o.ids = append(e.Instances, i), append(launched, i), append(o.ids, i.ID)
	}
	return launched, nil
}

// CreateODCR makes an ODCR that others have no part in. A repeated order answers with the one that it made.
func (e *EC2) CreateODCR(_ context.Context, o capacity.HoldOrder) (r capacity.Reservation, err error) {
	text := fmt.Sprintf("of %d %s in %s, token %s", o.Count, o.InstanceType, o.AZID, o.ClientToken)
	err = e.Do(Call{Verb: "create ODCR", Text: text, Change: true, EC2: true}, func() error {
		made, err := e.bound(o.ClientToken, o)
		switch {
		case err != nil:
			return err
		case made.ids == nil && e.free() < o.Count:
			return errNoRoom
		case made.ids == nil:
			e.IDs++
			made.ids = []string{fmt.Sprintf("cr-odcr-%d", e.IDs)}
			e.Reserve(capacity.Reservation{ID: made.ids[0], Kind: capacity.ODCR, InstanceType: o.InstanceType, AZID: o.AZID, Platform: o.Platform, Total: o.Count, Available: o.Count,
				Start: e.Now(), End: o.End, Created: e.Now(), Tags: maps.Clone(o.Tags)})
			e.All[len(e.All)-1].Tags[capacity.TagToken] = o.ClientToken
		}
		r, _ = e.Real(made.ids[0])
		return nil
	})
	if err != nil {
		return capacity.Reservation{}, err
	}
	return r, nil
}

// CancelODCR cancels an ODCR. Its instances go on.
func (e *EC2) CancelODCR(_ context.Context, id string) error {
	return e.Do(Call{Verb: "cancel reservation", Text: id, Change: true, EC2: true}, func() error {
		e.Change(id, func(r *capacity.Reservation) { r.State = capacity.StateCancelled })
		for i := range e.Instances {
			if in := &e.Instances[i]; in.ReservationID == id {
				in.ReservationID = ""
			}
		}
		return nil
	})
}

// Terminate ends instances.
func (e *EC2) Terminate(_ context.Context, ids []string) error {
	return e.Do(Call{Verb: "terminate", Text: strings.Join(ids, ","), Change: true, EC2: true}, func() error {
		e.End(ids...)
		return nil
	})
}

// PinTemplate is the version of a launch template that is launched now.
func (e *EC2) PinTemplate(_ context.Context, name string) (string, error) {
	return name + ":1", e.read("describe a launch template", func() {})
}

// ConsoleSays is what Console is.
func (e *EC2) ConsoleSays(context.Context, string) (line string, err error) {
	return e.Console, e.read("read a console", func() {})
}

// Remember is of no use here: EC2 terminates what it does not show.
func (e *EC2) Remember(string, time.Time) {}

// Host is the controller, on which hooks run: they see all of the world, and their files.
type Host struct {
	*Slurm
	*EC2
	*PCS
	state.Dir
}

// Reservations are EC2's.
func (h Host) Reservations(ctx context.Context, ids []string) ([]capacity.Reservation, []capacity.Missing, error) {
	return h.EC2.Reservations(ctx, ids)
}

// AppendRecords writes records into state_dir.
func (h Host) AppendRecords(records ...state.Record) error {
	var text []string
	for _, r := range records {
		text = append(text, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Hook, r.Code, r.Nodes)))
	}
	return h.file("record", strings.Join(text, ", "), func() error { return h.Dir.AppendRecords(records...) })
}

// Enlist notes an ODCR in the ledger.
func (h Host) Enlist(of capacity.Held, now time.Time, allowed func(more capacity.Held, others []capacity.Held) error) (noted capacity.Held, err error) {
	err = h.file("enlist", fmt.Sprintf("%d, token %s %s", of.Count, of.Token, of.ReservationID), func() error {
		noted, err = h.Dir.Enlist(of, now, allowed)
		return err
	})
	return noted, err
}

// Released takes ODCRs out of the ledger.
func (h Host) Released(now time.Time, names ...string) error {
	return h.file("unlist", "token "+strings.Join(names, ","), func() error { return h.Dir.Released(now, names...) })
}

func (h Host) file(verb, text string, do func() error) error {
	return h.EC2.Do(Call{Verb: verb, Text: strings.TrimSpace(text), Change: true}, do)
}
