// Package suite measures the programs as users have them, side by side with something that
// shows what is possible, under a real Slurm and the simulated AWS. Each benchmark writes its
// table to a file in $BENCH_DIR, so that two runs can be compared.
package suite

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"
)

// small: the benchmarks do everything once, at their smallest sizes. See TestBenchmarks.
var small = os.Getenv("BENCH_SMALL") != ""

// size is least if the benchmarks are small, else n.
func size(n, least int) int {
	if small {
		return least
	}
	return n
}

// table is what a benchmark shows and keeps.
type table struct {
	name    string
	machine string
	rows    [][]string
}

func newTable(name string, header ...string) *table {
	return &table{name, machine(), [][]string{header}}
}

// machine is the first line of a table: what it was measured on, and how busy that was before.
func machine() string {
	version, _ := exec.Command("slurmctld", "-V").Output()
	load, _ := os.ReadFile("/proc/loadavg")
	before, _, _ := strings.Cut(string(load), " ")
	return fmt.Sprintf("# %d cores with %s on %s; the load before was %s", runtime.NumCPU(), strings.TrimSpace(string(version)), time.Now().UTC().Format(time.DateOnly), before)
}

func (t *table) add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		switch c := c.(type) {
		case float64:
			row[i] = fmt.Sprintf("%.2f", c)
		case time.Duration:
			row[i] = fmt.Sprintf("%.0f", float64(c.Microseconds())/1000)
		default:
			row[i] = cmp.Or(fmt.Sprint(c), "-")
		}
	}
	t.rows = append(t.rows, row)
}

// keep writes the table to a file of its name, and shows it.
func (t *table) keep(b *testing.B) {
	b.Helper()
	var text strings.Builder
	fmt.Fprintln(&text, t.machine)
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range t.rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	dir := os.Getenv("BENCH_DIR")
	if dir == "" {
		dir = "../results"
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, t.name+".txt"), []byte(text.String()), 0o644); err != nil {
		b.Fatal(err)
	}
	b.Logf("%s\n%s", t.name, text.String())
	b.ReportMetric(0, "ns/op") // of no use: it counts both sides
}

func median[T ~int64 | ~int | ~float64](all []T) T {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

// build compiles a program of the module and returns its path.
func build(b *testing.B, folder string) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), filepath.Base(folder))
	if out, err := exec.Command("go", "build", "-o", path, "../../../"+folder).CombinedOutput(); err != nil {
		b.Fatalf("go build %s: %v\n%s", folder, err, out)
	}
	return path
}

// ran is what one run of a program took.
type ran struct {
	wall time.Duration
	peak int // MB, of the largest process
}

func run(b *testing.B, env []string, program string, args ...string) ran {
	b.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = env
	began := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(began)
	if err != nil {
		b.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
	return ran{took, int(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss / 1024)}
}

// shortDir is a temporary folder with a short name: Slurm's sockets lie in it.
func shortDir(b *testing.B) string {
	b.Helper()
	dir, err := os.MkdirTemp("", "b")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
