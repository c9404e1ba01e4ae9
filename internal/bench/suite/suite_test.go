package suite

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Every benchmark still runs, and writes a table without a gap. Of what it measures here nothing is to be said.
func TestRareBenchmarks(t *testing.T) {
	for name, file := range map[string]string{"Resume": "resume", "Submit": "submit", "Sync": "sync", "Start": "start"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$", "-test.bench=^Benchmark"+name+"$", "-test.benchtime=1x")
			cmd.Env = append(os.Environ(), "BENCH_SMALL=1", "BENCH_DIR="+dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			text, err := os.ReadFile(dir + "/" + file + ".txt")
			if lines := strings.Split(strings.TrimSpace(string(text)), "\n"); err != nil || len(lines) < 3 {
				t.Errorf("%v\n%s", err, text)
			}
		})
	}
}
