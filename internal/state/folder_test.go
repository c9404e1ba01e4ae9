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

// aDeed is one of all that writes into a state_dir.
type aDeed struct {
	file string // in the state_dir
	do   func(d Dir) error
}

func deeds() []aDeed {
	now := time.Now()
	sample := Sample{At: now, Paid: map[string]*Paid{"cr-1": {}}}

	return []aDeed{
		{snapshotFile, func(d Dir) error { return d.WriteSnapshot(&capacity.Snapshot{}) }},
		{rosterFile, func(d Dir) error { return d.WriteSnapshot(&capacity.Snapshot{}) }},
		{
			factsFolder + "/gpu.json",
			func(d Dir) error { return d.WriteJobFacts(map[string]JobFacts{"gpu": {Slot: "gpu"}}) },
		},
		{markFile, func(d Dir) error { return d.KeptMark().Save("a") }},
		{misplacedFolder + "/n.json", func(d Dir) error { return d.SaveMisplaced(Misplaced{Node: "n"}) }},
		{"private/" + holdsFile, func(d Dir) error {
			_, err := d.AddHold(
				capacity.Hold{Token: "t", Until: now.Add(time.Hour)},
				now,
				func(capacity.Hold, []capacity.Hold) error { return nil },
			)

			return err
		}},
		{"private/" + jobRecordsFile, func(d Dir) error { return d.JobRecords().Save(map[string]JobRecord{"1": {}}) }},
		{"private/notices.json", func(d Dir) error { return d.Notices().Save(map[string]time.Time{"a": now}) }},
		{"private/setbacks.json", func(d Dir) error { return d.Setbacks().Save(map[string]Setback{"a": {}}) }},
		{"private/" + recordFile, func(d Dir) error { return d.AppendRecords(Record{Hook: "resume"}) }},
		{"private/" + lastSampleFile, func(d Dir) error { return d.AppendSample(sample, nil, time.Minute) }},
		{
			"private/" + now.UTC().Format(sampleName),
			func(d Dir) error { return d.AppendSample(sample, nil, time.Minute) },
		},
		{"private/intents/buy-1.json", func(d Dir) error { return d.WritePrivate("intents/buy-1.json", nil) }},
		{"private/" + string(PassLock), func(d Dir) error {
			unlock, err := d.Lock(context.Background(), PassLock, 0)
			if err == nil {
				unlock()
			}

			return err
		}},
	}
}

// The owner of state_dir, who may be SlurmUser, places a symbolic link where root writes, in the place of a file or of
// the folder that it is in: nothing is written, made, removed or opened to all where the link leads.
func TestNoLinkLeadsOut(t *testing.T) {
	for _, a := range deeds() {
		for _, linked := range append(parents(a.file), a.file) {
			t.Run(strings.ReplaceAll(a.file+" by "+linked, "/", "-"), func(t *testing.T) {
				dir, elsewhere := Dir(filepath.Join(t.TempDir(), "state")), t.TempDir()
				for _, name := range []string{filepath.Base(a.file), "gpu.json", "other.json", holdsFile} {
					if err := os.WriteFile(filepath.Join(elsewhere, name), []byte("{}"), 0o600); err != nil {
						t.Fatal(err)
					}
				}

				if err := os.Chmod(elsewhere, 0o700); err != nil {
					t.Fatal(err)
				}

				target := elsewhere
				if linked == a.file {
					target = filepath.Join(elsewhere, filepath.Base(a.file))
				}

				before := describe(t, elsewhere)
				link := filepath.Join(string(dir), linked)
				if err := errors.Join(dir.Create(), os.MkdirAll(filepath.Dir(link), 0o700), os.Symlink(target, link)); err != nil {
					t.Fatal(err)
				}

				_ = a.do(dir) // it replaces the link, or fails

				if after := describe(t, elsewhere); after != before {
					t.Errorf("where the link leads there was\n%s and now is\n%s", before, after)
				}
			})
		}
	}
}

// parents are the folders of a file in a state_dir.
func parents(file string) (all []string) {
	for dir := filepath.Dir(file); dir != "."; dir = filepath.Dir(dir) {
		all = append(all, dir)
	}
	return all
}

func describe(t *testing.T, dir string) string {
	t.Helper()

	var b strings.Builder

	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		info, err := e.Info()
		if err != nil {
			return err
		}

		text, _ := os.ReadFile(path)
		uid, _ := ownerOf(info)
		b.WriteString(path + " " + info.Mode().String() + " " + string(rune('0'+uid%10)) + " " + string(text) + "\n")

		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	return b.String()
}

