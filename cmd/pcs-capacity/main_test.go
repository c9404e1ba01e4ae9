package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/hooks/power"
	"github.com/pcs-capacity/pcs-capacity/hooks/prolog"
	"github.com/pcs-capacity/pcs-capacity/hooks/submit"
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/permissions"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

func TestMain(m *testing.M) {
	os.Setenv("GORACE", "atexit_sleep_ms=0") // a program built with -race sleeps for a second when it ends
	testscript.Main(withCredentials{m}, map[string]func(){
		"pcs-capacity":         admin,
		"pcs-capacity-filter":  func() { os.Exit(submit.Main(os.Args[1:])) },
		"pcs-capacity-prolog":  func() { os.Exit(prolog.Main(os.Args[1:])) },
		"pcs-capacity-resume":  func() { as("hooks"); os.Exit(power.Resume(os.Args[1:])) },
		"pcs-capacity-suspend": func() { as("hooks"); os.Exit(power.Suspend(os.Args[1:])) },
	})
}

// as has a program call AWS with an access key of its own, which says whose policy has to allow what it calls.
func as(role string) {
	if os.Getenv("AWS_ACCESS_KEY_ID") == simulatedKey {
		os.Setenv("AWS_ACCESS_KEY_ID", role)
	}
}

// admin is pcs-capacity, which as sync is the service.
func admin() {
	switch {
	case slices.Contains(os.Args[1:], "sync"):
		as("sync")
	default:
		as("admin")
	}

	main()
}

// onlyAllowed fails a transcript in which a program called what its policy does not allow.
func onlyAllowed(t interface{ Fatal(...any) }, sim *awssim.Sim) {
	for _, role := range permissions.Roles {
		for _, action := range sim.CalledBy(role) {
			if !permissions.Allows(role, action) && action != "sts:GetCallerIdentity" { // which nobody can be denied
				t.Fatal("the policy of " + role + " does not allow " + action)
			}
		}
	}
}

const simulatedKey = "AKIDSIMULATED"

// withCredentials runs tests, not the programs. Tests side by side cannot set an environment of
// their own, and every simulated AWS takes these.
type withCredentials struct{ *testing.M }

// Run is called by testscript.
func (m withCredentials) Run() int {
	os.Setenv("AWS_ACCESS_KEY_ID", simulatedKey)
	os.Setenv("AWS_SECRET_ACCESS_KEY", "x")
	return m.M.Run()
}

// simStart is when the simulated AWS of every transcript begins: a Friday.
var simStart = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// simWorld is the AWS account of the transcripts.
const simWorld = "testdata/world.toml"

// transcripts are the folders of testdata, each with what is otherwise in the AWS account of its transcripts.
var transcripts = map[string]func(*awssim.Scenario){
	"":         func(*awssim.Scenario) {},
	"purchase": func(*awssim.Scenario) {}, // blocks and extensions bought, refused, lost and found again
	// What there is and what is for sale, in the simulator's default account, which has several regions.
	"capacity": func(s *awssim.Scenario) { *s = *awssim.DefaultScenario() },
	// Every search shows the blocks for sale under other ids, and an id that was shown is good for a minute.
	"expiring": func(s *awssim.Scenario) { s.NewOfferingIDs, s.OfferingIDsLast = true, awssim.Duration(time.Minute) },
	"extended": func(s *awssim.Scenario) { s.PaymentDelay = awssim.Duration(2 * time.Hour) },
	// ODCRs for later, which EC2 has promised.
	"future": func(s *awssim.Scenario) {
		odcr := awssim.ReservationScenario{
			ID:        "cr-00000000000000001",
			Type:      "c7i.4xlarge",
			Zone:      "us-east-2a",
			Count:     4,
			Start:     simMoment("+1440h"),
			Committed: simMoment("+2160h"),
		}
		assessed, now := odcr, odcr
		assessed.ID, assessed.State, assessed.Committed = "cr-00000000000000002", "assessing", awssim.Moment{}
		now.ID, now.Start, now.Committed = "cr-00000000000000003", awssim.Moment{}, awssim.Moment{}
		s.Regions[0].Reservations = []awssim.ReservationScenario{odcr, assessed, now}
	},
	// Ten probes that were never given back, and four ODCRs of others and of people that look like them, on pages of
	// two.
	"clean": func(s *awssim.Scenario) {
		all := make([]awssim.ReservationScenario, 14)
		for n := range all {
			tags := map[string]string{capacity.TagCluster: "ml", capacity.TagHold: capacity.HoldProbe}
			switch n {
			case 3:
				tags[capacity.TagCluster] = "other"
			case 5:
				delete(tags, capacity.TagHold)
			case 7:
				delete(tags, capacity.TagCluster)
			case 9:
				tags[capacity.TagHold] = capacity.HoldByHand
			}

			all[n] = awssim.ReservationScenario{
				ID:    fmt.Sprintf("cr-%017d", n),
				Type:  "c7i.4xlarge",
				Zone:  "us-east-2a",
				Count: 2,
				End:   simMoment("+1h"),
				Tags:  tags,
			}
		}

		s.PageSize, s.Regions[0].Reservations = 2, all
	},
}

