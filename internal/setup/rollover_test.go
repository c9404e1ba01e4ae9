package setup_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/permissions"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Three blocks of a year; the second one overlaps the first, and the third is in another zone.
const (
	blockA, blockB, blockC = "cr-0e2000000000000a1", "cr-0e2000000000000b2", "cr-0e2000000000000c3"

	rollWorld = `
pcs_delay = "3m"
account = "111122223333"
[[instance_type]]
name = "p5.48xlarge"
vcpus = 192
memory_mib = 2097152
usage_classes = ["on-demand", "capacity-block"]
[[region]]
name = "us-east-2"
zone = [{ name = "us-east-2a", id = "use2-az1" }, { name = "us-east-2b", id = "use2-az2" }]
vpc = [{ id = "vpc-0e2000000000000a1", cidr = "127.2.0.0/16" }]
subnet = [
  { id = "subnet-0e200000000000a01", vpc = "vpc-0e2000000000000a1", zone = "us-east-2a", cidr = "127.2.16.0/20" },
  { id = "subnet-0e200000000000b02", vpc = "vpc-0e2000000000000a1", zone = "us-east-2b", cidr = "127.2.32.0/20" },
]
security_group = [{ id = "sg-0e200000000000a01", name = "nodes", vpc = "vpc-0e2000000000000a1" }]
key_pair = [{ name = "ops" }]
image = [{ id = "ami-0e200000000000a01", name = "node" }]
launch_template = [{ id = "lt-0e200000000000a01", name = "gpu", image = "ami-0e200000000000a01", key_name = "ops", type = "p5.48xlarge", security_groups = ["sg-0e200000000000a01"] }]
reservation = [
  { id = "` + blockA + `", kind = "capacity-block", type = "p5.48xlarge", zone = "us-east-2a", count = 4, start = "-1h", end = "+2880h" },
  { id = "` + blockB + `", kind = "capacity-block", type = "p5.48xlarge", zone = "us-east-2a", count = 2, start = "+2856h", end = "+5760h" },
  { id = "` + blockC + `", kind = "capacity-block", type = "p5.48xlarge", zone = "us-east-2b", count = 8, start = "+6000h", end = "+8760h" },
]
[[region.cluster]]
id = "pcs_0e20000001"
name = "ml"
size = "SMALL"
slurm_version = "25.11"
subnets = ["subnet-0e200000000000a01"]
security_groups = ["sg-0e200000000000a01"]
queue = [{ id = "pcs_0e20000005", name = "cpu", node_groups = ["compute"] }]
[[region.cluster.node_group]]
id = "pcs_0e20000003"
name = "compute"
type = "p5.48xlarge"
image = "ami-0e200000000000a01"
instance_profile = "arn:aws:iam::111122223333:instance-profile/AWSPCS-nodes"
launch_template = "lt-0e200000000000a01"
subnets = ["subnet-0e200000000000a01"]
max = 1
`

	rollConfig = `
region = "us-east-2"
cluster = "ml"
state_dir = %q
[[partition]]
name = "gpu"
provider = "pcs"
roll_over = true
[[partition.node_group]]
name = "gpu"
instance_type = "p5.48xlarge"
subnet_ids = ["subnet-0e200000000000a01", "subnet-0e200000000000b02"]
capacity_reservation_ids = ["` + blockA + `", "` + blockB + `", "` + blockC + `"]
max_nodes = 4
`
)

// rolling is a PCS in the simulator, a Slurm that has the nodes and partitions of it, and one
// or more syncs.
type rolling struct {
	*testing.T
	sim   *awssim.Sim
	aws   *ec2.Client
	pcs   *pcs.Client
	syncs []lifecycle.Sources
	made  []*setup.RollOver // of each

	mu           sync.Mutex
	reservations map[string]capacity.SlurmReservation
	did          []string
}

// sameClock is EC2 for a machine whose clock is AWS's.
type sameClock struct{ *ec2.Client }

func (sameClock) Offset() time.Duration { return 0 }

// following is the Slurm of a PCS cluster, without jobs.
type following struct {
	lifecycle.Slurm
	*rolling
}

