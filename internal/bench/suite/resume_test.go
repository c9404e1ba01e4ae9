package suite

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
)

// launches are what is powered up: the nodes of each have a partition, and a block if they
// are not on demand.
type launches struct {
	name     string
	nodes    int
	alone    bool // as jobs of one node
	onDemand bool
}

// block is the id of the block; "" for what is on demand.
func (l launches) block() string {
	if l.onDemand {
		return ""
	}
	name := fnv.New64a()
	name.Write([]byte(l.name))
	return fmt.Sprintf("cr-%017x", name.Sum64())
}

const (
	benchSubnet   = "subnet-0aaaaaaaaaaaaaaaa"
	benchTemplate = "lt-0aaaaaaaaaaaaaaaa"
)

// resumeBench is a Slurm whose nodes wait for a ResumeProgram that does nothing, so that
// programs can be run in its place, any number of times.
type resumeBench struct {
	*testing.B
	dir     string
	cluster *slurmlab.Cluster
	ours    string
	floor   string
	calls   string // a folder with a file for each run of scontrol, squeue and sinfo
}

func newResumeBench(b *testing.B, all []launches, change func(*slurmlab.Config), more string) *resumeBench {
	b.Helper()
	r := &resumeBench{B: b, dir: shortDir(b), ours: build(b, "cmd/pcs-capacity-resume"), floor: build(b, "internal/bench/floor")}
	r.calls = filepath.Join(r.dir, "calls")
	nothing := r.script("nothing", "exit 0")
	cfg := slurmlab.Config{Dir: filepath.Join(r.dir, "lab"), ResumeProgram: nothing, SuspendProgram: nothing, ResumeFailProgram: nothing, ResumeTimeout: 20 * time.Minute,
		Extra: []string{"SchedulerParameters=default_queue_depth=5000,sched_interval=2,batch_sched_delay=0,bf_interval=2,bf_max_job_test=5000", "PrologSlurmctld=/bin/true"}}
	settings := fmt.Sprintf("region = \"us-east-2\"\nstate_dir = %[1]q\nlocal_dir = %[1]q\n[log]\ndir = %q\n", filepath.Join(r.dir, "state"), filepath.Join(r.dir, "log"))
	for _, l := range all {
		cfg.CloudGroups = append(cfg.CloudGroups, slurmlab.NodeGroup{Prefix: l.name + "-", Count: max(l.nodes, 2), Partition: l.name, CPUs: 192, NeverBoots: true})
		from := fmt.Sprintf("capacity_reservation_ids = [%q]", l.block())
		if l.onDemand {
			from = `purchase_option = "on-demand"`
		}
		settings += fmt.Sprintf("[[partition]]\nname = %q\nprovider = \"ec2\"\n[[partition.node_group]]\nname = %[1]q\ninstance_type = \"p5.48xlarge\"\nsubnet_ids = [%q]\nlaunch_template = %q\n%s\nmax_nodes = %d\n",
			l.name, benchSubnet, benchTemplate, from, max(l.nodes, 2))
	}
	if change != nil {
		change(&cfg)
	}
	path := filepath.Join(r.dir, "lab", "etc", "pcs-capacity", "config.toml")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(settings+more), 0o644); err != nil {
		b.Fatal(err)
	}
	var err error
	if r.cluster, err = slurmlab.Start(b.Context(), cfg); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := r.cluster.Stop(); err != nil {
			b.Error(err)
		}
	})
	// These count, and the times of their files say when.
	for _, name := range []string{"scontrol", "squeue", "sinfo"} {
		r.script("bin/"+name, fmt.Sprintf("echo \"$*\" >%s/$$\nexec /usr/bin/%s \"$@\"", r.calls, name))
	}
	return r
}

func (r *resumeBench) script(name, text string) string {
	r.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		r.Fatal(err)
	}
	return path
}

func (r *resumeBench) slurm(name string, args ...string) string {
	r.Helper()
	out, err := r.cluster.Command(r.Context(), name, args...)
	if err != nil {
		r.Fatal(err)
	}
	return out
}