func simMoment(text string) (m awssim.Moment) {
	if err := m.UnmarshalText([]byte(text)); err != nil {
		panic(err)
	}
	return m
}

// TestTranscripts runs testdata/*.txtar and those of its folders: terminal sessions that read as a manual. Each has a
// simulated AWS of its own, whose clock stands still until `sim clock` moves it or `slurm up` has it run. slurmctld is
// down until then.
func TestTranscripts(t *testing.T) {
	t.Parallel()

	for dir, change := range transcripts {
		t.Run(cmp.Or(dir, "commands"), func(t *testing.T) { runTranscripts(t, filepath.Join("testdata", dir), change) })
	}
}

// TestRareTranscripts runs those that wait: for an AWS that does not answer, and for EC2's limit of searches.
func TestRareTranscripts(t *testing.T) {
	t.Parallel()
	runTranscripts(t, "testdata/rare", transcripts[""])
	runTranscripts(t, "testdata/capacity/rare", transcripts["capacity"])
}

func runTranscripts(t *testing.T, dir string, change func(*awssim.Scenario)) {
	commands := map[string]func(*testscript.TestScript, bool, []string){
		"sim":    simCommand,
		"expand": expand,
		"scrub":  scrub,
		"cmpnow": cmpNow,
		"widest": widest,
		"slurm":  slurmCommand,
	}
	testscript.Run(t, testscript.Params{Dir: dir, RequireExplicitExec: true, UpdateScripts: os.Getenv(
		"UPDATE_TRANSCRIPTS") != "", Setup: func(env *testscript.Env) error {
		scenario, err := awssim.LoadScenario(simWorld)
		if err != nil {
			return err
		}

		change(scenario)

		sim, err := awssim.New(scenario, awssim.NewClock(simStart, 0))
		if err != nil {
			return err
		}

		env.Defer(func() { sim.Close(); onlyAllowed(env.T(), sim) })

		if _, err := sim.Listen("127.0.0.1:0"); err != nil {
			return err
		}

		env.Values["sim"] = sim
		env.Values["slurm"] = newFakeSlurm(
			env.T(),
			env.Defer,
			filepath.Join(env.WorkDir, "fake-slurm"),
			sim.Clock().Now,
		)
		env.Values["counted"] = map[awssim.CallKey]int{}
		env.Vars = append(env.Vars, sim.Env()...)
		env.Setenv("AWS_EC2_METADATA_DISABLED", "true")
		env.Setenv("AWS_MAX_ATTEMPTS", "1") // faults here are permanent: retries would only wait
		env.Setenv("TZ", "UTC")

		python, err := filepath.Abs("../../packaging/python")
		if err != nil {
			return err
		}

		env.Setenv("PYTHONPATH", python)
		env.Setenv("PYTHONDONTWRITEBYTECODE", "1")

		owner, _ := state.OwnerOf(filepath.Join(env.WorkDir, "etc", "config.toml"))
		env.Setenv("OWNER", owner)
		env.Setenv("GORACE", os.Getenv("GORACE"))

		return slurmThatIsDown(env)
	}, Cmds: commands})
}

