// Mutants changes the code of packages in one place after the other and lists the changes that
// the short tests of the package do not notice.
//
// All mutants of a package are compiled at once, each behind a variable of the environment, so
// one mutant costs no more than the tests that reach it. A mutant is given up that needs ten
// times the CPU time of the code as it is: a busy machine makes no difference.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/tools/go/packages"
)

const (
	lived     = "lives"
	unreached = "no test reaches it"
)

// wanted is the share of the mutants in percent that tests have to notice.
const wanted = 95

var (
	size    = flag.Int("size", 0, "how many mutants of each package are tried; 0: all")
	seed    = flag.Uint64("seed", 1, "which ones")
	without = flag.String("without", "", "files that get no mutants, without .go, as in \"internal/setup/do internal/setup/setup\"")
	long    = flag.String("long", "", "packages whose tests are run without -short")
	known   = flag.String("known", "internal/mutants/survivors.txt", "the mutants that may live, each under its reason")
	workers = flag.Int("workers", runtime.NumCPU(), "mutants that are tried at once")
)

func main() {
	flag.Parse()
	may, err := readSurvivors(*known)
	good := err == nil
	for _, folder := range flag.Args() {
		if err == nil {
			var ok bool
			ok, err = try(os.Stdout, filepath.Clean(folder), flag.Args(), may)
			good = good && ok
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
	}
	if !good || err != nil {
		os.Exit(1)
	}
}

// readSurvivors reads what may live: names of mutants, each with the comment above it.
func readSurvivors(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	may, reason := map[string]string{}, ""
	for line := range strings.Lines(string(text)) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "#"):
			reason = strings.TrimPrefix(line, "# ")
		case line == "":
			reason = "" // it holds until the next empty line
		case reason == "":
			err = errors.Join(err, fmt.Errorf("%s: no reason stands above %s", path, line))
		default:
			may[line] = reason
		}
	}
	return may, err
}

// A test is a test function: what it costs and which mutants it reaches.
type test struct {
	name    string
	cpu     time.Duration
	reaches map[int]bool
}

// program is the test program of a package, with all mutants in it, its own or those of a package that it imports.
type program struct {
	path, folder, scratch string
	tests                 []test
}

// try prints which mutants of a package live, and says whether few enough do and each of them may. What its own tests do
// not notice, those of the other packages may that import it.
func try(out io.Writer, folder string, all []string, may map[string]string) (bool, error) {
	scratch, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(scratch)
	os.Chmod(scratch, 0o755)
	mutants, programs, err := compile(folder, all, scratch)
	if err != nil {
		return false, err
	}

	good := true
	complain := func(format string, args ...any) {
		good = false
		fmt.Fprintf(out, format, args...)
	}
	for name := range may {
		if filepath.Dir(strings.Fields(name)[0]) == folder && !slices.ContainsFunc(mutants, func(m Mutant) bool { return m.Name == name }) {
			complain("%s: no such mutant: it can leave %s\n", name, *known)
		}
	}
	sample := slices.Clone(mutants)
	if *size > 0 && *size < len(sample) {
		rand.New(rand.NewPCG(*seed, 0)).Shuffle(len(sample), func(i, j int) { sample[i], sample[j] = sample[j], sample[i] })
		sample = sample[:*size]
		slices.SortFunc(sample, func(a, b Mutant) int { return a.ID - b.ID })
	}
	lives := make([]string, len(sample)) // why
	var group errgroup.Group
	group.SetLimit(*workers)
	for i, m := range sample {
		group.Go(func() error {
			for _, p := range programs {
				if why := p.lives(m); why == "" || lives[i] != lived {
					if lives[i] = why; why == "" {
						break
					}
				}
			}
			return nil
		})
	}
	group.Wait()
	killed, listed := 0, 0
	for i, m := range sample {
		switch reason := may[m.Name]; {
		case lives[i] == "" && reason == "":
			killed++
		case lives[i] == "":
			killed++
			complain("%s: killed: it can leave %s\n", m.Name, *known)
		case reason == "":
			complain("%s: %s (line %d)\n", m.Name, lives[i], m.Line)
		default:
			listed++
			fmt.Fprintf(out, "%s: %s: %s\n", m.Name, lives[i], reason)
		}
	}
	percent := 100 * float64(killed) / float64(max(len(sample), 1))
	fmt.Fprintf(out, "%s: %d of %d killed, %.1f %%; %d live for a reason; %d are not tried\n", folder,
		killed, len(sample), percent, listed, len(mutants)-len(sample))
	return good && percent >= wanted, nil
}

