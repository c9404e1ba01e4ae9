// Package model is a cluster in memory: slurmctld and EC2, as far as blocks and jobs meet in them, behind the calls that
// the product makes. It has their refusals and their unkind parts: boot time pushes the end of a job past a reservation,
// an old Slurm cuts jobs with --time-min to their floor, an active reservation cannot be moved, EC2 shows late what it
// did, answers get lost. Its clock is set; time passes only then. It is for tests that take milliseconds.
package model

import (
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Mark is the mark of the modeled cluster.
const Mark = "lab/0123456789abcdef"

// World is a cluster, and the region of AWS that it runs in.
type World struct {
	Slurm *Slurm
	EC2   *EC2
	// Skew is Slurm's clock minus AWS's.
	Skew time.Duration
	// Before is called before each call has its effect: with its error there is none. After is called after it: its
	// error is the answer, so that the caller does not know. Who is called may panic, which kills the caller, in the
	// middle of changes: reads may come from several goroutines at once.
	Before, After func(Call) error

	mu sync.Mutex
}

// Call is a call that the product makes.
type Call struct {
	Verb   string // "set time limit"
	Text   string // "of job 7 to 01:00:00"
	Change bool   // it is no read
	EC2    bool   // it is no call of Slurm
}

// New is an empty world at a time of Slurm's clock.
func New(now time.Time) *World {
	w := &World{}
	w.Slurm = &Slurm{World: w, Now: now, Boot: 5 * time.Minute, RequeueDelay: 2 * time.Minute, KillWait: 30 * time.Second, Fences: map[string]Reservation{}}
	w.EC2 = &EC2{World: w, before: map[string]change{}}
	return w
}

// Now is the time by AWS's clock.
func (w *World) Now() time.Time { return w.Slurm.Now.Add(-w.Skew) }

// GoTo lets time pass up to a moment of AWS's clock: jobs end, nodes boot, reservations begin and end, jobs start.
func (w *World) GoTo(to time.Time) {
	s := w.Slurm
	for to = to.Add(w.Skew); ; {
		s.happen()
		if !s.Now.Before(to) {
			return
		}
		s.Now = s.next(to)
	}
}

// MarkIn writes the id of the cluster into slurmctld's folder.
func (w *World) MarkIn(dir string) error {
	w.Slurm.StateSave = dir
	if err := os.WriteFile(filepath.Join(dir, "clustername"), []byte("lab\n"), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "pcs-capacity-id"), []byte(Mark[len("lab/"):]+"\n"), 0o644)
}

// call is one call of the product.
func (w *World) call(c Call, do func() error) error {
	if w.Before != nil {
		if err := w.Before(c); err != nil {
			return err
		}
	}
	err := func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		return do()
	}()
	if w.After != nil {
		if lost := w.After(c); lost != nil {
			return lost
		}
	}
	return err
}
