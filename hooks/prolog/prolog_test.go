package prolog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/hooks/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/hooks/prolog"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

func TestJobEnvironment(t *testing.T) {
	noon := time.Unix(1_800_000_000, 0).UTC()

	const unset = "unset PCS_CAPACITY_RESERVATION_ID\nunset PCS_CAPACITY_REQUEUE\nunset PCS_CAPACITY_FENCE\nunset " +
		"PCS_CAPACITY_RECLAIM\nunset PCS_CAPACITY_END\nunset PCS_CAPACITY_FACTS\n"

	endless := func(s *capacity.Snapshot) { s.Reservations[0].End, s.Reservations[0].Kind = time.Time{}, capacity.ODCR }
	for name, c := range map[string]struct {
		change func(*capacity.Snapshot)
		slot   string
		want   string
	}{
		// It ends 10:50 from noon; EC2 begins 30 minutes before, and the margin is 10.
		"a block": {
			nil,
			"gpu",
			fmt.Sprintf(
				"export PCS_CAPACITY_RESERVATION_ID=%s\nexport PCS_CAPACITY_REQUEUE=%d\nexport "+
					"PCS_CAPACITY_FENCE=%d\nexport PCS_CAPACITY_RECLAIM=%d\nexport PCS_CAPACITY_END=%d\nexport "+
					"PCS_CAPACITY_FACTS=/state/facts/gpu.json\n",
				hookstest.BlockID, 1_800_000_000+36600-90, 1_800_000_000+36600, 1_800_000_000+37200, 1_800_000_000+
					39000),
		},
		"without an end": {
			endless,
			"gpu",
			"export PCS_CAPACITY_RESERVATION_ID=" + hookstest.BlockID +
				"\nunset PCS_CAPACITY_REQUEUE\nunset PCS_CAPACITY_FENCE\nunset PCS_CAPACITY_RECLAIM\nunset " +
				"PCS_CAPACITY_END\nexport PCS_CAPACITY_FACTS=/state/facts/gpu.json\n",
		},
		"several share the slot": {func(s *capacity.Snapshot) {
			endless(s)
			second := s.Reservations[0]
			second.ID = "cr-0second"
			s.Reservations = append(s.Reservations, second)
			slot := &s.Partitions[0].Groups[0].Slots[0]
			slot.ReservationIDs = append(slot.ReservationIDs, second.ID)
		}, "gpu", unset},
		"it has ended": {
			func(s *capacity.Snapshot) { s.Reservations[0].State = capacity.StateExpired },
			"gpu",
			unset,
		},
		"no such slot":    {nil, "gpu-a", unset},
		"no slot of ours": {nil, "", unset},
	} {
		t.Run(name, func(t *testing.T) {
			snap := hookstest.Snapshot(noon)
			snap.KillWait.Duration = 30 * time.Second
			if c.change != nil {
				c.change(snap)
			}

			if got := prolog.JobEnvironment("/state", snap, c.slot, noon); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}

	if got := prolog.JobEnvironment("/state", nil, "gpu", noon); got != unset {
		t.Errorf("without a snapshot: %s", got)
	}
}

// What a Prolog logs, and what it keeps for sync.
func TestPrologRun(t *testing.T) {
	right := capacity.Metadata{InstanceID: "i-1", InstanceType: "p5.48xlarge", AZID: "use2-az1"}
	wrong := right

	wrong.AZID = "use2-az2"
	answers := func(m capacity.Metadata, err error) func(context.Context) (capacity.Metadata, error) {
		return func(context.Context) (capacity.Metadata, error) { return m, err }
	}

	const differs = "its instance i-1 is in use2-az2, but reservation " + hookstest.BlockID + " is in use2-az1"
	for name, c := range map[string]struct {
		slot     string
		age      time.Duration // of the snapshot
		metadata func(context.Context) (capacity.Metadata, error)
		logs     string // "": nothing
		keeps    string // of what was there before, node gpu-1 of instance i-0; "": nothing
	}{
		"the same":     {"gpu", 0, answers(right, nil), "the instance matches its reservation", ""},
		"differs":      {"gpu", 0, answers(wrong, nil), differs, "i-1"},
		"no answer":    {"gpu", 0, answers(capacity.Metadata{}, errors.New("refused")), "refused", "i-0"},
		"old snapshot": {"gpu", 11 * time.Hour, answers(wrong, nil), "", "i-0"},
		"no such slot": {"gpu-a", 0, answers(wrong, nil), "", "i-0"},
		"never answers": {"gpu", 0, func(ctx context.Context) (capacity.Metadata, error) {
			<-ctx.Done()
			return capacity.Metadata{}, ctx.Err()
		}, "deadline exceeded", "i-0"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := state.Dir(t.TempDir())
				snap := hookstest.Snapshot(time.Now().Add(-c.age))
				// This machine is 20 minutes late, which would make no snapshot old.
				snap.ClockOffset = capacity.Duration{Duration: 20 * time.Minute}
				snap.TakenAt = snap.TakenAt.Add(20 * time.Minute)
				if err := dir.WriteSnapshot(snap); err != nil {
					t.Fatal(err)
				}

				before := state.Misplaced{Node: "gpu-1", Metadata: capacity.Metadata{InstanceID: "i-0"}}
				if err := dir.SaveMisplaced(before); err != nil {
					t.Fatal(err)
				}

				var log bytes.Buffer

				began := time.Now() // of the bubble: only a wait makes it later
				prolog.Prolog{
					State:       dir,
					Metadata:    c.metadata,
					MachineTime: time.Now,
					Log:         slog.New(slog.NewTextHandler(&log, nil)),
				}.Run(
					t.Context(),
					"gpu-1",
					c.slot,
					"7",
				)

				if waited := time.Since(began); waited > prolog.PrologDeadline ||
					(waited > 0) != (name == "never answers") {
					t.Errorf("waited %s", waited)
				}

				if !strings.Contains(log.String(), c.logs) || c.logs == "" && log.Len() > 0 {
					t.Errorf("logged %q, want %q", log.String(), c.logs)
				}

				if strings.Contains(log.String(), "sync will not learn of it") {
					t.Errorf("logged %q", log.String())
				}

				kept, err := dir.Misplaced()
				if err != nil {
					t.Fatal(err)
				}

				ids := ""
				for _, m := range kept {
					ids += m.Metadata.InstanceID
				}

				if ids != c.keeps {
					t.Errorf("kept %+v, want %q", kept, c.keeps)
				}

				if c.keeps == "i-1" && !kept[0].At.Equal(began.Add(20*time.Minute)) {
					t.Errorf("at %s, which is not AWS's time", kept[0].At)
				}
			})
		})
	}
}

