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

// LockPass keeps a second pass of the control loop out until the returned function is
// called or this program ends. It waits until ctx ends for one that runs already.
func (d Dir) LockPass(ctx context.Context) (unlock func(), err error) {
	if err := d.Create(); err != nil {
		return nil, fmt.Errorf("locking the pass: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(string(d), "sync.lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking the pass: %w; run it as the user that state_dir belongs to", err)
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return func() { _ = f.Close() }, nil
		case !errors.Is(err, syscall.EWOULDBLOCK):
			_ = f.Close()
			return nil, fmt.Errorf("locking the pass with %s: %w", f.Name(), err)
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, fmt.Errorf("another pass runs with %s: %w; wait until it ends", f.Name(), ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
