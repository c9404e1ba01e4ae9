package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// ErrLocked is the reason when another program has the lock.
var ErrLocked = errors.New("another program has the lock")

// LockPass keeps a second pass of the control loop out until the returned function is
// called or this program ends. It waits until ctx ends for one that runs already.
func (d Dir) LockPass(ctx context.Context) (unlock func(), err error) {
	for {
		unlock, err := d.lock("sync.lock")
		if err == nil {
			return unlock, nil
		}
		if !errors.Is(err, ErrLocked) {
			return nil, fmt.Errorf("locking the pass: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("another pass runs with %s: %w; wait until it ends", filepath.Join(string(d), "sync.lock"), ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// LockWatch is for the one program that makes passes again and again. Another one that
// has the lock is ErrLocked.
func (d Dir) LockWatch() (unlock func(), err error) { return d.lock("watch.lock") }

// lock takes a lock that the end of this program gives back.
func (d Dir) lock(name string) (unlock func(), err error) {
	if err := d.Create(); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(string(d), name), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("%w; run it as the user that state_dir belongs to", err)
	}
	if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrLocked
		}
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return func() { _ = f.Close() }, nil
}
