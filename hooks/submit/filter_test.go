package submit_test

import (
	"encoding/hex"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/hooks/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/hooks/submit"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// shimArgs are the arguments that a Lua shim would give the filter.
func shimArgs(dir string, pairs ...string) []string {
	args := []string{"state-dir=" + hex.EncodeToString([]byte(dir))}
	for i := 0; i < len(pairs); i += 2 {
		args = append(args, pairs[i]+"="+hex.EncodeToString([]byte(pairs[i+1])))
	}

	return args
}

// readable shows an answer with its hex decoded.
func readable(t *testing.T, answer string) string {
	t.Helper()

	lines := strings.Split(answer, "\n")
	for i, line := range lines {
		words := strings.Split(line, " ")
		if len(words) < 2 || words[0] == "code" {
			continue
		}

		text, err := hex.DecodeString(words[len(words)-1])
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}

		words[len(words)-1] = string(text)
		lines[i] = strings.Join(words, " ")
	}

	return strings.Join(lines, "\n")
}

func TestAnswer(t *testing.T) {
	dir := t.TempDir()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

	snap := hookstest.Snapshot(now)
	snap.ClockOffset = capacity.Duration{Duration: 5 * time.Minute} // this machine is 5 minutes late
	if err := state.Dir(dir).WriteSnapshot(snap); err != nil {
		t.Fatal(err)
	}

	machineNow := now.Add(-5 * time.Minute)
	for name, test := range map[string]struct {
		fields []string
		want   string // a part of the answer
	}{
		"no limit, on 22.05": {
			[]string{"partition", "gpu", "time", "2982616-04:14:00", "time-min", "2982616-04:14:00", "nodes", "1-0"},
			"set time 600\nset time-min 31\nend\n",
		},
		"no limit, in slurmctld": {
			[]string{"partition", "gpu", "time", "4294967294", "nodes", "4294967294"},
			"set time 600\n",
		},
		"limit fits": {[]string{"partition", "gpu", "time", "10:00:00"}, "end\n"},
		"limit crosses the fence": {
			[]string{"partition", "gpu", "time", "10:01:00"},
			"code too-long\nrefuse the job needs 10:01:00",
		},
		"clock of this machine": {[]string{"partition", "gpu", "time", "601"}, "refuse "},
		"too many nodes": {
			[]string{"partition", "gpu", "nodes", "5-9", "time", "60"},
			"code too-many-nodes\nrefuse the job asks for 5 nodes",
		},
		"a thousand nodes": {
			[]string{"partition", "gpu", "nodes", "1k", "time", "60"},
			"code too-many-nodes\nrefuse the job asks for 1024 nodes",
		},
		"not ours":          {[]string{"partition", "static"}, "end\n"},
		"default partition": {nil, "end\n"},
		"another's reservation": {
			[]string{"partition", "gpu", "time", "60", "comment", "capacity_reservation_id=" + hookstest.OtherID},
			"code wrong-partition\nrefuse reservation " + hookstest.OtherID + " belongs to partition other",
		},
		"limit that we cannot read": {
			[]string{"partition", "gpu", "time", "tomorrow"},
			"the job is let through unchecked; tell an administrator\nend\n",
		},
		"no requeue, and on_end": {
			[]string{"partition", "gpu", "time", "60", "comment", "on_end=requeue", "requeue", "no-requeue"},
			"warn on_end=requeue in --comment does nothing, and the job ends with its time limit: the job has " +
				"--no-requeue; leave that out\n",
		},
		"the same in slurmctld": {
			[]string{"partition", "gpu", "time", "60", "comment", "on_end=hold", "requeue", "0"},
			"warn on_end=hold in --comment does nothing, and the job ends with its time limit: the job has " +
				"--no-requeue; leave that out\n",
		},
		"srun, and on_end": {
			[]string{"partition", "gpu", "time", "60", "comment", "on_end=requeue", "requeue", "invalid-context"},
			"warn on_end=requeue in --comment does nothing, and the job ends with its time limit: Slurm requeues " +
				"jobs of sbatch only\n",
		},
		"can be requeued": {
			[]string{"partition", "gpu", "time", "60", "comment", "on_end=requeue", "requeue", "unset"},
			"set time-min 32\nend\n",
		},
		"longer than the block, in slurmctld": {
			[]string{"from", "job_submit", "partition", "gpu", "time", "1440", "comment", "on_end=requeue", "requeue", "1"},
			"warn the job can start now, runs until 2026-11-20 22:10 UTC, and goes on in the next block\n" +
				"set time-min 32\nset admin-comment pcs-capacity: this job's own limit is 1-00:00:00; Slurm starts it " +
				"with less, and sync raises that to what fits before the fence\nend\n",
		},
		"message is one line": {
			[]string{"partition", "static,\x1b[2J\n", "comment", "capacity_reservation_id=" + hookstest.BlockID},
			"not to static, [2J ;",
		},
		"a signal after the requeue": {
			[]string{"partition", "gpu", "comment", "on_end=requeue", "requeue", "unset", "signal", "B:USR1"},
			"warn --signal comes 1m before the time limit, and on_end=requeue ends the job up to 2m before it, with " +
				"TERM: use @120 or more, or catch TERM\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder

			got := readable(
				t,
				submit.Answer(shimArgs(dir, test.fields...), machineNow, slog.New(slog.NewTextHandler(&log, nil))),
			)
			if refused := strings.Contains(got, "refuse "); strings.Contains(
				log.String(),
				"the job is refused",
			) != refused {
				t.Errorf("answered %q, and logged %q", got, log.String())
			}

			if !strings.Contains(got, test.want) || !strings.HasSuffix(got, "end\n") {
				t.Errorf("got %q, want it to hold %q", got, test.want)
			}

			if test.want == "end\n" && got != "end\n" {
				t.Errorf("got %q, want no edit", got)
			}
		})
	}
}

