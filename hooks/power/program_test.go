package power

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Whose credentials a hook has is written down, if they say it.
func TestHookKeepsItsAccount(t *testing.T) {
	for key, value := range map[string]string{
		"AWS_ACCESS_KEY_ID":     "AKIDEXAMPLE",
		"AWS_SECRET_ACCESS_KEY": "secret",
		"AWS_ACCOUNT_ID":        "444455556666",
	} {
		t.Setenv(key, value)
	}

	s := NewHook(nil, state.Dir(t.TempDir()), capacity.Settings{}, "", "", slog.New(slog.DiscardHandler))

	aws, err := ec2.New(t.Context(), ec2.Options{Region: "us-east-2"})
	if err != nil {
		t.Fatal(err)
	}

	s.keepAccess(t.Context(), aws)

	if last, err := s.State.Hook().Read(); err != nil ||
		*last != (state.HookAccess{Account: "444455556666", Source: "EnvConfigCredentials"}) {
		t.Errorf("%+v, %v", last, err)
	}
}

// Where slurmctld does not answer, a hook has the mark that an earlier one has kept, and without one none.
func TestHookKnowsItsMarkWithoutSlurmctld(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "scontrol"), []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}

	t.Setenv("PATH", dir)

	aws, err := ec2.New(t.Context(), ec2.Options{Region: "us-east-2"})
	if err != nil {
		t.Fatal(err)
	}

	s := NewHook(nil, state.Dir(t.TempDir()), capacity.Settings{}, "", "", slog.New(slog.DiscardHandler))
	s.connect(aws)

	if mark, _, err := s.describeCluster(t.Context()); err == nil {
		t.Errorf("without an earlier hook: %q", mark)
	}

	if err := s.State.KeptMark().Save("ml/1"); err != nil {
		t.Fatal(err)
	}

	if mark, timeout, err := s.describeCluster(t.Context()); err != nil || mark != "ml/1" ||
		timeout != defaultResumeTimeout {
		t.Errorf("%q, %s, %v", mark, timeout, err)
	}
}

// The last line of a call has all that came of it, R12's code of EC2 among it.
func TestLastLineOfACall(t *testing.T) {
	for want, failure := range map[string]error{
		`level=INFO msg="power up: done" nodes=gpu-[1-2] jobs="[7 8]" reservations=[cr-1] instances="[i-1 i-2]" ` +
			`codes="[no-room ok]" aws_codes="[ReservationCapacityExceeded Throttling]" aws_request_ids=[r-1]`: nil,
		`level=ERROR msg="power up: failed; look" nodes=gpu-[1-2] jobs="[7 8]" reservations=[cr-1] instances="[i-1 ` +
			`i-2]" codes="[no-room ok]" aws_codes="[ReservationCapacityExceeded Throttling]" aws_request_ids=[r-1] ` +
			`err=cut`: errors.New("cut"),
	} {
		var log strings.Builder

		j := &journal{
			what: "power up",
			list: "gpu-[1-2]",
			Logger: slog.New(
				slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
					if a.Key == "time" || a.Key == "ms" {
						return slog.Attr{}
					}
					return a
				}}),
			),
		}
		j.logCall(ec2.Call{RequestID: "r-1", Code: "Throttling"})
		(&Hook{World: adapters{Dir: state.Dir(t.TempDir())}, journal: j}).record(
			[]state.Record{
				{Jobs: []string{"8"}, Reservation: "cr-1", Code: "ok", Instances: []string{"i-2", "i-1"}},
				{Jobs: []string{"7", "8"}, Code: "no-room", EC2Code: "ReservationCapacityExceeded"},
			}...)

		status := j.finish(failure, "; look")
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if last := lines[len(lines)-1]; last != want || (status == 0) != (failure == nil) {
			t.Errorf("%d:\n%s\nwant\n%s", status, last, want)
		}
	}
}