// submit queues the jobs of a launch and waits until they have their nodes. It returns the
// text of a SLURM_RESUME_FILE.
func (r *resumeBench) submit(l launches) string {
	r.Helper()
	args := []string{"-p", l.name, "--exclusive", "-o", "/dev/null", "--wrap", "sleep 3600"}
	jobs := 1
	if l.alone {
		jobs = l.nodes
		r.slurm("sbatch", append([]string{"-N1", "--array=1-" + strconv.Itoa(jobs)}, args...)...)
	} else {
		r.slurm("sbatch", append([]string{"-N", strconv.Itoa(l.nodes)}, args...)...)
	}
	type job struct {
		ID    int    `json:"job_id"`
		Nodes string `json:"nodes"`
	}
	var file struct {
		Jobs []job  `json:"jobs"`
		All  string `json:"all_nodes"`
	}
	for deadline := time.Now().Add(2 * time.Minute); len(file.Jobs) < jobs; time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.Fatalf("%s: %d of %d jobs have their nodes", l.name, len(file.Jobs), jobs)
		}
		file.Jobs = nil
		for line := range strings.Lines(r.slurm("squeue", "--noheader", "--array", "--partition="+l.name, "--states=CONFIGURING,RUNNING", "--format=%A|%N")) {
			id, nodes, _ := strings.Cut(strings.TrimSpace(line), "|")
			n, err := strconv.Atoi(id)
			if err != nil {
				r.Fatal(err)
			}
			file.Jobs = append(file.Jobs, job{n, nodes})
		}
	}
	file.All = l.list()
	text, err := json.Marshal(file)
	if err != nil {
		r.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); strings.Count(r.slurm("scontrol", "--oneliner", "show", "node", l.list()), "POWERING_UP") < l.nodes; time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.Fatalf("%s: the nodes are not powered up", l.name)
		}
	}
	return string(text)
}

// list is the hostlist of the nodes.
func (l launches) list() string {
	if l.nodes == 1 {
		return l.name + "-1"
	}
	return fmt.Sprintf("%s-[1-%d]", l.name, l.nodes)
}

// powered is what one power-up took.
type powered struct {
	ran
	calls, slurm int
	instances    int
	refused      int
	first, last  time.Duration // to an address
}

// world is an AWS with a block behind each partition.
func world(b *testing.B, throttle bool, all ...launches) *awssim.Sim {
	b.Helper()
	return worldAt(b, time.Now(), throttle, all...)
}

// worldAt is a world whose clock is at a time.
func worldAt(b *testing.B, at time.Time, throttle bool, all ...launches) *awssim.Sim {
	b.Helper()
	scenario := scenarioOf(b, all...)
	scenario.Throttle = throttle
	sim, err := awssim.New(scenario, awssim.NewClock(at, 1))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := sim.Listen("127.0.0.1:0"); err != nil {
		b.Fatal(err)
	}
	return sim
}

// scenarioOf has a block behind each partition.
func scenarioOf(b *testing.B, all ...launches) *awssim.Scenario {
	b.Helper()
	scenario, err := awssim.LoadScenario("../../../hooks/power/testdata/power.toml")
	if err != nil {
		b.Fatal(err)
	}
	home := &scenario.Regions[0]
	template := home.Reservations[0]
	home.Reservations = nil
	for _, l := range all {
		if l.onDemand {
			home.Capacity = []awssim.CapacityScenario{{Type: template.Type, Zone: template.Zone, Count: l.nodes}}
			continue
		}
		one := template
		one.ID, one.Count = l.block(), max(l.nodes, 2)
		home.Reservations = append(home.Reservations, one)
	}
	for i := range home.VPCs {
		home.VPCs[i].CIDR = "127.10.0.0/16"
	}
	for i := range home.Subnets {
		if home.Subnets[i].ID == benchSubnet {
			home.Subnets[i].CIDR = "127.10.16.0/20"
		}
	}
	return scenario
}

// env is what a program needs, which runs Slurm's through those that count.
func (r *resumeBench) env() []string {
	return []string{"SLURM_CONF=" + r.cluster.Conf(), "PATH=" + filepath.Join(r.dir, "bin"), "AWS_EC2_METADATA_DISABLED=true", "AWS_REGION=us-east-2"}
}

func (r *resumeBench) forgetCalls() {
	r.Helper()
	if err := errors.Join(os.RemoveAll(r.calls), os.Mkdir(r.calls, 0o755)); err != nil {
		r.Fatal(err)
	}
}

// slurmCall is one run of scontrol, squeue or sinfo; at is exact to a tick of the kernel, 4 ms.
type slurmCall struct {
	at   time.Time
	args string
}

