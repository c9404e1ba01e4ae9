// Package model is a cluster in memory: slurmctld, EC2 and PCS, as far as blocks and jobs meet in them, behind the
// calls that the product makes. It has their refusals and their unkind parts: boot time pushes the end of a job past a
// reservation, an old Slurm cuts jobs with --time-min to their floor, an active reservation cannot be moved, EC2 shows
// late what it did, answers get lost. Its clock is set; time passes only then. It is for tests that take milliseconds.
package model

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Mark is the mark of the modeled cluster.
const Mark = "lab/0123456789abcdef"

// Model is a cluster, and the region of AWS that it runs in.
type Model struct {
	Slurm *Slurm
	EC2   *EC2
	PCS   *PCS
	Skew  time.Duration // Slurm's clock minus AWS's
	// Before is called before each call has its effect: with its error there is none. After is called after it: its
	// error is the answer, so that the caller does not know. Who is called may panic, which kills the caller, in the
	// middle of changes: reads may come from several goroutines at once.
	Before, After func(Call) error

	mu sync.Mutex
}

// Dir returns a temporary folder in memory, where there is one: state_dir is made sure of on the disk at each change.
func Dir(t interface {
	TempDir() string
	Cleanup(func())
},
) string {
	dir, err := os.MkdirTemp("/dev/shm", "model")
	if err != nil {
		return t.TempDir()
	}

	t.Cleanup(func() { os.RemoveAll(dir) })

	return dir
}

// Call is a call that the product makes.
type Call struct {
	Verb   string // "set time limit"
	Text   string // "of job 7 to 01:00:00"
	Change bool   // it is no read
	EC2    bool   // it is no call of Slurm
}

// New returns an empty model at a time of Slurm's clock.
func New(now time.Time) *Model {
	w := &Model{}
	w.Slurm = &Slurm{
		Model:        w,
		Now:          now,
		Boot:         5 * time.Minute,
		RequeueDelay: 2 * time.Minute,
		KillWait:     30 * time.Second,
		Fences:       map[string]Reservation{},
	}
	w.EC2 = &EC2{
		Model:     w,
		Extended:  map[string][]capacity.Extension{},
		Templates: map[string]capacity.LaunchTemplate{},
		before:    map[string]change{},
		tokens:    map[string]*order{},
	}
	w.EC2.Pools = &Pools{ec2: w.EC2, All: map[string][]string{}, Tags: map[string]map[string]string{}}
	w.PCS = &PCS{Model: w}

	return w
}

// Now returns the time by AWS's clock.
func (w *Model) Now() time.Time { return w.Slurm.Now.Add(-w.Skew) }

// AdvanceTo lets time pass up to a moment of AWS's clock: jobs end, nodes boot, reservations begin and end, jobs start.
func (w *Model) AdvanceTo(to time.Time) {
	s := w.Slurm
	for to = to.Add(w.Skew); ; {
		s.advance()
		s.runPrograms()

		if !s.Now.Before(to) {
			return
		}

		s.Now = s.next(to)
	}
}

// MarkIn writes the id of the cluster into slurmctld's folder.
func (w *Model) MarkIn(dir string) error {
	w.Slurm.StateSave = dir
	if err := os.WriteFile(filepath.Join(dir, "clustername"), []byte("lab\n"), 0o644); err != nil {
		return err
	}

	return os.WriteFile(filepath.Join(dir, "pcs-capacity-id"), []byte(Mark[len("lab/"):]+"\n"), 0o644)
}

// Do has a call have its effect.
func (w *Model) Do(c Call, do func() error) error {
	if w.Before != nil {
		if err := w.Before(c); err != nil {
			return err
		}
	}

	err := func() error {
		w.mu.Lock()
		defer w.mu.Unlock()

		if c.EC2 {
			w.EC2.date()
		}

		return do()
	}()

	if w.After != nil {
		if lost := w.After(c); lost != nil {
			return lost
		}
	}

	return err
}

// change makes a call that changes AWS.
func (w *Model) change(verb, text string, do func() error) error {
	return w.Do(Call{Verb: verb, Text: text, Change: true, EC2: true}, do)
}

// answer makes a call and returns its result.
func answer[T any](w *Model, c Call, do func() (T, error)) (made T, err error) {
	if err = w.Do(c, func() (err error) { made, err = do(); return err }); err != nil {
		made = *new(T)
	}
	return made, err
}

// checkName returns the named one of all; nil if there is none.
func checkName[T any](all []T, is func(T) bool) *T {
	if i := slices.IndexFunc(all, is); i >= 0 {
		return &all[i]
	}
	return nil
}

// Host is the controller, on which hooks run: they see the whole model and their files.
type Host struct {
	*Slurm
	*EC2
	*PCS
	state.Dir
}

// Reservations returns EC2's reservations.
func (h Host) Reservations(ctx context.Context, ids []string) ([]capacity.Reservation, []capacity.Missing, error) {
	return h.EC2.Reservations(ctx, ids)
}

// AppendRecords writes records into state_dir.
func (h Host) AppendRecords(records ...state.Record) error {
	var text []string
	for _, r := range records {
		text = append(text, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Hook, r.Code, r.Nodes)))
	}

	return h.EC2.Do(
		Call{Verb: "record", Text: strings.Join(text, ", "), Change: true},
		func() error { return h.Dir.AppendRecords(records...) },
	)
}

// AddHold notes an ODCR in the ledger.
func (h Host) AddHold(
	of capacity.Hold,
	now time.Time,
	allowed func(more capacity.Hold, others []capacity.Hold) error,
) (capacity.Hold, error) {
	text := strings.TrimSpace(fmt.Sprintf("%d, token %s %s", of.Count, of.Token, of.ReservationID))

	return answer(
		h.EC2.Model,
		Call{Verb: "enlist", Text: text, Change: true},
		func() (capacity.Hold, error) { return h.Dir.AddHold(of, now, allowed) },
	)
}

// RemoveHolds takes ODCRs out of the ledger.
func (h Host) RemoveHolds(now time.Time, names ...string) error {
	return h.EC2.Do(
		Call{Verb: "unlist", Text: "token " + strings.Join(names, ","), Change: true},
		func() error { return h.Dir.RemoveHolds(now, names...) },
	)
}
