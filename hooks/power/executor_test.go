package power

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// executing is an executor on simulated EC2, with a Slurm whose commands are a script.
func executing(t *testing.T, scontrol string) (*executor, *strings.Builder) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"scontrol", "squeue"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+scontrol+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	var log strings.Builder
	s := &Site{Cluster: "ml", Slurm: &slurm.Client{}, EC2: simulatedEC2(t), State: state.Dir(filepath.Join(dir, "state")), MachineTime: func() time.Time { return noon },
		Log: slog.New(slog.NewTextHandler(&log, nil)), Settings: capacity.Settings{Reserve: capacity.Reserve{Enabled: true, MaxInstances: 4}}}
	return s.executor(t.Context(), t.Context(), time.Minute), &log
}

// The ledger holds what may be held, and an entry keeps the end of its first order.
func TestLedgerOfTheExecutor(t *testing.T) {
	x, _ := executing(t, "")
	if err := x.State.Create(); err != nil {
		t.Fatal(err)
	}
	enlist := func(token, id string, count int, minutes int) Answer {
		return x.Do(t.Context(), Enlist{capacity.Held{Token: token, ReservationID: id, InstanceType: wanted, Count: count, Until: noon.Add(time.Duration(minutes) * time.Minute)}})
	}
	if a := enlist("a", "", 3, 60); a.Failure != nil || !a.Held.Until.IsZero() {
		t.Errorf("the first: %+v", a)
	}
	if a := enlist("b", "", 2, 60); !a.Failure.is(capacity.NoRoom) || a.Failure.Code != string(capacity.ReserveLimit) {
		t.Errorf("more than may be held: %+v", a.Failure)
	}
	if a := enlist("a", "", 3, 70); a.Failure != nil || !a.Held.Until.Equal(noon.Add(time.Hour)) {
		t.Errorf("the same again: %+v", a)
	}
	x.Settings.Reserve.MaxInstances = 1
	if a := enlist("a", one, 3, 60); a.Failure != nil {
		t.Errorf("what is held already: %+v", a.Failure)
	}
	held, err := x.State.Held(noon)
	if err != nil || len(held) != 1 || held[0].ReservationID != one || !held[0].Until.Equal(noon.Add(time.Hour)) || held[0].Since.IsZero() {
		t.Errorf("%+v, %v", held, err)
	}
	x.Do(t.Context(), MarkFull{one, 3})
	if full, err := x.State.Full(noon.Add(fullTime - time.Second)); err != nil || full[one] != 3 {
		t.Errorf("%v, %v", full, err)
	}
	if a := x.Do(t.Context(), Unlist{"a"}); a.Failure != nil {
		t.Error(a.Failure)
	}
	if held, err := x.State.Held(noon); err != nil || len(held) != 0 {
		t.Errorf("%+v, %v", held, err)
	}
}

// What begins something is not tried any more when there is no time; what must be done still is.
func TestNoTime(t *testing.T) {
	x, _ := executing(t, "")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	x.work = over
	for _, e := range []capacity.Effect{Launch{}, Hold{}, AskStates{[]string{"i-0e2000000000000a1"}}} {
		if a := x.Do(t.Context(), e); !a.Failure.is(capacity.NotTried) || a.Failure.Code != string(capacity.NoTime) {
			t.Errorf("%s: %+v", e.Code(), a.Failure)
		}
	}
	if a := x.Do(t.Context(), Wait{}); a.Failure != nil {
		t.Error(a.Failure)
	}
	if a := x.Do(t.Context(), SendDown{[]string{"gpu-1"}, "no room"}); a.Failure != nil {
		t.Error(a.Failure)
	}
}