// slurmThatIsDown writes a slurm.conf whose slurmctld does not run: nothing listens on port 1.
func slurmThatIsDown(env *testscript.Env) error {
	path := filepath.Join(env.WorkDir, "slurm-down", "slurm.conf")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}

	env.Setenv("SLURM_CONF", path)
	// Settings beside it, so that what is run without --config stays out of the machine's own folders.
	settings := filepath.Join(filepath.Dir(path), "pcs-capacity", "config.toml")
	if err := os.MkdirAll(filepath.Dir(settings), 0o755); err != nil {
		return err
	}

	text := fmt.Sprintf(
		"state_dir = %q\nlocal_dir = %q\n[log]\ndir = %q\n",
		env.WorkDir+"/default/state",
		env.WorkDir+"/default/local",
		env.WorkDir+"/default/log",
	)
	if err := os.WriteFile(settings, []byte(text), 0o644); err != nil {
		return err
	}

	return os.WriteFile(path, []byte(downConf), 0o644)
}

const downConf = `ClusterName=down
SlurmctldHost=localhost
SlurmctldPort=1
AuthType=auth/none
MessageTimeout=1
NodeName=gpu-1
PartitionName=gpu Nodes=gpu-1
`

// simCommand changes the simulated AWS:
//
//	sim clock +26h             moves its clock
//	sim fault OPERATION EFFECT [region=R] [code=C] [status=N] [skip=N] [count=N]
//	                           makes calls fail; * is every operation
//	sim calls OPERATION        prints how many calls have arrived in all regions; * is every operation
//	sim recount                counts them from now on
//	sim step 1m                each call moves AWS's clock so far, until then 0s
//	sim payments fail|succeed  decides for payments
//	sim limits JSON            refuses searches as live accounts were refused
//	sim heal                   ends every fault
//	sim ledger                 prints every purchase that was made
func simCommand(ts *testscript.TestScript, neg bool, args []string) {
	sim, counted := ts.Value("sim").(*awssim.Sim), ts.Value("counted").(map[awssim.CallKey]int)
	if neg || len(args) == 0 {
		ts.Fatalf("usage: sim clock DURATION | sim fault OPERATION EFFECT | sim ledger")
	}

	switch args[0] {
	case "clock":
		d, err := time.ParseDuration(args[1])
		ts.Check(err)
		sim.Clock().Advance(d)
	case "fault":
		_, err := sim.AddFault(parseFault(ts, args[1], args[2], args[3:]))
		ts.Check(err)
	case "calls":
		n := 0
		for key, count := range sim.Calls() {
			if key.Operation == args[1] || args[1] == "*" {
				n += count - counted[key]
			}
		}

		fmt.Fprintf(ts.Stdout(), "%d calls of %s\n", n, args[1])
	case "recount":
		maps.Copy(counted, sim.Calls())
	case "step":
		d, err := time.ParseDuration(args[1])
		ts.Check(err)
		sim.Clock().SetStep(d)
	case "payments":
		sim.FailPayments(args[1] == "fail")
	case "limits":
		var limits awssim.Limits
		ts.Check(json.Unmarshal([]byte(args[1]), &limits))
		ts.Check(sim.SetLimits(limits))
	case "heal":
		sim.ClearFaults()
	case "ledger":
		text, err := json.Marshal(sim.Ledger())
		ts.Check(err)
		fmt.Fprintf(ts.Stdout(), "%d purchases\n%s\n", len(sim.Ledger()), text)
	default:
		ts.Fatalf("sim %s: unknown", args[0])
	}
}

