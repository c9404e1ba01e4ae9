// Package bench measures programs as users have them, each as a ratio to what runs in turns with it, under a
// real Slurm and the simulated AWS.
package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/hooks/submit"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// compare reports how many times longer one takes than the other, by their medians. The first runs do not
// count: files are read then, and the mark of the cluster is made.
func compare(b *testing.B, turns int, unit string, ours, other func()) {
	b.Helper()

	var took [2][]time.Duration
	for turn := range turns + 1 {
		for i, run := range []func(){ours, other} {
			began := time.Now()
			if run(); turn > 0 {
				took[i] = append(took[i], time.Since(began))
			}
		}
	}

	for _, all := range took {
		slices.Sort(all)
	}

	b.ReportMetric(0, "ns/op") // would count both sides
	b.ReportMetric(float64(took[0][turns/2])/float64(took[1][turns/2]), unit)
}

// run is one run of a program, which must end well unless it refuses.
func run(b *testing.B, env []string, refuses bool, program string, args ...string) {
	b.Helper()

	cmd := exec.Command(program, args...)

	cmd.Env = append(
		env,
		"PATH=/usr/bin:/bin",
		"USER=root",
		"HOME=/",
		"AWS_EC2_METADATA_DISABLED=true",
		"AWS_REGION=us-east-2",
	)
	if out, err := cmd.CombinedOutput(); (err != nil) != refuses {
		b.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
}

// build compiles a program of the module and returns its path.
func build(b *testing.B, folder string) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), filepath.Base(folder))
	run(b, os.Environ(), false, "go", "build", "-o", path, "../../"+folder)
	return path
}

func write(b *testing.B, path, text string, mode os.FileMode) {
	b.Helper()

	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.Fatal(err)
	}

	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		b.Fatal(err)
	}
}

// lab is a Slurm whose nodes of partition gpu wait for a ResumeProgram that does nothing, so that others can
// be run in its place.
func lab(b *testing.B, nodes int, jobSubmit string) *slurmlab.Cluster {
	b.Helper()

	dir, err := os.MkdirTemp("", "b") // short: Slurm's sockets lie in it
	if err != nil {
		b.Fatal(err)
	}

	b.Cleanup(func() { os.RemoveAll(dir) })

	nothing := "/bin/true"

	cluster, err := slurmlab.Start(
		b.Context(),
		slurmlab.Config{
			Dir: dir, ResumeProgram: nothing, SuspendProgram: nothing, ResumeFailProgram: nothing,
			ResumeTimeout: 20 * time.Minute, JobSubmitLua: jobSubmit,
			Extra: []string{
				fmt.Sprintf("NodeName=gpu-[1-%d] Port=1 CPUs=192 RealMemory=1000 State=CLOUD", nodes),
				fmt.Sprintf("PartitionName=gpu Nodes=gpu-[1-%d]", nodes),
				"SchedulerParameters=sched_interval=2,batch_sched_delay=0,bf_interval=2",
				"PrologSlurmctld=/bin/true",
				"MaxArraySize=20001",
				"MaxJobCount=50000",
			},
		},
	)
	if err != nil {
		b.Fatal(err)
	}

	b.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			b.Error(err)
		}
	})
	write(b, filepath.Join(dir, "etc/pcs-capacity/config.toml"), fmt.Sprintf(`region = "us-east-2"
state_dir = %[1]q
local_dir = %[1]q
[log]
dir = %[1]q
[[partition]]
name = "gpu"
provider = "ec2"
[[partition.node_group]]
name = "gpu"
instance_type = "p5.48xlarge"
subnet_ids = [%[2]q]
launch_template = %[3]q
capacity_reservation_ids = [%[4]q]
max_nodes = %[5]d
`, filepath.Join(dir, "ours"), subnet, template, block, nodes), 0o644)

	return cluster
}

const (
	block    = "cr-0aaaaaaaaaaaaaaa1"
	subnet   = "subnet-0aaaaaaaaaaaaaaaa"
	template = "lt-0aaaaaaaaaaaaaaaa"
)