// A second name of a file elsewhere, which only root may write, is not written.
func TestNoSecondNameIsWritten(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root writes into another's folder")
	}

	dir, elsewhere := Dir(filepath.Join(t.TempDir(), "state")), filepath.Join(t.TempDir(), "passwd")
	if err := errors.Join(dir.Create(), os.Chown(string(dir), slurmUser, slurmUser), os.Mkdir(dir.PrivatePath(""), 0o700),
		os.WriteFile(elsewhere, []byte("root"), 0o600), os.Link(elsewhere, dir.PrivatePath(string(PassLock))),
		os.Link(elsewhere, dir.PrivatePath(recordFile)), os.Chown(dir.PrivatePath(""), slurmUser, slurmUser)); err != nil {
		t.Fatal(err)
	}

	if _, err := dir.Lock(t.Context(), PassLock, 0); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("locked: %v", err)
	}
	if err := dir.AppendRecords(Record{}); err == nil {
		t.Error("records are written there")
	}

	if text, err := os.ReadFile(elsewhere); err != nil || string(text) != "root" {
		t.Errorf("%q, %v", text, err)
	}
}

// slurmUser stands for SlurmUser.
const slurmUser = 64030

// Root's sync and the hooks of SlurmUser, who owns state_dir, work with the same files, whoever
// of them came first, and after root was ended between making the folder and giving it away.
func TestRootGivesToTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root writes into another's folder")
	}

	for name, before := range map[string]func(Dir) error{
		"new":     func(Dir) error { return nil },
		"cut off": func(d Dir) error { return os.Mkdir(d.PrivatePath(""), 0o700) },
		"of root": func(d Dir) error {
			return errors.Join(os.Mkdir(d.PrivatePath(""), 0o700), os.WriteFile(d.PrivatePath(recordFile), nil, 0o600))
		},
		"open to all": func(d Dir) error {
			private := d.PrivatePath("")
			return errors.Join(os.Mkdir(private, 0o700), os.Chmod(private, 0o777),
				os.Chown(private, slurmUser, slurmUser))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := Dir(filepath.Join(t.TempDir(), "state"))
			if err := errors.Join(dir.Create(), os.Chown(string(dir), slurmUser, slurmUser), before(dir)); err != nil {
				t.Fatal(err)
			}

			for _, a := range deeds() {
				if err := a.do(dir); err != nil {
					t.Fatal(err)
				}
			}

			err := filepath.WalkDir(string(dir), func(path string, e fs.DirEntry, err error) error {
				if err != nil {
					return err
				}

				info, err := e.Info()
				if err != nil {
					return err
				}

				uid, gid := ownerOf(info)
				if uid != slurmUser || gid != slurmUser {
					t.Errorf("%s belongs to %d:%d", path, uid, gid)
				}

				public := !strings.HasPrefix(path, dir.PrivatePath(""))
				if others := info.Mode().Perm() & 0o077; public != (others != 0) {
					t.Errorf("%s has mode %04o", path, info.Mode().Perm())
				}

				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}

	dir := Dir(t.TempDir())
	private := dir.PrivatePath("")
	if err := errors.Join(os.Mkdir(private, 0o700), os.Chown(private, slurmUser, slurmUser)); err != nil {
		t.Fatal(err)
	}

	if _, err := dir.Lock(t.Context(), PassLock, 0); err == nil || !strings.Contains(err.Error(), "not to the owner") {
		t.Errorf("another user's folder is used: %v", err)
	}
}

func TestLockPass(t *testing.T) {
	dir := Dir(t.TempDir())
	unlock, err := dir.Lock(t.Context(), PassLock, 0)
	if err != nil {
		t.Fatal(err)
	}

	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()

	if _, err := dir.Lock(short, PassLock, time.Minute); !errors.Is(err, context.DeadlineExceeded) ||
		!errors.Is(err, ErrLocked) {
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

// A waiter learns who holds the lock, and gives up at its deadline.
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
		if !errors.As(err, &locked) || locked.Holder.PID != os.Getpid() || locked.Holder.Host != host ||
			time.Since(locked.Holder.Since) > time.Hour {
			t.Errorf("%s: %#v", which, err)
		}

		if says := fmt.Sprintf("process %d on host %s, since ", os.Getpid(), host); err == nil ||
			!strings.Contains(err.Error(), says) ||
			!strings.Contains(err.Error(), string(which)) {
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
	h := capacity.Hold{Token: "t", Until: now.Add(time.Hour)}

	defer func(was time.Duration) { ledgerWait = was }(ledgerWait)

	ledgerWait = time.Millisecond

	if _, err := dir.AddHold(h, now, func(capacity.Hold, []capacity.Hold) error { return nil }); !errors.Is(
		err,
		ErrLocked,
	) {
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

		if e.IsDir() && e.Name() == privateFolder && info.Mode().Perm() != 0o700 ||
			!e.IsDir() && info.Mode().Perm() != 0o600 {
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
