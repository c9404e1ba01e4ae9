package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// What the commands with the longest messages say is whole at a terminal of 100 columns: no
// line is longer, and none ends within a word. In a pipe a sentence is one line.
func TestFitsATerminal(t *testing.T) {
	const block, offering = "cr-0e2000000000000a1", "cb-0d05ecddf72412d79"
	setup := []string{"setup", "--reservation", block, "--cluster", "ml", "--queue", "gpu", "--node-group", "gpu", "--like", "compute"}
	between := func(r rune) bool { return r == ' ' || r == '\n' || r == '/' } // a path may be broken after a slash
	for name, c := range map[string]struct {
		args []string
		line string // in a pipe
	}{
		"a mistake": {[]string{"reserve", "-t", "p5.48xlarge", "-n", "4", "--subnet-ids", "subnet-0e200000000000a01"}, "pcs-capacity: give --probe, to give it back at once, or --for TIME, to hold it"},
		"an error":  {append(slices.Clone(setup), "--yes", "--subnet-ids", "subnet-0e200000000000b02"), "pcs-capacity: reservation cr-0e2000000000000a1 is in us-east-2a (use2-az1), but node group gpu-a has only subnet-0e200000000000b02 in us-east-2b (use2-az2)"},
		"fit":       {[]string{"fit", "-t", "p5.48xlarge", "-n", "24", "-d", "3d"}, "24 x p5.48xlarge for 3d: nothing fits. Nearest is cr-0e2000000000000a1: it has 4 instances, 20 fewer than asked."},
		"extend":    {[]string{"extend", block, "--duration", "7d", "--dry-run"}, "cr-0e2000000000000a1: 4 x p5.48xlarge in us-east-2a (use2-az1), region us-east-2, account 111122223333, active"},
		"setup":     {append(slices.Clone(setup), "--yes"), "Start the service on one host. Without it, fences do not follow extensions:"},
		"help":      {[]string{"--help"}, "Reserved GPU capacity, made native to Slurm."},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSession(t, c.args...)
			s.exitStatus()
			// the pattern is valid
			fences, _ := filepath.Glob(filepath.Join(filepath.Dir(string(s.state)), "slurm", "reservation-*"))
			// so that it is said again
			for _, fence := range fences {
				if err := os.Remove(fence); err != nil {
					t.Fatal(err)
				}
			}
			pipe := exec.Command(s.cmd.Path, s.cmd.Args[1:]...)
			pipe.Env = s.cmd.Env
			text, _ := pipe.CombinedOutput() // some fail, as they should
			piped := string(text)
			if !slices.Contains(strings.Split(piped, "\n"), c.line) {
				t.Errorf("a pipe does not get the line %q:\n%s", c.line, piped)
			}
			words := strings.FieldsFunc(piped, between)
			for line := range strings.SplitSeq(s.text(), "\r\n") {
				line = strings.TrimPrefix(line[strings.LastIndex(line, "\r")+1:], "\x1b[K") // of one that was kept current
				if n := utf8.RuneCountInString(line); n > columns {
					t.Errorf("%d columns: %s", n, line)
				}
				if own := strings.FieldsFunc(strings.TrimSuffix(line, " \\"), between); len(own) > 0 && !slices.Contains(words, own[len(own)-1]) && !ofAName(own[len(own)-1], words) {
					t.Errorf("it breaks a word: %s", line)
				}
			}
		})
	}
}

// ofAName tells whether part ends, after a dash, within a word that is wider than a column of a
// table: the name of an image. Such a word has to be broken somewhere.
func ofAName(part string, words []string) bool {
	const widest = 44 // DETAILS of the checks' table
	return strings.HasSuffix(part, "-") && slices.ContainsFunc(words, func(w string) bool {
		return strings.HasPrefix(w, part) && utf8.RuneCountInString(w) > widest
	})
}