// The program that the site had gets the nodes that are not ours, in the environment that Slurm
// made; ours are left for us.
func TestSitesProgramGetsItsNodes(t *testing.T) {
	dir := t.TempDir()
	said := filepath.Join(dir, "said")
	theirs := filepath.Join(dir, "resume.py")
	t.Setenv("SLURM_CONF", filepath.Join(dir, "slurm.conf"))
	t.Setenv("SLURM_RESUME_FILE", "/proc/1/fd/9")

	for path, text := range map[string]string{
		theirs: "#!/bin/sh\necho \"$1 $SLURM_RESUME_FILE $AWS_PROFILE\" >>" + said +
			"\n[ \"$1\" != aws-9 ]\n",
		filepath.Join(dir, slurm.IncludeFile): "# ours\n" + slurm.SiteLine("ResumeProgram", theirs),
	} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}

	settings := capacity.Settings{Partitions: []capacity.PartitionSettings{
		{
			Name: "gpu", Provider: capacity.ProviderEC2,
			Groups: []capacity.GroupSettings{{Name: "gpu", MaxNodes: 4, Slots: 1}},
		},
		{Name: "lent", Provider: capacity.ProviderNone, Groups: []capacity.GroupSettings{{Name: "lent", MaxNodes: 4}}},
	}}
	for _, c := range []struct {
		hostlist, ours, theirs string
		fails                  bool
	}{
		{"gpu-[1-2]", "gpu-[1-2]", "", false},
		{"aws-[1-3],gpu-[1-2]", "gpu-[1-2]", "aws-[1-3]", false},
		{"aws-[1-3]", "", "aws-[1-3]", false},
		{"aws-9", "", "aws-9", true},
		{"gpu-1,lent-[1-2]", "gpu-1", "lent-[1-2]", false},
	} {
		_ = os.Remove(said)
		program := newSiteProgram("ResumeProgram")

		t.Setenv("AWS_PROFILE", "of-our-hooks")

		ours, err := program.start(slog.New(slog.DiscardHandler), settings, c.hostlist)
		err = program.wait(err)

		os.Unsetenv("AWS_PROFILE")

		text, _ := os.ReadFile(said)

		want := ""
		if c.theirs != "" {
			want = c.theirs + " /proc/1/fd/9 \n"
		}

		if ours != c.ours || string(text) != want || (err != nil) != c.fails {
			t.Errorf("%s: ours are %q, theirs got %q, %v", c.hostlist, ours, text, err)
		}
	}

	if c := newSiteProgram("SuspendProgram"); c.program != "" {
		t.Errorf("SuspendProgram is %s", c.program)
	}
}

// The programs read the environment of hooks for themselves, and the site's do not get it.
func TestProgramsReadTheirEnvironment(t *testing.T) {
	for setting, program := range map[string]func([]string) int{"ResumeProgram": Resume, "SuspendProgram": Suspend} {
		dir := t.TempDir()
		said, theirs := filepath.Join(dir, "said"), filepath.Join(dir, "theirs")
		t.Setenv("SLURM_CONF", filepath.Join(dir, "slurm.conf"))
		t.Setenv("PCS_TEST_HOOKS", "")
		os.Unsetenv("PCS_TEST_HOOKS")

		if err := os.Mkdir(filepath.Join(dir, "pcs-capacity"), 0o755); err != nil {
			t.Fatal(err)
		}

		for path, text := range map[string]string{
			theirs:                                "#!/bin/sh\necho \"$1 $PCS_TEST_HOOKS\" >" + said + "\n",
			filepath.Join(dir, slurm.IncludeFile): "# ours\n" + slurm.SiteLine(setting, theirs),
			filepath.Join(dir, "pcs-capacity", "config.toml"): fmt.Sprintf(
				"region = \"us-east-2\"\nstate_dir = %q\n[log]\ndir = %q\n", dir+"/state", dir+"/log"),
			filepath.Join(dir, "pcs-capacity", "environment"): "PCS_TEST_HOOKS=ours\n",
		} {
			if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}

		status := program([]string{"aws-1"})
		if text, err := os.ReadFile(said); status != 0 || err != nil || string(text) != "aws-1 \n" {
			t.Errorf("%s: status %d, the site's got %q, %v", setting, status, text, err)
		}

		if got := os.Getenv("PCS_TEST_HOOKS"); got != "ours" {
			t.Errorf("%s: PCS_TEST_HOOKS is %q", setting, got)
		}
	}
}

