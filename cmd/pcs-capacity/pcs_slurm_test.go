package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
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
min_time = "49m"
on_end = "requeue"
[[partition.node_group]]
name = "gpu"
instance_type = "p5.48xlarge"
subnet_ids = ["subnet-0e200000000000a01"]
capacity_reservation_ids = ["cr-0e2000000000000a1", "cr-0e2000000000000e5"]
max_nodes = 2
`
)

// TestLong_NextBlockOnPCS: on PCS each block has a compute node group of its own, and both groups are in the same
// queue. The job that a fence puts back goes on in the second block, and one that waited runs there. PCS's own
// reservation, one of ParallelCluster's, and an administrator's that has a name like ours stay as they are.
func TestLong_NextBlockOnPCS(t *testing.T) {
	if !ownProcess(t) {
		return
	}

	const first, second = "cr-0e2000000000000a1", "cr-0e2000000000000e5"

	groups := pcsWorld + fmt.Sprintf(pcsWorldGroup, 2, "gpu-a", first) + fmt.Sprintf(pcsWorldGroup, 3, "gpu-b", second)
	r := newRehearsalIn(t, requeueNow+groups, pcsConfig, func(c *slurmlab.Config) {
		killWaitsAnHour(c)

		group := c.CloudGroups[0]
		c.CloudGroups = nil
		for _, slot := range []string{"gpu-a", "gpu-b"} {
			group.Prefix, group.Features, group.Count = slot+"-", slot, 2
			c.CloudGroups = append(c.CloudGroups, group)
		}
	})

	block, err := ec2.Reservation(r.ctx, r.aws, second)
	if err != nil {
		t.Fatal(err)
	}
	// As PCS keeps the nodes of a group until its block opens, and others theirs.
	r.scontrol(
		"create",
		"reservation",
		"reservationname=gpu-b-scheduled",
		"nodes=gpu-b-[1-2]",
		"users=root",
		"flags=MAINT,IGNORE_JOBS",
		"starttime=now",
		fmt.Sprintf("endtime=uts%d", block.Start.Unix()),
	)
	r.scontrol(
		"create",
		"reservation",
		"reservationname=pcluster-1",
		"nodes=gpu-a-2",
		"users=root",
		"flags=MAINT,IGNORE_JOBS",
		"starttime=now+5hours",
		"duration=60",
	)
	r.scontrol(
		"create",
		"reservation",
		"reservationname=pcs-capacity-fence-mine",
		"nodes=gpu-a-2",
		"users=root",
		"starttime=now+7hours",
		"duration=60",
	)

	others := func() map[string]string {
		all := map[string]string{}
		for name, one := range r.reservations() {
			if name == "gpu-b-scheduled" || name == "pcluster-1" || name == "pcs-capacity-fence-mine" {
				all[name] = fmt.Sprint(
					capacity.SlurmReservation{
						Name:  one.Name,
						Nodes: one.Nodes,
						Start: one.Start,
						End:   one.End,
						Flags: one.Flags,
						Users: one.Users,
					},
				)
			}
		}

		return all
	}
	before := others()

	submit := func(args ...string) string {
		return r.submit(append([]string{"-C", "[gpu-a|gpu-b]", "-N", "2", "-t", "60", "--time-min=50"}, args...)...)
	}

	requeued := submit()
	if job := r.running(requeued); strings.Join(job.Nodes, " ") != "gpu-a-1 gpu-a-2" {
		t.Errorf("the job runs on %v", job.Nodes)
	}

	waits := submit()

	t.Log(r.sync())
	r.until("the job is requeued", func() bool { return r.job(requeued).Settled() })

	if job := r.job(waits); job.State != "PENDING" {
		t.Errorf("before the second block opens the other job is %s", job.State)
	}

	r.sim.Clock().Advance(50 * time.Minute) // the second block opens
	r.scontrol("delete", "reservationname=gpu-b-scheduled")
	delete(before, "gpu-b-scheduled")
	r.sync()
	r.scontrol("update", "jobid="+requeued, "starttime=now") // it is to begin when the block opens by Slurm's clock
	// They take turns: each needs both nodes.
	for left := []string{requeued, waits}; len(left) > 0; {
		ran := -1
		r.until("a job runs in the second block", func() bool {
			r.sync()

			ran = slices.IndexFunc(left, func(id string) bool { return r.job(id).State == "RUNNING" })
			return ran >= 0 && strings.Join(r.job(left[ran]).Nodes, " ") == "gpu-b-1 gpu-b-2"
		})
		r.cancel(left[ran])
		left = slices.Delete(left, ran, ran+1)
	}

	if now := others(); fmt.Sprint(now) != fmt.Sprint(before) {
		t.Errorf("Slurm reservations of others were\n%v\nand are\n%v", before, now)
	}
}
