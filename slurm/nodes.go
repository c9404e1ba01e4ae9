package slurm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Node is a node as slurmctld knows it.
type Node struct {
	Name       string
	State      string   // base state: IDLE, MIXED, ALLOCATED, DOWN, …
	StateFlags []string // CLOUD, POWERED_DOWN, POWERING_UP, DRAIN, MAINTENANCE, …
	Address    string   // NodeAddr: where slurmctld finds its slurmd
	HostName   string   // NodeHostName
	Features   []string // available, not only active
	Partitions []string
	Reason     string // without the "[who@when]" that Slurm adds
	InstanceID string // of the cloud; "" where nobody told Slurm
	CPUs       int
	Memory     int // RealMemory, in MB
	GPUs       int // of any type
}

// Has is true when the node's state has this flag, such as POWERED_DOWN.
func (n Node) Has(flag string) bool { return slices.Contains(n.StateFlags, flag) }

// PoweredDown is true for a cloud node that has no instance and none on its
// way: it is off, and not yet being resumed.
func (n Node) PoweredDown() bool {
	return n.Has("POWERED_DOWN") && !n.PoweringUp()
}

// PoweringUp is true for a cloud node that is being resumed and has not registered yet.
func (n Node) PoweringUp() bool { return n.Has("POWERING_UP") || n.Has("POWER_UP") }

// PoweringDown is true for a cloud node on its way to being powered down.
func (n Node) PoweringDown() bool { return n.Has("POWERING_DOWN") || n.Has("POWER_DOWN") }

// GivenUp is true for a node that did not boot within ResumeTimeout: slurmctld has called
// ResumeFailProgram for it and uses it no more until someone changes its state.
func (n Node) GivenUp() bool {
	return n.State == "DOWN" && n.PoweredDown() && !n.PoweringDown()
}

// Busy is true for a node that runs a job, or is still cleaning up after one.
func (n Node) Busy() bool {
	return n.State == "ALLOCATED" || n.State == "MIXED" || n.Has("COMPLETING")
}

// Nodes returns the named nodes, or without names all nodes of the cluster, also those that
// sinfo hides. Names that Slurm does not know are left out. It asks
// scontrol: sinfo 22.05 can show a base state that is minutes old. Slurm 22.05
// leaves powered-down cloud nodes out unless slurm.conf has PrivateData=cloud.
func (c *Client) Nodes(ctx context.Context, names ...string) ([]Node, error) {
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
		return slices.DeleteFunc(all, func(n Node) bool { return !slices.Contains(names, n.Name) }), err
	}
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	if text := strings.TrimSpace(string(out)); len(records(out, "NodeName")) == 0 && text != "" && text != noNodes {
		return nil, fmt.Errorf("listing nodes: scontrol answers with no node: %.80q", text)
	}
	return parseNodes(out), nil
}

// noNodes is what scontrol says where there are none.
const noNodes = "No nodes in the system"

// NodeFlags returns the StateFlags of the named nodes, and leaves out what Nodes leaves out. It
// is for who cannot wait for Nodes: of a thousand nodes in one state sinfo prints one line, and
// scontrol 600 KB. Only those that sinfo does not have, being in no partition, are asked of
// scontrol.
func (c *Client) NodeFlags(ctx context.Context, names ...string) (map[string][]string, error) {
	list, err := nodeArgument(names)
	if err != nil {
		return nil, fmt.Errorf("asking for the states of nodes: %w", err)
	}
	out, err := c.run(ctx, "sinfo", "--all", "--noheader", "--nodes="+list, "--Format="+nodeFlagsFormat)
	if errors.Is(err, ErrNoNode) { // it is the only one
		out, err = nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("asking for the states of nodes: %w", err)
	}
	flags, err := parseNodeFlags(out)
	if err != nil {
		return nil, fmt.Errorf("asking for the states of nodes: %w", err)
	}
	var others []string
	for _, name := range names {
		if _, found := flags[name]; !found {
			others = append(others, name)
		}
	}
	if len(others) == 0 {
		return flags, nil
	}
	nodes, err := c.Nodes(ctx, others...)
	for _, n := range nodes {
		flags[n.Name] = n.StateFlags
	}
	return flags, err
}

// nodeFlagsFormat has what no user can write. A colon without a width means the whole text.
const nodeFlagsFormat = "StateComplete:|,NodeList:|"

// parseNodeFlags reads lines such as "idle+cloud+powering_up|gpu-[1-4]|". Anything else is an
// error: nodes that are left out would be taken for powered down.
func parseNodeFlags(output []byte) (map[string][]string, error) {
	all := map[string][]string{}
	for line := range strings.Lines(string(output)) {
		parts := strings.Split(strings.TrimSuffix(line, "\n"), "|")
		if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] != "" {
			return nil, fmt.Errorf("the answer of sinfo has a line %s", quote(line))
		}
		names, err := Expand(parts[1])
		if err != nil {
			return nil, err
		}
		_, flags := splitNodeState(strings.ToUpper(parts[0]))
		for _, name := range names {
			all[name] = flags
		}
	}
	return all, nil
}

// nodeReason cuts the reason out of the end of a node's line. Slurm puts
// "[user@time]" after its first line.
var nodeReason = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(` Reason=(.*?) \[[^\[\]@]+@[^\[\]]+\]`) })