// world is an AWS whose block is behind partition gpu, which answers in 50 ms and has EC2's request limits.
func world(b *testing.B, nodes int) *awssim.Sim {
	b.Helper()

	scenario, err := awssim.LoadScenario("../../hooks/power/testdata/power.toml")
	if err != nil {
		b.Fatal(err)
	}

	scenario.Regions[0].Reservations[0].Count = nodes
	scenario.Throttle = true

	sim, err := awssim.New(scenario, nil)
	if err != nil {
		b.Fatal(err)
	}

	b.Cleanup(func() { sim.Close() })

	if _, err := sim.Listen("127.0.0.1:0"); err != nil {
		b.Fatal(err)
	}

	if _, err := sim.AddFault(awssim.Fault{
		Service: "ec2",
		Effect:  awssim.Delay,
		Latency: awssim.Duration(50 * time.Millisecond),
	}); err != nil {
		b.Fatal(err)
	}

	return sim
}

func slurm(b *testing.B, cluster *slurmlab.Cluster, name string, args ...string) string {
	b.Helper()

	out, err := cluster.Command(b.Context(), name, args...)
	if err != nil {
		b.Fatal(err)
	}

	return strings.TrimSpace(out)
}

// BenchmarkResume powers up the nodes of jobs, beside a program that makes only the calls that nobody can do without:
// one launch for all of them.
func BenchmarkResume(b *testing.B) {
	ours, floor := build(b, "cmd/pcs-capacity-resume"), build(b, "internal/bench/floor")
	for _, jobs := range []struct{ number, nodes int }{{1, 8}, {1, 64}, {32, 2}} {
		b.Run(fmt.Sprintf("%d × %d nodes", jobs.number, jobs.nodes), func(b *testing.B) {
			nodes := jobs.number * jobs.nodes
			cluster := lab(b, nodes, "")
			for range jobs.number {
				slurm(
					b,
					cluster,
					"sbatch",
					"-p",
					"gpu",
					"--exclusive",
					"-N",
					strconv.Itoa(jobs.nodes),
					"-o",
					"/dev/null",
					"--wrap",
					"true",
				)
			}

			list := fmt.Sprintf("gpu-[1-%d]", nodes)
			for strings.Count(slurm(b, cluster, "scontrol", "--oneliner", "show", "node", list),
				"POWERING_UP") < nodes {
				time.Sleep(200 * time.Millisecond)
			}

			waits := strings.Fields(slurm(b, cluster, "squeue", "-h", "-o", `{"job_id":%i,"nodes":"%N"}`))
			file := filepath.Join(b.TempDir(), "resume.json")
			write(b, file, fmt.Sprintf(`{"all_nodes": %q, "jobs": [%s]}`, list, strings.Join(waits, ",")), 0o644)

			with := func(program string) func() {
				return func() {
					sim := world(b, nodes)
					run(b, append(
						sim.Env(),
						"SLURM_CONF="+cluster.Conf(),
						"SLURM_RESUME_FILE="+file,
						"FLOOR_RESERVATION="+block,
						"FLOOR_SUBNET="+subnet,
						"FLOOR_TEMPLATE="+template,
					), false, program, list)

					if n := len(sim.Instances("")); n != nodes {
						b.Fatalf("%s launched %d nodes", program, n)
					}
				}
			}
			compare(b, 9, "of-the-fewest-calls", with(ours), with(floor))
		})
	}
}

// kinds are submissions that are measured.
var kinds = []struct {
	name string
	args []string
}{
	{"not managed", []string{"-t", "60"}},
	{"fits", []string{"-p", "gpu", "-N2", "-t", "60"}},
	{"limit fitted", []string{"-p", "gpu", "-N2"}},
	{"refused", []string{"-p", "gpu", "-N2", "-t", "30-0"}},
}