// Without a snapshot nothing is asked and nothing is said: state_dir need not be shared.
func TestPrologRunWithoutSnapshot(t *testing.T) {
	var log bytes.Buffer
	prolog.Prolog{
		State:       state.Dir(t.TempDir()),
		MachineTime: time.Now,
		Log:         slog.New(slog.NewTextHandler(&log, nil)),
	}.Run(
		t.Context(),
		"gpu-1",
		"gpu",
		"7",
	)

	if log.Len() > 0 {
		t.Errorf("logged %s", log.String())
	}
}

// The Prolog runs before every job: it links no AWS SDK.
func TestPrologLinksNoSDK(t *testing.T) {
	const dir = "../../cmd/pcs-capacity-prolog"
	if _, err := os.ReadFile(dir + "/main.go"); err != nil { // so that go test sees a change
		t.Fatal(err)
	}

	out, err := exec.Command("go", "list", "-deps", dir).Output()
	if err != nil {
		t.Fatal(err)
	}

	deps := strings.Fields(string(out))
	if len(deps) < 50 {
		t.Fatalf("links only %v", deps)
	}

	for _, dep := range deps {
		if strings.Contains(dep, "aws-sdk") || strings.Contains(dep, "smithy") {
			t.Errorf("links %s", dep)
		}
	}
}

// The script of docs/wiring.md, for nodes without the program and beside a site's own Prolog, fails no job.
func TestScriptOfTheDocument(t *testing.T) {
	const program = "/usr/libexec/pcs-capacity/pcs-capacity-prolog"

	text, err := os.ReadFile("../../docs/wiring.md")
	if err != nil {
		t.Fatal(err)
	}

	_, script, _ := strings.Cut(string(text), "```sh\n#!/bin/sh\n")
	script, _, found := strings.Cut(script, "```")
	if !found || !strings.Contains(script, program) {
		t.Fatal("docs/wiring.md has no script that calls pcs-capacity-prolog")
	}

	failing := filepath.Join(t.TempDir(), "prolog")
	if err := os.WriteFile(failing, []byte("#!/bin/sh\necho export A=1\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}

	for path, want := range map[string]string{"/nowhere/prolog": "", failing: "export A=1\n"} {
		out, err := exec.Command("sh", "-c", strings.ReplaceAll(script, program, path)).CombinedOutput()
		if err != nil || string(out) != want {
			t.Errorf("with %s: %v: %q", path, err, out)
		}
	}
}
