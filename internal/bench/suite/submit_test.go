package suite

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/hooks/submit"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// emptyFilter and emptySubmit are what a site pays for Lua alone.
const (
	emptyFilter = "function slurm_cli_setup_defaults() return slurm.SUCCESS end\nfunction slurm_cli_pre_submit() return slurm.SUCCESS end\nfunction slurm_cli_post_submit() return slurm.SUCCESS end\n"
	emptySubmit = "function slurm_job_submit() return slurm.SUCCESS end\nfunction slurm_job_modify() return slurm.SUCCESS end\n"
)

// submitWorld is a snapshot with partition gpu and its open block, and others with so many
// blocks.
func submitWorld(others int, old bool) *capacity.Snapshot {
	now := time.Now()
	minutes := func(n int) capacity.Duration { return capacity.Duration{Duration: time.Duration(n) * time.Minute} }
	taken := now
	if old {
		taken = now.Add(-200 * time.Hour)
	}
	snap := &capacity.Snapshot{TakenAt: taken, TimeMinCollapses: true, Region: "us-east-2", DefaultPartition: "static", Submit: capacity.Submit{Strict: true, StaleAfter: minutes(6000)},
		Timing: capacity.Timing{DrainMargin: minutes(10), BootAllowance: minutes(10), ReclaimLead: minutes(30), ReclaimLeadUltraServer: minutes(60)}}
	for i := range others + 1 {
		id, name := fmt.Sprintf("cr-%017x", i+1), "gpu"
		if i > 0 {
			name = fmt.Sprintf("other%d", (i-1)/10)
		}
		snap.Reservations = append(snap.Reservations, capacity.Reservation{ID: id, Kind: capacity.CapacityBlock, State: capacity.StateActive, InstanceType: "p5.48xlarge", Region: "us-east-2",
			AZID: "use2-az1", AZ: "us-east-2a", Total: 4, Available: 4, Platform: "Linux/UNIX", Tenancy: "default", Start: now.Add(-time.Hour), End: now.Add(48 * time.Hour),
			Tags: map[string]string{"team": "nlp", "project": "a block of the benchmark", "aws:ec2capacityreservation:incrementalRequestedQuantity": "4"}})
		if i <= 1 || (i-1)%10 == 0 {
			snap.Partitions = append(snap.Partitions, capacity.Partition{Name: name, Provider: capacity.ProviderEC2, MinTime: minutes(30), Groups: []capacity.NodeGroup{{Name: name, InstanceType: "p5.48xlarge",
				PurchaseOption: capacity.CapacityBlock, MaxNodes: 4, GPUs: 8, Subnets: []capacity.Subnet{{ID: "subnet-0a1", AZID: "use2-az1", AZ: "us-east-2a"}}, Slots: []capacity.Slot{{Name: name}}}}})
		}
		slot := &snap.Partitions[len(snap.Partitions)-1].Groups[0].Slots[0]
		slot.ReservationIDs = append(slot.ReservationIDs, id)
	}
	return snap
}

// submission is a kind of sbatch that is measured.
type submission struct {
	name string
	old  bool   // the snapshot is
	conf string // SLURM_CONF
	args []string
	took []time.Duration
}

// age is how the table says that the snapshot is old.
func (s *submission) age() string {
	if s.old {
		return ", old snapshot"
	}
	return ""
}

func (s *submission) run(b *testing.B, refused bool) {
	b.Helper()
	cmd := exec.Command("sbatch", append([]string{"-H", "-o", "/dev/null", "--wrap", "true"}, s.args...)...)
	cmd.Env = []string{"SLURM_CONF=" + s.conf, "PATH=/usr/bin:/bin", "USER=root", "HOME=/"}
	began := time.Now()
	out, err := cmd.CombinedOutput()
	s.took = append(s.took, time.Since(began))
	if (err != nil) != refused || !refused && !strings.Contains(string(out), "Submitted batch job ") {
		b.Fatalf("%s: %v: %s", s.name, err, out)
	}
}

// interleave submits in random order, so that the machine's mood hits all alike.
func interleave(b *testing.B, turns int, all []*submission) {
	b.Helper()
	for range turns {
		for _, i := range rand.Perm(len(all)) {
			all[i].run(b, strings.HasPrefix(all[i].name, "refused"))
		}
	}
}