func compile(folder string, all []string, scratch string) ([]Mutant, []program, error) {
	var leaveOut []string
	for path := range strings.FieldsSeq(*without) {
		if filepath.Dir(path) == folder {
			leaveOut = append(leaveOut, filepath.Base(path))
		}
	}
	patterns := []string{"./" + folder}
	for _, other := range all {
		patterns = append(patterns, "./"+filepath.Clean(other))
	}
	loaded, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedCompiledGoFiles | packages.NeedImports |
		packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo}, patterns...)
	if err != nil {
		return nil, nil, err
	}
	at := slices.IndexFunc(loaded, func(p *packages.Package) bool { return strings.HasSuffix(p.PkgPath, "/"+folder) })
	if at < 0 || len(loaded[at].Errors) > 0 {
		return nil, nil, fmt.Errorf("%s does not compile: try go vet", folder)
	}
	mutants, overlay, err := instrument(loaded[at], folder, leaveOut, scratch)
	if err != nil {
		return nil, nil, err
	}
	list, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		return nil, nil, err
	}
	path := filepath.Join(scratch, "overlay.json")
	if err := os.WriteFile(path, list, 0o600); err != nil {
		return nil, nil, err
	}
	var programs []program
	for i, pattern := range patterns {
		other := strings.TrimPrefix(pattern, "./")
		imports := slices.ContainsFunc(loaded, func(p *packages.Package) bool {
			return strings.HasSuffix(p.PkgPath, "/"+other) && p.Imports[loaded[at].PkgPath] != nil
		})
		if i > 0 && !imports {
			continue
		}
		p := program{path: filepath.Join(scratch, fmt.Sprintf("tests%d", i)), folder: other, scratch: scratch}
		out, err := exec.Command("go", "test", "-c", "-vet=off", "-overlay", path, "-o", p.path, pattern).CombinedOutput()
		if err != nil {
			return nil, nil, fmt.Errorf("compiling the tests of %s with the mutants of %s: %w\n%s", other, folder, err, out)
		}
		if err := p.findTests(); err != nil {
			return nil, nil, err
		}
		programs = append(programs, p)
	}
	return mutants, programs, nil
}

// run runs tests with a mutant, for at most so much CPU time and, where they only wait, three minutes.
func (p program) run(mutant int, cpu time.Duration, tests string) (string, time.Duration, error) {
	dir, err := os.MkdirTemp(p.scratch, "")
	if err != nil {
		return "", 0, err
	}
	defer os.RemoveAll(dir)
	os.Chmod(dir, 0o755) // tests run programs as other users
	limit := fmt.Sprintf("ulimit -v 16000000; ulimit -t %d; exec \"$0\" \"$@\"", 1+int(cpu.Seconds()))
	short := !slices.Contains(strings.Fields(*long), p.folder)
	cmd := exec.Command("sh", "-c", limit, p.path, fmt.Sprintf("-test.short=%t", short), "-test.failfast", "-test.timeout=3m", tests)
	cmd.Dir = p.folder
	cmd.Env = append(os.Environ(), "MUTANT="+strconv.Itoa(mutant), "TMPDIR="+dir, "MUTANTS_REACHED="+filepath.Join(p.scratch, "reached"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second // for a program that a killed test has left
	out, err := cmd.CombinedOutput()
	if cmd.Process == nil {
		return "", 0, err
	}
	syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	return string(out), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err
}

// findTests runs each test once without a mutant: the cheap ones come first.
func (p *program) findTests() error {
	const endless = time.Hour
	list, _, err := p.run(0, endless, "-test.list=.")
	if err != nil {
		return err
	}
	reached := filepath.Join(p.scratch, "reached")
	for _, name := range regexp.MustCompile(`(?m)^(Test|Fuzz|Example)\w*$`).FindAllString(list, -1) {
		if err := os.WriteFile(reached, nil, 0o600); err != nil {
			return err
		}
		out, cpu, err := p.run(0, endless, "-test.run=^"+name+"$")
		if err != nil {
			return fmt.Errorf("%s fails without a mutant: %w\n%s", name, err, out)
		}
		text, err := os.ReadFile(reached)
		if err != nil {
			return err
		}
		t := test{name, cpu, map[int]bool{}}
		for line := range strings.Lines(string(text)) {
			id, _ := strconv.Atoi(strings.TrimSpace(line))
			t.reaches[id] = true
		}
		p.tests = append(p.tests, t)
	}
	slices.SortStableFunc(p.tests, func(a, b test) int { return cmp.Compare(a.cpu, b.cpu) })
	return os.Remove(reached)
}

// lives says why a mutant lives; nothing is said of one that is killed.
func (p program) lives(m Mutant) string {
	why := unreached
	var names []string
	var cpu, before time.Duration
	for i, t := range p.tests {
		if t.reaches[m.ID] {
			names = append(names, t.name)
			cpu += t.cpu
		}
		// Many cheap tests at once, then those that cost as much as all before them.
		if len(names) == 0 || i < len(p.tests)-1 && cpu < max(before, 200*time.Millisecond) {
			continue
		}
		_, _, err := p.run(m.ID, 2*time.Second+10*cpu, "-test.run=^("+strings.Join(names, "|")+")$")
		if err != nil {
			return ""
		}
		why, before, names, cpu = lived, before+cpu, nil, 0
	}
	return why
}