func newRolling(t *testing.T, world, settings string, syncs int) *rolling {
	t.Helper()
	scenario, err := awssim.ParseScenario("roll", []byte(world))
	if err != nil {
		t.Fatal(err)
	}
	r := &rolling{T: t, reservations: map[string]capacity.SlurmReservation{}}
	if r.sim, err = awssim.New(scenario, awssim.NewClock(time.Date(2027, 1, 1, 8, 0, 0, 0, time.UTC), 0)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.sim.Close() })
	if err := r.sim.Serve(t.Setenv); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	shared, err := awsconfig.Load(t.Context(), ec2.Options{Region: "us-east-2"})
	if err != nil {
		t.Fatal(err)
	}
	r.aws, r.pcs = ec2.From(shared), pcs.From(shared)
	for range syncs {
		dir := t.TempDir()
		path := filepath.Join(dir, "config.toml")
		if err := os.WriteFile(path, fmt.Appendf(nil, settings, dir+"/state"), 0o444); err != nil {
			t.Fatal(err)
		}
		r.syncs = append(r.syncs, r.sources(path))
	}
	return r
}

func (r *rolling) sources(path string) lifecycle.Sources {
	r.Helper()
	cfg, err := config.Load(path)
	if err == nil {
		err = state.Dir(cfg.StateDir).Create()
	}
	if err != nil {
		r.Fatal(err)
	}
	s := lifecycle.From(cfg, r.aws, r.pcs)
	s.Owner = "0123abcd" // as of hosts that share a state_dir
	made := s.RollOver.(*setup.RollOver)
	made.Setup.Slurm = following{rolling: r}
	r.made = append(r.made, made)
	s.RollOver = made
	s.EC2, s.Slurm, s.MachineTime = sameClock{r.aws}, following{rolling: r}, r.sim.Clock().Now
	return s
}

// setUp does by hand what roll_over is not for: the first block of a partition.
func (r *rolling) setUp(block string) {
	r.Helper()
	made := r.made[0]
	s := made.Setup
	s.Unattended = true // the clock goes on below
	s.Slurm = nil       // and no pass is made, which would place a fence
	for range 4 {
		plan, err := s.Plan(r.Context(), setup.Request{Queue: "gpu", NodeGroup: "gpu", Reservation: block, Like: "compute", Config: made.Config, ConfigPath: made.Config.Path})
		if err != nil {
			r.Fatal(err)
		}
		if err := s.Apply(r.Context(), plan); err == nil {
			return
		} else if !errors.Is(err, pcs.ErrAtWork) {
			r.Fatal(err)
		}
		r.sim.Clock().Advance(4 * time.Minute)
	}
	r.Fatal("PCS is at work for too long")
}

func (f following) Config(context.Context) (slurm.Config, error) {
	return slurm.Config{Version: slurm.Version{Major: 25, Minor: 11}, KillWait: 30 * time.Second}, nil
}

// nodes are those of the node groups that are there, by group.
func (f following) nodes() map[string][]capacity.Node {
	nodes := map[string][]capacity.Node{}
	for _, g := range f.sim.PCSClusters()[0].NodeGroups {
		for n := range g.Max {
			if g.Status != "ACTIVE" && g.Status != "UPDATING" {
				continue
			}
			name := fmt.Sprintf("%s-%d", g.Name, n+1)
			_, up := g.Instances[name]
			nodes[g.Name] = append(nodes[g.Name], capacity.Node{Name: name, Features: []string{g.Name}, State: map[bool]string{true: "IDLE+CLOUD", false: "IDLE+CLOUD+POWERED_DOWN"}[up]})
		}
	}
	return nodes
}

func (f following) Nodes(context.Context, ...string) (all []capacity.Node, err error) {
	for _, nodes := range f.nodes() {
		all = append(all, nodes...)
	}
	return all, nil
}

func (f following) Partitions(context.Context) (all []capacity.SlurmPartition, err error) {
	nodes := f.nodes()
	for _, q := range f.sim.PCSClusters()[0].Queues {
		one := capacity.SlurmPartition{Name: q.Name}
		for _, name := range q.NodeGroups {
			for _, n := range nodes[name] {
				one.Nodes = append(one.Nodes, n.Name)
			}
		}
		all = append(all, one)
	}
	return all, nil
}

func (f following) Reservations(context.Context) (all []capacity.SlurmReservation, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.reservations {
		r.Active = !r.Start.After(f.sim.Clock().Now())
		all = append(all, r)
	}
	return all, nil
}

func (f following) JobsOf(context.Context, []string, func(capacity.Job) bool) (live, ended []capacity.Job, err error) {
	return []capacity.Job{}, nil, nil
}

