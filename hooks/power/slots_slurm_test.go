package power_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

const (
	shortID = "cr-0aaaaaaaaaaaaaaab" // two places, ends in two minutes
	longID  = "cr-0aaaaaaaaaaaaaaaa" // four places, ends in ten hours
)

// overlapConfig is a node group with two blocks that are both open.
const overlapConfig = `
region = "us-east-2"
state_dir = %q
[log]
dir = %q
[timing]
drain_margin = "2s"
boot_allowance = "1s"
reclaim_lead = "3s"

[[partition]]
name = "gpu"
provider = "ec2"
min_time = "1m"
  [[partition.node_group]]
  name = "gpu"
  instance_type = "p5.48xlarge"
  subnet_ids = ["subnet-0aaaaaaaaaaaaaaaa"]
  launch_template = "lt-0aaaaaaaaaaaaaaaa"
  capacity_reservation_ids = ["` + shortID + `", "` + longID + `"]
  max_nodes = 4
`

const shortBlock = 100 * time.Second

func overlapWorld(s *awssim.Scenario) {
	s.ReclaimLead = awssim.Duration(3 * time.Second)
	moment := func(text string) (m awssim.Moment) {
		if err := m.UnmarshalText([]byte(text)); err != nil {
			panic(err)
		}
		return m
	}
	for _, r := range []awssim.ReservationScenario{{ID: shortID, Count: 2, End: moment("+" + shortBlock.String())}, {ID: longID, Count: 4, End: moment("+10h")}} {
		r.Kind, r.Type, r.Zone, r.Start = "capacity-block", "p5.48xlarge", "us-east-2a", moment("-1h")
		s.Regions[0].Reservations = append(s.Regions[0].Reservations, r)
	}
}

// pass makes one pass of sync.
func (p *power) pass() lifecycle.Report {
	p.t.Helper()
	path := p.wrapper("sync-pass")
	cmd := exec.CommandContext(hookstest.Deadline(p.t), path)
	cmd.Env = []string{"SLURM_CONF=" + p.cluster.Conf()}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var report lifecycle.Report
	if err == nil {
		err = json.Unmarshal(out, &report)
	}
	if err != nil {
		p.t.Fatalf("sync: %v: %s%s", err, out, stderr.String())
	}
	return report
}

// reservation is the first of Slurm's with a name, which is ours without block and owner; the zero
// one if there is none.
func (p *power) reservation(name string) capacity.SlurmReservation {
	p.t.Helper()
	all, err := (&slurm.Client{Conf: p.cluster.Conf()}).Reservations(hookstest.Deadline(p.t))
	if err != nil {
		p.t.Fatal(err)
	}
	slices.SortStableFunc(all, func(a, b capacity.SlurmReservation) int { return a.Start.Compare(b.Start) })
	i := slices.IndexFunc(all, func(r capacity.SlurmReservation) bool { return capacity.PlainName(r.Name) == name })
	if i < 0 {
		return capacity.SlurmReservation{}
	}
	return all[i]
}

// fenceOf fails unless the fence of a slot is that of a reservation.
func (p *power) fenceOf(slot, id string) {
	p.t.Helper()
	snap, err := p.state.ReadSnapshot()
	if err != nil {
		p.t.Fatal(err)
	}
	r, _ := snap.Reservation(id)
	fence := p.reservation("pcs-capacity-fence-" + slot)
	if off := fence.Start.Sub(r.End.Add(-5 * time.Second)).Abs(); r.End.IsZero() || off > 5*time.Second {
		p.t.Errorf("the fence of %s begins at %s, and %s ends at %s", slot, fence.Start, id, r.End)
	}
}

// Of two blocks that overlap the slot has one at a time: a job that only the longer one has
// time for is admitted to that, waits for it, and is launched into it, behind its fence.
func TestOverlappingBlocksTakeTurns(t *testing.T) {
	if !hookstest.OwnProcess(t) {
		return
	}
	p := startPowerWith(t, overlapConfig, overlapWorld, func(c *slurmlab.Config) { c.CloudGroups = c.CloudGroups[:1] })
	began := time.Now()
	report := p.pass()
	if waits := "reservation " + longID + " waits for " + shortID + ", which has slot gpu (until "; !slices.ContainsFunc(report.Problems, func(s string) bool {
		return strings.HasPrefix(s, waits) && strings.Contains(s, "set slots = 2 for node group gpu")
	}) {
		t.Errorf("problems: %q", report.Problems)
	}
	p.fenceOf("gpu", shortID)
	if surplus := p.reservation("pcs-capacity-surplus-gpu"); slurm.Compress(surplus.Nodes) != "gpu-[3-4]" {
		t.Errorf("kept from jobs: %+v", surplus)
	}
	snap, err := p.state.ReadSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	v := capacity.Admit(capacity.Request{Partitions: []string{"gpu"}, TimeLimit: capacity.Minutes(60)}, snap, time.Now())
	if v.Refused || len(v.Warnings) == 0 || !strings.Contains(v.Warnings[0], "it waits for "+longID) {
		t.Errorf("verdict %+v", v)
	}
	long, short := p.submit("-p", "gpu", "-w", "gpu-2", "-t", "60"), p.submit("-p", "gpu", "-w", "gpu-1", "-t", "1")
	p.wait(short, "COMPLETED")
	if got := p.in("gpu-1"); got != shortID {
		t.Errorf("the short job is in %q", got)
	}
	for time.Since(began) < shortBlock-10*time.Second {
		if job := p.show("job", long); !strings.Contains(job, "JobState=PENDING") || p.launches() != 1 {
			t.Fatalf("%d launches: %s", p.launches(), job)
		}
		time.Sleep(time.Second)
	}
	time.Sleep(time.Until(began.Add(shortBlock + time.Second)))
	p.pass()
	p.fenceOf("gpu", longID)
	if surplus := p.reservation("pcs-capacity-surplus-gpu"); surplus.Name != "" {
		t.Errorf("still kept from jobs: %+v", surplus)
	}
	p.wait(long, "COMPLETED")
	if got := p.in("gpu-2"); got != longID {
		t.Errorf("the long job is in %q", got)
	}
}

