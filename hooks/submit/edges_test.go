package submit

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/hooks/internal/hookstest"
)

// What no other test decides.

func TestCount(t *testing.T) {
	for text, want := range map[string]int{
		"":                     0,
		"4":                    4,
		"4-8":                  4,
		"4-0":                  0,
		"1-0":                  0,
		"1k":                   1024,
		"2K":                   2048,
		"1m":                   1 << 20,
		"3M":                   3 << 20,
		"x":                    0,
		"4x":                   4,
		"65533":                65533,
		"65534":                0,
		"65535":                65535,
		"4294967293":           4294967293,
		"4294967294":           0,
		"4294967295":           0,
		"99999999999999999999": 0,
	} {
		if got := parseCount(text); got != want {
			t.Errorf("%q is %d, want %d", text, got, want)
		}
	}
}

func TestMoment(t *testing.T) {
	local := time.Date(2026, 11, 20, 12, 30, 0, 0, time.Local)
	for text, want := range map[string]time.Time{
		"":                    {},
		"Unknown":             {},
		"0":                   {},
		"-5":                  {},
		"1":                   time.Unix(1, 0),
		"1795177800":          time.Unix(1795177800, 0),
		"4294967293":          time.Unix(4294967293, 0),
		"4294967294":          {},
		"2026-11-20T12:30:00": local,
		"20 Nov 2026":         time.Date(2026, 11, 20, 0, 0, 0, 0, time.Local),
		"20.11. 12:30":        {},
		"soon":                {},
	} {
		if got := parseTime(text); !got.Equal(want) || got.IsZero() != want.IsZero() {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

// The forms are those that sbatch of 22.05 showed.
func TestRelativeMoments(t *testing.T) {
	now := time.Date(2026, 11, 29, 6, 39, 16, 0, time.Local) // a Sunday
	at := func(year int, month time.Month, day, hour, minute, second int) time.Time {
		return time.Date(year, month, day, hour, minute, second, 0, time.Local)
	}
	for text, want := range map[string]time.Time{
		"07:39:16":      at(2026, 11, 29, 7, 39, 16),
		"Tomorr 06:39":  at(2026, 11, 30, 6, 39, 0),
		"Wed 06:39":     at(2026, 12, 2, 6, 39, 0),
		"29 Dec 06:39":  at(2026, 12, 29, 6, 39, 0),
		"25 Sep 2027":   at(2027, 9, 25, 0, 0, 0),
		"Unknown":       {},
		"29/12/2026":    {},
		"Xyz 06:39":     {},
		"Wed 6 o'clock": {},
	} {
		if got := parseRelative(text, now); !got.Equal(want) {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}

	for text, said := range map[string]bool{
		"":                    false,
		"0":                   false,
		"Unknown":             false,
		"2026-11-20T12:30:00": false,
		"Tomorr 06:39":        false,
		"29/12/26":            true,
	} {
		if (beginWarning(text) != "") != said {
			t.Errorf("%q: %s", text, beginWarning(text))
		}
	}
}

// Slurm takes the last number of each resource (seen on 22.05: gpu:16,gpu:4 ran on nodes of 8, gpu:4,gpu:16 did not).
func TestLastOfEach(t *testing.T) {
	for option, want := range map[string]string{
		"":                               "",
		"8":                              "8",
		"4,8":                            "8",
		"gpu":                            "gpu",
		"gres:gpu:8,gres:gpu:8":          "gres:gpu:8",
		"gres:gpu:16,gres:gpu:4":         "gres:gpu:4",
		"gres/gpu:h100=4,gres/gpu:a10=2": "gres/gpu:h100=4,gres/gpu:a10=2",
		"gpu:h100,gpu:h200":              "gpu:h100,gpu:h200",
		"gpu:h100,shard:4,gpu:h100:2":    "gpu:h100:2,shard:4",
		"cpu=24,gres/gpu=3,cpu=2":        "cpu=2,gres/gpu=3",
	} {
		if got := keepLast(option); got != want {
			t.Errorf("%q is %q, want %q", option, got, want)
		}
	}
}

func TestRequest(t *testing.T) {
	for name, c := range map[string]struct {
		fields map[string]string
		want   capacity.Request
	}{
		"everything": {
			map[string]string{
				"partition":       "gpu,,big",
				"account":         "nlp",
				"from":            "cli_filter",
				"comment":         "x",
				"begin":           "100",
				"deadline":        "200",
				"nodes":           "2",
				"ntasks":          "8",
				"ntasks-per-node": "4",
				"gpus":            "16",
				"gpus-per-node":   "h100:8",
				"gpus-per-task":   "2",
				"constraint":      "a",
				"time":            "60",
				"time-min":        "30",
				"was":             "cpu",
				"started":         "1",
			},
			capacity.Request{
				Partitions:   []string{"gpu", "big"},
				Account:      "nlp",
				Comment:      "x",
				Begin:        time.Unix(100, 0),
				Deadline:     time.Unix(200, 0),
				Nodes:        2,
				Tasks:        8,
				TasksPerNode: 4,
				GPUs:         16,
				GPUsPerNode:  8,
				GPUsPerTask:  2,
				Constraint:   "a",
				TimeLimit:    capacity.Minutes(60),
				TimeMin:      capacity.Minutes(30),
				OldComment:   "cpu",
				Started:      true,
			},
		},
		"a Slurm reservation": {
			map[string]string{"from": "job_submit", "reservation": "course"},
			capacity.Request{AccountKnown: true, Reservation: "course"},
		},
		"in slurmctld the account is known": {
			map[string]string{"from": "job_submit"},
			capacity.Request{AccountKnown: true},
		},
		"and in a change": {
			map[string]string{"from": fromJobModify},
			capacity.Request{AccountKnown: true},
		},
		"GPUs of two kinds": {
			map[string]string{"from": fromCLIFilter, "gpus": "h100:4,a100:2"},
			capacity.Request{GPUs: 6},
		},
		"GPUs as slurmctld has them": {
			map[string]string{"from": "job_submit", "gpus": "gres:gpu:8", "gpus-per-task": "cpu=24,gres/gpu=3"},
			capacity.Request{AccountKnown: true, GPUs: 8, GPUsPerTask: 3},
		},
		"CPUs are no GPUs": {
			map[string]string{"from": "job_submit", "gpus": "cpu:8,license/gpu=2", "gpus-per-task": "cpu=24"},
			capacity.Request{AccountKnown: true},
		},
		"GPUs a node, as --gres": {
			map[string]string{"from": fromCLIFilter, "gres": "gpu:4"},
			capacity.Request{GPUsPerNode: 4},
		},
		"GPUs named twice": {
			map[string]string{"from": fromCLIFilter, "gres": "gres:gpu:4,gres:gpu:8", "gpus": "4,8"},
			capacity.Request{GPUsPerNode: 8, GPUs: 8},
		},
		"a later component": {
			map[string]string{"from": fromCLIFilter, "component": "1", "together": "4"},
			capacity.Request{Component: true, NodesBefore: 4},
		},
		"--requeue": {
			map[string]string{"from": fromCLIFilter, "requeue": "requeue"},
			capacity.Request{},
		},
		"slurm.conf says whether to requeue": {
			map[string]string{"from": fromCLIFilter, "requeue": "unset"},
			capacity.Request{Requeue: capacity.RequeueUnsaid},
		},
		"so, in slurmctld": {
			map[string]string{"from": "job_submit", "requeue": "65534"},
			capacity.Request{AccountKnown: true, Requeue: capacity.RequeueUnsaid},
		},
		"the larger of --gres and --gpus-per-node": {
			map[string]string{"from": fromCLIFilter, "gres": "gres:gpu:4", "gpus-per-node": "2"},
			capacity.Request{GPUsPerNode: 4},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseRequest(c.fields)
			if len(got.Partitions) == 0 {
				got.Partitions = nil
			}

			if err != nil {
				t.Error(err)
			}

			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}

	for _, field := range []string{"time", "time-min"} {
		if _, err := ParseRequest(map[string]string{field: "tomorrow"}); err == nil {
			t.Errorf("%s=tomorrow is taken", field)
		}
	}
}

// Lua reads what luaString writes as the same bytes, whatever they are.
func TestLuaString(t *testing.T) {
	lua, err := exec.LookPath("lua5.1")
	if err != nil {
		t.Fatal("lua5.1 is not installed; `make test` installs what the tests need")
	}

	var every strings.Builder
	for c := range 256 {
		every.WriteByte(byte(c))
		every.WriteByte('7') // a digit behind each escape
	}

	for _, text := range []string{
		"",
		"/var/lib/pcs-capacity",
		"it's \"state\"",
		"]] os.exit() --[[",
		"\\",
		every.String(),
	} {
		path := filepath.Join(t.TempDir(), "chunk.lua")
		if err := os.WriteFile(path, []byte("io.write("+quoteLua(text)+")"), 0o600); err != nil {
			t.Fatal(err)
		}

		out, err := exec.Command(lua, path).Output()
		if err != nil || string(out) != text {
			t.Errorf("%q is read as %q, %v", text, out, err)
		}
	}

	if got := quoteLua("azAZ09/._- +,:@="); got != `"azAZ09/._- +,:@="` {
		t.Errorf("a plain path is written %s", got)
	}
}

// A submission's times are in this machine's clock, and the snapshot in AWS's.
func TestVerdictInTheMachinesClock(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

	snap := hookstest.Snapshot(noon)
	snap.ClockOffset, snap.Timing = capacity.Duration{Duration: time.Hour}, capacity.Timing{}
	snap.Submit = capacity.Submit{Strict: true, StaleAfter: capacity.Duration{Duration: time.Minute}}
	for i := range snap.Reservations {
		snap.Reservations[i].End = noon.Add(10 * time.Hour)
	}

	req := capacity.Request{
		Partitions:   []string{"gpu"},
		Account:      "nlp",
		AccountKnown: true,
		TimeLimit:    capacity.Minutes(60),
	}
	for name, c := range map[string]struct {
		begin, deadline time.Duration // of the machine's clock; 0 is none
		from            string
		refused         bool
	}{
		"now":                {},
		"in time":            {begin: 8 * time.Hour},
		"half an hour late":  {begin: 9*time.Hour + 30*time.Minute, refused: true}, // only with the offset
		"deadline in time":   {deadline: 2 * time.Hour},
		"deadline too early": {deadline: 30 * time.Minute, refused: true},
		"a change":           {begin: 9*time.Hour + 30*time.Minute, from: fromJobModify}, // time is not its business
	} {
		r := req
		machine := noon.Add(-time.Hour)
		if c.begin != 0 {
			r.Begin = machine.Add(c.begin)
		}

		if c.deadline != 0 {
			r.Deadline = machine.Add(c.deadline)
		}

		if v := Decide(r, c.from, snap, machine); v.Refused != c.refused || len(v.Warnings) > 0 {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// job_submit.lua refuses a job with the constant of Slurm's that capacity.Codes has for the code.
func TestErrorsOfRefusals(t *testing.T) {
	want := map[string]string{}
	for _, m := range capacity.Codes {
		if m.Slurm != "" && m.Slurm != "ERROR" {
			want[string(m.Code)] = m.Slurm
		}
	}

	got := map[string]string{}
	for _, row := range regexp.MustCompile(`\["([a-z-]+)"\] = slurm\.(ESLURM_\w+),`).FindAllStringSubmatch(jobSubmitLua,
		-1) {
		got[row[1]] = row[2]
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("capacity.Codes (-), job_submit.lua (+):\n%s", diff)
	}
}

// A time is told as squeue shows it, and as EC2 does.
func TestLocalTimes(t *testing.T) {
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}

	for text, want := range map[string]string{
		"free by 2026-03-03 10:50 UTC; use less": "free by 2026-03-03T05:50 (10:50 UTC); use less",
		"2026-07-03 10:50 UTC":                   "2026-07-03T06:50 (10:50 UTC)", // summer
		"from 2026-03-04 01:50 UTC to 2026-03-05 12:00 UTC": "from 2026-03-03T20:50 (2026-03-04 01:50 UTC) to " +
			"2026-03-05T07:00 (12:00 UTC)",
		"2026-13-03 10:50 UTC": "2026-13-03 10:50 UTC",
		// the night in which summer ends has this hour twice
		"2026-11-01 05:10 UTC": "2026-11-01T01:10 (05:10 UTC)",
		"2026-11-01 06:10 UTC": "2026-11-01T01:10 (06:10 UTC)",
		// and the one in which it begins has no 02:00
		"2026-03-08 06:59 UTC": "2026-03-08T01:59 (06:59 UTC)",
		"2026-03-08 07:00 UTC": "2026-03-08T03:00 (07:00 UTC)",
		"in 2026":              "in 2026",
	} {
		if got := addLocalTimes(text, newYork); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}

		if got := addLocalTimes(text, time.UTC); got != text {
			t.Errorf("in UTC %q became %q", text, got)
		}
	}
}
