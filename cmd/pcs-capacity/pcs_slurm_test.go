package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
)

const (
	pcsWorld = `
[[region.cluster]]
id = "pcs_0e20000001"
name = "ml"
size = "SMALL"
slurm_version = "25.11"
subnets = ["subnet-0e200000000000a01"]
security_groups = ["sg-0e200000000000a01"]
queue = [{ id = "pcs_0e20000004", name = "gpu", node_groups = ["gpu-a", "gpu-b"] }]
`
	pcsWorldGroup = `[[region.cluster.node_group]]
id = "pcs_0e2000000%[1]d"
name = %[2]q
type = "p5.48xlarge"
image = "ami-0e200000000000a01"
instance_profile = "arn:aws:iam::111122223333:instance-profile/AWSPCS-nodes"
launch_template = "lt-0e200000000000a01"
subnets = ["subnet-0e200000000000a01"]
max = 2
tags = { "pcs-capacity:cluster" = "ml", "pcs-capacity:reservation" = %[3]q }
`
	pcsConfig = `
region = "us-east-2"
cluster = "ml"
state_dir = %q
local_dir = %q
[timing]
poll = "1s"
drain_margin = "5s"
reclaim_lead = "10s"
[[partition]]
name = "gpu"
provider = "pcs"
min_time = "1m"
on_end = "requeue"
[[partition.node_group]]
name = "gpu"
instance_type = "p5.48xlarge"
subnet_ids = ["subnet-0e200000000000a01"]
capacity_reservation_ids = ["cr-0e2000000000000a1", "cr-0e2000000000000e5"]
max_nodes = 2
`
)

// TestTheNextBlockOnPCS: on PCS each block has a compute node group of its own, and both groups
// are in the same queue. Under `sync --watch` the job that a fence puts back goes on in the second
// block, and one that waited runs there, within seconds of its start. PCS's own reservation, one of
// ParallelCluster's, and an administrator's that has a name like ours stay as they are.
func TestTheNextBlockOnPCS(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	const first, second = "cr-0e2000000000000a1", "cr-0e2000000000000e5"
	groups := pcsWorld + fmt.Sprintf(pcsWorldGroup, 2, "gpu-a", first) + fmt.Sprintf(pcsWorldGroup, 3, "gpu-b", second)
	r := newRehearsalIn(t,
		strings.NewReplacer("+205s", "+150s", "\n]\n", "\n  { id = \""+second+"\", kind = \"capacity-block\", type = \"p5.48xlarge\", zone = \"us-east-2a\", count = 4, start = \"+185s\", end = \"+30h\" },\n]\n").Replace(rehearsalWorld)+groups,
		pcsConfig, func(c *slurmlab.Config) {
			c.Extra = []string{"KillWait=5"}
			group := c.CloudGroups[0]
			c.CloudGroups = nil
			for _, slot := range []string{"gpu-a", "gpu-b"} {
				group.Prefix, group.Features, group.Count = slot+"-", slot, 2
				c.CloudGroups = append(c.CloudGroups, group)
			}
		})
	block, err := r.aws.Reservation(r.ctx, second)
	if err != nil {
		t.Fatal(err)
	}
	// As PCS keeps the nodes of a group until its block opens, and others theirs.
	r.scontrol("create", "reservation", "reservationname=gpu-b-scheduled", "nodes=gpu-b-[1-2]", "users=root", "flags=MAINT,IGNORE_JOBS", "starttime=now", fmt.Sprintf("endtime=uts%d", block.Start.Unix()))
	r.scontrol("create", "reservation", "reservationname=pcluster-1", "nodes=gpu-a-2", "users=root", "flags=MAINT,IGNORE_JOBS", "starttime=now+5hours", "duration=60")
	r.scontrol("create", "reservation", "reservationname=pcs-capacity-fence-mine", "nodes=gpu-a-2", "users=root", "starttime=now+7hours", "duration=60")
	others := func() map[string]string {
		all := map[string]string{}
		for name, one := range r.reservations() {
			if name == "gpu-b-scheduled" || name == "pcluster-1" || name == "pcs-capacity-fence-mine" {
				all[name] = fmt.Sprint(capacity.SlurmReservation{Name: one.Name, Nodes: one.Nodes, Start: one.Start, End: one.End, Flags: one.Flags, Users: one.Users})
			}
		}
		return all
	}
	before := others()
	r.sync()
	fence := r.fence(first)

	submit := func(work string, args ...string) string {
		id, err := r.cluster.Submit(r.ctx, work, append([]string{"-p", "gpu", "-C", "[gpu-a|gpu-b]", "-N", "2", "--comment=time=fit"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	requeued := submit(`if [ "$SLURM_RESTART_COUNT" ]; then sleep 5; else sleep 600; fi`, "-t", "1", "--time-min=1", "--begin=now+3")
	r.sync() // what comments say counts from before the start
	if job := r.running(requeued); strings.Join(job.Nodes, " ") != "gpu-a-1 gpu-a-2" {
		t.Errorf("the job runs on %v", job.Nodes)
	}
	waits := submit("sleep 5", "-t", "10", "--time-min=10")
	_, said := r.watch()
	r.within(3*time.Minute, "the job is requeued", func() bool { return strings.Contains(said(), "job "+requeued+" on slot gpu-a: requeued, ") })
	if left := time.Until(fence); left < 0 {
		t.Errorf("requeued %s behind the fence", -left)
	}
	if job := r.job(waits); job.State != "PENDING" {
		t.Errorf("before the second block opens the other job is %s", job.State)
	}
	if now := others(); fmt.Sprint(now) != fmt.Sprint(before) && time.Now().Before(block.Start) {
		t.Errorf("Slurm reservations of others were\n%v\nand are\n%v", before, now)
	}
	// They take turns: each needs both nodes.
	var start time.Time
	for _, id := range []string{requeued, waits} {
		job, err := r.cluster.WaitJob(r.ctx, id, "COMPLETED")
		if err != nil || job["NodeList"] != "gpu-b-[1-2]" {
			t.Fatalf("job %s: %v on %s", id, err, job["NodeList"])
		}
		at, err := time.ParseInLocation("2006-01-02T15:04:05", job["StartTime"], time.Local)
		if err != nil {
			t.Fatal(err)
		}
		if start.IsZero() || at.Before(start) {
			start = at
		}
	}
	if late := start.Sub(block.Start); late < -time.Second || late > 10*time.Second {
		t.Errorf("the first of them started %s after the block opened", late)
	}
	now := others()
	for _, all := range []map[string]string{before, now} {
		delete(all, "gpu-b-scheduled") // its time is over, and Slurm lists it for a while
	}
	if fmt.Sprint(now) != fmt.Sprint(before) {
		t.Errorf("Slurm reservations of others were\n%v\nand are\n%v", before, now)
	}
	t.Logf("the first job started %s after the second block opened\n%s", start.Sub(block.Start), said())
}