// EC2's answer is kept, code and words, of each of several; what is done goes into the log, in the
// words of the effect.
func TestAnswersAndLog(t *testing.T) {
	x, log := executing(t, "echo no >&2; exit 1")
	if a := x.Do(t.Context(), AskImage{"lt-0ffffffffffffffff"}); a.Failure == nil || a.Failure.EC2Code != a.Failure.Code || !strings.HasPrefix(a.Failure.Code, "InvalidLaunchTemplateId") {
		t.Errorf("%+v", a.Failure)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	x.last = over
	if a := x.Do(t.Context(), Release{[]string{one, two}}); len(a.Failures) != 2 || a.Failures[one] == nil || a.Failures[two] == nil || a.Failure == nil {
		t.Errorf("%+v", a)
	}
	x.Do(t.Context(), SendDown{[]string{"gpu-2", "gpu-1"}, "no room"})
	x.Do(t.Context(), Adopt{[]string{"gpu-1"}})
	for _, line := range []string{`level=WARN msg="failed to send nodes down: no room" effect=send-down nodes=gpu-[1-2] err=`, `level=INFO msg="adopted what an earlier run launched" effect=adopt nodes=gpu-1`} {
		if !strings.Contains(log.String(), line) {
			t.Errorf("the log does not have %s:\n%s", line, log)
		}
	}
	none := failureOf(fmt.Errorf("x: %w", errNoTime))
	if none != errNoTime || failureOf(errors.New("cut")).Outcome != capacity.Unknown || failureOf(fmt.Errorf("%w: cut", capacity.ErrNoRoom)).Outcome != capacity.NoRoom {
		t.Error("an outcome is lost")
	}
}

// A power-down insists on what it cannot do without, and only on that.
func TestInsists(t *testing.T) {
	x, _ := executing(t, `n=$0.$$; d=${0%/*}; echo >>$d/calls; [ "$(grep -c . $d/calls)" ] && [ -e $d/again ] && exit 0; touch $d/again; exit 1`)
	x.insists = true
	if a := x.Do(t.Context(), SendDown{[]string{"gpu-1"}, "not booted"}); a.Failure != nil {
		t.Errorf("the second time Slurm takes it: %v", a.Failure)
	}
	if insistent(AskRecords{}) || insistent(AskJobs{}) || !insistent(Terminate{}) || !insistent(AskInstances{}) || !insistent(AskGivenUp{}) {
		t.Error("what is insisted on")
	}
}

// A job may be launched, and refused, in its other partitions as soon as it is released: what that launch writes stays.
func TestNothingIsWrittenAfterARelease(t *testing.T) {
	x, _ := executing(t, `case "$*" in *admincomment=*) echo "${*##*admincomment=}" >"${0%/*}/note";; *release*) echo "the next" >>"${0%/*}/note";; esac`)
	if a := x.Do(t.Context(), GoOn{"9", "gpu", "it goes on"}); a.Failure != nil {
		t.Fatal(a.Failure)
	}
	dir, _, _ := strings.Cut(os.Getenv("PATH"), string(filepath.ListSeparator))
	if note, err := os.ReadFile(filepath.Join(dir, "note")); err != nil || string(note) != "it goes on\nthe next\n" {
		t.Errorf("%q, %v", note, err)
	}
}

// An effect says the same of itself as what it does: a code, a subject, and a sentence of two tenses.
func TestEffectsHaveWords(t *testing.T) {
	codes := map[string]bool{}
	for _, e := range []capacity.Effect{Adopt{}, Terminate{}, AskImage{}, Enlist{}, Unlist{}, Hold{}, Release{}, Launch{}, MarkFull{}, AskLeft{}, AskStates{}, Wait{}, SetAddresses{}, Tell{}, SendDown{},
		AskJobs{}, AskRecords{}, Begin{}, Comment{}, AllowRequeue{}, Requeue{}, Cancel{}, HoldJobs{}, GoOn{}, AskGivenUp{}, AskInstances{}, Configure{}} {
		if codes[e.Code()] || e.Code() == "" || e.Sentence(capacity.Will) == "" || e.Sentence(capacity.Did) == "" {
			t.Errorf("%T: %q, %q, %q", e, e.Code(), e.Sentence(capacity.Will), e.Sentence(capacity.Did))
		}
		codes[e.Code()] = true
	}
}
