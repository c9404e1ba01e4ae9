package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

func TestLockPass(t *testing.T) {
	dir := Dir(t.TempDir())
	unlock, err := dir.Lock(t.Context(), PassLock, 0)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := dir.Lock(short, PassLock, time.Minute); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrLocked) {
		t.Fatalf("a second pass while the first runs: %v", err)
	}
	got := make(chan error)
	go func() {
		second, err := dir.Lock(t.Context(), PassLock, time.Minute)
		if err == nil {
			second()
		}
		got <- err
	}()
	unlock()
	if err := <-got; err != nil {
		t.Fatalf("after the first has ended: %v", err)
	}
}

// Who waits for a lock learns who has it, and waits no longer than its deadline.
func TestLockNamesItsHolder(t *testing.T) {
	dir := Dir(t.TempDir())
	host, _ := os.Hostname()
	for _, which := range []Lock{PurchaseLock, SetupLock, WatchLock, PassLock, LedgerLock, recordsLock} {
		unlock, err := dir.Lock(t.Context(), which, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = dir.Lock(t.Context(), which, 10*time.Millisecond)
		unlock()
		var locked *LockedError
		if !errors.As(err, &locked) || locked.Holder.PID != os.Getpid() || locked.Holder.Host != host || time.Since(locked.Holder.Since) > time.Hour {
			t.Errorf("%s: %#v", which, err)
		}
		if says := fmt.Sprintf("process %d on host %s, since ", os.Getpid(), host); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), string(which)) {
			t.Errorf("%s: %v, want %q in it", which, err, says)
		}
	}
}

// flock(2) works on a file that is open for reading: another user must not be able to open one
// that we lock, in any way.
func TestUsersCannotOpenLocks(t *testing.T) {
	dir := Dir(filepath.Join(t.TempDir(), "state"))
	for _, which := range []Lock{PurchaseLock, SetupLock, WatchLock, PassLock, LedgerLock, recordsLock} {
		unlock, err := dir.Lock(t.Context(), which, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unlock()
	}
	now := time.Now()
	h := capacity.Held{Token: "t", Until: now.Add(time.Hour)}
	defer func(was time.Duration) { ledgerWait = was }(ledgerWait)
	ledgerWait = time.Millisecond
	if _, err := dir.Enlist(h, now, func(capacity.Held, []capacity.Held) error { return nil }); !errors.Is(err, ErrLocked) {
		t.Errorf("the ledger, while another program changes it: %v", err)
	}
	locks := 0
	err := filepath.WalkDir(string(dir), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if e.IsDir() && e.Name() == privateFolder && info.Mode().Perm() != 0o700 || !e.IsDir() && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %04o", path, info.Mode().Perm())
		}
		if strings.HasSuffix(path, "lock") {
			locks++
			if filepath.Base(filepath.Dir(path)) != privateFolder {
				t.Errorf("%s can be opened by every user", path)
			}
		}
		return nil
	})
	if err != nil || locks != 6 {
		t.Errorf("%v, %d locks", err, locks)
	}
}
