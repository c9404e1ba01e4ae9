package power_test

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/hooks/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// What Slurm's jobs get from EC2 through the power hooks, on one cluster.
func TestSlurm_Launch(t *testing.T) {
	p := startPower(t, powerConfig, func(c *slurmlab.Config) {
		c.ResumeTimeout = 5 * time.Minute
		// The second block is for the node that does not boot.
		c.Partitions = map[string]string{"other": "ResumeTimeout=20"}
	})
	cancel := func(ids ...string) {
		t.Helper()

		if _, err := p.cluster.Command(hookstest.Deadline(t), "scancel", ids...); err != nil {
			t.Fatal(err)
		}

		for _, id := range ids {
			p.wait(id, "CANCELLED")
		}
	}

	// EC2's code is the Reason, the record and the word to the owner; the job waits.
	t.Run("R12 refused", func(t *testing.T) {
		const code = "ReservationCapacityExceeded"

		p.fault(
			awssim.Fault{
				Operation: "RunInstances",
				Effect:    awssim.FailBefore,
				Code:      code,
				Message: "The requested reservation does not have sufficient compatible and available capacity for " +
					"this request.",
			},
		)
		defer p.sim.ClearFaults()

		id := p.submit("-p", "gpu", "-N2")
		p.until("EC2's code is in the job's AdminComment and the node's Reason", func() bool {
			note := "AdminComment=pcs-capacity: nodes gpu-[1-2] were not launched: " + code + ": "

			return strings.Contains(p.show("job", id), note) &&
				strings.Contains(p.show("node", "gpu-1"), "Reason="+code+": ")
		})

		records, err := p.state.Records()
		if err != nil || len(records) == 0 || records[0].EC2Code != code || records[0].Code != code {
			t.Errorf("%v %+v", err, records)
		}

		if p.launches("gpu") != 0 || p.restarts(id) == 0 {
			t.Errorf("%d instances, %d restarts", p.launches("gpu"), p.restarts(id))
		}

		cancel(id)
	})
	// A node whose instance does not boot; Slurm waits for it meanwhile.
	p.bootsNot("other-1")
	lost := p.submit("-p", "other", "-w", "other-1")
	p.until("the node that does not boot is launched", func() bool { return p.launches("other") == 1 })

	// What a user changes after submission launches nothing that the job may not have.
	t.Run("R7 comment changed after submission", func(t *testing.T) {
		var ids []string
		for _, comment := range []string{
			"capacity_reservation_id=" + hookstest.OtherID, // of another partition
			"capacity_reservation_id=cr-0ffffffffffffffff", // nobody's
			"capacity_reservation_id=$(reboot)\nNodeName=gpu-1 State=DOWN",
		} {
			id := p.submit("-p", "gpu", "--hold", "--comment=capacity_reservation_id="+hookstest.BlockID)
			p.scontrol("update", "jobid="+id, "comment="+comment)
			p.scontrol("release", id)
			ids = append(ids, id)
		}

		for i, id := range ids {
			holds := i != 1 // the settings may have that id in a minute
			p.until("the job is told, and held or tried again", func() bool {
				job := p.show("job", id)
				held := strings.Contains(job, " Priority=0 ")

				return strings.Contains(job, "AdminComment=pcs-capacity: ") &&
					strings.Contains(job, "JobState=PENDING") &&
					held == holds
			})
		}

		if node := p.show("node", "gpu-1"); p.launches("gpu") != 0 || !strings.Contains(node, "POWER") ||
			strings.Contains(node, "reboot") {
			t.Errorf("%d instances; %s", p.launches("gpu"), node)
		}

		cancel(ids...)
	})
	t.Run("into its block", func(t *testing.T) {
		// The effect of the first call, and no answer: the SDK's retry is the same launch.
		p.fault(awssim.Fault{Operation: "RunInstances", Effect: awssim.CutAfter, Count: 1})
		id := p.submit("-p", "gpu", "-N2")
		p.wait(id, "COMPLETED")
		up := p.instances()
		delete(up, "other-1")

		if len(up) != 2 || p.launches("gpu") != 2 {
			t.Fatalf("%d instances, %d ever", len(up), p.launches("gpu"))
		}

		mark, err := p.state.Mark()
		if err != nil || !strings.HasPrefix(mark, "lab/") {
			t.Fatalf("mark %q, %v", mark, err)
		}

		var nodes []string
		for node, i := range up {
			nodes = append(nodes, node)
			if i.ReservationID != hookstest.BlockID || i.SubnetID != "subnet-0aaaaaaaaaaaaaaaa" {
				t.Errorf("%s is in %s, %s", node, i.ReservationID, i.SubnetID)
			}

			for key, value := range map[string]string{
				capacity.TagCluster:     mark,
				capacity.TagPartition:   "gpu",
				capacity.TagReservation: hookstest.BlockID,
				capacity.TagJob:         id,
			} {
				if i.Tags[key] != value {
					t.Errorf("%s: tag %s is %q, want %q", node, key, i.Tags[key], value)
				}
			}

			text := p.show("node", node)
			if !p.cluster.RegistersAddress() &&
				(!strings.Contains(text, "NodeAddr="+i.PrivateIP+" ") ||
					!strings.Contains(text, "NodeHostName="+node+" ")) {
				t.Errorf("address of %s, %s: %s", node, i.PrivateIP, text)
			}
		}

		p.until("the launch is recorded", func() bool {
			records, err := p.state.Records()
			return err == nil && slices.ContainsFunc(records, func(r state.Record) bool {
				return r.Code == "ok" && slices.Equal(r.Jobs, []string{id}) && len(r.Instances) == 2
			})
		})

		// A person who calls the hook takes nothing away from nodes that are up, and gets none that Slurm does not wait
		// for.
		for list, fails := range map[string]bool{strings.Join(nodes, ","): false, "gpu-4": true, "gpu-[1-2,17]": true} {
			err := p.run("pcs-capacity-resume", list)

			var exit *exec.ExitError
			if fails && !errors.As(err, &exit) || !fails && err != nil {
				t.Errorf("%s: %v", list, err)
			}
		}

		if now := p.instances(); now[nodes[0]].ID != up[nodes[0]].ID || p.launches("gpu") != 2 {
			t.Errorf("%d launches, now %v", p.launches("gpu"), now)
		}

		// Power down terminates, and the same nodes again are another launch.
		p.scontrol("update", "nodename="+strings.Join(nodes, ","), "state=POWER_DOWN", "reason=test")
		p.until(
			"the instances are terminated",
			func() bool { return !p.runs(up[nodes[0]].ID) && !p.runs(up[nodes[1]].ID) },
		)

		for _, node := range nodes {
			if _, err := p.cluster.WaitNode(hookstest.Deadline(t), node,
				func(s string) bool { return s == "IDLE+CLOUD+POWERED_DOWN" }); err != nil {
				t.Fatal(err)
			}
		}

		p.wait(p.submit("-p", "gpu", "-w", strings.Join(nodes, ",")), "COMPLETED")

		if p.launches("gpu") != 4 {
			t.Errorf("%d instances ever, want 4", p.launches("gpu"))
		}
	})
	// The first zone has room for one of two nodes: capacity is held in the second, and let go when the nodes run.
	t.Run("R4 held", func(t *testing.T) {
		for zone, count := range map[string]int{"us-east-2a": 1, "us-east-2b": 2} {
			p.sim.SetCapacity(region, zone, "p5.48xlarge", count)
		}

		id := p.submit("-p", "held", "-N2")
		p.wait(id, "COMPLETED")

		for _, node := range []string{"held-1", "held-2"} {
			if i := p.instances()[node]; i.SubnetID != secondSubnet {
				t.Errorf("%s is in %q", node, i.SubnetID)
			}
		}

		var holds []state.Record
		p.until("nothing is held any more", func() bool {
			listed, err := p.state.Holds(time.Now())
			records, recordsErr := p.state.Records()
			holds = slices.DeleteFunc(records, func(r state.Record) bool { return r.Hook != "hold" })
			return errors.Join(err, recordsErr) == nil && len(listed) == 0 && len(holds) > 0
		})

		odcrs := slices.DeleteFunc(
			p.sim.Reservations(region),
			func(r awssim.ReservationUse) bool { return r.Kind != "odcr" },
		)
		mark, err := p.state.Mark()
		if err != nil || len(odcrs) != 1 {
			t.Fatalf("%v, %+v", err, odcrs)
		}

		if o := odcrs[0]; o.State != "cancelled" || o.Launched != 2 || o.Match != "targeted" || o.End.IsZero() ||
			o.Tags[capacity.TagCluster] != mark ||
			o.Tags[capacity.TagHold] != "jobs "+id+"/0" ||
			o.Tags[capacity.TagJob] != id ||
			o.Tags[capacity.TagNodes] != "held-[1-2]" {
			t.Errorf("%+v", o)
		}

		if len(holds) != 1 || holds[0].Code != "ok" || holds[0].Reservation != odcrs[0].ID || p.restarts(id) != 0 {
			t.Errorf("%d restarts, records %+v", p.restarts(id), holds)
		}
	})
	// Slurm would leave it DOWN, and with it a place in a paid block.
	t.Run("never boots", func(t *testing.T) {
		p.until("the owner is told", func() bool {
			return strings.Contains(p.show("job", lost), "AdminComment=pcs-capacity: nodes other-1 did not boot: ")
		})
		p.bootsNot("")
		p.wait(lost, "COMPLETED")

		if p.launches("other") < 2 || p.in("other-1") != hookstest.OtherID {
			t.Errorf("%d instances ever, now in %q", p.launches("other"), p.in("other-1"))
		}
	})
}