// parseNodes reads one-line records. Reason, Comment and Extra may hold
// anything, newlines too, but come after all that is read here; a line that is
// no full record, or repeats a node, is part of such a text.
func parseNodes(output []byte) []Node {
	var nodes []Node
	seen := make(map[string]bool)
	for _, line := range records(output, "NodeName") {
		pairs := fields(line, "Reason", "Comment", "Extra")
		name, state := pairs["NodeName"], pairs["State"]
		if seen[name] || state == "" || state[0] == '+' || pairs["NodeAddr"] == "" || checkName("node", name) != nil {
			continue
		}
		seen[name] = true
		node := Node{
			Name:       name,
			Address:    pairs["NodeAddr"],
			HostName:   pairs["NodeHostName"],
			InstanceID: pairs["InstanceId"],
			Features:   splitList(pairs["AvailableFeatures"]),
			Partitions: splitList(pairs["Partitions"]),
		}
		node.State, node.StateFlags = splitNodeState(state)
		node.CPUs, _ = strconv.Atoi(pairs["CPUTot"]) // 0 if Slurm stops printing it
		node.Memory, _ = strconv.Atoi(pairs["RealMemory"])
		node.GPUs = GPUs(pairs["Gres"])
		if reason := nodeReason().FindStringSubmatch(line); reason != nil {
			node.Reason = reason[1]
		}
		nodes = append(nodes, node)
	}
	return nodes
}

func splitNodeState(text string) (base string, flags []string) {
	parts := strings.Split(text, "+")
	return parts[0], parts[1:]
}

// SetAddresses tells slurmctld where the nodes' slurmds are, all in one call:
// Slurm takes lists of names and addresses of equal length, in hostlist order. The
// name of a node's host is the node's own.
// A node that Slurm does not know gives [ErrNoNode], and the nodes before it may
// be changed. The addresses stay until the node is powered down.
func (c *Client) SetAddresses(ctx context.Context, addresses map[string]netip.Addr) error {
	names := SortHosts(slices.Collect(maps.Keys(addresses)))
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

// PowerDownForce takes the nodes away from their jobs, which Slurm requeues at
// once, and powers them down. It is the one way out of a failed power-up from
// which Slurm tries again by itself. The reason stays on the node.
//
// Until then they are nowhere: slurmctld asks nodes that it takes down to register, and one
// without an address is looked up by its name, ten times in as many seconds if nobody
// knows it. Slurm 24.11 answers nobody meanwhile, for each such node.
func (c *Client) PowerDownForce(ctx context.Context, nodes []string, reason string) error {
	addresses := slices.Repeat([]string{nowhere}, len(SortHosts(nodes))) // a node that is named twice has one
	return c.onNodes(ctx, nodes, "POWER_DOWN_FORCE", reason, "nodeaddr="+strings.Join(addresses, ","))
}

// nowhere is an address to which Linux opens no connection, and says so at once: the
// broadcast address (ENETUNREACH of connect(2)).
const nowhere = "255.255.255.255"

// PowerDown powers the nodes down when their jobs have ended, also those that they boot for. Until
// then they get no others, which plain POWER_DOWN would give nodes that are shared (22.05).
func (c *Client) PowerDown(ctx context.Context, nodes []string, reason string) error {
	return c.onNodes(ctx, nodes, "POWER_DOWN_ASAP", reason)
}

// PowerUp resumes nodes for which no job waits.
func (c *Client) PowerUp(ctx context.Context, nodes []string) error {
	return c.onNodes(ctx, nodes, "POWER_UP", "")
}

// Drain keeps new jobs off the nodes; those that run go on. The reason stays on the
// nodes until they are resumed.
func (c *Client) Drain(ctx context.Context, nodes []string, reason string) error {
	return c.onNodes(ctx, nodes, "DRAIN", reason)
}

// Resume takes DOWN, DRAIN and FAIL off the nodes. One that has none of them
// gives [ErrNodeState].
func (c *Client) Resume(ctx context.Context, nodes []string) error {
	return c.onNodes(ctx, nodes, "RESUME", "")
}

// SetReason replaces the nodes' Reason and leaves their state alone. Slurm
// takes it without an error on a healthy node too, but 22.05 and 26.05 keep it
// only with DOWN, DRAIN, FAIL or a power-down.
func (c *Client) SetReason(ctx context.Context, nodes []string, reason string) error {
	if Clean(reason, MaxComment) == "" {
		return errors.New("setting a node's reason: it is empty")
	}
	return c.onNodes(ctx, nodes, "", reason)
}

// onNodes updates state, reason, or both, and what else is given, in one call for all nodes.
func (c *Client) onNodes(ctx context.Context, nodes []string, state, reason string, more ...string) error {
	list, err := nodeArgument(nodes)
	if err != nil {
		return fmt.Errorf("updating nodes: %w", err)
	}
	args := append([]string{"update", "nodename=" + list}, more...)
	if state != "" {
		args = append(args, "state="+state)
	}
	if reason = Clean(reason, MaxComment); reason != "" {
		args = append(args, "reason="+reason)
	}
	if _, err := c.run(ctx, "scontrol", args...); err != nil {
		return fmt.Errorf("updating nodes %s: %w", list, err)
	}
	return nil
}
