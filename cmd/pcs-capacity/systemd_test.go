package main

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// systemd listens as systemd does, and returns what it has heard so far, a message each.
func systemd(t *testing.T) (heard func(within time.Duration) []string) {
	t.Helper()

	dir, err := os.MkdirTemp("", "sd")
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { os.RemoveAll(dir) })

	path := filepath.Join(dir, "notify")

	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { socket.Close() })
	t.Setenv("NOTIFY_SOCKET", path)

	return func(within time.Duration) (all []string) {
		_ = socket.SetReadDeadline(time.Now().Add(within))
		for {
			message := make([]byte, 4096)

			n, err := socket.Read(message)
			if err != nil {
				return all
			}

			if all = append(all, string(message[:n])); strings.Contains(all[len(all)-1], "READY=1") {
				return all
			}
		}
	}
}

// TestWatchIsAlive: `sync --watch` under systemd, on a machine where Slurm does not answer, says that it lives when a
// pass begins, and that it is ready when the first one has ended, with what came of it. The unit listens to that.
func TestWatchIsAlive(t *testing.T) {
	heard := systemd(t)
	s := newSession(t, "sync", "--watch")
	got := heard(mostWait)
	if len(got) < 2 || got[0] != "WATCHDOG=1" ||
		!strings.HasPrefix(got[len(got)-1], "WATCHDOG=1\nREADY=1\nSTATUS=last pass at ") {
		t.Errorf("it said %q", got)
	}

	s.signal(os.Interrupt)
	s.exitStatus()

	unit, err := os.ReadFile("../../packaging/pcs-capacity-sync.service")
	if err != nil {
		t.Fatal(err)
	}

	if !regexp.MustCompile(`(?m)^WatchdogSec=(\d+)min$`).Match(unit) ||
		!strings.Contains(string(unit), "\nType=notify\n") {
		t.Errorf("the unit does not listen:\n%s", unit)
	}
}
