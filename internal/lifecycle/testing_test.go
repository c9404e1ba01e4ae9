package lifecycle

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// The job of a test runs it with its own interpreter, says whether it failed, and with what last line.
func TestScriptOfATest(t *testing.T) {
	for name, c := range map[string]struct {
		test, said string
		status     int
	}{
		"it passes":               {test: "#!/bin/sh\nexit 0\n"},
		"it knows its block":      {test: "#!/bin/sh\n[ \"$PCS_CAPACITY_RESERVATION$PCS_CAPACITY_NODE_GROUP\" = cr-1gpu ]\n"},
		"its interpreter":         {test: "#!/usr/bin/awk -f\nBEGIN { print \"slow\"; exit 3 }\n", said: "slow (exit status 3)", status: 3},
		"the last line that says": {test: "#!/bin/sh\necho ' $(id) \"a\" '\necho\nexit 1\n", said: " $(id) \"a\"  (exit status 1)", status: 1},
		"it prints nothing":       {test: "#!/bin/sh\nexit 1\n", said: "no output (exit status 1)", status: 1},
		"bytes and a long line": {
			test:   "#!/bin/sh\nprintf '\\001\\377" + strings.Repeat("x", 300) + "'\nexit 1\n",
			said:   strings.Repeat("x", 200) + " (exit status 1)",
			status: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			// scontrol writes down what it is asked to say.
			scontrol := fmt.Sprintf("#!/bin/sh\nprintf %%s \"$3\" >%s/said\n", dir)
			if err := os.WriteFile(filepath.Join(dir, "scontrol"), []byte(scontrol), 0o755); err != nil {
				t.Fatal(err)
			}

			job := exec.Command("/bin/sh", "-c", script{text: []byte(c.test)}.job("cr-1", "gpu"))
			job.Env = []string{"PATH=" + dir + ":/usr/bin:/bin", "SLURM_JOB_ID=7", "TMPDIR=" + dir}

			out, err := job.CombinedOutput()
			said, _ := os.ReadFile(filepath.Join(dir, "said"))

			want := ""
			if c.said != "" {
				want = "admincomment=" + c.said
			}

			if job.ProcessState.ExitCode() != c.status || string(said) != want || len(out) > 0 {
				t.Errorf("exit status %d, says %q, prints %q, %v", job.ProcessState.ExitCode(), said, out, err)
			}
		})
	}
}

// A node's Reason is the line of the test that it failed alone, not of one that its neighbour has left.
func TestABadNodeHasItsOwnReason(t *testing.T) {
	at := capacity.SlotRef{
		Partition: &capacity.Partition{Provider: capacity.ProviderPCS},
		Group:     &capacity.NodeGroup{},
		Slot:      &capacity.Slot{Name: "gpu-a"},
	}
	failed := func(line string, lost bool) capacity.TestRun {
		return capacity.TestRun{Nodes: []string{"gpu-a-1"}, Result: capacity.TestFailed, Line: line, Lost: lost}
	}
	r := &tester{
		View:  View{Cluster: &Cluster{Nodes: []capacity.Node{{Name: "gpu-a-1", State: "IDLE"}}}},
		v:     capacity.SlotState{Turn: capacity.Turn{SlotRef: at}},
		tests: state.NodeTests{Runs: []capacity.TestRun{failed("the neighbour's GPU is lost", true), failed("ECC", false)}},
	}

	bad := r.removeBad([]string{"gpu-a-1"})
	if len(bad) != 1 || bad[0].Text != "drain gpu-a-1, which fails its test: ECC" {
		t.Errorf("it does %+v", bad)
	}
}

// What root runs on nodes is read only where nobody else could have written it.
func TestTestsAreRoots(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.sh")

	for text, c := range map[string]struct {
		mode os.FileMode
		want string
	}{
		"#!/bin/sh\n":           {0o644, ""},
		"#!/bin/bash -l\n":      {0o666, "has mode 0666: everyone can write it"},
		"echo no interpreter\n": {0o644, "is no script"},
		"#!/bin/sh\n" + strings.Repeat("#", maxScript): {0o644, "is larger than 1 MiB"},
	} {
		if err := os.WriteFile(path, []byte(text), c.mode); err != nil {
			t.Fatal(err)
		}

		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}

		s := readScript(path)
		if s.err == nil != (c.want == "") || s.err != nil && !strings.Contains(s.err.Error(), c.want) ||
			s.err == nil && string(s.text) != text {
			t.Errorf("%.20q: %v, want %q", text, s.err, c.want)
		}
	}

	if err := readScript(filepath.Join(t.TempDir(), "none")).err; err == nil {
		t.Error("a file that is not there can be run")
	}
}
