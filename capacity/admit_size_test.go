package capacity

import (
	"strings"
	"testing"
)

// What a job needs is counted from all that it asks for, not from --nodes alone. Block
// A has 4 nodes of 8 GPUs.
func TestAdmitSize(t *testing.T) {
	eight := func(s *Snapshot) { s.Partitions[0].Groups[0].GPUs = 8 }
	for _, c := range []struct {
		name    string
		req     Request
		unknown bool // how many GPUs a node has
		refused bool
		message string
	}{
		{name: "nodes", req: Request{Nodes: 4}},
		{name: "too many nodes", req: Request{Nodes: 5}, refused: true, message: "the job asks for 5 nodes, but the largest reservation of partition gpu that it may use has 4; use --nodes=4"},
		{name: "GPUs", req: Request{GPUs: 32}},
		{name: "too many GPUs", req: Request{GPUs: 33, Tasks: 1}, refused: true, message: "the job needs 5 nodes (--gpus=33, 8 GPUs a node), but the largest reservation of partition gpu that it may use has 4; ask for less"},
		{name: "too many GPUs, nobody knows how many a node has", req: Request{GPUs: 33}, unknown: true},
		{name: "GPUs a node", req: Request{Nodes: 4, GPUsPerNode: 8}},
		{name: "more GPUs a node than it has", req: Request{Nodes: 1, GPUsPerNode: 16}, refused: true, message: "the job asks for 16 GPUs on one node, but those of partition gpu (p5.48xlarge) have 8"},
		{name: "tasks a node", req: Request{Tasks: 8, TasksPerNode: 2}},
		{name: "too many tasks a node", req: Request{Tasks: 9, TasksPerNode: 2}, refused: true, message: "the job needs 5 nodes (--ntasks=9, --ntasks-per-node=2)"},
		{name: "tasks alone can share a node", req: Request{Tasks: 500}},
		{name: "GPUs a task", req: Request{Tasks: 8, GPUsPerTask: 4}},
		{name: "too many GPUs a task", req: Request{Tasks: 9, GPUsPerTask: 4}, refused: true, message: "the job needs 5 nodes (--gpus-per-task=4, --ntasks=9, 8 GPUs a node)"},
		{name: "a task's GPUs are on one node", req: Request{Tasks: 5, GPUsPerTask: 5}, refused: true, message: "the job needs 5 nodes"},
		{name: "more GPUs a task than a node has", req: Request{Tasks: 1, GPUsPerTask: 9}, refused: true, message: "asks for 9 GPUs on one node"},
	} {
		t.Run(c.name, func(t *testing.T) {
			snap := twoBlocks(onlyA, eight)
			if c.unknown {
				snap = twoBlocks(onlyA)
			}
			c.req.Partitions, c.req.TimeLimit = []string{"gpu"}, Minutes(60)
			v := Admit(c.req, snap, noon)
			if v.Refused != c.refused || v.Refused && v.Code != TooManyNodes || !strings.Contains(v.Message, c.message) {
				t.Errorf("got %+v, want refused %v: %s", v, c.refused, c.message)
			}
		})
	}
}

// An open reservation of which EC2 shows no instances takes no job, and nobody is told to ask for none.
func TestAdmitWithoutInstances(t *testing.T) {
	snap := twoBlocks(onlyA)
	for i := range snap.Reservations {
		snap.Reservations[i].State, snap.Reservations[i].Total = StateActive, 0
	}
	v := Admit(Request{Partitions: []string{"gpu"}, TimeLimit: Minutes(60), Nodes: 1}, snap, noon)
	if !v.Refused || strings.Contains(v.Message, "--nodes") || !strings.Contains(v.Message, " is open and has no instances") {
		t.Errorf("%+v", v)
	}
}
