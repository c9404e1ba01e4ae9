package slurm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// Nodes returns the named nodes, or without names all nodes of the cluster, also those that sinfo hides. Names that
// Slurm does not know are left out. It asks scontrol: sinfo 22.05 can show a base state that is minutes old. Slurm
// 22.05 leaves powered-down cloud nodes out unless slurm.conf has PrivateData=cloud.
func (c *Client) Nodes(ctx context.Context, names ...string) ([]capacity.Node, error) {
	args := []string{"--all", "--oneliner", "show", "node"}
	if len(names) > 0 {
		list, err := nodeArgument(names)
		if err != nil {
			return nil, fmt.Errorf("listing nodes: %w", err)
		}

		args = append(args, list)
	}

	out, err := c.run(ctx, "scontrol", args...)
	if errors.Is(err, ErrNoNode) && len(names) > 0 { // it may show nothing of the others then
		all, err := c.Nodes(ctx)
		return slices.DeleteFunc(all, func(n capacity.Node) bool { return !slices.Contains(names, n.Name) }), err
	}

	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}

	if text := strings.TrimSpace(string(out)); len(records(out, "NodeName")) == 0 && text != "" &&
		text != noNodesAnswer {
		return nil, fmt.Errorf("listing nodes: scontrol answers with no node: %.80q", text)
	}

	nodes := parseNodes(out)
	if n := len(records(out, "NodeName")); n > 0 && len(nodes) == 0 {
		return nil, fmt.Errorf(
			"listing nodes: scontrol shows %d nodes, none of them with State and NodeAddr as in the versions of Slurm "+
				"that we know: %.80q",
			n,
			out,
		)
	}

	return nodes, nil
}

// noNodesAnswer is the answer of scontrol on a cluster without nodes.
const noNodesAnswer = "No nodes in the system"

// nodeReason cuts the reason out of the end of a node's line. Slurm puts "[user@time]" after its first line.
var nodeReason = lazyRegexp(` Reason=(.*?) \[[^\[\]@]+@[^\[\]]+\]`)

// parseNodes reads one-line records. Reason, Comment and Extra may hold anything, newlines too, but come after all that
// is read here; a line that is no full record, or repeats a node, is part of such a text.
func parseNodes(output []byte) (nodes []capacity.Node) {
	seen := make(map[string]bool)
	for _, line := range records(output, "NodeName") {
		pairs := fields(line, "Reason", "Comment", "Extra")
		name, state := pairs["NodeName"], pairs["State"]
		if seen[name] || state == "" || state[0] == '+' || pairs["NodeAddr"] == "" || checkName("node", name) != nil {
			continue
		}

		seen[name] = true
		node := capacity.Node{
			Name:       name,
			State:      state,
			Address:    pairs["NodeAddr"],
			HostName:   pairs["NodeHostName"],
			InstanceID: pairs["InstanceId"],
			Features:   splitList(pairs["AvailableFeatures"]),
			Partitions: splitList(pairs["Partitions"]),
		}

		node.SlurmdStart, _ = unixTime(pairs["SlurmdStartTime"]) // zero if it has not registered

		node.CPUs, _ = strconv.Atoi(pairs["CPUTot"]) // 0 if Slurm stops printing it
		node.Memory, _ = strconv.Atoi(pairs["RealMemory"])
		node.GPUs = capacity.CountGPUs(pairs["Gres"])
		if reason := nodeReason().FindStringSubmatch(line); reason != nil {
			node.Reason = reason[1]
		}

		nodes = append(nodes, node)
	}

	return nodes
}

// SetAddresses tells slurmctld where the nodes' slurmds are, all in one call: Slurm takes lists of names and addresses
// of equal length, in hostlist order. The name of a node's host is the node's own. A node that Slurm does not know
// gives [ErrNoNode], and the nodes before it may be changed. The addresses stay until the node is powered down.
func (c *Client) SetAddresses(ctx context.Context, addresses map[string]netip.Addr) error {
	names := hostlist.Sort(slices.Collect(maps.Keys(addresses)))

	list, err := nodeArgument(names)
	if err != nil {
		return fmt.Errorf("setting node addresses: %w", err)
	}

	ips := make([]string, len(names))
	for i, name := range names {
		if !addresses[name].IsValid() {
			return fmt.Errorf("setting node addresses: node %s has none", name)
		}

		ips[i] = addresses[name].String()
	}

	_, err = c.run(ctx, "scontrol", "update", "nodename="+list,
		"nodeaddr="+strings.Join(ips, ","), "nodehostname="+strings.Join(names, ","))
	if err != nil {
		return fmt.Errorf("setting node addresses: %w", err)
	}

	return nil
}