func (f following) CreateReservation(_ context.Context, r capacity.SlurmReservation) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reservations[r.Name] = r
	return nil
}

func (f following) UpdateReservation(ctx context.Context, r capacity.SlurmReservation) error {
	return f.CreateReservation(ctx, r)
}

func (f following) DropReservation(ctx context.Context, name string) error {
	return f.DeleteReservation(ctx, name)
}

func (f following) DeleteReservation(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.reservations, name)
	return nil
}

func (f following) Drain(context.Context, []string, string) error { return nil }

// Slots is for the teardown of a slot.
func (f following) Slots(ctx context.Context, _ string, nodes map[string][]string) (map[string]setup.SlurmSlot, int, error) {
	var seen setup.SlurmSeen
	seen.Nodes, _ = f.Nodes(ctx)
	seen.Partitions, _ = f.Partitions(ctx)
	seen.Reservations, _ = f.Reservations(ctx)
	slots, _ := seen.Slots("", nodes)
	return slots, 0, nil
}

// pass has every sync make a pass, all at once, and returns the problems of the first. PCS
// has launched the nodes of static groups before.
func (r *rolling) pass() (problems []string) {
	r.Helper()
	for _, g := range r.sim.PCSClusters()[0].NodeGroups {
		for n := range g.Min {
			if name := fmt.Sprintf("%s-%d", g.Name, n+1); g.ReservationState == "active" && g.Instances[name] == "" {
				_, _ = r.sim.LaunchForNodeGroup("ml", g.Name, name) // refused near the block's end
			}
		}
	}
	nodes, _ := following{rolling: r}.Nodes(r.Context())
	for _, one := range r.reservations { // slurmctld drops those, at a restart
		for _, node := range one.Nodes {
			if !slices.ContainsFunc(nodes, func(n capacity.Node) bool { return n.Name == node }) {
				r.Errorf("%s: %s is over node %s, which is gone", r.sim.Clock().Now().Format("01-02 15:04"), one.Name, node)
			}
		}
	}
	reports := make([]lifecycle.Report, len(r.syncs))
	var all sync.WaitGroup
	for i, s := range r.syncs {
		all.Go(func() {
			_, report, err := lifecycle.Pass(r.Context(), s)
			if err != nil {
				r.Error(err)
			}
			reports[i] = report
		})
	}
	all.Wait()
	at := r.sim.Clock().Now()
	for _, report := range reports {
		for _, d := range report.Done {
			r.did = append(r.did, at.Format("01-02 15:04 ")+d.String())
		}
		for _, one := range report.Rolling {
			if one.Setback.Problem != "" {
				r.did = append(r.did, at.Format("01-02 15:04 problem: ")+one.Setback.Problem)
			}
		}
	}
	return reports[0].Problems
}

// passes lets time go on, with a pass each minute.
func (r *rolling) passes(n int) {
	r.Helper()
	for range n {
		r.pass()
		r.sim.Clock().Advance(time.Minute)
	}
}

// goTo is so long after the beginning of the year.
func (r *rolling) goTo(hours float64) {
	r.sim.Clock().Set(time.Date(2027, 1, 1, 8, 0, 0, 0, time.UTC).Add(time.Duration(hours * float64(time.Hour))))
}

