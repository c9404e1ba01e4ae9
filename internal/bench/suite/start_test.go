package suite

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// starts is how many blocks open, and how many nodes are powered up by hand.
var starts = size(20, 1)

// apart is the time between two blocks that open; a node is powered up by hand in the middle.
const apart = 6 * time.Second

// BenchmarkStart measures from the StartDate of a block to the first line of the job that
// waits for it, under sync and the ResumeProgram, beside a node that is powered up by hand
// for a job. Instances boot at once: what is measured is what comes on top of that.
func BenchmarkStart(b *testing.B) {
	var all []launches
	for i := range starts {
		all = append(all, launches{name: fmt.Sprintf("b%d", i+1), nodes: 1})
	}
	resume, syncs := build(b, "cmd/pcs-capacity-resume"), build(b, "cmd/pcs-capacity")
	// Two more seconds a block for its first fence, on a busy machine.
	opens := time.Now().Add(time.Duration(size(30, 60))*time.Second + 2*time.Duration(starts)*time.Second).Truncate(time.Second)
	scenario := scenarioOf(b, all...)
	for i := range scenario.Regions[0].Reservations {
		r := &scenario.Regions[0].Reservations[i]
		at := opens.Add(time.Duration(i) * apart)
		for moment, text := range map[*awssim.Moment]time.Time{&r.Start: at, &r.End: at.Add(24 * time.Hour)} {
			if err := moment.UnmarshalText([]byte(text.UTC().Format(time.RFC3339))); err != nil {
				b.Fatal(err)
			}
		}
	}
	sim, err := awssim.New(scenario, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer sim.Close()
	if _, err := sim.Listen("127.0.0.1:0"); err != nil {
		b.Fatal(err)
	}
	var hand string
	r := newResumeBench(b, all, func(c *slurmlab.Config) {
		for i := range c.CloudGroups {
			c.CloudGroups[i].Count, c.CloudGroups[i].NeverBoots, c.CloudGroups[i].CPUs = 1, false, 4
		}
		c.CloudGroups = append(c.CloudGroups, slurmlab.NodeGroup{Prefix: "hand-", Count: starts, Partition: "hand"})
		hand = filepath.Join(filepath.Dir(c.Dir), "hand")
		path := filepath.Join(filepath.Dir(c.Dir), "resume")
		text := "#!/bin/sh\ncase $1 in hand-*) /usr/bin/scontrol update nodename=$1 nodeaddr=127.0.0.1 nodehostname=$1; : >" + hand + "/$1; exit 0;; esac\nexport AWS_EC2_METADATA_DISABLED=true\n"
		for _, variable := range sim.Env() {
			text += "export '" + variable + "'\n"
		}
		if err := os.Mkdir(hand, 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"exec "+resume+" \"$@\"\n"), 0o755); err != nil {
			b.Fatal(err)
		}
		c.ResumeProgram = path
		// With the lab's PrologSlurmctld, which ends when the nodes are up: without one a
		// batch job waits up to 30 s more, however its nodes are powered up.
		c.Extra = []string{"SchedulerParameters=sched_interval=2,batch_sched_delay=0,bf_interval=2", "MessageTimeout=60"}
	}, "")
	var boots sync.WaitGroup
	ctx, stop := context.WithCancel(b.Context())
	defer boots.Wait()
	defer stop()
	boot := func(node string) { _ = r.cluster.StartNode(ctx, node, "") } // fails if the cluster ends
	sim.OnInstance(func(e awssim.InstanceEvent) {
		nodes, err := slurm.Expand(capacity.LaunchedNodes(e.Instance.Tags))
		if err != nil || e.Kind != awssim.Launched {
			return
		}
		boots.Go(func() {
			node := nodes[e.Instance.AMILaunchIndex]
			for ctx.Err() == nil {
				fields, err := r.cluster.Node(ctx, node)
				if err == nil && fields["NodeAddr"] == e.Instance.PrivateIP {
					boot(node)
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
		})
	})
	boots.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
			asked, _ := os.ReadDir(hand)
			for _, node := range asked {
				os.Remove(filepath.Join(hand, node.Name()))
				boots.Go(func() { boot(node.Name()) })
			}
		}
	})
	watch := exec.CommandContext(ctx, syncs, "sync", "--watch")
	watch.Env = append(append(sim.Env(), r.env()...), "PATH=/usr/bin:/bin")
	var said strings.Builder
	watch.Stdout, watch.Stderr = &said, &said
	if err := watch.Start(); err != nil {
		b.Fatal(err)
	}
	defer watch.Wait()
	defer stop()

	submit := func(partition, node string) {
		r.slurm("sbatch", "-p", partition, "-w", node, "-t", "5", "-o", filepath.Join(r.dir, node+".out"), "--wrap", "date +%s%N")
	}
	// A job waits once the nodes are reserved until the block opens.
	for deadline := time.Now().Add(time.Until(opens)); strings.Count(r.slurm("scontrol", "--oneliner", "show", "reservation"), "ReservationName=") < starts; time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("the nodes are not reserved in time\n%s", said.String())
		}
	}
	for _, l := range all {
		submit(l.name, l.name+"-1")
	}
	first := func(node string, from time.Time) time.Duration {
		path := filepath.Join(r.dir, node+".out")
		for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
			text, _ := os.ReadFile(path)
			if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
				return time.Unix(0, n).Sub(from)
			}
			if time.Now().After(deadline) {
				b.Fatalf("the job on %s has not written its line\n%s\n%s", node, r.slurm("scontrol", "show", "node", node), said.String())
			}
		}
	}
	byHand := map[int]time.Time{}
	for i := range starts {
		time.Sleep(time.Until(opens.Add(time.Duration(i)*apart + apart/2)))
		byHand[i] = time.Now()
		node := fmt.Sprintf("hand-%d", i+1)
		r.slurm("scontrol", "update", "nodename="+node, "state=POWER_UP")
		submit("hand", node)
	}
	var block, plain []time.Duration
	for i, l := range all {
		block = append(block, first(l.name+"-1", opens.Add(time.Duration(i)*apart)))
		plain = append(plain, first(fmt.Sprintf("hand-%d", i+1), byHand[i]))
	}
	t := newTable("start", "what", "median s", "least", "most")
	for _, row := range []struct {
		what string
		took []time.Duration
	}{{"from StartDate to a job's first line", block}, {"from POWER_UP by hand to a job's first line", plain}} {
		t.add(row.what, median(row.took).Seconds(), slices.Min(row.took).Seconds(), slices.Max(row.took).Seconds())
	}
	t.add("more for a block", (median(block) - median(plain)).Seconds(), "", "")
	t.keep(b)
}