// PowerDownForce takes the nodes away from their jobs, which Slurm requeues at once, and powers them down. It is the
// one way out of a failed power-up from which Slurm tries again by itself. The reason stays on the node.
//
// Until then they are nowhere: slurmctld asks nodes that it takes down to register, and one
// without an address is looked up by its name, ten times in as many seconds if nobody
// knows it. Slurm 24.11 answers nobody meanwhile, for each such node.
func (c *Client) PowerDownForce(ctx context.Context, nodes []string, reason string) error {
	// A node that is named twice has one address.
	addresses := slices.Repeat([]string{unreachableAddress}, len(hostlist.Sort(nodes)))
	return c.updateNodes(ctx, nodes, "POWER_DOWN_FORCE", reason, "nodeaddr="+strings.Join(addresses, ","))
}

// unreachableAddress is an address to which Linux opens no connection, and says so at once: the
// broadcast address (ENETUNREACH of connect(2)).
const unreachableAddress = "255.255.255.255"

// PowerDown powers the nodes down when their jobs have ended, also those that they boot for. Until
// then they get no others, which plain POWER_DOWN would give nodes that are shared (22.05).
func (c *Client) PowerDown(ctx context.Context, nodes []string, reason string) error {
	return c.updateNodes(ctx, nodes, "POWER_DOWN_ASAP", reason)
}

// PowerUp resumes nodes for which no job waits.
func (c *Client) PowerUp(ctx context.Context, nodes []string) error {
	return c.updateNodes(ctx, nodes, "POWER_UP", "")
}

// Drain keeps new jobs off the nodes; those that run go on. The reason stays on the nodes until they are resumed.
func (c *Client) Drain(ctx context.Context, nodes []string, reason string) error {
	return c.updateNodes(ctx, nodes, "DRAIN", reason)
}

// updateNodes updates state, reason, or both, and what else is given, in one call for all nodes.
func (c *Client) updateNodes(ctx context.Context, nodes []string, state, reason string, more ...string) error {
	list, err := nodeArgument(nodes)
	if err != nil {
		return fmt.Errorf("updating nodes: %w", err)
	}

	args := append([]string{"update", "nodename=" + list}, more...)
	if state != "" {
		args = append(args, "state="+state)
	}

	reason = Clean(reason, MaxComment)
	if reason != "" {
		args = append(args, "reason="+reason)
	}

	if _, err := c.run(ctx, "scontrol", args...); err != nil {
		return fmt.Errorf("updating nodes %s: %w", list, err)
	}

	return nil
}

// Reservations returns all Slurm reservations. One that has ended can stay in the list for a while.
func (c *Client) Reservations(ctx context.Context) ([]capacity.SlurmReservation, error) {
	out, err := c.run(ctx, "scontrol", "--all", "--oneliner", "show", "reservation")
	if err != nil {
		return nil, fmt.Errorf("listing Slurm reservations: %w", err)
	}

	return parseReservations(out), nil
}

// parseReservations reads one-line records with times in seconds since 1970.
// Operators alone write them; the comment comes last and may hold anything.
func parseReservations(output []byte) (reservations []capacity.SlurmReservation) {
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
		reservation.Nodes = readKey(&u, "Nodes", hostlist.Expand)
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

// CreateReservation creates a Slurm reservation. A name in use gives [ErrReservationExists]. Without the flag
// IGNORE_JOBS it fails while jobs run there. The comment is left out where Slurm has none, so that a mark in the name
// is the only one that works everywhere.
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

// DeleteReservation deletes a Slurm reservation, if it is there. Pending jobs may start on its nodes within a second.
func (c *Client) DeleteReservation(ctx context.Context, name string) error {
	if err := checkName("Slurm reservation", name); err != nil {
		return err
	}

	_, err := c.run(ctx, "scontrol", "delete", "reservationname="+name)
	if err != nil && !errors.Is(err, ErrNoReservation) {
		return fmt.Errorf("deleting Slurm reservation %s: %w", name, err)
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

	args := []string{"reservationname=" + r.Name, "nodes=" + nodes, fmt.Sprintf("starttime=uts%d", r.Start.Unix())}
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
