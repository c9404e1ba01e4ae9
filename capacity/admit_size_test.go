package capacity

import (
	"strings"
	"testing"
	"time"
)

// What a job needs is counted from all that it asks for, not from --nodes alone. Block A has 4 nodes of 8 GPUs.
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

// A job that names nodes which never get an instance, or excludes those that do, is refused: it
// would wait for ever. What may come true, and what nobody knows, is left to Slurm.
func TestAdmitNodes(t *testing.T) {
	block := func(id string, total int, from time.Duration) Reservation {
		return Reservation{ID: id, Kind: CapacityBlock, State: StateActive, InstanceType: "p5.48xlarge", AZID: "az1", Platform: LinuxUNIX, Tenancy: "default",
			Total: total, Available: total, Start: noon.Add(from), End: noon.Add(from + 24*time.Hour)}
	}
	next := block("cr-00000000000000002", 3, 48*time.Hour)
	next.State = StateScheduled
	endless := func(id string, total int) Reservation {
		r := block(id, total, -time.Hour)
		r.Kind, r.End = ODCR, time.Time{}
		return r
	}
	world := func(change func(*Partition), all ...Reservation) *Snapshot {
		s := Slot{Name: "gpu", Nodes: "gpu-[1-12]"}
		for _, r := range all {
			s.ReservationIDs = append(s.ReservationIDs, r.ID)
		}
		g := NodeGroup{Name: "gpu", InstanceType: "p5.48xlarge", PurchaseOption: CapacityBlock, MaxNodes: 12, GPUs: 8, Subnets: []Subnet{{ID: "subnet-1", AZID: "az1"}}, Slots: []Slot{s}}
		if len(all) > 0 {
			g.PurchaseOption = all[0].Kind
		} else {
			g.PurchaseOption = OnDemand
		}
		p := Partition{Name: "gpu", Provider: ProviderEC2, Groups: []NodeGroup{g}}
		if change != nil {
			change(&p)
		}
		return &Snapshot{TakenAt: noon, Timing: twoBlocks().Timing, Submit: Submit{Strict: true, StaleAfter: Duration{time.Hour}}, Partitions: []Partition{p}, Reservations: all}
	}
	two := block("cr-00000000000000001", 2, -time.Hour)
	unsized := next
	unsized.Total, unsized.Available = 0, 0
	second := func(p *Partition) {
		g := p.Groups[0]
		g.Name, g.Slots = "big", []Slot{{Name: "big", Nodes: "big-[1-2]", ReservationIDs: []string{"cr-00000000000000003"}}}
		p.Groups[0].Slots[0].ReservationIDs = []string{"cr-00000000000000001"}
		p.Groups = append(p.Groups, g)
	}
	for name, c := range map[string]struct {
		in              *Snapshot
		required, minus string
		nodes           int
		comment, says   string
	}{
		"nothing named":                     {in: world(nil, two)},
		"the first nodes":                   {in: world(nil, two), required: "gpu-[1-2]", nodes: 2},
		"a node behind them":                {in: world(nil, two), required: "gpu-4", says: "no instance is ever launched for gpu-4 that this job can use; it can use gpu-[1-2] of partition gpu: change --nodelist"},
		"one of them, and one behind":       {in: world(nil, two), required: "gpu-[2-3]", nodes: 2, says: "no instance is ever launched for gpu-3 that this job can use; it can use gpu-[1-2] of partition gpu: change --nodelist"},
		"by number, not by letters":         {in: world(nil, two), required: "gpu-10", says: "no instance is ever launched for gpu-10 that this job can use; it can use gpu-[1-2] of partition gpu: change --nodelist"},
		"one that the next block has":       {in: world(nil, two, next), required: "gpu-3"},
		"one that not even that has":        {in: world(nil, two, next), required: "gpu-4", says: "no instance is ever launched for gpu-4 that this job can use; it can use gpu-[1-3] of partition gpu: change --nodelist"},
		"one that the named block has not":  {in: world(nil, two, next), required: "gpu-3", comment: "capacity_reservation_id=cr-00000000000000001", says: "no instance is ever launched for gpu-3 that this job can use; it can use gpu-[1-2] of partition gpu: change --nodelist"},
		"a block whose size nobody knows":   {in: world(nil, two, unsized), required: "gpu-4", nodes: 1},
		"reservations that share the slot":  {in: world(nil, endless("cr-00000000000000001", 2), endless("cr-00000000000000002", 2)), required: "gpu-4"},
		"the same, and one named":           {in: world(nil, endless("cr-00000000000000001", 2), endless("cr-00000000000000002", 2)), required: "gpu-4", comment: "capacity_reservation_id=cr-00000000000000001"},
		"more than both":                    {in: world(nil, endless("cr-00000000000000001", 2), endless("cr-00000000000000002", 2)), required: "gpu-5", says: "no instance is ever launched for gpu-5 that this job can use; it can use gpu-[1-4] of partition gpu: change --nodelist"},
		"on demand":                         {in: world(nil), required: "gpu-12", minus: "gpu-[1-10]"},
		"a node of others":                  {in: world(nil, two), required: "cpu-1"},
		"PCS, a node for each instance":     {in: world(func(p *Partition) { p.Provider = ProviderPCS }, two), required: "gpu-4"},
		"nodes that Slurm does not have":    {in: world(func(p *Partition) { p.Groups[0].Slots[0].Nodes = "" }, two), required: "gpu-4"},
		"a file":                            {in: world(nil, two), required: "/home/me/nodes"},
		"no hostlist":                       {in: world(nil, two), minus: "gpu-[1-"},
		"the other group's node":            {in: world(second, two, block("cr-00000000000000003", 2, -time.Hour)), required: "big-2"},
		"no node of either":                 {in: world(second, two, block("cr-00000000000000003", 2, -time.Hour)), minus: "gpu-[1-2],big-[1-2]", says: "the job needs 1 node of big-[1-2],gpu-[1-2] of partition gpu, and --exclude leaves 0; leave out fewer"},
		"one node less":                     {in: world(nil, two), minus: "gpu-1,gpu-7", nodes: 1},
		"one node less than needed":         {in: world(nil, two), minus: "gpu-1", nodes: 2, says: "the job needs 2 nodes of gpu-[1-2] of partition gpu, and --exclude leaves 1; leave out fewer"},
		"all":                               {in: world(nil, two), minus: "gpu-[1-2]", says: "the job needs 1 node of gpu-[1-2] of partition gpu, and --exclude leaves 0; leave out fewer"},
		"all of this block, but not of all": {in: world(nil, two, next), minus: "gpu-[1-2]"},
		"the same node twice":               {in: world(nil, two), minus: "gpu-1,gpu-1"},
	} {
		v := Admit(Request{Partitions: []string{"gpu"}, TimeLimit: Minutes(60), Nodes: c.nodes, NodeList: c.required, Exclude: c.minus, Comment: c.comment}, c.in, noon)
		if v.Refused != (c.says != "") || v.Message != c.says || v.Refused && v.Code != NodesNotUsable {
			t.Errorf("%s: %+v", name, v)
		}
	}
	old := world(nil, two)
	old.TakenAt = noon.Add(-2 * time.Hour)
	if v := Admit(Request{Partitions: []string{"gpu"}, TimeLimit: Minutes(60), NodeList: "gpu-4"}, old, noon); v.Refused || len(v.Warnings) == 0 {
		t.Errorf("a block may have grown since: %+v", v)
	}
}