func parseFault(ts *testscript.TestScript, operation, effect string, settings []string) awssim.Fault {
	f := awssim.Fault{Operation: strings.TrimPrefix(operation, "*"), Effect: awssim.Effect(effect)}
	for _, setting := range settings {
		key, value, _ := strings.Cut(setting, "=")

		var err error
		switch key {
		case "region":
			f.Region = value
		case "code":
			f.Code = value
		case "message":
			f.Message = value
		case "status":
			f.Status, err = strconv.Atoi(value)
		case "skip":
			f.Skip, err = strconv.Atoi(value)
		case "count":
			f.Count, err = strconv.Atoi(value)
		default:
			ts.Fatalf("sim fault: what is %s?", setting)
		}

		ts.Check(err)
	}

	return f
}

// now matches what programs take for the time while the clock stands still: the Date
// header, and the time since that answer by the machine's clock.
var now = regexp.MustCompile(`2026-11-20T12:0\d:\d\dZ`)

// cmpNow FILE FILE compares as cmp does, but for the seconds that the transcript has run.
func cmpNow(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: cmpnow FILE FILE")
	}

	read := func(name string) string {
		return now.ReplaceAllString(ts.ReadFile(name), simStart.Format(time.RFC3339))
	}
	if diff := gocmp.Diff(strings.Split(read(args[1]), "\n"), strings.Split(read(args[0]), "\n")); diff != "" {
		ts.Fatalf("%s and %s differ:\n%s", args[0], args[1], diff)
	}
}

// expand FILE… replaces $WORK and other variables in files of the transcript.
func expand(ts *testscript.TestScript, neg bool, args []string) {
	for _, name := range args {
		path := ts.MkAbs(name)
		text := os.Expand(ts.ReadFile(name), ts.Getenv)
		ts.Check(os.WriteFile(path, []byte(text), 0o644))
	}
}

// scrub FILE OLD NEW… writes NEW for each OLD, so that ids made at random compare.
func scrub(ts *testscript.TestScript, neg bool, args []string) {
	text := ts.ReadFile(args[0])
	for i := 1; i+1 < len(args); i += 2 {
		text = strings.ReplaceAll(text, args[i], args[i+1])
	}

	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o644))
}

// widest FILE COLUMNS fails where a line would wrap in a terminal of so many columns.
func widest(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: widest FILE COLUMNS")
	}

	columns, err := strconv.Atoi(args[1])
	ts.Check(err)

	for line := range strings.Lines(ts.ReadFile(args[0])) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > columns {
			ts.Fatalf("%d columns: %s", n, line)
		}
	}
}

func TestExitStatus(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		status int
		text   string
	}{
		"done":         {nil, 0, ""},
		"failed":       {errors.New("describing x: no"), 1, "pcs-capacity: describing x: no\n"},
		"said already": {errReported, 1, ""},
		"a mistake in use": {
			fmt.Errorf("setup: %w", usage("--count=0: use at least 1")),
			2,
			"pcs-capacity: setup: --count=0: use at least 1\n",
		},
		"several, a line each": {
			errors.Join(errors.New("one"), errors.New("two")),
			1,
			"pcs-capacity: one\npcs-capacity: two\n",
		},
		"settings with mistake": {
			usageError{errors.Join(errors.New("a.toml:1: x"), errors.New("a.toml:2: y"))},
			2,
			"pcs-capacity: a.toml:1: x\npcs-capacity: a.toml:2: y\n",
		},
	} {
		var out strings.Builder
		if status := exitStatus(&terminal.Terminal{Err: &out}, c.err); status != c.status || out.String() != c.text {
			t.Errorf("%s: status %d and %q, want %d and %q", name, status, out.String(), c.status, c.text)
		}
	}

	for _, args := range [][]string{
		{"offering"},
		{"offerings"},
		{"--output=xml", "list"},
		{"--config", filepath.Join(t.TempDir(), "none.toml"), "sync"},
	} {
		if status := run(args); status != 2 {
			t.Errorf("%q: exit status %d, want 2", args, status)
		}
	}
}

func TestSpan(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"7d": 7 * day, "36h": 36 * time.Hour, "2w": 14 * day, "1d12h": 36 * time.Hour, "1w1d30m": 8*day +
			30*time.Minute, "90m": 90 * time.Minute,
		"": 0, "7": 0, "0d": 0, "-1d": 0, "d": 0, "1d-2h": 0, "7days": 0, "1h1d": 0, "99999999d": 0,
	} {
		var s span

		err := s.UnmarshalText([]byte(text))
		if time.Duration(s) != want || (err != nil) != (want == 0) {
			t.Errorf("%q: %v, %v", text, time.Duration(s), err)
		}
	}
}