// Without settings the site's program gets its own nodes, and not those that hooks install wrote.
func TestSitesProgramWithoutSettings(t *testing.T) {
	for setting, program := range map[string]func([]string) int{"ResumeProgram": Resume, "SuspendProgram": Suspend} {
		dir := t.TempDir()
		said, theirs := filepath.Join(dir, "said"), filepath.Join(dir, "theirs")
		t.Setenv("SLURM_CONF", filepath.Join(dir, "slurm.conf"))
		t.Setenv("PATH", dir)

		if err := os.Mkdir(filepath.Join(dir, "pcs-capacity"), 0o755); err != nil {
			t.Fatal(err)
		}

		for path, text := range map[string]string{
			theirs:                         "#!/bin/sh\necho \"$1\" >" + said + "\n",
			filepath.Join(dir, "scontrol"): "#!/bin/sh\nexit 1\n", // slurmctld is down
			filepath.Join(dir, slurm.IncludeFile): "# ours\n" + slurm.SiteLine(setting, theirs) +
				"NodeName=gpu-[1-2] CPUs=4 State=CLOUD\n",
			filepath.Join(dir, "pcs-capacity", "config.toml"): "[\n",
		} {
			if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}

		status := program([]string{"aws-[1-2],gpu-1"})
		if text, err := os.ReadFile(said); status != 1 || err != nil || string(text) != "aws-[1-2]\n" {
			t.Errorf("%s: status %d, the site's got %q, %v", setting, status, text, err)
		}
	}
}

// Only nodes that Slurm waits for are launched; nodes that are up are left alone, and the error names the others.
func TestPoweringUp(t *testing.T) {
	for name, c := range map[string]struct {
		states []string // of gpu-1, gpu-2, …
		err    error
		want   string
		fails  string
	}{
		"all": {
			[]string{"ALLOCATED+CLOUD+POWERING_UP", "MIXED+CLOUD+POWER_UP", "ALLOCATED+CLOUD+POWERING_UP"},
			nil,
			"gpu-1 gpu-2 gpu-3",
			"",
		},
		"one is up": {
			[]string{"ALLOCATED+CLOUD", "ALLOCATED+CLOUD+POWERING_UP", "IDLE+CLOUD"},
			nil,
			"gpu-2",
			"",
		},
		"one is down": {
			[]string{"IDLE+CLOUD+POWERED_DOWN", "ALLOCATED+CLOUD+POWERING_UP"},
			nil,
			"gpu-2",
			"nodes gpu-[1,3] are not being powered up by Slurm",
		},
		"one is going down": {
			[]string{"IDLE+CLOUD+POWERING_DOWN", "ALLOCATED+CLOUD+POWERING_UP", "IDLE+CLOUD"},
			nil,
			"gpu-2",
			"nodes gpu-1 are not",
		},
		"Slurm does not tell": {nil, errNoTime, "", "without which nothing is launched"},
	} {
		up := powerUp{nodes: []string{"gpu-1", "gpu-2", "gpu-3"}, statesErr: c.err}
		for i, state := range c.states {
			up.states = append(up.states, capacity.Node{Name: up.nodes[i], State: state})
		}

		got, err := newFake(t).hook(capacity.Settings{}).nodesPoweringUp(up)
		if strings.Join(got, " ") != c.want || (err != nil) != (c.fails != "") ||
			err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// A power-up from what was read to what came of it: jobs whose nodes cannot be launched wait, and refused jobs are
// held, each beside the others.
func TestResumeStories(t *testing.T) {
	stranger := batch(nlp(3, "gpu-3"))
	stranger.Account, stranger.Partition = "vision", "gpu"
	for name, c := range map[string]struct {
		change func(*powerUp)
		script string
		fails  bool
	}{
		"it is done": {nil, "launch gpu-[1-2] " + two + " 2 A" + done, false},
		"a refused job is held, and its nodes go down": {
			func(up *powerUp) { up.nodes, up.jobs = []string{"gpu-3"}, []capacity.Job{stranger} },
			`
			record resume account-not-allowed gpu-3
			admin comment 3
			requeue and hold 3
			user hold 3
			record resume account-not-allowed gpu-3
			power down by force gpu-3`,
			false,
		},
		"Slurm does not tell its jobs": {func(up *powerUp) { up.jobs, up.jobsErr = nil, answers["unknown"] }, `
			record resume failed gpu-[1-2]
			power down by force gpu-[1-2]`, false},
		"EC2 does not answer": {func(up *powerUp) { up.factsErr = answers["refused"] }, `
			record resume UnauthorizedOperation gpu-[1-2]
			notify 1
			power down by force gpu-[1-2]
			admin comment 1`, false},
		"the template is not known": {
			func(up *powerUp) { up.facts.templates = map[string]template{"": {err: answers["refused"]}} },
			`
			record resume UnauthorizedOperation gpu-[1-2]
			notify 1
			power down by force gpu-[1-2]
			admin comment 1`,
			false,
		},
		"the job is gone": {func(up *powerUp) { up.jobs = nil }, `
			record resume job-gone gpu-[1-2]
			power down by force gpu-[1-2]`, false},
		"Slurm takes the nodes late": {nil, "launch gpu-[1-2] " + two + ` 2 A → refused
			record resume UnauthorizedOperation gpu-[1-2]
			notify 1
			power down by force gpu-[1-2] → unknown
			power down by force gpu-[1-2]
			admin comment 1`, false},
		"Slurm keeps the nodes": {nil, "launch gpu-[1-2] " + two + ` 2 A → refused
			record resume UnauthorizedOperation gpu-[1-2]
			notify 1` + strings.Repeat("\npower down by force gpu-[1-2] → unknown", 5) + `
			admin comment 1`, true},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, c.script, func(t *testing.T, w *fake) {
				up := powerUp{
					nodes:  pair().nodes,
					jobs:   pair().jobs,
					facts:  newFacts(twoReservations()),
					budget: budget,
				}
				if c.change != nil {
					c.change(&up)
				}

				w.queue(up.jobs...)

				for _, n := range up.nodes {
					up.states = append(up.states, capacity.Node{Name: n, State: "ALLOCATED+CLOUD+POWERING_UP"})
				}

				waiting := []capacity.ResumeJob{{ID: 1, Nodes: []string{"gpu-1", "gpu-2"}}}
				if err := w.hook(up.facts.settings).resume(w.ctx, up, waiting); (err != nil) != c.fails {
					t.Error(err)
				}
			})
		})
	}
}

