package layout

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// Tests with a real Slurm are few: on two cores each costs seconds that a test of the decision does not.
// Their names say in which target of the Makefile they run.
func TestFewTestsStartASlurm(t *testing.T) {
	list := exec.Command("git", "ls-files", "--", "*_test.go")
	list.Dir = root

	files, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}

	tier := regexp.MustCompile(`(?m)^func Test(Slurm|Long)\w*\(t \*testing\.T\)`)
	count := map[string]int{}
	for name := range strings.Lines(string(files)) {
		text, err := os.ReadFile(root + "/" + strings.TrimSpace(name))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}

		for _, m := range tier.FindAllStringSubmatch(string(text), -1) {
			count[m[1]]++
		}
	}

	for name, most := range map[string]int{"Slurm": 15, "Long": 35} {
		if count[name] == 0 || count[name] > most {
			t.Errorf("%d tests are named Test%s…, at most %d may be", count[name], name, most)
		}
	}
}