// ownProcessOf names, to a test program, the test that it was started for.
const ownProcessOf = "PCS_CAPACITY_TEST_PROCESS"

// ownProcess runs a test in a process of its own, beside others: SLURM_CONF and AWS's endpoint,
// which it sets, are the whole process's. The answer is whether this is that process; where it is
// not, the test has been run, and there is nothing left to do.
func ownProcess(t *testing.T) bool {
	t.Helper()

	if os.Getenv(ownProcessOf) == t.Name() {
		return true
	}

	t.Parallel()

	var pattern []string
	for _, name := range strings.Split(t.Name(), "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(name)+"$")
	}

	c := exec.CommandContext(
		t.Context(),
		os.Args[0],
		"-test.run",
		strings.Join(pattern, "/"),
		"-test.v",
		"-test.timeout",
		"10m",
	)
	c.Env = append(os.Environ(), ownProcessOf+"="+t.Name())
	out, err := c.CombinedOutput()
	switch said := string(out); {
	case err != nil:
		t.Errorf("%v\n%s", err, said)
	case strings.Contains(said, "--- SKIP: "+t.Name()+" "):
		t.Skipf("%s", said)
	case !strings.Contains(said, "--- PASS: "+t.Name()+" "):
		t.Errorf("it was not run:\n%s", said)
	}

	return false
}

// The longest messages fit a terminal of 100 columns: no line is longer or ends within a word. In a pipe a sentence
// is one line.
func TestFitsATerminal(t *testing.T) {
	const block, offering = "cr-0e2000000000000a1", "cb-0d05ecddf72412d79"

	setup := []string{
		"setup",
		"--reservation",
		block,
		"--cluster",
		"ml",
		"--queue",
		"gpu",
		"--node-group",
		"gpu",
		"--like",
		"compute",
	}
	between := func(r rune) bool { return r == ' ' || r == '\n' || r == '/' } // a path may be broken after a slash
	for name, c := range map[string]struct {
		args []string
		line string // in a pipe
	}{
		"a mistake": {
			[]string{"reserve", "-t", "p5.48xlarge", "-n", "4", "--subnet-ids", "subnet-0e200000000000a01"},
			"pcs-capacity: use --probe to release it at once, or --for TIME to hold it",
		},
		"an error": {
			append(slices.Clone(setup), "--yes", "--subnet-ids", "subnet-0e200000000000b02"),
			"pcs-capacity: reservation cr-0e2000000000000a1 is in us-east-2a (use2-az1), but node group gpu-a has " +
				"only subnet-0e200000000000b02 in us-east-2b (use2-az2)",
		},
		"fit": {
			[]string{"fit", "-t", "p5.48xlarge", "-n", "24", "-d", "3d"},
			"24 x p5.48xlarge for 3d: nothing fits. The nearest is cr-0e2000000000000a1: it has 4 instances, 20 " +
				"fewer than asked.",
		},
		"extend": {
			[]string{"extend", block, "--duration", "7d", "--dry-run"},
			"cr-0e2000000000000a1: 4 x p5.48xlarge in us-east-2a (use2-az1), region us-east-2, account " +
				"111122223333, active",
		},
		"setup": {
			append(slices.Clone(setup), "--yes"),
			"Start the service on one host. Without it, fences do not follow extensions:",
		},
		"help": {[]string{"--help"}, "Reserved GPU capacity, made native to Slurm."},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSession(t, c.args...)
			s.exitStatus()
			s.slurm.Lock()
			clear(s.slurm.Fences) // so that it is said again
			s.slurm.Unlock()
			pipe := exec.Command(s.cmd.Path, s.cmd.Args[1:]...)
			pipe.Env = s.cmd.Env
			text, _ := pipe.CombinedOutput() // some fail, as they should

			piped := string(text)
			if !slices.Contains(strings.Split(piped, "\n"), c.line) {
				t.Errorf("a pipe does not get the line %q:\n%s", c.line, piped)
			}

			words := strings.FieldsFunc(piped, between)
			for line := range strings.SplitSeq(s.text(), "\r\n") {
				line = strings.TrimPrefix(
					line[strings.LastIndex(line, "\r")+1:],
					"\x1b[K",
				) // of one that was kept current
				if n := utf8.RuneCountInString(line); n > columns {
					t.Errorf("%d columns: %s", n, line)
				}

				if own := strings.FieldsFunc(strings.TrimSuffix(line, " \\"), between); len(own) > 0 &&
					!slices.Contains(words, own[len(own)-1]) &&
					!ofAName(own[len(own)-1], words) {
					t.Errorf("it breaks a word: %s", line)
				}
			}
		})
	}
}

