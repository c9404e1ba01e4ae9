package state

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	LaunchRate   Lock = "launches.turn" // a launch takes its turn
	HoldRate     Lock = "holds.turn"    // an ODCR takes its turn
)

// tasks say what the holder of a lock does; of other locks one says that another program works there.
var tasks = map[Lock]string{
	PurchaseLock: "another purchase or extension is running",
	SetupLock:    "another `setup` or `teardown` runs",
	WatchLock:    "another `sync --watch` runs",
	PassLock:     "another pass is running",
	LedgerLock:   "another program is changing the ledger of holds",
}

// ErrLocked is the error when another program has the lock.
var ErrLocked = errors.New("another program has the lock")

// Holder is the program that has a lock. Unknown values are left out.
type Holder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"` // of its machine's clock
}

func (h Holder) String() string {
	if h.PID == 0 {
		return "an unknown program"
	}
	return fmt.Sprintf("process %d on host %s, since %s", h.PID, h.Host, capacity.FormatUTC(h.Since))
}

// LockedError is the error of a lock that another program has. It wraps ErrLocked.
type LockedError struct {
	Lock   Lock
	Path   string
	Holder Holder
	ended  error // the context's error, if that ended the wait
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("%s: %s is locked by %s; wait until it ends, or end it",
		cmp.Or(tasks[e.Lock], "another program works there"), e.Path, e.Holder)
}

// Unwrap is ErrLocked, and why the wait ended early.
func (e *LockedError) Unwrap() []error { return []error{ErrLocked, e.ended} }

// lockPoll is the shortest time between two looks at a lock that another program has.
const lockPoll = 50 * time.Millisecond

// Lock takes a lock of the kernel until the returned function is called or this program ends. It waits that long for
// another program that has it, and no longer than ctx lasts; 0 is one try. Then the error is a [*LockedError]. No
// other user can open the file, and so none can lock it.
func (d Dir) Lock(ctx context.Context, which Lock, wait time.Duration) (unlock func(), err error) {
	in, err := d.createPrivate()
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", d, err)
	}
	defer in.close()

	deadline := time.NewTimer(wait)
	defer deadline.Stop()

	for {
		f, locked, err := in.tryLock(which)
		if err != nil {
			return nil, fmt.Errorf("locking %s: %w", d, err)
		}

		if !locked {
			writeHolder(f)

			return func() {
				_ = f.Truncate(0)
				_ = f.Close()
			}, nil
		}

		// Read after the failed try, when the holder has most likely written its name.
		who := &LockedError{Lock: which, Path: filepath.Join(in.path, string(which)), Holder: readHolder(f)}
		_ = f.Close()

		// Who waits for long looks less often.
		select {
		case <-ctx.Done():
			who.ended = ctx.Err()
		case <-deadline.C:
		case <-time.After(min(max(lockPoll, wait/100), max(wait, time.Millisecond))):
			continue
		}

		return nil, who
	}
}

// Watcher returns the `sync --watch` that makes passes with this state_dir, if one runs.
func (d Dir) Watcher() (holder Holder, runs bool, err error) {
	unlock, err := d.Lock(context.Background(), WatchLock, 0)
	if locked := (*LockedError)(nil); errors.As(err, &locked) {
		return locked.Holder, true, nil
	}

	if err != nil {
		return Holder{}, false, err
	}

	// Nobody has it: the lock was only a question.
	unlock()

	return Holder{}, false, nil
}

// turnTries and turnPause bound the wait for other programs that take turns, which takes each a part of a millisecond.
const (
	turnTries = 50
	turnPause = 20 * time.Millisecond
)

// open opens the file of the limit, which is locked until it is closed.
func (r *RateLimit) open() (*os.File, error) {
	in, err := r.dir.createPrivate()
	if err != nil {
		return nil, err
	}
	defer in.close()

	for range turnTries {
		file, locked, err := in.tryLock(r.file)
		if err != nil || !locked {
			return file, err
		}

		_ = file.Close()

		time.Sleep(turnPause)
	}

	return nil, &LockedError{Lock: r.file, Path: filepath.Join(in.path, string(r.file))}
}

// writeHolder writes this program into the file of its lock, which works without, on a full disk.
func writeHolder(f *os.File) {
	host, _ := os.Hostname()
	_ = f.Truncate(0)
	_ = json.NewEncoder(f).Encode(Holder{PID: os.Getpid(), Host: host, Since: time.Now().UTC().Truncate(time.Second)})
}

func readHolder(f io.Reader) (h Holder) {
	if json.NewDecoder(f).Decode(&h) != nil {
		return Holder{}
	}
	return h
}

// tryLock opens the file of a lock, and locks it unless another program has it locked.
func (f *folder) tryLock(which Lock) (file *os.File, locked bool, err error) {
	file, err = f.openForWrite(string(which), os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, addPermissionHint(err)
	}

	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	locked = errors.Is(err, syscall.EWOULDBLOCK)
	if err == nil || locked {
		return file, locked, nil
	}

	_ = file.Close()

	return nil, false, f.wrapError(string(which), &os.PathError{Op: "flock", Err: err})
}
