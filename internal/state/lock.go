package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Lock names a task that one program at a time does with a state_dir.
type Lock string

// The locks, by the names of their files. A program that takes several takes them in this order.
const (
	PurchaseLock Lock = "purchase.lock" // a purchase, an extension, or a record of one
	SetupLock    Lock = "setup.lock"    // `setup` or `teardown` reads, plans and changes a cluster's set-up
	WatchLock    Lock = "watch.lock"    // `sync --watch` makes passes again and again
	PassLock     Lock = "sync.lock"     // a pass of the control loop
	LedgerLock   Lock = "held.lock"     // the ledger of holds changes
	recordsLock  Lock = "hooks.lock"    // the hooks' records are set aside
)

// does names the task of the lock's holder, in a sentence.
func (l Lock) does() string {
	switch l {
	case PurchaseLock:
		return "another purchase or extension runs"
	case SetupLock:
		return "another `setup` or `teardown` runs"
	case WatchLock:
		return "another `sync --watch` runs"
	case PassLock:
		return "another pass runs"
	case LedgerLock:
		return "another program changes what is held"
	}
	return "another program works there"
}

// ErrLocked is the error when another program has the lock.
var ErrLocked = errors.New("another program has the lock")

// Holder is the program that has a lock. Unknown values are left out.
type Holder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"` // of its machine's clock
	// Boot is that of [Here] on its machine.
	Boot string `json:"boot,omitempty"`
	// Token is new for each claim.
	Token string `json:"token,omitempty"`
	// Beat counts the renewals of a [Lease], At is the last one's time by the holder's clock.
	Beat int       `json:"beat,omitempty"`
	At   time.Time `json:"at,omitzero"`
}

// process reports whether two holders are one process.
func (h Holder) process(o Holder) bool { return h.PID == o.PID && h.Host == o.Host && h.Boot == o.Boot }

func (h Holder) String() string {
	if h.PID == 0 {
		return "a program that has not said who it is"
	}
	return fmt.Sprintf("process %d on host %s, since %s", h.PID, h.Host, capacity.FormatUTC(h.Since))
}

// LockedError is the error of a lock that another program has. It wraps ErrLocked.
type LockedError struct {
	Lock   Lock
	Path   string
	Holder Holder
	// ended is the context's error, if that ended the wait.
	ended error
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("%s: %s has %s; wait until it ends, or end it", e.Lock.does(), e.Holder, e.Path)
}

// Unwrap is ErrLocked, and why the wait ended early.
func (e *LockedError) Unwrap() []error {
	if e.ended != nil {
		return []error{ErrLocked, e.ended}
	}
	return []error{ErrLocked}
}

// lockPoll is the time between two looks at a lock that another program has.
const lockPoll = 50 * time.Millisecond

// Lock takes a lock until the returned function is called or this program ends: see [Dir.Claim].
func (d Dir) Lock(ctx context.Context, which Lock, wait time.Duration) (unlock func(), err error) {
	c, err := d.Claim(ctx, which, wait)
	if err != nil {
		return nil, err
	}
	return c.Release, nil
}

// Claim takes a lock until Release or the end of this program. It waits that long for another
// program that has it, and no longer than ctx lasts; 0 is one try. Then the error is a
// [*LockedError]. No other user can open the file, and so none can lock it.
func (d Dir) Claim(ctx context.Context, which Lock, wait time.Duration) (*Claim, error) {
	in, err := d.private()
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", d, err)
	}
	defer in.close()
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	for {
		f, locked, err := in.try(which)
		if err != nil {
			return nil, fmt.Errorf("locking %s: %w", d, err)
		}
		if !locked {
			return d.claimed(in, which, f), nil
		}
		who := &LockedError{Lock: which, Path: filepath.Join(in.path, string(which)), Holder: readHolder(f)}
		_ = f.Close()
		select {
		case <-ctx.Done():
			who.ended = ctx.Err()
		case <-deadline.C:
		case <-time.After(min(lockPoll, max(wait, time.Millisecond))):
			continue
		}
		return nil, who
	}
}

// try opens the file of a lock, and locks it unless another program has it locked.
func (f *folder) try(which Lock) (file *os.File, locked bool, err error) {
	for {
		file, err := f.edit(string(which), os.O_RDWR, 0o600)
		if err != nil {
			return nil, false, ask(err)
		}
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil && f.names(which, file):
			return file, false, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return file, true, nil
		}
		_ = file.Close()
		// Else a signal came, or another program took this file away.
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return nil, false, f.at(string(which), &os.PathError{Op: "flock", Err: err})
		}
	}
}

// names reports whether a lock still has this file.
func (f *folder) names(which Lock, file *os.File) bool {
	now, err := f.root.Lstat(string(which))
	if err != nil {
		return false
	}
	info, err := file.Stat()
	return err == nil && os.SameFile(now, info)
}