var kinds = map[string][]string{
	"not managed":           {"-p", "static", "-t", "60"},
	"fits":                  {"-p", "gpu", "-N2", "-t", "60"},
	"fits" + withGPUs:       {"-p", "gpu", "-N2", "-t", "60", "--gres=gpu:8", "--ntasks-per-node=8"},
	"limit fitted":          {"-p", "gpu", "-N2"},
	"refused":               {"-p", "gpu", "-N2", "-t", "30-0"},
	"fits, --begin":         {"-p", "gpu", "-N2", "-t", "60", "-b", "now+1hour"},
	"fits, --gpus":          {"-p", "gpu", "-t", "60", "--gpus=16"},
	"refused, --begin":      {"-p", "gpu", "-N2", "-t", "30-0", "-b", "now+1hour"},
	"refused, 9 nodes":      {"-p", "gpu", "-N9", "-t", "60"},
	"judged by the filter":  {"-p", "gpu", "-N2", "-t", "60", "--comment=capacity=any"},
	"refused by the filter": {"-p", "gpu", "-N2", "-t", "30-0", "--comment=capacity=any"},
}

// Those of kindNames that are measured with an old snapshot, and then all.
var (
	oldNames  = []string{"not managed", "fits", "fits" + withGPUs, "limit fitted", "refused"}
	kindNames = append(oldNames[:len(oldNames):len(oldNames)], "fits, --begin", "fits, --gpus", "refused, --begin", "refused, 9 nodes", "judged by the filter", "refused by the filter")
)

// withGPUs ends the names of what names GPUs, which costs sbatch itself.
const withGPUs = ", with GPUs"

// empties are the jobs that fit, with an empty script.
func empties(conf string) []*submission {
	return []*submission{{name: "empty", conf: conf, args: kinds["fits"]}, {name: "empty" + withGPUs, conf: conf, args: kinds["fits"+withGPUs]}}
}

// emptyFor is the one of them that a submission is measured beside.
func emptyFor(all []*submission, s *submission) *submission {
	name := "empty"
	if strings.HasSuffix(s.name, withGPUs) {
		name += withGPUs
	}
	return all[slices.IndexFunc(all, func(s *submission) bool { return s.name == name })]
}

