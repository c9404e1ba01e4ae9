package lifecycle

import (
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/model"
)

// What the owners of waiting jobs are told, and when it is taken back.
func TestWaitingNote(t *testing.T) {
	block := block("cr-0aaaaaaaaaaaaaaa1", "-1h", "24h", capacity.StateActive)
	block.Total, block.Unhealthy = 4, 1
	snap := oneSlot("ec2", []string{block.ID}, block)
	snap.Partitions[0].Groups[0].PurchaseOption = capacity.CapacityBlock
	snap.Submit.Strict, snap.TakenAt = true, noon
	snap.Submit.StaleAfter.Duration = 600e9
	job := func(nodes int, change func(*capacity.Job)) capacity.Job {
		j := capacity.Job{Shown: "7", Partition: "gpu", State: "PENDING", NumNodes: nodes, TimeLimit: capacity.Minutes(60)}
		if change != nil {
			change(&j)
		}
		return j
	}
	says := func(text string) func(*capacity.Job) { return func(j *capacity.Job) { j.AdminComment = text } }
	short := fewHosts + "the job needs 4 nodes, and 3 of the 4 hosts of " + block.ID + " are usable; to start now ask for fewer: scontrol update numnodes=3 jobid=7"
	for name, c := range map[string]struct {
		job  capacity.Job
		want string // "": nothing; else how it begins
	}{
		"as many nodes as are usable":     {job(3, nil), ""},
		"one more":                        {job(4, nil), short},
		"told already":                    {job(4, says(short)), ""},
		"other numbers now":               {job(4, says(strings.Replace(short, "3 of", "2 of", 1))), short},
		"the hosts are back":              {job(3, says(short)), again},
		"that is told already":            {job(3, says(again)), ""},
		"never":                           {job(5, nil), neverStarts + "the job needs 5 nodes"},
		"never, told in other words":      {job(5, says(neverStarts+"something else")), ""},
		"never any more":                  {job(5, says(short)), neverStarts},
		"never, but elsewhere":            {job(5, func(j *capacity.Job) { j.Partition = "gpu,cpu" }), ""},
		"a launch failed before":          {job(4, says("pcs-capacity: nodes gpu-1 were not launched: X: y")), short},
		"somebody else's words":           {job(4, says("ask bob")), ""},
		"another reason of ours":          {job(4, says("pcs-capacity: requeued at noon")), ""},
		"held":                            {job(4, func(j *capacity.Job) { j.Held, j.Reason = true, "JobHeldAdmin" }), ""},
		"it runs":                         {job(4, func(j *capacity.Job) { j.State = "RUNNING" }), ""},
		"too long for what is left":       {job(4, func(j *capacity.Job) { j.TimeLimit = capacity.Minutes(9999) }), neverStarts + "the job needs"},
		"of a partition that is not ours": {job(4, func(j *capacity.Job) { j.Partition = "cpu" }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := (&waiter{snap, noon, map[asks]string{}}).note(c.job)
			if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// Nodes of failed hosts are those that take no jobs; the same ones, as long as they do not.
func TestLostNodes(t *testing.T) {
	block := block("cr-0", "-1h", "24h", capacity.StateActive)
	block.Total, block.Unhealthy = 4, 1
	v := oneSlot("ec2", []string{"cr-0"}, block).Standings(noon)[0]
	nodes := []string{"gpu-1", "gpu-2", "gpu-3", "gpu-4"}
	up, off, broken := capacity.Node{State: "IDLE"}, capacity.Node{State: "IDLE+CLOUD+POWERED_DOWN"}, capacity.Node{State: "IDLE+CLOUD+NOT_RESPONDING"}
	boots := capacity.Node{State: model.Boots}
	for name, c := range map[string]struct {
		nodes  []capacity.Node
		before string
		want   string
	}{
		"all are up":                      {[]capacity.Node{up, up, up, up}, "", ""},
		"one does not answer":             {[]capacity.Node{up, broken, up, up}, "", "gpu-2"},
		"all are off":                     {[]capacity.Node{off, off, off, off}, "", "gpu-4"},
		"one is off, one is broken":       {[]capacity.Node{up, broken, up, off}, "", "gpu-2"},
		"one boots":                       {[]capacity.Node{up, up, off, boots}, "", "gpu-3"},
		"it was another one":              {[]capacity.Node{off, off, off, off}, "gpu-2", "gpu-2"},
		"that one is up":                  {[]capacity.Node{off, up, off, off}, "gpu-2", "gpu-4"},
		"the broken one is off meanwhile": {[]capacity.Node{off, off, up, broken}, "gpu-2", "gpu-2"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &Cluster{}
			for i, n := range c.nodes {
				n.Name = nodes[i]
				cluster.Nodes = append(cluster.Nodes, n)
			}
			if c.before != "" {
				cluster.Reservations = []capacity.SlurmReservation{reservation("pcs-capacity-surplus-gpu", []string{c.before}, noon, noon)}
			}
			if got := strings.Join(cluster.lost(v, nodes), ","); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
