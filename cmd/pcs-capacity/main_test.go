package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pcs-capacity/pcs-capacity/hooks/power"
	"github.com/pcs-capacity/pcs-capacity/hooks/prolog"
	"github.com/pcs-capacity/pcs-capacity/hooks/submit"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/permissions"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
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

// TestTranscripts runs testdata/*.txtar: terminal sessions that read as a manual. Each
// has a simulated AWS of its own, whose clock stands still until `sim clock` moves it.
// slurmctld is down.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	world, err := os.ReadFile(simWorld)
	if err != nil {
		t.Fatal(err)
	}
	runTranscripts(t, "testdata", func() (*awssim.Scenario, error) { return awssim.ParseScenario(simWorld, world) })
}

// TestCapacityTranscripts runs testdata/capacity/*.txtar: what there is and what is for
// sale, in the simulator's default account, which has several regions.
func TestCapacityTranscripts(t *testing.T) {
	t.Parallel()
	runTranscripts(t, "testdata/capacity", defaultScenario)
}

// TestRareTranscripts runs those that wait: for an AWS that does not answer, and for EC2's limit of searches.
func TestRareTranscripts(t *testing.T) {
	t.Parallel()
	runTranscripts(t, "testdata/rare", func() (*awssim.Scenario, error) { return awssim.LoadScenario(simWorld) })
	runTranscripts(t, "testdata/capacity/rare", defaultScenario)
}

func defaultScenario() (*awssim.Scenario, error) { return awssim.DefaultScenario(), nil }

func runTranscripts(t *testing.T, dir string, newScenario func() (*awssim.Scenario, error)) {
	motd, err := filepath.Abs("../../packaging/motd")
	if err != nil {
		t.Fatal(err)
	}
	commands := map[string]func(*testscript.TestScript, bool, []string){"sim": simCommand, "expand": expand, "scrub": scrub, "cmpnow": cmpNow, "widest": widest, "slurm": slurmCommand}
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE_TRANSCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			scenario, err := newScenario()
			if err != nil {
				return err
			}
			sim, err := awssim.New(scenario, awssim.NewClock(simStart, 0))
			if err != nil {
				return err
			}
			env.Defer(func() { sim.Close(); onlyAllowed(env.T(), sim) })
			if _, err := sim.Listen("127.0.0.1:0"); err != nil {
				return err
			}
			env.Values["sim"] = sim
			env.Values["counted"] = map[awssim.CallKey]int{}
			env.Vars = append(env.Vars, sim.Env()...)
			env.Setenv("AWS_EC2_METADATA_DISABLED", "true")
			env.Setenv("AWS_MAX_ATTEMPTS", "1") // faults here are for good; no need to wait for retries
			env.Setenv("TZ", "UTC")
			env.Setenv("OWNER", state.OwnerOf(state.Dir(filepath.Join(env.WorkDir, "state")), filepath.Join(env.WorkDir, "etc", "config.toml")).ID)
			env.Setenv("MOTD", motd)
			env.Setenv("GORACE", os.Getenv("GORACE"))
			return slurmThatIsDown(env)
		},
		Cmds: commands,
	})
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
	text := fmt.Sprintf("state_dir = %q\nlocal_dir = %q\n[log]\ndir = %q\n", env.WorkDir+"/default/state", env.WorkDir+"/default/local", env.WorkDir+"/default/log")
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
	if diff := cmp.Diff(strings.Split(read(args[1]), "\n"), strings.Split(read(args[0]), "\n")); diff != "" {
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
