//go:build !race

package submit

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// shim runs the shims' own code in a Lua of its own, without Slurm.
type shim struct {
	t   testing.TB
	in  *bufio.Writer
	out *bufio.Scanner
}

// driver reads "plan HEX" and "job NOW NAME=HEX …", or NAME#HEX for a number, a line each; it
// answers what the scripts say of a job by themselves, as the filter's answer on one line.
const driver = `
local function answer_of(job, plan, now)
  if not concerns_us(job, plan) then return "end;" end
  local ok, answer = pcall(decide, fields_of(job), plan, now)
  if not ok then return "raises " .. answer end
  if not answer then return "asks" end
  local line = ""
  for _, warning in ipairs(answer.warnings) do line = line .. "warn " .. hex(warning) .. ";" end
  if answer.refusal then
    line = line .. "code " .. answer.code .. ";refuse " .. hex(answer.refusal) .. ";"
  end
  for _, field in ipairs({ "time", "time-min" }) do
    local value = answer.set[field]
    if value then
      line = line .. "set " .. field .. " " .. hex(value) .. ";"
      answer.set[field] = nil
    end
  end
  assert(not next(answer.set))
  return line .. "end;"
end
local plan
for line in io.lines() do
  local word, rest = line:match("^(%l+) (.*)$")
  if word == "plan" then
    plan = unhex(rest)
    print("ready")
  else
    local job = {}
    for name, kind, value in rest:gmatch("([%l-]+)([=#])(%x*)") do
      job[name] = unhex(value)
      if kind == "#" then job[name] = tonumber(job[name]) end
    end
    print(answer_of(job, plan, tonumber(rest:match("^%d+"))))
  end
  io.stdout:flush()
end
`