// seen is what PCS and Slurm have: groups with their block and size, queues, fences.
func (r *rolling) seen() string {
	var lines []string
	cluster := r.sim.PCSClusters()[0]
	for _, g := range cluster.NodeGroups {
		lines = append(lines, fmt.Sprintf("%s %s %d %s", g.Name, g.ReservationID, g.Max, g.Status))
	}
	for _, q := range cluster.Queues {
		lines = append(lines, fmt.Sprintf("%s: %s", q.Name, strings.Join(slices.Sorted(slices.Values(q.NodeGroups)), " ")))
	}
	for name := range r.reservations {
		lines = append(lines, strings.TrimPrefix(capacity.PlainName(name), "pcs-capacity-"))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (r *rolling) expect(when, want string) {
	r.Helper()
	if got := r.seen(); got != want {
		r.Errorf("%s there is\n%s\nwant\n%s\ndone was\n%s", when, got, want, strings.Join(r.did, "\n"))
	}
}

const others = "compute  1 ACTIVE\ncpu: compute\n"

// What is in the way is told, and tried again after a pause, until it is out of the way; the
// open block and its fence are as without it.
func TestRollOverSetbacks(t *testing.T) {
	const inB = `count = 2, start = "+2856h"`
	for name, c := range map[string]struct {
		world, settings *strings.Replacer
		before, mend    func(r *rolling)
		want            string
	}{
		"no subnet in the zone": {
			world:    strings.NewReplacer(`zone = "us-east-2a", `+inB, `zone = "us-east-2b", `+inB),
			settings: strings.NewReplacer(`, "subnet-0e200000000000b02"`, ""),
			mend: func(r *rolling) {
				path := r.made[0].Config.Path
				text, err := os.ReadFile(path)
				if err == nil {
					err = os.Remove(path)
				}
				if err == nil {
					err = os.WriteFile(path, []byte(strings.Replace(string(text), `a01"]`, `a01", "subnet-0e200000000000b02"]`, 1)), 0o444)
				}
				if err != nil {
					r.Fatal(err)
				}
				r.syncs[0] = r.sources(path)
			},
			want: "cannot set up " + blockB + " in partition gpu: reservation " + blockB + " is in us-east-2b (use2-az2), but node group gpu-b has only subnet-0e200000000000a01 in us-east-2a (use2-az1); " +
				"`pcs-capacity setup --reservation " + blockB + " --queue gpu --node-group gpu` shows what to do",
		},
		"PCS cannot create it": {
			before: func(r *rolling) { r.sim.FailNodeGroups(1, "InsufficientAddresses", "no address is left") },
			want:   "cannot set up " + blockB + " in partition gpu: PCS could not create compute node group gpu-b: InsufficientAddresses: no address is left",
		},
		"not allowed": {
			before: func(r *rolling) {
				if _, err := r.sim.AddFault(awssim.Denies("pcs:CreateComputeNodeGroup")); err != nil {
					r.Fatal(err)
				}
			},
			mend: func(r *rolling) { r.sim.ClearFaults() },
			want: "pcs:CreateComputeNodeGroup is not allowed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			replace := func(by *strings.Replacer, text string) string {
				if by == nil {
					return text
				}
				return by.Replace(text)
			}
			r := newRolling(t, replace(c.world, rollWorld), replace(c.settings, rollConfig), 1)
			r.setUp(blockA)
			if c.before != nil {
				c.before(r)
			}
			kept := func() state.Setback {
				all, err := r.syncs[0].State.Setbacks()
				if err != nil {
					t.Fatal(err)
				}
				return all["set up "+blockB]
			}
			var first state.Setback
			tries, said := 0, map[string]bool{}
			for range 4 + 5 {
				before := kept()
				for _, p := range r.pass() {
					if strings.HasPrefix(p, "cannot set up") {
						said[p] = true
					}
				}
				if now := kept(); now.Problem != "" && now.Tried != before.Tried {
					tries++
					if first.Problem == "" {
						first = now
					}
				}
				r.sim.Clock().Advance(time.Minute)
			}
			if !strings.Contains(first.Problem, c.want) || len(said) != 1 || tries < 1 || tries > 2 || kept().Since != first.Since && kept().Problem != "" {
				t.Errorf("%d tries, said %v, kept %+v, want %q", tries, said, first, c.want)
			}
			if c.mend != nil {
				c.mend(r)
			}
			r.passes(20)
			r.expect("when it is out of the way", others+"fence-gpu-a\nfence-gpu-b\ngpu-a "+blockA+" 4 ACTIVE\ngpu-b "+blockB+" 2 ACTIVE\ngpu: gpu-a gpu-b")
			if left := kept(); left.Problem != "" {
				t.Errorf("left is %+v", left)
			}
		})
	}
}

// TestRollOverPermissions: what a roll over calls is in the policy of sync.
func TestRollOverPermissions(t *testing.T) {
	r := newRolling(t, strings.Replace(rollWorld, `pcs_delay = "3m"`, `pcs_delay = "0s"`, 1), rollConfig, 1)
	r.setUp(blockA)
	r.sim.ResetCalls()
	r.passes(2)
	r.goTo(2880.1)
	r.passes(5)
	called := r.sim.CalledBy(os.Getenv("AWS_ACCESS_KEY_ID"))
	if !slices.Contains(called, "pcs:CreateComputeNodeGroup") {
		t.Errorf("it calls %q", called)
	}
	for _, action := range called {
		if !permissions.Allows("sync", action) && action != "sts:GetCallerIdentity" {
			t.Errorf("it calls %s, which the policy of sync does not allow", action)
		}
	}
}