func (r *resumeBench) slurmCalls() []slurmCall {
	r.Helper()
	files, err := os.ReadDir(r.calls)
	if err != nil {
		r.Fatal(err)
	}
	var calls []slurmCall
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(r.calls, file.Name()))
		if err != nil {
			r.Fatal(err)
		}
		info, err := file.Info()
		if err != nil {
			r.Fatal(err)
		}
		calls = append(calls, slurmCall{info.ModTime(), string(text)})
	}
	return calls
}

// powerUp runs a program as slurmctld would, in an AWS of its own.
func (r *resumeBench) powerUp(program string, l launches, file string, sim *awssim.Sim) powered {
	r.Helper()
	path := filepath.Join(r.dir, "resume.json")
	if err := os.WriteFile(path, []byte(file), 0o644); err != nil {
		r.Fatal(err)
	}
	r.forgetCalls()
	sim.ResetCalls()
	before := len(sim.Instances(""))
	env := append(append(sim.Env(), r.env()...), "SLURM_RESUME_FILE="+path,
		"FLOOR_RESERVATION="+l.block(), "FLOOR_SUBNET="+benchSubnet, "FLOOR_TEMPLATE="+benchTemplate)
	began := time.Now()
	p := powered{ran: run(r.B, env, program, l.list())}
	for key, n := range sim.Calls() {
		if key.Service == "ec2" {
			p.calls += n
		}
		if key.Operation == "RunInstances" {
			p.refused += n
		}
	}
	launched := map[string]bool{}
	for _, i := range sim.Instances("")[before:] {
		launched[i.LaunchID] = true
	}
	p.instances, p.refused = len(sim.Instances(""))-before, p.refused-len(launched)
	for _, call := range r.slurmCalls() {
		p.slurm++
		if !strings.Contains(call.args, "nodeaddr=") {
			continue
		}
		took := call.at.Sub(began)
		p.last = max(p.last, took)
		if p.first == 0 || took < p.first {
			p.first = took
		}
	}
	if p.instances != l.nodes {
		log, _ := os.ReadFile(filepath.Join(r.dir, "log", "resume.log"))
		r.Fatalf("%s launched %d of %d nodes of %s\n%s", filepath.Base(program), p.instances, l.nodes, l.name, log)
	}
	return p
}

// BenchmarkResume powers nodes up with pcs-capacity-resume, and with a program that makes
// the calls only that nobody can do without, at 50 ms a call of AWS. Times are medians.
func BenchmarkResume(b *testing.B) {
	var all []launches
	for _, n := range []int{1, 8, 64, 256, 1000} {
		if small && n > 8 {
			break
		}
		onDemand := n > 256 // more than EC2 sells as a block: it is 64 instances, and 256 in several
		all = append(all, launches{name: fmt.Sprintf("job%d", n), nodes: n, onDemand: onDemand})
		if n > 1 {
			all = append(all, launches{name: fmt.Sprintf("one%d", n), nodes: n, alone: true, onDemand: onDemand})
		}
	}
	r := newResumeBench(b, all, nil, "")
	t := newTable("resume", "nodes", "jobs", "capacity", "throttled", "floor ms", "ours ms", "ours/floor", "AWS calls", "floor's", "refused", "Slurm calls", "floor's", "first address ms", "last", "peak MB", "floor's")
	for _, l := range all {
		file := r.submit(l)
		jobs, capacity := 1, "block"
		if l.alone {
			jobs = l.nodes
		}
		if l.onDemand {
			capacity = "on demand"
		}
		for _, throttle := range []bool{false, true} {
			one := func(program string) powered {
				sim := world(b, throttle, all...)
				defer sim.Close()
				if _, err := sim.AddFault(awssim.Fault{Service: "ec2", Effect: awssim.Delay, Latency: awssim.Duration(50 * time.Millisecond)}); err != nil {
					b.Fatal(err)
				}
				return r.powerUp(program, l, file, sim)
			}
			var ours, floor powered
			var oursTook, floorTook, first, last []time.Duration
			for i := range 1 + size(9, 1) {
				if floor, ours = one(r.floor), one(r.ours); i == 0 {
					continue // what is done once: files are read, and the mark of the cluster is made
				}
				oursTook, floorTook = append(oursTook, ours.wall), append(floorTook, floor.wall)
				first, last = append(first, ours.first), append(last, ours.last)
			}
			t.add(l.nodes, jobs, capacity, throttle, median(floorTook), median(oursTook), ratio(median(oursTook), median(floorTook)), ours.calls, floor.calls, ours.refused,
				ours.slurm, floor.slurm, median(first), median(last), ours.peak, floor.peak)
		}
	}
	t.keep(b)
}