func newShim(t testing.TB, lua, zone string) *shim {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shim.lua")
	if err := os.WriteFile(path, []byte(script("-- @JUDGE@\n"+driver, "", "", "")), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(lua, path)
	cmd.Env = append(os.Environ(), "TZ="+zone)
	in, lines := talk(t, cmd)
	return &shim{t, bufio.NewWriter(in), lines}
}

// talk starts a program that answers each line with one, until the test ends.
func talk(t testing.TB, cmd *exec.Cmd) (io.Writer, *bufio.Scanner) {
	t.Helper()
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	return in, bufio.NewScanner(out)
}

func (s *shim) ask(line string) string {
	s.t.Helper()
	fmt.Fprintln(s.in, line)
	if err := s.in.Flush(); err != nil {
		s.t.Fatal(err)
	}
	if !s.out.Scan() {
		s.t.Fatalf("no answer to %s", line)
	}
	return s.out.Text()
}

// answer is what the shim says of a job by itself, as the filter would; "asks" if it asks that.
func (s *shim) answer(fields map[string]string, now time.Time) string {
	s.t.Helper()
	line := fmt.Sprintf("job %d", now.Unix())
	for name, value := range fields {
		kind := "="
		if _, err := strconv.ParseInt(value, 10, 64); err == nil && fields["from"] != "cli_filter" {
			kind = "#" // slurmctld has numbers where sbatch has texts
		}
		line += fmt.Sprintf(" %s%s%x", name, kind, value)
	}
	return strings.ReplaceAll(s.ask(line), ";", "\n")
}

// randomWorld is a snapshot with partitions of all kinds.
func randomWorld(r *rand.Rand, now time.Time) *capacity.Snapshot {
	one := func(of ...time.Duration) time.Duration { return of[r.IntN(len(of))] }
	snap := &capacity.Snapshot{TakenAt: now.Add(-one(time.Second, time.Second, time.Minute, time.Hour, 10*time.Minute, 10*time.Minute-time.Second)),
		ClockOffset: capacity.Duration{Duration: one(0, -3500*time.Millisecond, 90*time.Second, -60500*time.Millisecond)},
		Submit:      capacity.Submit{Strict: r.IntN(4) > 0, StaleAfter: capacity.Duration{Duration: 10 * time.Minute}}, TimeMinCollapses: r.IntN(2) == 0, NoRequeue: r.IntN(2) == 0,
		Timing: capacity.Timing{DrainMargin: capacity.Duration{Duration: 10 * time.Minute}, BootAllowance: capacity.Duration{Duration: one(0, 10*time.Minute)},
			ReclaimLead: capacity.Duration{Duration: 30 * time.Minute}}}
	if r.IntN(2) == 0 {
		snap.DefaultPartition = "p0"
	}
	if r.IntN(4) == 0 {
		snap.Walls = capacity.NewWalls([]capacity.QOSWall{{Name: "normal", MaxWall: capacity.Minutes(120)}},
			[]capacity.Association{{Account: "nlp", MaxWall: capacity.Minutes(2000)}, {Account: "nlp", User: "alice", MaxWall: capacity.Minutes(15), Metered: r.IntN(2) == 0}}, map[string]string{"alice": "nlp"})
		snap.Walls.QOS = snap.Walls.QOS[:r.IntN(2)]
	}
	serial := 0
	for i := range 1 + r.IntN(3) {
		p := capacity.Partition{Name: fmt.Sprintf("p%d", i), Provider: []capacity.Provider{capacity.ProviderEC2, capacity.ProviderPCS}[r.IntN(2)], MinTime: capacity.Duration{Duration: one(30*time.Minute, 90*time.Second)}}
		if r.IntN(3) == 0 {
			p.MaxTime = []capacity.Limit{capacity.NoLimit, capacity.Minutes(10), capacity.Minutes(600), capacity.Minutes(0)}[r.IntN(4)]
		}
		if r.IntN(3) == 0 {
			p.AllowAccounts = []string{"nlp", "Vision"}
		}
		for g := range 1 + r.IntN(5)/4 {
			group := capacity.NodeGroup{Name: fmt.Sprintf("%s-g%d", p.Name, g), InstanceType: "p5.48xlarge", PurchaseOption: capacity.CapacityBlock, MaxNodes: r.IntN(4) * 3, GPUs: r.IntN(2) * 8, CPUs: r.IntN(2) * 192, Dynamic: r.IntN(2) == 0,
				Subnets: []capacity.Subnet{{ID: "subnet-0a1", AZID: "use2-az1", AZ: "us-east-2a"}}}
			if r.IntN(6) == 0 {
				group.PurchaseOption = capacity.OnDemand
			}
			slot := capacity.Slot{Name: group.Name}
			if r.IntN(4) > 0 {
				slot.Nodes = group.Name + "-[1-9]"
			}
			if r.IntN(5) == 0 {
				slot.Feature = group.Name
			}
			for range r.IntN(4) {
				if group.PurchaseOption == capacity.OnDemand {
					break
				}
				serial++
				res := capacity.Reservation{ID: fmt.Sprintf("cr-%017x", serial), Kind: capacity.CapacityBlock, InstanceType: "p5.48xlarge", Region: "us-east-2", AZID: "use2-az1", AZ: "us-east-2a",
					State: []capacity.State{capacity.StateActive, capacity.StateActive, capacity.StateActive, capacity.StateScheduled, "expired"}[r.IntN(5)],
					Total: 1 + r.IntN(8), Platform: "Linux/UNIX", Tenancy: "default", Start: now.Add(one(-48*time.Hour, -time.Minute, -time.Minute, time.Minute, 24*time.Hour, 39*time.Minute-24*time.Hour, 41*time.Minute-24*time.Hour))}
				res.Available = res.Total
				if r.IntN(4) == 0 {
					res.InstanceType = "p4d.24xlarge"
				}
				if r.IntN(5) > 0 {
					res.End = res.Start.Add(one(24*time.Hour, 49*time.Hour, 14*24*time.Hour))
				} else {
					group.PurchaseOption, res.Kind = capacity.ODCR, capacity.ODCR
				}
				if r.IntN(4) == 0 {
					res.Unhealthy = r.IntN(res.Total + 1)
				}
				slot.ReservationIDs = append(slot.ReservationIDs, res.ID)
				if r.IntN(8) > 0 { // else EC2 does not know it
					snap.Reservations = append(snap.Reservations, res)
				}
			}
			if len(slot.ReservationIDs) > 0 && r.IntN(8) == 0 {
				slot.Holds = slot.ReservationIDs[0]
				slot.Unnamed = r.IntN(2) == 0
			}
			group.Slots = []capacity.Slot{slot}
			p.Groups = append(p.Groups, group)
		}
		snap.Partitions = append(snap.Partitions, p)
	}
	return snap
}

// randomJob is what a shim tells of a job; mostly of the common kind.
func randomJob(r *rand.Rand, now time.Time) map[string]string {
	fields := map[string]string{"from": []string{"cli_filter", "job_submit"}[r.IntN(2)]}
	odd := r.IntN(3) == 0
	set := func(name string, often int, values ...string) {
		if r.IntN(10) < often {
			fields[name] = values[r.IntN(len(values))]
		}
	}
	if !odd { // as most jobs are
		set("partition", 9, "p0", "p0", "p1", "p0,p1")
		set("account", 5, "nlp", "vision")
		set("comment", 3, "night run 7", strings.Repeat("x", 1024), "on_end=stop", "on_end=requeue", "capacity=reserve", "instance_type=p4de.24xlarge", "on_end=hold,run=3", fmt.Sprintf("capacity_reservation_id=cr-%017x", 1+r.IntN(3)), fmt.Sprintf("run capacity_reservation_id=cr-%017x", 1+r.IntN(3)))
		set("time", 5, "0", "1", "60", "02:30:00", "1-00:00:00", "300", "2-00:00:00", "14-00:00:00")
		set("nodes", 5, "1", "2", "4", "12")
		set("requeue", 5, "unset", "requeue", "1", "65534", "0", "invalid-context")
		set("gpus", 1, "8", "20", "h100:64")
		set("cpus-per-task", 2, "0", "12", "24")
		if set("gpus-per-task", 1, "1", "3", "16"); fields["gpus-per-task"] != "" {
			set("ntasks", 8, "4", "16", "30")
		}
		set("gpus-per-node", 5, "8", "h100:8", "9")
		if r.IntN(5) == 0 {
			set("nodelist", 3, "p0-g0-1", "p0-g0-9", "p1-g0-9", "")
			set("exclude", 3, "p0-g0-[1-9]", "p0-g0-[1-2]", "p1-g0-[1-8]", "")
		}
		if fields["from"] == "cli_filter" { // as sbatch shows what is not set
			if fields["ntasks"] == "" {
				fields["ntasks"] = "1"
			}
			set("ntasks-per-node", 10, "-2", "8")
			set("time-min", 10, "2982616-04:14:00", "")
			set("begin", 10, "Unknown")
			set("deadline", 10, "Unknown")
			if minutes, err := strconv.Atoi(fields["time"]); err == nil {
				fields["time"] = asShown(minutes)
			}
		}
		if r.IntN(5) == 0 {
			begin := now.Add([]time.Duration{-time.Hour, 0, time.Second, time.Minute, 3 * time.Hour, 24 * time.Hour, 30 * 24 * time.Hour}[r.IntN(7)])
			fields["begin"] = strconv.FormatInt(begin.Unix(), 10)
			if fields["from"] == "cli_filter" {
				fields["begin"] = begin.In(time.Local).Format("2006-01-02T15:04:05")
			}
		}
		return fields
	}
	set("partition", 9, "p0", "p0", "p0", "p1", "p2", "p0,p1", "cpu", "p0\nfits", "p0,", "p0\npartition p1", "p0 ")
	set("account", 4, "nlp", "vision", "Vision", "physics", "nlp,Vision", "-", "")
	set("requeue", 3, "unset", "requeue", "no-requeue", "invalid-context")
	set("comment", 3, "", "night run 7", "my_run", "on_end requeue", "run ON_END", "x=1", "capacity=any", "instance_type=p5.48xlarge", "capacity_reservation_id=cr-0", "Subnet_ID=x", "on_end=hold",
		"capacity_reservation_id=cr-00000000000000001", "\x00\xff\n=")
	set("time", 9, "60", "1", "1-00:00:00", "02:30:00", "2-12", "90:30", "47:59:59", "1000000", "0", "65534", "4294967294", "4294967295", "2982616-04:14:00", "13-23:50:00", "1439", "1380", "1370", "00:00:00", "123:00:00", "12345-00:00:00", "45-12:14:00", "UNLIMITED", "300", "23:29:30")
	set("time-min", 2, "30", "0", "4294967294", "2982616-04:14:00", "1-00:00:00", "60", "65534")
	set("begin", 1, "0", "Unknown", "2026-11-22T10:00:00", "1795400000", "now+1hour")
	set("deadline", 1, "Unknown", "2026-11-22T10:00:00", "1795400000")
	set("nodes", 6, "1", "2", "4", "8", "12", "1-0", "2-4", "1k", "65534", "4294967294", "3-10", "10-0", "0")
	set("ntasks", 4, "1", "8", "16", "64", "65534", "4294967294", "10000")
	set("ntasks-per-node", 4, "1", "8", "0", "65534", "-2", "-2")
	set("gpus", 1, "8", "16", "h100:4", "gres:gpu:8", "gres/gpu:16")
	set("gpus-per-node", 3, "8", "h100:8", "9", "gpu:8", "gres:gpu:8", "gres/gpu:h100:9", "4,a100:4", "1k", "gres:gpu", "h100")
	set("gpus-per-task", 1, "1", "8", "0", "cpu=24", "cpu=24,gres/gpu=1", "cpu:4,gres/gpu:h100:2")
	set("tres-per-task", 1, "cpu:4", "gres/gpu:8", "cpu:4,gres/gpu:h100:2", "license/gpu:3")
	set("cpus-per-task", 3, "0", "24", "65534", "193", "96")
	set("overcommit", 1, "set", "unset")
	set("gres", 2, "gpu:8", "gpu:h100:9", "gpu:8,shard:2", "nvme:1", "gpu", "gres:gpu:16", "GPU:8")
	set("constraint", 1, "a", "p0-g0")
	set("qos", 1, "normal")
	set("user", 8, "alice")
	set("nodelist", 1, "p0-g0-1", "p0-g0-9", "p1-g0-[8-9]", "cpu-1")
	set("exclude", 1, "p0-g0-1", "p0-g0-[1-9]", "p1-g0-[1-8]", "cpu-1")
	return fields
}

// asShown is a time limit as sbatch shows it to its filter.
func asShown(minutes int) string {
	clock := fmt.Sprintf("%02d:%02d:00", minutes/60%24, minutes%60)
	if minutes < 24*60 {
		return clock
	}
	return fmt.Sprintf("%d-%s", minutes/24/60, clock)
}

// justFits makes a job need as long as some room of the snapshot has, or a minute more or less.
func justFits(r *rand.Rand, fields map[string]string, snap *capacity.Snapshot, now time.Time) {
	all := capacity.Quicks(snap)
	if len(all) == 0 {
		return
	}
	fit := all[r.IntN(len(all))]
	room := fit.Rooms[r.IntN(len(fit.Rooms))]
	from := room.From
	if from.Before(now) {
		from = now
	}
	if minutes := int(room.Last.Sub(from)/time.Minute) + r.IntN(3) - 1; minutes > 0 {
		fields["partition"], fields["time"] = fit.Partition, strconv.Itoa(minutes)
		if fields["from"] == "cli_filter" {
			fields["time"] = asShown(minutes)
		}
		if r.IntN(4) == 0 { // the filter has fitted it before
			fields["time-min"], fields["time"] = "31", "14-00:00:00"
		}
	}
}

// Whatever the Lua shims say by themselves, Admit says too, with the same edits or the same
// words, in any zone, and without a warning; and of what Admit says so, they say much. A job
// that they have edited fits as it is wherever it passes next.
func TestLuaSaysWhatAdmitSays(t *testing.T) {
	const requests = 10_000
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	zones := []string{"UTC", "America/New_York", "Asia/Kolkata"}
	var shims []*shim
	for i := range len(luas) * len(zones) {
		shims = append(shims, newShim(t, luas[i%len(luas)], zones[i%len(zones)]))
	}
	here := time.Local
	defer func() { time.Local = here }()
	var s *shim
	dir := state.Dir(t.TempDir())
	var snap *capacity.Snapshot
	const asIs = "end\n"
	kind := func(answer string) string {
		word, _, _ := strings.Cut(answer, " ")
		if word == "code" {
			word, _, _ = strings.Cut(answer, "\n")
		}
		return strings.TrimSpace(word)
	}
	lua, admit := map[string]int{}, map[string]int{}
	now := time.Now().Truncate(time.Second)
	// Random worlds differ: the test goes on until the shims have decided enough to mean something.
	least := map[string]int{
		"end":                 requests / 50,
		"set":                 requests / 500,
		"code too-long":       requests / 1000,
		"code too-many-nodes": requests / 1000,
		"warn":                requests / 1000,
	}
	enough := func() bool {
		for says, number := range least {
			if lua[says] < number {
				return false
			}
		}
		return !slices.ContainsFunc(capacity.Codes, func(m capacity.Meaning) bool { return m.Slurm != "" && admit["code "+string(m.Code)] == 0 })
	}
	for i := 0; i < requests || i < 5*requests && !enough(); i++ {
		if i%100 == 0 {
			s = shims[i/100%len(shims)]
			zone, err := time.LoadLocation(zones[i/100%len(shims)%len(zones)])
			if err != nil {
				t.Fatal(err)
			}
			time.Local = zone
			if err := dir.WriteSnapshot(randomWorld(r, now)); err != nil {
				t.Fatal(err)
			}
			written, err := os.ReadFile(dir.PlanPath())
			if err != nil {
				t.Fatal(err)
			}
			if snap, err = dir.ReadSnapshot(); err != nil {
				t.Fatal(err)
			}
			if answer := s.ask(fmt.Sprintf("plan %x", written)); answer != "ready" {
				t.Fatalf("%s: %s", answer, written)
			}
		}
		fields := randomJob(r, now)
		if i%4 == 0 {
			justFits(r, fields, snap, now.Add(snap.ClockOffset.Duration))
		}
		name := fields["partition"]
		if name == "" {
			name = snap.DefaultPartition
		}
		if _, ours := snap.Partition(name); !ours {
			continue // the shims let it through, or not, by another rule
		}
		admits := func(at time.Time) string {
			req, err := Request(fields)
			if err != nil {
				return "unchecked"
			}
			says := answerText(Verdict(req, fields["from"], snap, at))
			if slice := snap.Slice(name); i%2 == 0 && slice.Decides(req) {
				if answer := answerText(Verdict(req, fields["from"], slice, at)); answer != says {
					t.Fatalf("the slice says of %q\n%s; the snapshot\n%s", fields, answer, says)
				}
			}
			return says
		}
		// The filter starts within the second that Lua sees: what must fit does so all the
		// time, and a limit is that of its end.
		late := admits(now.Add(time.Second))
		admit[kind(late)]++
		says := s.answer(fields, now)
		if strings.HasPrefix(says, "raises") {
			t.Fatalf("the scripts, of %q: %s", fields, says)
		}
		if says == "asks" {
			continue
		}
		lua[kind(says)]++
		early := now.Add(time.Duration(r.Int64N(int64(time.Second))))
		if says != late || kind(says) != "set" && kind(admits(early)) != kind(says) {
			written, _ := os.ReadFile(dir.PlanPath())
			t.Fatalf("the shims say of %q\n%s; the filter\n%s and a moment before\n%s, at %d by the plan\n%s", fields, says, late, admits(early), now.Unix(), written)
		}
		if !strings.Contains(says, "set ") {
			continue
		}
		stated, _ := capacity.ParseLimit(fields["time"])
		// job_submit.lua is told the account.
		for line := range strings.Lines(says) {
			if set, ours := strings.CutPrefix(line, "set "); ours {
				field, value, _ := strings.Cut(strings.TrimSpace(set), " ")
				plain, err := hex.DecodeString(value)
				if err != nil {
					t.Fatal(err)
				}
				fields[field] = string(plain)
			}
		}
		fields["from"] = "job_submit"
		for _, field := range []string{"gpus", "gpus-per-node", "gpus-per-task"} {
			if value := fields[field]; value != "" && !strings.Contains(value, "pu") {
				fields[field] = "gres:gpu:" + value // as slurmctld shows it
			}
		}
		p, _ := snap.Partition(name)
		if len(p.AllowAccounts) > 0 {
			fields["account"] = p.AllowAccounts[0]
		}
		if stated.Bounded() {
			t.Fatalf("a limit of %s became %s", stated, fields["time"])
		}
		if again := s.answer(fields, now); again != asIs && !strings.HasPrefix(again, "warn ") {
			t.Fatalf("the shims say of %q, which they have edited, %s", fields, again)
		}
	}
	for says, least := range least {
		t.Logf("%d requests: of %d Admit says %q, of which the shims decide %d", requests, admit[says], says, lua[says])
		// Of the warnings the shims decide about one in 60; whole worlds leave theirs to the filter.
		if lua[says] < least || lua[says] < admit[says]/100 {
			t.Error("the shims decide too little for this to mean something")
		}
	}
	for _, m := range capacity.Codes {
		if m.Slurm != "" && admit["code "+string(m.Code)] == 0 {
			t.Errorf("no job was refused as %s, so nobody knows what the scripts do with one: have randomJob and randomWorld make some", m.Code)
		}
	}
}

// What the random jobs of [TestLuaSaysWhatAdmitSays] meet too rarely.
func TestLuaLeavesEdgesToTheFilter(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	failed := func(hosts int) func(s *capacity.Snapshot) {
		return func(s *capacity.Snapshot) { s.Reservations[0].Unhealthy = hosts }
	}
	for name, c := range map[string]struct {
		job    map[string]string
		age    time.Duration
		change func(*capacity.Snapshot)
		want   string
	}{
		"fits":                      {job: map[string]string{"time": "599"}, want: "end\n"},
		"fits for this second only": {job: map[string]string{"time": "600"}, want: "asks"},
		"gets old in this second":   {job: map[string]string{"time": "601"}, age: 10 * time.Hour, want: "asks"},
		// 5 nodes
		"GPUs keep tasks apart": {job: map[string]string{"time": "60", "gpus-per-task": "3", "ntasks": "10", "ntasks-per-node": "8"}, want: "asks"},
		"on hosts that work":    {job: map[string]string{"time": "599", "nodes": "2"}, change: failed(2), want: "end\n"},
		"hosts have failed":     {job: map[string]string{"time": "599", "nodes": "2"}, change: failed(3), want: "asks"},
		"its own --time-min":    {job: map[string]string{"time": "660", "time-min": "630"}, want: "asks"},
		"so, but on 4 nodes":    {job: map[string]string{"time": "60", "gpus-per-task": "3", "ntasks": "8", "ntasks-per-node": "8"}, want: "end\n"},
	} {
		snap := hookstest.Snapshot(now)
		snap.TakenAt = now.Add(-c.age)
		if c.change != nil {
			c.change(snap)
		}
		dir := state.Dir(t.TempDir())
		if err := dir.WriteSnapshot(snap); err != nil {
			t.Fatal(err)
		}
		plan, err := os.ReadFile(dir.PlanPath())
		if err != nil {
			t.Fatal(err)
		}
		c.job["from"], c.job["partition"] = "cli_filter", "gpu"
		for _, lua := range luas {
			s := newShim(t, lua, "UTC")
			s.ask(fmt.Sprintf("plan %x", plan))
			got := s.answer(c.job, now)
			if strings.HasPrefix(got, "code ") {
				got = "refuses"
			}
			if got != c.want {
				t.Errorf("%s, %s: %q, want %q", name, lua, got, c.want)
			}
		}
	}
}
