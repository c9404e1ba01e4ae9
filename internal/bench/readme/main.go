// Command readme writes what the benchmarks measured into docs/performance.md: all figures are those
// of the files in internal/bench/results. Run it in the top folder: make bench-readme.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Where everything is, from the top folder.
const (
	results = "internal/bench/results"
	page    = "docs/performance.md"
)

func main() {
	if err := write("."); err != nil {
		log.Fatal(err)
	}
}

func write(top string) error {
	figures, machine, err := read(filepath.Join(top, results))
	if err != nil {
		return err
	}
	old, err := os.ReadFile(filepath.Join(top, page))
	if err != nil {
		return err
	}
	text, err := inserted(string(old), markdown(figures, machine))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(top, page), []byte(text), 0o644)
}

// figure is one thing that was measured.
type figure struct {
	work, beside string
	// least and most are a range of ratios to what is beside it, or one.
	least, most float64
	// bound is what it is to be at most.
	bound float64
	note  string // "" if there is none
}

// results of one benchmark: rows by the names of the columns.
type table struct {
	machine string
	rows    []map[string]string
}

var gap = regexp.MustCompile(` {2,}`)

func readTable(path string) (table, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return table{}, err
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) < 3 {
		return table{}, fmt.Errorf("%s has no rows", path)
	}
	t := table{machine: strings.TrimPrefix(lines[0], "# ")}
	header := gap.Split(strings.TrimSpace(lines[1]), -1)
	for _, line := range lines[2:] {
		cells := gap.Split(strings.TrimSpace(line), -1)
		if len(cells) != len(header) {
			return table{}, fmt.Errorf("%s: %d cells, not %d: %s", path, len(cells), len(header), line)
		}
		row := map[string]string{}
		for i, name := range header {
			row[name] = cells[i]
		}
		t.rows = append(t.rows, row)
	}
	return t, nil
}

// of are the numbers in a column of the rows that have these cells, given in pairs of column
// and cell.
func (t table) of(column string, cells ...string) []float64 {
	var all []float64
	for _, row := range t.rows {
		has := true
		for i := 0; i < len(cells); i += 2 {
			has = has && row[cells[i]] == cells[i+1]
		}
		if n, err := strconv.ParseFloat(row[column], 64); has && err == nil {
			all = append(all, n)
		}
	}
	return all
}

// source is how a figure is read from a table.
type source struct {
	file   string
	figure figure
	read   func(t table) (ratios []float64, note string)
}

func column(name string, cells ...string) func(t table) ([]float64, string) {
	return func(t table) ([]float64, string) { return t.of(name, cells...), "" }
}

// cliFilter reads the ratios of kinds of jobs, with few reservations and with many, with a snapshot that
// is new and with one that is older than stale_after.
func cliFilter(kinds ...string) func(t table) ([]float64, string) {
	return func(t table) (all []float64, _ string) {
		for _, kind := range kinds {
			all = append(all, t.of("over an empty script", "where", "cli_filter", "job", kind)...)
			all = append(all, t.of("over an empty script", "where", "cli_filter, old snapshot", "job", kind)...)
		}
		return all, ""
	}
}

// jobSubmit reads what slurmctld spends on kinds of jobs, in ratios.
func jobSubmit(kinds ...string) func(t table) ([]float64, string) {
	return func(t table) (all []float64, _ string) {
		for _, kind := range kinds {
			all = append(all, t.of("RPC over an empty script", "where", "job_submit", "job", kind)...)
			all = append(all, t.of("RPC over an empty script", "where", "job_submit, old snapshot", "job", kind)...)
		}
		return all, ""
	}
}

