package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// ownProcessOf names, to a test program, the test that it was started for.
const ownProcessOf = "PCS_CAPACITY_TEST_PROCESS"

// ownProcess runs a test in a process of its own, beside others: SLURM_CONF and AWS's endpoint,
// which it sets, are the whole process's. The answer is whether this is that process; where it is
// not, the test has been run, and there is nothing left to do.
func ownProcess(t *testing.T) bool {
	t.Helper()
	if os.Getenv(ownProcessOf) == t.Name() {
		return true
	}
	t.Parallel()
	var pattern []string
	for _, name := range strings.Split(t.Name(), "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(name)+"$")
	}
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run", strings.Join(pattern, "/"), "-test.v", "-test.timeout", "10m")
	c.Env = append(os.Environ(), ownProcessOf+"="+t.Name())
	out, err := c.CombinedOutput()
	switch said := string(out); {
	case err != nil:
		t.Errorf("%v\n%s", err, said)
	case strings.Contains(said, "--- SKIP: "+t.Name()+" "):
		t.Skipf("%s", said)
	case !strings.Contains(said, "--- PASS: "+t.Name()+" "):
		t.Errorf("it was not run:\n%s", said)
	}
	return false
}
