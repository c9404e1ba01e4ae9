package hookstest

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// ownProcessOf names, to a test program, the test that it was started for.
const ownProcessOf = "PCS_CAPACITY_TEST_PROCESS"

// OwnProcess runs a test in a process of its own, beside others: SLURM_CONF and AWS's endpoint,
// which it sets, are the whole process's. The answer is whether this is that process; where it is
// not, the test has been run, and there is nothing left to do.
func OwnProcess(t *testing.T) bool {
	t.Helper()
	return ownProcess(t, func(*exec.Cmd) error { return nil }, (*exec.Cmd).Run)
}

// Story is OwnProcess for a test that lives through minutes and sleeps for most of them: it
// begins at once, and not when it is its turn among the tests that run side by side.
func Story(t *testing.T) bool {
	t.Helper()
	return ownProcess(t, (*exec.Cmd).Start, (*exec.Cmd).Wait)
}

// ownProcess does the one before it lets other tests go on, and the other in its turn.
func ownProcess(t *testing.T, first, then func(*exec.Cmd) error) bool {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a Slurm cluster, or waits")
	}
	if os.Getenv(ownProcessOf) == t.Name() {
		return true
	}
	var pattern []string
	for _, name := range strings.Split(t.Name(), "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(name)+"$")
	}
	var out bytes.Buffer
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run", strings.Join(pattern, "/"), "-test.v", "-test.timeout", "10m")
	c.Env = append(os.Environ(), ownProcessOf+"="+t.Name())
	c.Stdout, c.Stderr = &out, &out
	if err := first(c); err != nil {
		t.Fatal(err)
	}
	t.Parallel()
	err := then(c)
	switch said := out.String(); {
	case err != nil:
		t.Errorf("%v\n%s", err, said)
	case strings.Contains(said, "--- SKIP: "+t.Name()+" "):
		t.Skipf("%s", said)
	case !strings.Contains(said, "--- PASS: "+t.Name()+" "):
		t.Errorf("it was not run:\n%s", said)
	}
	return false
}

// Beside has a test whose subtests are in processes of their own run beside other tests.
func Beside(t *testing.T) {
	t.Helper()
	if os.Getenv(ownProcessOf) == "" { // there its subtest sets the environment
		t.Parallel()
	}
}
