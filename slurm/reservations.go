package slurm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Reservations returns all Slurm reservations. One that has ended can stay in
// the list for a while.
func (c *Client) Reservations(ctx context.Context) ([]capacity.SlurmReservation, error) {
	out, err := c.run(ctx, "scontrol", "--all", "--oneliner", "show", "reservation")
	if err != nil {
		return nil, fmt.Errorf("listing Slurm reservations: %w", err)
	}
	return parseReservations(out), nil
}

// parseReservations reads one-line records with times in seconds since 1970.
// Operators alone write them; the comment comes last and may hold anything.
func parseReservations(output []byte) []capacity.SlurmReservation {
	var reservations []capacity.SlurmReservation
	for _, line := range records(output, "ReservationName") {
		pairs := fields(line, "Comment")
		reservation := capacity.SlurmReservation{
			Name:   pairs["ReservationName"],
			Flags:  splitList(pairs["Flags"]),
			Users:  splitList(pairs["Users"]),
			Active: pairs["State"] == "ACTIVE",
		}
		_, comment, _ := strings.Cut(line, " Comment=")
		reservation.Comment = strings.TrimSpace(comment)
		u := unread{pairs: pairs}
		reservation.Nodes = readKey(&u, "Nodes", Expand)
		reservation.Start, reservation.End = readKey(&u, "StartTime", unixTime), readKey(&u, "EndTime", unixTime)
		reservation.Unread = u.text
		reservations = append(reservations, reservation)
	}
	return reservations
}

func unixTime(text string) (time.Time, error) {
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not in seconds since 1970", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// CreateReservation creates a Slurm reservation. A name in use gives
// [ErrReserved]. Without the flag IGNORE_JOBS it fails while jobs run there.
// The comment is left out where Slurm has none, so that a mark in the name is
// the only one that works everywhere.
func (c *Client) CreateReservation(ctx context.Context, r capacity.SlurmReservation) error {
	args, err := reservationArguments(r)
	if err != nil {
		return fmt.Errorf("creating Slurm reservation %q: %w", r.Name, err)
	}
	args = append([]string{"create", "reservation"}, args...)
	args = append(args, "users="+strings.Join(r.Users, ","))
	if len(r.Flags) > 0 {
		args = append(args, "flags="+strings.Join(r.Flags, ","))
	}
	if r.Comment != "" {
		version, err := c.knownVersion(ctx)
		if err != nil {
			return fmt.Errorf("creating Slurm reservation %s: %w", r.Name, err)
		}
		if version.ReservationComments() {
			args = append(args, "comment="+Clean(r.Comment, MaxComment))
		}
	}
	if _, err := c.run(ctx, "scontrol", args...); err != nil {
		return fmt.Errorf("creating Slurm reservation %s: %w", r.Name, err)
	}
	return nil
}

// UpdateReservation moves a reservation: its nodes, start and end. The start
// of an active one cannot move: delete it and create it again.
func (c *Client) UpdateReservation(ctx context.Context, r capacity.SlurmReservation) error {
	args, err := reservationArguments(r)
	if err != nil {
		return fmt.Errorf("updating Slurm reservation %q: %w", r.Name, err)
	}
	if r.Active {
		args = slices.DeleteFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "starttime=") })
	}
	if _, err := c.run(ctx, "scontrol", append([]string{"update"}, args...)...); err != nil {
		return fmt.Errorf("updating Slurm reservation %s: %w", r.Name, err)
	}
	return nil
}

// DeleteReservation deletes a Slurm reservation. An unknown one gives
// [ErrNoReserve]. Pending jobs may start on its nodes within a second.
func (c *Client) DeleteReservation(ctx context.Context, name string) error {
	if err := checkName("Slurm reservation", name); err != nil {
		return err
	}
	if _, err := c.run(ctx, "scontrol", "delete", "reservationname="+name); err != nil {
		return fmt.Errorf("deleting Slurm reservation %s: %w", name, err)
	}
	return nil
}

// DropReservation deletes a Slurm reservation, if it is there.
func (c *Client) DropReservation(ctx context.Context, name string) error {
	if err := c.DeleteReservation(ctx, name); !errors.Is(err, ErrNoReserve) {
		return err
	}
	return nil
}

// reservationArguments checks everything that becomes part of a command line, and writes
// name, nodes and times. "uts" times are seconds since 1970: no time zone.
func reservationArguments(r capacity.SlurmReservation) ([]string, error) {
	if err := checkName("Slurm reservation", r.Name); err != nil {
		return nil, err
	}
	nodes, err := nodeArgument(r.Nodes)
	if err != nil {
		return nil, err
	}
	if len(r.Users) == 0 {
		return nil, errors.New("it has no users")
	}
	for _, word := range slices.Concat(r.Users, r.Flags) {
		if err := checkName("user or flag", word); err != nil {
			return nil, err
		}
	}
	args := []string{
		"reservationname=" + r.Name,
		"nodes=" + nodes,
		fmt.Sprintf("starttime=uts%d", r.Start.Unix()),
	}
	switch {
	case r.End.IsZero():
		args = append(args, "duration=infinite")
	case !r.End.After(r.Start):
		return nil, fmt.Errorf("it ends at %s, not after its start %s", r.End.UTC().Format(time.RFC3339),
			r.Start.UTC().Format(time.RFC3339))
	default:
		args = append(args, fmt.Sprintf("endtime=uts%d", r.End.Unix()))
	}
	return args, nil
}
