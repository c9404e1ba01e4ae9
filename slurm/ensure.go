package slurm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Action says what [Client.EnsureReservation] did.
type Action string

// What can be done about a reservation. Replaced means deleted and created
// again: the only way to move the start of an active one.
const (
	Unchanged Action = "unchanged"
	Created   Action = "created"
	Updated   Action = "updated"
	Replaced  Action = "replaced"
)

// EnsureReservation makes the reservation of want.Name be as wanted with the
// least change, and returns what it did. It does not ask whose reservation it
// is: the caller passes only names that carry its mark.
//
// A want whose start has passed is fulfilled by any active reservation with
// the same nodes, end, flags and users. When it fails between the deletion and
// the creation of a replacement, the error says so; calling it again repairs
// that.
func (c *Client) EnsureReservation(ctx context.Context, want Reservation, now time.Time) (Action, error) {
	if _, err := want.arguments(); err != nil {
		return "", fmt.Errorf("ensuring Slurm reservation %q: %w", want.Name, err)
	}
	all, err := c.Reservations(ctx)
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(all, func(r Reservation) bool { return r.Name == want.Name })
	if at < 0 {
		return Created, c.CreateReservation(ctx, startingBy(want, now))
	}
	have := all[at]
	switch needed(have, want, now) {
	case Unchanged:
		return Unchanged, nil
	case Updated:
		update := startingBy(want, now)
		update.Active = have.Active
		return Updated, c.UpdateReservation(ctx, update)
	}
	if err := c.DeleteReservation(ctx, want.Name); err != nil && !errors.Is(err, ErrNoReserve) {
		return "", err
	}
	if err := c.CreateReservation(ctx, startingBy(want, now)); err != nil {
		return "", fmt.Errorf("the old reservation is deleted, the new one is missing: %w", err)
	}
	return Replaced, nil
}

// startingBy moves a start that has passed to now: Slurm refuses to create a
// reservation in the past.
func startingBy(r Reservation, now time.Time) Reservation {
	if r.Start.Before(now) {
		r.Start = now
	}
	return r
}

// needed compares what is there with what is wanted.
func needed(have, want Reservation, now time.Time) Action {
	ended := !have.Active && !have.End.After(now)
	startDue := !want.Start.After(now)
	switch {
	case ended, !sameSet(have.Users, want.Users), !containsAll(have.Flags, want.Flags):
		return Replaced
	case have.Active && !startDue:
		return Replaced
	}
	sameStart := have.Start.Unix() == want.Start.Unix() || have.Active && startDue
	if sameStart && sameEnd(have, want) && sameNodes(have.Nodes, want.Nodes) {
		return Unchanged
	}
	return Updated
}

func sameEnd(have, want Reservation) bool {
	if want.End.IsZero() {
		return have.Infinite()
	}
	return have.End.Unix() == want.End.Unix()
}

func sameNodes(a, b string) bool {
	x, errX := Expand(a)
	y, errY := Expand(b)
	return errX == nil && errY == nil && slices.Equal(SortHosts(x), SortHosts(y))
}

func sameSet(a, b []string) bool { return containsAll(a, b) && containsAll(b, a) }

// containsAll is true when every wanted word is there. Slurm adds flags of its
// own, so more are no difference.
func containsAll(have, want []string) bool {
	for _, word := range want {
		if !slices.Contains(have, word) {
			return false
		}
	}
	return true
}