// The launches of a power-up that must wait for their turns go in the order of their sizes.
func TestLargeGroupsTakeTheirTurnFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFake(t)
		up := powerUp{
			jobs: []capacity.Job{
				nlp(1, "gpu-1"),
				nlp(2, "gpu-2", "gpu-3", "gpu-4"),
				nlp(3, "gpu-5", "gpu-6", "gpu-7", "gpu-8"),
			},
			facts:  newFacts(roomyReservations()),
			budget: budget,
		}

		// They share no call.
		up.jobs[0].Comment = "capacity_reservation_id=" + one
		up.jobs[1].Comment = "capacity_reservation_id=" + two

		w.queue(up.jobs...)

		for _, n := range w.Slurm.All {
			up.nodes = append(up.nodes, n.Name)
			up.states = append(up.states, capacity.Node{Name: n.Name, State: "ALLOCATED+CLOUD+POWERING_UP"})
		}

		slow := w.Dir.RateLimit(state.LaunchRate, 1, 10*time.Second) // others have used up the burst
		if _, _, err := slow.Take(time.Now(), 0); err != nil {
			t.Fatal(err)
		}

		if err := w.hook(up.facts.settings).resume(w.ctx, up, nil); err != nil {
			t.Error(err)
		}

		var order []int
		for _, l := range w.launches {
			order = append(order, l.Count)
		}

		if !slices.Equal(order, []int{4, 3, 1}) {
			t.Errorf("launches of %v nodes", order)
		}
	})
}

const taggedReservations = `
account = "111122223333"
[[instance_type]]
name = "p5.48xlarge"
vcpus = 192
memory_mib = 2097152
usage_classes = ["capacity-block"]
[[region]]
name = "us-east-2"
zone = [{ name = "us-east-2a", id = "use2-az1" }]
vpc = [{ id = "vpc-0e2000000000000a1", cidr = "10.2.0.0/16" }]
subnet = [{ id = "subnet-0e200000000000a01", vpc = "vpc-0e2000000000000a1", zone = "us-east-2a", cidr = "10.2.1.0/24" }]
capacity = [{ zone = "us-east-2a", type = "p5.48xlarge", count = 64 }]
reservation = [
  { id = "cr-0e2000000000000a1", kind = "capacity-block", type = "p5.48xlarge", zone = "us-east-2a", count = 1, start = "-1h", end = "+30h", tags = { team = "nlp1" } },
  { id = "cr-0e2000000000000b2", kind = "capacity-block", type = "p5.48xlarge", zone = "us-east-2a", count = 1, start = "-1h", end = "+30h", tags = { team = "nlp*" } },
  { id = "cr-0e2000000000000c3", kind = "capacity-block", type = "p5.48xlarge", zone = "us-east-2a", count = 1, start = "-1h", end = "+30h", tags = { team = 'nlp\*' } },
]
`