// With two slots both blocks are used at once, each by its own nodes and behind its own
// fence; and a block stays where it is when the one beside it has ended.
func TestOverlappingBlocksInTwoSlots(t *testing.T) {
	if !hookstest.OwnProcess(t) {
		return
	}
	settings := strings.Replace(overlapConfig, "max_nodes = 4", "max_nodes = 4\n  slots = 2", 1)
	p := startPowerWith(t, settings, overlapWorld, func(c *slurmlab.Config) {
		c.CloudGroups = []slurmlab.NodeGroup{{Prefix: "gpu-a-", Count: 2, Partition: "gpu", Features: "gpu-a"}, {Prefix: "gpu-b-", Count: 4, Partition: "gpu", Features: "gpu-b"}}
	})
	began := time.Now()
	if report := p.pass(); len(report.Problems) > 0 {
		t.Errorf("problems: %q", report.Problems)
	}
	p.fenceOf("gpu-a", shortID)
	p.fenceOf("gpu-b", longID)
	long, err := p.cluster.Submit(hookstest.Deadline(t), "sleep 600", "-p", "gpu", "-t", "60")
	if err != nil {
		t.Fatal(err)
	}
	p.wait(long, "RUNNING")
	short := p.submit("-p", "gpu", "-C", "gpu-a", "-t", "1")
	p.wait(short, "COMPLETED")
	if a, b := p.in("gpu-a-1"), p.in("gpu-b-1"); a != shortID || b != longID {
		t.Errorf("gpu-a-1 is in %q, gpu-b-1 in %q", a, b)
	}
	time.Sleep(time.Until(began.Add(shortBlock + time.Second)))
	for _, lost := range []bool{false, true} { // the snapshot
		if lost {
			if err := p.state.Remove(); err != nil {
				t.Fatal(err)
			}
		}
		p.pass()
		p.fenceOf("gpu-b", longID)
		if fence := p.reservation("pcs-capacity-fence-gpu-a"); !fence.Active {
			t.Errorf("lost: %t: the slot whose block has ended is open: %+v", lost, fence)
		}
	}
	if job := p.show("job", long); !strings.Contains(job, "JobState=RUNNING") {
		t.Error(job)
	}
}

// Slurm may have more nodes than there are places: jobs are kept from the last ones, until
// the settings or the reservation change.
func TestSurplusNodesAreKeptFromJobs(t *testing.T) {
	p := startPowerWith(t, powerConfig, func(s *awssim.Scenario) { s.Regions[0].Reservations[1].Count = 4 }, nil)
	p.pass()
	if r := p.reservation("pcs-capacity-surplus-gpu"); slurm.Compress(r.Nodes) != "gpu-[3-4]" || !r.Active || !slices.Contains(r.Flags, "MAINT") {
		t.Fatalf("%+v", r)
	}
	var ids []string
	for range 3 {
		id, err := p.cluster.Submit(hookstest.Deadline(t), "sleep 600", "-p", "gpu", "--exclusive", "-t", "60")
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	p.wait(ids[0], "RUNNING")
	p.wait(ids[1], "RUNNING")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		if job := p.show("job", ids[2]); !strings.Contains(job, "JobState=PENDING") || !strings.Contains(job, "Restarts=0") || p.launches() != 2 {
			t.Fatalf("%d launches: %s", p.launches(), job)
		}
		time.Sleep(time.Second)
	}
	if report := p.pass(); len(report.Done) > 0 {
		t.Errorf("a second pass did %v", report.Done)
	}
	// A larger block.
	p.configure(strings.ReplaceAll(powerConfig, `"`+hookstest.BlockID+`"`, `"`+hookstest.OtherID+`"`))
	p.pass()
	if r := p.reservation("pcs-capacity-surplus-gpu"); r.Name != "" {
		t.Errorf("with 4 places: %+v", r)
	}
}