// ofAName reports whether part ends, after a dash, within a word that is wider than a column of a
// table: the name of an image. Such a word has to be broken somewhere.
func ofAName(part string, words []string) bool {
	const widest = 44 // DETAILS of the checks' table
	return strings.HasSuffix(part, "-") && slices.ContainsFunc(words, func(w string) bool {
		return strings.HasPrefix(w, part) && utf8.RuneCountInString(w) > widest
	})
}

// asksFor are commands that make a call; the empty call stands for any.
var asksFor = map[string][]string{
	"":                             {"list"},
	"DescribeCapacityReservations": {"list", "cr-0e2000000000000a1"},
	"DescribeCapacityBlockOfferings": {
		"offerings",
		"--instance-type=p5.48xlarge",
		"--count=4",
		"--duration=7d",
	},
	"PurchaseCapacityBlock":                   purchases["purchase"],
	"PurchaseCapacityBlockExtension":          purchases["extend"],
	"DescribeCapacityBlockExtensionOfferings": purchases["extend"],
	"CreateCapacityReservation": {
		"reserve",
		"--probe",
		"-t",
		"g6.12xlarge",
		"-n",
		"1",
		"--subnet-ids",
		"subnet-0e200000000000a01",
	},
}

// Every code of EC2 that a command can meet is shown, with what to do about it. Those of launches are shown by Slurm,
// those of PCS by setup and teardown (TestExceptionsOfPCSComeWithAdvice).
func TestErrorCodesComeWithAdvice(t *testing.T) {
	sim := simulatedAWS(t)
	t.Setenv("AWS_MAX_ATTEMPTS", "1")

	for _, r := range slices.Concat(ec2.Remedies, awsconfig.General) {
		if slices.Contains(r.Calls, "RunInstances") {
			continue
		}

		if r.Code == "CapacityBlockDescribeLimitExceeded" && r.Says == "" {
			continue // waits for a minute before it is shown: package ec2, TestBackToBackSearches
		}

		calls := r.Calls
		if len(calls) == 0 {
			calls = []string{""}
		}

		for _, call := range calls {
			args, known := asksFor[call]
			if !known {
				t.Errorf("%s of %s: no command is known to meet it", r.Code, call)
				continue
			}

			sim.ClearFaults()

			if _, err := sim.AddFault(awssim.Fault{
				Service:   "ec2",
				Operation: call,
				Effect:    awssim.FailBefore,
				Code:      r.Code,
				Message:   "EC2 says: " + r.Says + ".",
			}); err != nil {
				t.Fatal(err)
			}

			dir := t.TempDir()
			config := filepath.Join(dir, "config.toml")
			if err := os.WriteFile(config, fmt.Appendf(nil,
				"cluster = \"ml\"\nstate_dir = %q\n[reserve]\nmax_instances = 64\n", dir), 0o644); err != nil {
				t.Fatal(err)
			}

			cmd := exec.CommandContext(t.Context(), "pcs-capacity", append([]string{"--config", config}, args...)...)
			said, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(said), r.Code) || !strings.Contains(string(said), r.Do) {
				t.Errorf("%s of %s: %v, want %q:\n%s", r.Code, call, err, r.Do, said)
			}
		}
	}
}