// BenchmarkSubmit times sbatch with each of the Lua scripts, beside an empty one in its place.
func BenchmarkSubmit(b *testing.B) {
	const (
		emptySubmit = "function slurm_job_submit() return slurm.SUCCESS end\nfunction slurm_job_modify() return " +
			"slurm.SUCCESS end\n"
		emptyFilter = "function slurm_cli_setup_defaults() return slurm.SUCCESS end\nfunction " +
			"slurm_cli_pre_submit() return slurm.SUCCESS end\n" +
			"function slurm_cli_post_submit() return slurm.SUCCESS end\n"
	)

	minutes := func(n int) capacity.Duration { return capacity.Duration{Duration: time.Duration(n) * time.Minute} }
	now := time.Now()
	dir := state.Dir(b.TempDir())

	err := dir.WriteSnapshot(
		&capacity.Snapshot{
			TakenAt: now, TimeMinCollapses: true, Region: "us-east-2", DefaultPartition: "main",
			Submit: capacity.Submit{Strict: true, StaleAfter: minutes(6000)},
			Timing: capacity.Timing{DrainMargin: minutes(10), BootAllowance: minutes(10), ReclaimLead: minutes(30)},
			Reservations: []capacity.Reservation{
				{
					ID:           block,
					Kind:         capacity.CapacityBlock,
					State:        capacity.StateActive,
					InstanceType: "p5.48xlarge",
					Region:       "us-east-2",
					AZID:         "use2-az1",
					AZ:           "us-east-2a",
					Total:        4,
					Available:    4,
					Platform:     "Linux/UNIX",
					Tenancy:      "default",
					Start:        now.Add(-time.Hour),
					End:          now.Add(48 * time.Hour),
				},
			},
			Partitions: []capacity.Partition{
				{
					Name:     "gpu",
					Provider: capacity.ProviderEC2,
					MinTime:  minutes(30),
					Groups: []capacity.NodeGroup{{
						Name:           "gpu",
						InstanceType:   "p5.48xlarge",
						PurchaseOption: capacity.CapacityBlock,
						MaxNodes:       4,
						Subnets: []capacity.Subnet{{
							ID:   subnet,
							AZID: "use2-az1",
							AZ:   "us-east-2a",
						}},
						Slots: []capacity.Slot{{Name: "gpu", ReservationIDs: []string{block}}},
					}},
				},
			},
		},
	)
	if err != nil {
		b.Fatal(err)
	}

	filter := build(b, "cmd/pcs-capacity-filter")
	empty, ours := lab(b, 4, emptySubmit), lab(b, 4, submit.JobSubmit(dir.RosterPath(), string(dir), filter))
	// The cli_filter of sbatch lies beside the slurm.conf that it reads.
	conf := func(name, script string) string {
		path := filepath.Join(filepath.Dir(empty.Conf()), name, "slurm.conf")

		text, err := os.ReadFile(empty.Conf())
		if err != nil {
			b.Fatal(err)
		}

		write(b, path, string(text)+"\nCliFilterPlugins=lua\n", 0o644)
		write(b, filepath.Join(filepath.Dir(path), "cli_filter.lua"), script, 0o644)

		return path
	}
	for where, confs := range map[string][2]string{
		"job_submit": {ours.Conf(), empty.Conf()},
		"cli_filter": {conf("ours", submit.CLIFilter(dir.RosterPath(), string(dir), filter)), conf("empty", emptyFilter)},
	} {
		for _, kind := range kinds {
			b.Run(where+"/"+kind.name, func(b *testing.B) {
				args := append([]string{"-H", "-o", "/dev/null", "--wrap", "true"}, kind.args...)
				compare(
					b,
					100,
					"of-an-empty-script",
					func() { run(b, []string{"SLURM_CONF=" + confs[0]}, kind.name == "refused", "sbatch", args...) },
					func() { run(b, []string{"SLURM_CONF=" + confs[1]}, false, "sbatch", args...) },
				)
			})
		}
	}
}

// BenchmarkSync makes passes and shows the status of a cluster with 10,000 jobs, beside squeue.
func BenchmarkSync(b *testing.B) {
	program := build(b, "cmd/pcs-capacity")
	cluster := lab(b, 16, "")
	slurm(b, cluster, "scontrol", "update", "partitionname=gpu", "state=DOWN")
	jobs := slurm(
		b,
		cluster,
		"sbatch",
		"--parsable",
		"-p",
		"gpu",
		"-t",
		"60",
		"--array=0-10000",
		"-o",
		"/dev/null",
		"--wrap",
		"true",
	)
	slurm(b, cluster, "scontrol", "update", "jobid="+jobs+"_[1-10000]", "nice=1") // makes each a record of its own

	env := append(world(b, 16).Env(), "SLURM_CONF="+cluster.Conf())

	const fields = "JobID:|,JobArrayID:|,State:|,TimeLimit:|,SubmitTime:|,EligibleTime:|,StartTime:|,EndTime:|," +
		"PriorityLong:|,UserID:|,NumNodes:|,NodeList:|"
	for _, command := range []string{"sync", "status"} {
		b.Run(command, func(b *testing.B) {
			compare(b, 5, "of-squeue", func() { run(b, env, false, program, command) },
				func() { run(b, env, false, "squeue", "--all", "--noheader", "--Format="+fields) })
		})
	}
}
