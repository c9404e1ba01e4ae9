package submit_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// hang mounts a file system that never answers over a folder, as a file server does that
// is gone: every access waits until the process is killed. It is a FUSE mount whose
// other end nobody serves.
func hang(t *testing.T, dir string) {
	t.Helper()
	fuse, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no file system can be made to hang here: %v", err)
	}
	if err := syscall.Mount("hung", dir, "fuse.hung", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fuse.Fd())); err != nil {
		fuse.Close()
		t.Skipf("no file system can be made to hang here: %v", err)
	}
	t.Cleanup(func() { // closing the other end sets free what waits
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
		fuse.Close()
	})
}

// Whatever hangs, slurmctld waits for it no more than once in a minute, and then two
// seconds at the most.
func TestR6_SlurmctldDoesNotWait(t *testing.T) {
	t.Parallel()
	const rounds = 10
	for name, test := range map[string]struct {
		damage  func(t *testing.T, s site)
		most    time.Duration // for all rounds together
		managed string        // what a job in a partition of ours hears
	}{
		"plan is a FIFO": {func(t *testing.T, s site) {
			os.Remove(s.state.PlanPath())
			if err := syscall.Mkfifo(s.state.PlanPath(), 0o644); err != nil {
				t.Fatal(err)
			}
		}, 3 * time.Second, ""},
		"snapshot is a FIFO": {func(t *testing.T, s site) {
			os.Remove(s.state.SnapshotPath())
			if err := syscall.Mkfifo(s.state.SnapshotPath(), 0o644); err != nil {
				t.Fatal(err)
			}
		}, 5 * time.Second, "is not a regular file"},
		"the file system hangs": {func(t *testing.T, s site) { hang(t, string(s.state)) }, 6 * time.Second, ""},
		"the file system hangs after the plan was read": {func(t *testing.T, s site) {
			if out, _, err := s.submit(t, "--partition=gpu", "--time=60"); err != nil || strings.Contains(out, "pcs-capacity") {
				t.Fatalf("%v: %s", err, out)
			}
			hang(t, string(s.state))
		}, 8 * time.Second, "the job is let through unchecked"},
		"the filter hangs": {func(t *testing.T, s site) {
			os.Remove(s.filter)
			if err := os.WriteFile(s.filter, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}, 7 * time.Second, "the job is let through unchecked"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startSite(t, "job_submit", nil)
			test.damage(t, s)
			begin := time.Now()
			for range rounds {
				if out, id, err := s.submit(t, "--time=60"); err != nil || out != "Submitted batch job "+id {
					t.Fatalf("unmanaged: %v: %s", err, out)
				}
				out, id, err := s.submit(t, "--partition=gpu", "--comment=capacity=any") // which Lua leaves to the filter
				if err != nil {
					t.Fatalf("managed: %v: %s", err, out)
				}
				if test.managed == "" && out != "Submitted batch job "+id || !strings.Contains(out, test.managed) {
					t.Fatalf("managed: %s", out)
				}
			}
			if took := time.Since(begin); took > test.most {
				t.Errorf("%d submissions took %s", 2*rounds, took)
			}
		})
	}
}
