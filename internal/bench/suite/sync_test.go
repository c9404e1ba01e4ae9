package suite

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
)

// plain are the fields of a job that no user can write.
const plain = "JobID:|,JobArrayID:|,State:|,TimeLimit:|,SubmitTime:|,EligibleTime:|,StartTime:|,EndTime:|,PriorityLong:|,UserID:|,NumNodes:|,NodeList:|"

// elsewhere is a partition that is none of our business.
const elsewhere = "elsewhere"

// passes is a cluster of which sync makes passes.
type passes struct {
	*resumeBench
	all  []launches
	sync string
}

// settings is for more than what the partitions need.
func newPasses(b *testing.B, partitions, nodes int, settings string) *passes {
	b.Helper()
	var all []launches
	for i := range partitions {
		all = append(all, launches{name: fmt.Sprintf("p%d", i+1), nodes: nodes / partitions, alone: true})
	}
	r := newResumeBench(b, all, func(c *slurmlab.Config) {
		c.CloudGroups = append(c.CloudGroups, slurmlab.NodeGroup{Prefix: elsewhere + "-", Count: 2, Partition: elsewhere, CPUs: 192, NeverBoots: true})
		c.Extra = append(c.Extra, "MaxArraySize=20001", "MaxJobCount=50000", "DebugFlags=NO_CONF_HASH", "SlurmctldDebug=error")
	}, settings)
	return &passes{r, all, build(b, "cmd/pcs-capacity")}
}

// world is the AWS of the cluster: blocks that open in an hour.
func (p *passes) world() *awssim.Sim { return world(p.B, false, p.all...) }

// pass makes one, and returns how often it ran Slurm's programs too.
func (p *passes) pass(sim *awssim.Sim) (r ran, slurm, calls int) {
	p.Helper()
	p.forgetCalls()
	sim.ResetCalls()
	r = run(p.B, append(sim.Env(), p.env()...), p.sync, "sync")
	for _, n := range sim.Calls() {
		calls += n
	}
	return r, len(p.slurmCalls()), calls
}

// status shows them, after a pass.
func (p *passes) status(sim *awssim.Sim) ran {
	p.Helper()
	return run(p.B, append(sim.Env(), p.env()...), p.sync, "status")
}

// squeue asks for the jobs with nothing else around it.
func (p *passes) squeue() ran {
	p.Helper()
	return run(p.B, []string{"SLURM_CONF=" + p.cluster.Conf(), "PATH=/usr/bin:/bin"}, "squeue", "--all", "--noheader", "--Format="+plain)
}

// queue submits so many jobs to a partition, each a record of its own, that wait as long as their partition
// is down.
func (p *passes) queue(partition string, jobs int) {
	p.Helper()
	p.slurm("scontrol", "update", "partitionname="+partition, "state=DOWN")
	out := p.slurm("sbatch", "--parsable", "-p", partition, "-t", "60", "--array=0-"+strconv.Itoa(jobs), "-o", "/dev/null", "--wrap", "true")
	p.slurm("scontrol", "update", "jobid="+strings.TrimSpace(out)+"_[1-"+strconv.Itoa(jobs)+"]", "nice=1")
}

// BenchmarkSync makes passes over clusters of several sizes, and shows their status.
func BenchmarkSync(b *testing.B) {
	t := newTable("sync", "partitions", "nodes", "jobs", "squeue ms", "pass ms", "pass/squeue", "peak MB", "Slurm calls", "AWS calls", "status ms", "status/squeue", "its MB")
	for _, cluster := range []struct{ partitions, nodes int }{{1, 16}, {50, 1000}} {
		if small && cluster.nodes > 16 {
			break
		}
		p := newPasses(b, cluster.partitions, cluster.nodes, "")
		sim := p.world()
		defer sim.Close()
		first, slurm, calls := p.pass(sim)
		t.add(cluster.partitions, cluster.nodes, "first pass", "", first.wall, "", first.peak, slurm, calls, "", "", "")
		queued := 0
		for _, jobs := range []int{10, 1000, 10000} {
			if small && jobs > 10 {
				break
			}
			p.queue(p.all[0].name, jobs-queued)
			queued = jobs
			p.pass(sim)
			var took, alone, shown []time.Duration
			var last, status ran
			for range size(5, 1) {
				alone = append(alone, p.squeue().wall)
				last, slurm, calls = p.pass(sim)
				took = append(took, last.wall)
				status = p.status(sim)
				shown = append(shown, status.wall)
			}
			t.add(cluster.partitions, cluster.nodes, jobs, median(alone), median(took), ratio(median(took), median(alone)), last.peak, slurm, calls,
				median(shown), ratio(median(shown), median(alone)), status.peak)
		}
	}
	t.keep(b)
}