// A job of several nodes is kept in one of the two blocks.
func TestAnswerKeepsAJobInOneBlock(t *testing.T) {
	dir := state.Dir(t.TempDir())
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	snap := hookstest.Snapshot(now)
	group := &snap.Partitions[0].Groups[0]
	group.Slots = append(group.Slots, snap.Partitions[1].Groups[0].Slots[0])
	group.Slots[0].Feature, group.Slots[1].Feature = "gpu-a", "gpu-b"

	snap.Partitions = snap.Partitions[:1]
	if err := dir.WriteSnapshot(snap); err != nil {
		t.Fatal(err)
	}

	args := shimArgs(string(dir), "partition", "gpu", "time", "60", "nodes", "2")

	got := readable(t, submit.Answer(args, now, slog.New(slog.DiscardHandler)))
	if got != "set constraint [gpu-a|gpu-b]\nend\n" {
		t.Errorf("got %q", got)
	}
}

// Without a snapshot, or with arguments that no shim of ours makes, the job goes on.
func TestR6_AnswerWithoutSnapshot(t *testing.T) {
	corrupt := t.TempDir()
	if err := os.WriteFile(state.Dir(corrupt).SnapshotPath(), []byte("{\"version\": 1, "), 0o644); err != nil {
		t.Fatal(err)
	}

	future := t.TempDir()
	if err := os.WriteFile(state.Dir(future).SnapshotPath(), []byte("{\"version\": 99}"), 0o644); err != nil {
		t.Fatal(err)
	}

	for name, args := range map[string][]string{
		"missing":       shimArgs(filepath.Join(t.TempDir(), "nothing"), "partition", "gpu"),
		"corrupt":       shimArgs(corrupt, "partition", "gpu"),
		"other version": shimArgs(future, "partition", "gpu"),
		"a directory":   shimArgs("", "partition", "gpu"),
		"no hex":        {"partition=gpu"},
		"no equals":     {"--help"},
	} {
		t.Run(name, func(t *testing.T) {
			var logged strings.Builder

			got := submit.Answer(args, time.Now(), slog.New(slog.NewTextHandler(&logged, nil)))
			if got = readable(t, got); !strings.HasPrefix(got, "warn ") ||
				!strings.HasSuffix(got, "; the job is let through unchecked; tell an administrator\nend\n") ||
				strings.Count(got, "\n") != 2 {
				t.Errorf("got %q", got)
			}

			if !strings.Contains(logged.String(), "let through") {
				t.Errorf("not logged: %q", logged.String())
			}
		})
	}
}

// The filter links nothing that can reach a network, and opens no socket but syslog's.
func TestR1_FilterCannotReachTheNetwork(t *testing.T) {
	const dir = "../../cmd/pcs-capacity-filter"
	// go test sees that this file has changed, not what `go list` reads of it. The rest of
	// the filter is in this test program.
	if _, err := os.ReadFile(dir + "/main.go"); err != nil {
		t.Fatal(err)
	}

	out, err := exec.Command("go", "list", "-deps", dir).Output()
	if err != nil {
		t.Fatal(err)
	}

	for _, dep := range strings.Fields(string(out)) {
		if dep == "net" || dep == "net/http" || strings.Contains(dep, "aws-sdk") || strings.Contains(dep, "smithy") {
			t.Errorf("links %s", dep)
		}
	}
}

// TestMain makes the test program the filter as well: called by that name it is the filter, so
// that `go test` sees a change in it.
func TestMain(m *testing.M) {
	os.Setenv("GORACE", "atexit_sleep_ms=0") // a program built with -race sleeps for a second when it ends
	testscript.Main(m, map[string]func(){"pcs-capacity-filter": func() { os.Exit(submit.Main(os.Args[1:])) }})
}
