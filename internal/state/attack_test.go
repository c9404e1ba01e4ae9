package state

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// attackFor is how long users attack: PCS_CAPACITY_ATTACK_FOR, such as 10m.
func attackFor(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("PCS_CAPACITY_ATTACK_FOR")
	if text == "" {
		return 2 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// attackers is what two users do in a state_dir, $1: they lock all that they can open, and stop
// the processes that have it; they place symbolic links, and take away what is there. It says
// what they got hold of, once a round.
const attackers = `cd "$1" || exit 1
mine=$2; mkdir -p "$mine"
while [ -d /proc/$PPID ]; do # a test that was killed leaves nothing
  for f in . * facts/* private private/sync.lock private/watch.lock private/held.lock private/purchase.lock private/setup.lock \
    private/hooks.lock private/held.json private/hooks.jsonl private/intents private/intents/buy-1.json private/marks.json; do
    flock -F -n -x "$f" sh -c 'echo "$0" >>"$1"; kill -STOP $$' "$f" "$mine/held" 2>/dev/null &
    ln -sf /etc/passwd "$f" 2>/dev/null
    rm -rf "$f" 2>/dev/null
    mv "$f" "$mine/taken" 2>/dev/null && echo "$f" >>"$mine/moved"
  done
  mkdir private 2>/dev/null
  chmod 777 private . 2>/dev/null
  echo . >>"$mine/round"
  sleep 1
  jobs -p >"$mine/jobs" # in $(jobs -p) there are none: a shell of its own has no jobs
  kill -KILL $(cat "$mine/jobs") 2>/dev/null
  wait 2>/dev/null
done`

// What users do with flock(1), symbolic links and processes that they stop makes no pass, no hook
// and no purchase wait: each finds its lock free at once, and what it wrote before.
func TestUsersHoldNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can act as other users")
	}
	top, err := os.MkdirTemp("", "pcs-capacity-") // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(top)
	dir := Dir(filepath.Join(top, "state"))
	if err := errors.Join(os.Chmod(top, 0o755), dir.Create(), os.Chown(string(dir), slurmUser, slurmUser)); err != nil {
		t.Fatal(err)
	}
	round := func(n int) error {
		now := time.Now()
		pass, err := dir.Lock(t.Context(), PassLock, 0)
		if err != nil {
			return err
		}
		defer pass()
		facts := map[string]Facts{"gpu": {ReservationID: fmt.Sprint(n)}}
		err = errors.Join(dir.WriteSnapshot(&capacity.Snapshot{}), dir.WriteFacts(facts), dir.KeepMarks(map[string]Mark{fmt.Sprint(n): {}}, nil))
		h := capacity.Held{Token: fmt.Sprint(n), Until: now.Add(time.Hour)}
		err = errors.Join(err, dir.Hold(h, now, func(capacity.Held, []capacity.Held) error { return nil }), dir.AppendRecords(Record{Hook: "resume"}))
		if held, heldErr := dir.Held(now); heldErr != nil || len(held) != 1 {
			err = errors.Join(err, heldErr, fmt.Errorf("the ledger has %v", held))
		}
		err = errors.Join(err, dir.Released(now, h.Token), dir.WritePrivate("intents/buy-1.json", []byte(h.Token)))
		for _, which := range []Lock{PurchaseLock, SetupLock, WatchLock, LedgerLock, recordsLock} {
			unlock, lockErr := dir.Lock(t.Context(), which, 0)
			if lockErr == nil {
				unlock()
			}
			err = errors.Join(err, lockErr)
		}
		if text, readErr := dir.ReadPrivate("intents/buy-1.json"); string(text) != h.Token {
			err = errors.Join(err, readErr, fmt.Errorf("the intent is %q", text))
		}
		return err
	}
	if err := round(0); err != nil { // what they find
		t.Fatal(err)
	}

	var users sync.WaitGroup
	var groups []int
	mine := []string{filepath.Join(top, "a"), filepath.Join(top, "b")}
	for i, path := range mine {
		uid := uint32(65532 + i)
		if err := errors.Join(os.Mkdir(path, 0o700), os.Chown(path, int(uid), int(uid))); err != nil {
			t.Fatal(err)
		}
		c := exec.Command("sh", "-c", attackers, "sh", string(dir), path)
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		groups = append(groups, c.Process.Pid)
		users.Go(func() { _ = c.Wait() })
	}
	defer func() {
		for _, g := range groups {
			_ = syscall.Kill(-g, syscall.SIGKILL)
		}
		users.Wait()
	}()
	held := func() (all string) {
		for _, path := range mine {
			text, _ := os.ReadFile(filepath.Join(path, "held"))
			all += string(text)
		}
		return all
	}
	attacked := func() bool {
		for _, path := range mine {
			if _, err := os.Stat(filepath.Join(path, "round")); err != nil {
				return false
			}
		}
		return strings.Contains(held(), snapshotFile) // flock(1) works, for what they may read
	}
	rounds, until, latest := 0, time.Now().Add(attackFor(t)), time.Now().Add(60*time.Second)
	for ; time.Now().Before(until) || !attacked(); rounds++ {
		if time.Now().After(latest) && !attacked() {
			t.Fatal("the users did nothing")
		}
		if err := round(rounds); err != nil {
			t.Fatalf("round %d: %v", rounds, err)
		}
	}
	for _, path := range mine {
		if moved, err := os.ReadFile(filepath.Join(path, "moved")); err == nil {
			t.Errorf("a user took away %q", moved)
		}
	}
	if held := held(); strings.Contains(held, privateFolder) {
		t.Errorf("users locked %q", held)
	}
	theirs, _ := os.ReadFile(filepath.Join(mine[0], "round"))
	t.Logf("%d rounds, and %d of a user", rounds, strings.Count(string(theirs), "\n"))
}