// BenchmarkSubmit times sbatch with the two Lua shims, in units of sbatch with an empty Lua
// script in the same place.
func BenchmarkSubmit(b *testing.B) {
	turns, rounds := size(300, 1), size(10, 1)
	filter := build(b, "cmd/pcs-capacity-filter")
	t := newTable("submit", "where", "job", "reservations", "sbatch ms", "over an empty script", "RPC ms in slurmctld", "RPC over an empty script")
	lab := func(change func(*slurmlab.Config)) *slurmlab.Cluster {
		cfg := slurmlab.Config{Dir: filepath.Join(shortDir(b), "lab"), CloudGroups: []slurmlab.NodeGroup{{Prefix: "gpu-", Count: 4, Partition: "gpu"}},
			Extra: []string{"SchedulerParameters=default_queue_depth=1,bf_interval=600", "PrologSlurmctld=/bin/true", "MaxJobCount=100000"}}
		change(&cfg)
		cluster, err := slurmlab.Start(b.Context(), cfg)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := cluster.Stop(); err != nil {
				b.Error(err)
			}
		})
		return cluster
	}
	for _, reservations := range []int{9, 499} {
		if small && reservations > 9 {
			break
		}
		dir, oldDir := state.Dir(shortDir(b)), state.Dir(shortDir(b))
		if err := errors.Join(dir.WriteSnapshot(submitWorld(reservations, false)), oldDir.WriteSnapshot(submitWorld(reservations, true))); err != nil {
			b.Fatal(err)
		}
		// The filter of sbatch is that of the slurm.conf that it reads: one slurmctld serves all.
		plain := lab(func(*slurmlab.Config) {})
		conf := func(cluster *slurmlab.Cluster, name, script string) string {
			folder := filepath.Join(filepath.Dir(cluster.Conf()), name)
			text, err := os.ReadFile(cluster.Conf())
			if err != nil {
				b.Fatal(err)
			}
			if err := os.MkdirAll(folder, 0o755); err != nil {
				b.Fatal(err)
			}
			for file, text := range map[string]string{"slurm.conf": string(text) + "\nCliFilterPlugins=lua\n", "cli_filter.lua": script} {
				if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o644); err != nil {
					b.Fatal(err)
				}
			}
			return filepath.Join(folder, "slurm.conf")
		}
		ours := conf(plain, "ours", submit.CLIFilter(dir.PlanPath(), string(dir), filter))
		all := []*submission{{name: "no filter", conf: plain.Conf(), args: kinds["not managed"]}}
		all = append(all, empties(conf(plain, "empty", emptyFilter))...)
		for _, kind := range kindNames {
			all = append(all, &submission{name: kind, conf: ours, args: kinds[kind]})
		}
		old := conf(plain, "old", submit.CLIFilter(oldDir.PlanPath(), string(oldDir), filter))
		for _, kind := range oldNames {
			all = append(all, &submission{name: kind, old: true, conf: old, args: kinds[kind]})
		}
		interleave(b, turns, all)
		for _, s := range all {
			t.add("cli_filter"+s.age(), s.name, reservations+1, float64(median(s.took).Microseconds())/1000, ratio(median(s.took), median(emptyFor(all, s).took)), "", "")
		}
		if reservations > 9 {
			continue
		}

		// job_submit: a slurmctld for each script.
		nothing := lab(func(c *slurmlab.Config) { c.JobSubmitLua = emptySubmit })
		js := lab(func(c *slurmlab.Config) { c.JobSubmitLua = submit.JobSubmit(dir.PlanPath(), string(dir), filter) })
		all = empties(nothing.Conf())
		for _, kind := range kindNames {
			all = append(all, &submission{name: kind, conf: js.Conf(), args: kinds[kind]})
		}
		jsOld := lab(func(c *slurmlab.Config) { c.JobSubmitLua = submit.JobSubmit(oldDir.PlanPath(), string(oldDir), filter) })
		for _, kind := range oldNames {
			all = append(all, &submission{name: kind, old: true, conf: jsOld.Conf(), args: kinds[kind]})
		}
		measure := func(where string) {
			interleave(b, turns, all)
			rpc := map[*submission][]float64{}
			for range rounds {
				for _, i := range rand.Perm(len(all)) {
					rpc[all[i]] = append(rpc[all[i]], rpcTime(b, all[i], turns/rounds))
				}
			}
			for _, s := range all {
				empty := emptyFor(all, s)
				mine, its := median(rpc[s]), median(rpc[empty])
				t.add(where+s.age(), s.name, reservations+1, float64(median(s.took).Microseconds())/1000, ratio(median(s.took), median(empty.took)), mine, mine/its)
			}
		}
		measure("job_submit")
		// Both: what cli_filter.lua has judged passes job_submit.lua.
		all = empties(conf(nothing, "empty", emptyFilter))
		for _, kind := range kindNames[:4] { // what is refused does not come so far
			all = append(all, &submission{name: kind, conf: conf(js, "ours", submit.CLIFilter(dir.PlanPath(), string(dir), filter)), args: kinds[kind]})
		}
		measure("both")
		clients(b, t, nothing.Conf(), js.Conf())
	}
	t.keep(b)
}

var submitRPC = regexp.MustCompile(`REQUEST_SUBMIT_BATCH_JOB\s.*ave_time:(\d+)`)

// rpcTime is what slurmctld says that it spends on one such submission, in ms.
func rpcTime(b *testing.B, s *submission, turns int) float64 {
	b.Helper()
	sdiag := func(args ...string) string {
		cmd := exec.Command("sdiag", args...)
		cmd.Env = []string{"SLURM_CONF=" + s.conf, "PATH=/usr/bin:/bin"}
		out, err := cmd.CombinedOutput()
		if err != nil {
			b.Fatalf("sdiag: %v: %s", err, out)
		}
		return string(out)
	}
	sdiag("--reset")
	for range turns {
		s.run(b, strings.HasPrefix(s.name, "refused"))
	}
	found := submitRPC.FindStringSubmatch(sdiag())
	if found == nil {
		b.Fatal("sdiag shows no submissions")
	}
	microseconds, err := strconv.Atoi(found[1])
	if err != nil {
		b.Fatal(err)
	}
	return float64(microseconds) / 1000
}

// clients lets 8 of them submit 200 jobs at once.
func clients(b *testing.B, t *table, empty, ours string) {
	b.Helper()
	crowd := func(conf string) time.Duration {
		done := make(chan *submission)
		began := time.Now()
		for range 8 {
			go func() {
				s := &submission{name: "fits", conf: conf, args: kinds["fits"]}
				for range size(25, 1) {
					s.run(b, false)
				}
				done <- s
			}()
		}
		for range 8 {
			<-done
		}
		return time.Since(began)
	}
	var without, with []time.Duration
	for range size(5, 1) {
		without, with = append(without, crowd(empty)), append(with, crowd(ours))
	}
	slices.Sort(with)
	t.add("job_submit", "200 that fit, by 8 clients", 10, float64(median(with).Microseconds())/1000, ratio(median(with), median(without)), "", "")
}