// TestSelectIsLiteral: the resume hook finds by EC2's filters what Build finds among all
// reservations, wildcards or not.
func TestSelectIsLiteral(t *testing.T) {
	aws := simulatedEC2(t)

	all, err := aws.FindReservations(t.Context(), ec2.ReservationQuery{})
	if err != nil {
		t.Fatal(err)
	}

	for team, want := range map[string][]string{
		"nlp*":  {"cr-0e2000000000000b2"},
		"nlp?":  nil,
		"*":     nil,
		"nlp1":  {"cr-0e2000000000000a1"},
		`nlp\*`: {"cr-0e2000000000000c3"},
	} {
		group := capacity.GroupSettings{
			Name:      "gpu",
			SubnetIDs: []string{"subnet-0e200000000000a01"},
			Select:    &capacity.Select{Tags: map[string]string{"team": team}},
		}

		s := reading(aws, group)
		fresh := s.fresh(t)
		ids := func(s *capacity.Snapshot) []string { return s.Partitions[0].Groups[0].Slots[0].ReservationIDs }

		got := ids(fresh)
		same := ids(capacity.Build(s.Settings, capacity.Facts{Reservations: all}))
		if !slices.Equal(got, want) || !slices.Equal(got, same) {
			t.Errorf("team=%s: the hook finds %v, Build among all reservations %v, want %v", team, got, same, want)
		}
	}
}

func reading(aws *ec2.Client, group capacity.GroupSettings) *Hook {
	return &Hook{World: adapters{ec2Client: aws}, journal: logless(), Settings: capacity.Settings{
		Partitions: []capacity.PartitionSettings{
			{Name: "gpu", Provider: capacity.ProviderEC2, Groups: []capacity.GroupSettings{group}},
		},
	}}
}

func (s *Hook) fresh(t *testing.T) *capacity.Snapshot {
	t.Helper()

	seen, err := s.freshFacts(t.Context(), map[string]bool{"gpu": true}, nil)
	if err != nil {
		t.Fatal(err)
	}

	return capacity.Build(s.Settings, seen)
}

// simulatedEC2 has three blocks, which differ in their tags.
func simulatedEC2(t *testing.T) *ec2.Client {
	t.Helper()

	scenario, err := awssim.ParseScenario("tags", []byte(taggedReservations))
	if err != nil {
		t.Fatal(err)
	}

	sim, err := awssim.New(scenario, awssim.MachineClock())
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { sim.Close() })

	if err := sim.Serve(t.Setenv); err != nil {
		t.Fatal(err)
	}

	aws, err := ec2.New(t.Context(), ec2.Options{Region: "us-east-2"})
	if err != nil {
		t.Fatal(err)
	}

	return aws
}

// R8: one bad subnet id does not keep the nodes out of the others.
func TestR8_OneBadSubnetDoesNotHideTheOthers(t *testing.T) {
	const good, bad = "subnet-0e200000000000a01", "subnet-0ffffffffffffffff"

	group := capacity.GroupSettings{Name: "gpu", SubnetIDs: []string{bad, good}}
	fresh := reading(simulatedEC2(t), group).fresh(t)
	if subnets := fresh.Partitions[0].Groups[0].Subnets; len(subnets) != 1 || subnets[0].ID != good ||
		subnets[0].AZID != "use2-az1" {
		t.Errorf("subnets %v", subnets)
	}
}

// Where EC2 does not answer, the nodes can still be taken down: that takes the settings.
func TestFactsWithoutEC2(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	group := capacity.GroupSettings{
		Name:           "gpu",
		MaxNodes:       8,
		SubnetIDs:      []string{"subnet-0e200000000000a01"},
		ReservationIDs: []string{"cr-0e2000000000000a1"},
	}

	s := reading(simulatedEC2(t), group)
	up := powerUp{
		nodes:  []string{"gpu-1"},
		jobs:   groupOf(1, 1).jobs,
		states: []capacity.Node{{Name: "gpu-1", State: "ALLOCATED+CLOUD+POWERING_UP"}},
	}
	_, up.factsErr = s.readFacts(ctx, "ml", up.nodes, nil)
	if up.factsErr == nil {
		t.Fatal("EC2 answers")
	}

	story(t, `
		record resume failed gpu-1
		notify 1
		power down by force gpu-1
		admin comment 1`, func(t *testing.T, w *fake) {
		up.budget = budget
		if err := w.hook(s.Settings).resume(w.ctx, up, nil); err != nil || w.kept(t)[0].Partition != "gpu" {
			t.Errorf("%v, %+v", err, w.kept(t))
		}
	})
}
