package layout

import (
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// `make mutants` leaves out nothing that decides: each file that the Makefile names for that is
// there, and has a context, which no decision has.
func TestMutantsLeaveOutOnlyWhatActs(t *testing.T) {
	text, err := os.ReadFile(root + "/Makefile")
	if err != nil {
		t.Fatal(err)
	}
	values := func(name string) []string {
		found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` := (.*)$`).FindStringSubmatch(string(text))
		if found == nil {
			t.Fatalf("the Makefile has no %s", name)
		}
		return strings.Fields(found[1])
	}
	mutated := values("MUTATED")
	want := []string{"capacity", "hooks/power", "hooks/prolog", "hooks/submit", "internal/lifecycle", "internal/market", "internal/setup"}
	if slices.Sort(mutated); !slices.Equal(mutated, want) {
		t.Errorf("packages with mutants: %q, want %q", mutated, want)
	}
	leftOut := regexp.MustCompile(`(?m)^UNMUTATED_(\S+) :=`).FindAllStringSubmatch(string(text), -1)
	if len(leftOut) == 0 {
		t.Error("no file is left out: the test sees none")
	}
	for _, m := range leftOut {
		if !slices.Contains(mutated, m[1]) {
			t.Errorf("files of %s are left out, which has no mutants", m[1])
		}
		for _, name := range values("UNMUTATED_" + m[1]) {
			path := m[1] + "/" + name + ".go"
			file, err := parser.ParseFile(token.NewFileSet(), root+"/"+path, nil, parser.ImportsOnly)
			if err != nil {
				t.Error(err)
				continue
			}
			acts := false
			for _, imported := range file.Imports {
				acts = acts || imported.Path.Value == `"context"`
			}
			if !acts {
				t.Errorf("%s is left out, and has no context: it decides", path)
			}
		}
	}
}