var sources = []source{
	{"resume", figure{work: "nodes powered up, as one job or as jobs of one node", beside: "the fewest calls that can do it", bound: 1.2}, func(t table) ([]float64, string) {
		return t.of("ours/floor"), fmt.Sprintf("1 to %.0f nodes, at most %.0f calls", slices.Max(t.of("nodes")), slices.Max(t.of("AWS calls")))
	}},
	{"resume-crowd", figure{work: "a node powered up while 999 instances of ours run", beside: "one while none runs", bound: 1.3}, column("many/few", "beside", "live instances of ours")},
	{"resume-crowd", figure{work: "a node powered up while 999 jobs run on whole nodes", beside: "one while 16 run", bound: 2}, column("many/few", "beside", "jobs on whole nodes")},
	{"submit", figure{work: "`sbatch` of a job that is not managed, `cli_filter.lua`", beside: "an empty script", bound: 1.12}, cliFilter("not managed")},
	{"submit", figure{work: "`sbatch` of a job that fits, `cli_filter.lua`", beside: "an empty script", bound: 1.15}, cliFilter("fits", "fits, with GPUs")},
	{"submit", figure{work: "`sbatch` of a job without `--time`, `cli_filter.lua`", beside: "an empty script", bound: 1.15}, cliFilter("limit fitted")},
	{"submit", figure{work: "`sbatch` of a job that is refused, `cli_filter.lua`", beside: "an empty script", bound: 0.85}, cliFilter("refused")},
	{"submit", figure{work: "slurmctld on a job that fits, `job_submit.lua`", beside: "an empty script", bound: 1.3}, jobSubmit("fits", "fits, with GPUs")},
	{"submit", figure{work: "the same with `--begin`, `--gpus` or too many nodes", beside: "an empty script", bound: 3}, jobSubmit("fits, --begin", "fits, --gpus", "refused, --begin", "refused, 9 nodes")},
	{"submit", figure{work: "the same, left to the filter", beside: "an empty script", bound: 3}, jobSubmit("judged by the filter", "refused by the filter")},
	{"submit", figure{work: "200 submissions by 8 clients, `job_submit.lua`", beside: "an empty script", bound: 1.1}, column("over an empty script", "job", "200 that fit, by 8 clients")},
	{"sync", figure{work: "a pass of `sync` with 10,000 jobs, 50 partitions and 1,000 nodes", beside: "`squeue`", bound: 3}, func(t table) ([]float64, string) {
		return t.of("pass/squeue", "jobs", "10000", "nodes", "1000"), fmt.Sprintf("%.0f MB", slices.Max(t.of("peak MB")))
	}},
	{"sync", figure{work: "`status` of as many jobs, partitions and nodes", beside: "`squeue`", bound: 3}, func(t table) ([]float64, string) {
		return t.of("status/squeue", "jobs", "10000", "nodes", "1000"), fmt.Sprintf("%.0f MB", slices.Max(t.of("its MB", "jobs", "10000")))
	}},
	{"sync-slots", figure{work: "a pass over 4,000 nodes", beside: "one over 1,000", bound: 4.5}, column("4000/1000")},
}

// read reads the figures, in the order of the sources, and what the machine was.
func read(folder string) (figures []figure, machine string, err error) {
	for _, s := range sources {
		t, err := readTable(filepath.Join(folder, s.file+".txt"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, "", err
		}
		f := s.figure
		ratios, note := s.read(t)
		if len(ratios) == 0 {
			return nil, "", fmt.Errorf("%s.txt has nothing of %q", s.file, f.work)
		}
		f.least, f.most, f.note = slices.Min(ratios), slices.Max(ratios), note
		figures, machine = append(figures, f), cmp.Or(machine, t.machine)
	}
	start, err := readTable(filepath.Join(folder, "start.txt"))
	if errors.Is(err, fs.ErrNotExist) {
		return figures, machine, nil
	}
	if err != nil {
		return nil, "", err
	}
	median := func(what string) float64 {
		found := start.of("median s", "what", what)
		if len(found) != 1 {
			err = errors.Join(err, fmt.Errorf("start.txt has nothing of %q", what))
			return 0
		}
		return found[0]
	}
	block, hand := median(fromStart), median(byHand)
	if err != nil {
		return nil, "", err
	}
	return append(figures, figure{work: "from a block's StartDate to the first line of its job", beside: "a power-up by hand", least: block / hand, most: block / hand,
		bound: (hand + 3) / hand, note: fmt.Sprintf("%.1f s and %.1f s, medians of 20", block, hand)}), machine, nil
}

// The rows of start.txt.
const (
	fromStart = "from StartDate to a job's first line"
	byHand    = "from POWER_UP by hand to a job's first line"
)

func (f figure) ratio() string {
	least, most := fmt.Sprintf("%.2f", f.least), fmt.Sprintf("%.2f", f.most)
	if least == most {
		return most
	}
	return least + " to " + most
}

// markdown is the part of the page.
func markdown(figures []figure, machine string) string {
	var b strings.Builder
	for _, f := range figures {
		note := ""
		if f.note != "" {
			note = " (" + f.note + ")"
		}
		fmt.Fprintf(&b, "- %s: **%s** times %s, at most %.2f%s\n", f.work, f.ratio(), f.beside, f.bound, note)
	}
	machine, _, _ = strings.Cut(machine, ";") // without its load
	fmt.Fprintf(&b, "\nMeasured on %s, with AWS simulated.\n", machine)
	return b.String()
}

// The part is between these.
const (
	begins = "<!-- begin: make bench-readme -->\n"
	ends   = "<!-- end: make bench-readme -->\n"
)

// inserted is the page with its part.
func inserted(text, part string) (string, error) {
	before, rest, ok := strings.Cut(text, begins)
	_, after, ended := strings.Cut(rest, ends)
	if !ok || !ended {
		return "", fmt.Errorf("%s has no part between %q and %q", page, begins, ends)
	}
	return before + begins + part + ends + after, nil
}
