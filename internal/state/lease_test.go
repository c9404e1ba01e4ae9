package state

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestTurn: who makes the passes.
func TestTurn(t *testing.T) {
	other := Holder{PID: 1, Host: "a", Boot: "b", Token: "t"}
	for name, c := range map[string]struct {
		view leaseView
		want turn
	}{
		"nobody has had it": {leaseView{}, take},
		"it was given back": {leaseView{exact: true}, take},
		"somebody begins":   {leaseView{locked: true}, standBy},
		"a holder who could not write, on a full disk": {leaseView{locked: true, unchanged: time.Hour}, standBy},
		"dead on this host":                            {leaseView{holder: other, exact: true}, take},
		"alive on this host":                           {leaseView{locked: true, holder: other, exact: true, unchanged: 89 * time.Second}, standBy},
		"stopped on this host":                         {leaseView{locked: true, holder: other, exact: true, unchanged: 90 * time.Second}, takeOver},
		"alive on another host":                        {leaseView{locked: true, holder: other, unchanged: 15 * time.Second}, standBy},
		"another host, whose lock is not seen or lost": {leaseView{holder: other, unchanged: 89 * time.Second}, standBy},
		"another host is gone":                         {leaseView{holder: other, unchanged: 90 * time.Second}, takeOver},
		"another host is cut off, its lock stays":      {leaseView{locked: true, holder: other, unchanged: 2 * time.Minute}, takeOver},
	} {
		if got := turnOf(c.view, LeaseTime); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// onHost runs as if on a host with this boot id. It is for tests that run alone.
func onHost(t *testing.T, boot string, work func()) {
	t.Helper()
	was := Here
	defer func() { Here = was }()
	Here.Boot, Here.Alone = func() string { return boot }, func(Dir) bool { return false }
	work()
}

// try returns whether a lease is held after a try on a host.
func try(t *testing.T, l *Lease, boot string) (held bool) {
	t.Helper()
	onHost(t, boot, func() {
		var err error
		if held, _, _, err = l.Try(); err != nil {
			t.Fatal(err)
		}
	})
	return held
}

// TestLeaseIsTakenOver: a holder that is stopped, in the middle of a pass, loses lease and pass to the
// next service, and finds out before it changes anything.
func TestLeaseIsTakenOver(t *testing.T) { synctest.Test(t, leasePassesOn) }

func leasePassesOn(t *testing.T) {
	dir := Dir(t.TempDir())
	const after = 50 * time.Millisecond
	first, second, third := &Lease{Dir: dir, After: time.Hour}, &Lease{Dir: dir, After: after}, &Lease{Dir: dir, After: after}
	defer second.Release()
	for range 2 {
		if !try(t, first, "one") {
			t.Fatal("a free lease is not taken, or is lost to nobody")
		}
	}
	var pass *Claim
	onHost(t, "one", func() {
		var err error
		if pass, err = dir.Claim(t.Context(), PassLock, 0); err != nil {
			t.Fatal(err)
		}
	})
	first.end() // the renewals: it is stopped
	if try(t, second, "two") || try(t, third, "three") {
		t.Fatal("a lease is taken that was renewed just now")
	}
	time.Sleep(after) // of the bubble
	if !try(t, second, "two") {
		t.Fatal("it does not take over")
	}
	if try(t, third, "three") {
		t.Error("two took over")
	}
	if err := second.Check(); err != nil {
		t.Error(err)
	}
	next, err := dir.Claim(t.Context(), PassLock, 0)
	if err != nil {
		t.Fatal("the pass of the one that was stopped is in the way: ", err)
	}
	lost := (*LostError)(nil)
	if err := first.Check(); !errors.As(err, &lost) || lost.Holder.Boot != "two" {
		t.Errorf("the lease of the first: %v", err)
	}
	if err := pass.Check(); !errors.As(err, &lost) {
		t.Errorf("the pass of the first: %v", err)
	}
	pass.Release()
	first.Release()
	if err := errors.Join(next.Check(), second.Check()); err != nil {
		t.Error("the first has given back what it had no more: ", err)
	}
	next.Release()
	if try(t, first, "one") {
		t.Error("the first has it again")
	}
	second.Release()
	if !try(t, first, "one") {
		t.Error("it was given back, and is not taken")
	}
	first.Release()
}

// TestLeaseIsRenewed: a holder that lives keeps its lease, even where the kernel's lock is lost.
func TestLeaseIsRenewed(t *testing.T) { synctest.Test(t, leaseIsRenewed) }

func leaseIsRenewed(t *testing.T) {
	dir := Dir(t.TempDir())
	const after = 300 * time.Millisecond
	first, second := &Lease{Dir: dir, After: after}, &Lease{Dir: dir, After: after}
	if !try(t, first, "one") {
		t.Fatal("not taken")
	}
	defer first.Release()
	loseLock(t, dir, WatchLock)
	for end := time.Now().Add(3 * after); time.Now().Before(end); time.Sleep(after / 9) {
		if try(t, second, "two") {
			t.Fatal("taken from one that renews it")
		}
	}
	if err := first.Check(); err != nil {
		t.Error(err)
	}
}

// loseLock does what a network file system does that loses a lock: its file stays as it is.
func loseLock(t *testing.T, dir Dir, which Lock) {
	t.Helper()
	path := dir.PrivatePath(string(which))
	text, err := os.ReadFile(path)
	if err == nil {
		err = errors.Join(os.WriteFile(path+".new", text, 0o600), os.Rename(path+".new", path))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestLockIsLost: a pass that was stopped while its lock got lost changes nothing once another pass
// was made, even if that one has ended.
func TestLockIsLost(t *testing.T) {
	dir := Dir(t.TempDir())
	stopped, err := dir.Claim(t.Context(), PassLock, 0)
	if err != nil {
		t.Fatal(err)
	}
	loseLock(t, dir, PassLock)
	if err := stopped.Check(); err != nil {
		t.Errorf("nobody else has had it: %v", err)
	}
	other, err := dir.Claim(t.Context(), PassLock, 0)
	if err != nil {
		t.Fatal(err)
	}
	lost := (*LostError)(nil)
	if err := stopped.Check(); !errors.As(err, &lost) || lost.Holder.PID != os.Getpid() || !strings.Contains(err.Error(), "has taken sync.lock over") {
		t.Errorf("while another runs: %v", err)
	}
	other.Release()
	if err := stopped.Check(); !errors.As(err, &lost) {
		t.Errorf("after another has run: %v", err)
	}
}

func TestMount(t *testing.T) {
	const info = `21 1 259:1 / / rw,noatime shared:1 - xfs /dev/nvme0n1p1 rw
22 21 0:21 / /run rw - tmpfs tmpfs rw
30 21 0:50 / /home rw,relatime - nfs4 fs-0123.efs.us-east-2.amazonaws.com:/ rw
31 21 0:51 / /fsx rw - lustre 10.0.0.1@tcp:/abcd rw,flock
32 30 0:52 /x /home/a\040b rw - ext4 /dev/sdb rw
33 21 0:53 / /bucket rw - fuse.mount-s3 mountpoint-s3 rw
34 31 0:54 / /fsx rw - nfs4 127.0.0.1:/ rw
`
	for path, c := range map[string]struct {
		says                  string
		local, memory, shared bool
	}{
		"/var/lib/pcs-capacity": {"xfs at /", true, false, false},
		"/run/x":                {"tmpfs at /run", true, true, false},
		"/home":                 {"nfs4 of fs-0123.efs.us-east-2.amazonaws.com:/", false, false, true},
		"/home2/x":              {"xfs at /", true, false, false},
		"/home/a b/x":           {"ext4 at /home/a b", true, false, false},
		"/fsx/x":                {"nfs4 of 127.0.0.1:/", false, false, true},
		"/bucket/x":             {"fuse.mount-s3 of mountpoint-s3", false, false, false},
	} {
		if m := mountOf(info, path); m.String() != c.says || m.Local() != c.local || m.InMemory() != c.memory || m.Shared() != c.shared {
			t.Errorf("%s is on %s %+v", path, m, m)
		}
	}
	if m := mountOf("", "/x"); m.Local() || m.Shared() || m.String() == "" {
		t.Errorf("without mountinfo: %+v", m)
	}
	if m := Dir(t.TempDir()).Mount(); m.Point == "" {
		t.Errorf("here it is %+v", m)
	}
}
