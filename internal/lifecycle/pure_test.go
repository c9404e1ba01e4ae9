package lifecycle

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// doing are the files that read, and the executor. Whatever else is in this folder decides.
var doing = []string{"observe.go", "keep.go", "see.go", "see_jobs.go", "sources.go", "settings.go", // what is read
	"pass.go", "clean.go", "watch.go", "tell.go", "after.go", // in which order
	"carry.go", "actual.go", "actual_jobs.go"} // what is done

// Files that decide have no context, clock, log or adapter.
func TestDecisionsArePure(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	decide := slices.DeleteFunc(slices.Clone(files), func(name string) bool { return strings.HasSuffix(name, "_test.go") || slices.Contains(doing, name) })
	if len(decide) < 20 {
		t.Fatalf("only %q decide", decide)
	}
	for _, name := range doing {
		if !slices.Contains(files, name) {
			t.Errorf("there is no %s", name)
		}
	}
	for _, name := range decide {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, imported := range file.Imports {
			path, _ := strconv.Unquote(imported.Path.Value)
			if slices.Contains([]string{"context", "log", "log/slog", "os", "os/exec", "io", "net/http"}, path) ||
				strings.HasPrefix(path, "github.com/pcs-capacity/") && !slices.Contains([]string{"capacity", "internal/state", "internal/hostlist", "internal/metrics"}, strings.TrimPrefix(path, "github.com/pcs-capacity/pcs-capacity/")) {
				t.Errorf("%s imports %s", name, path)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				if slices.Contains([]string{"pass", "Sources", "World", "actual", "MachineTime"}, n.Name) {
					t.Errorf("%s: %s", fset.Position(n.Pos()), n.Name)
				}
			case *ast.SelectorExpr:
				if of, ok := n.X.(*ast.Ident); ok && of.Name == "time" && slices.Contains([]string{"Now", "Since", "Until", "Sleep", "After"}, n.Sel.Name) {
					t.Errorf("%s: time.%s", fset.Position(n.Pos()), n.Sel.Name)
				}
			}
			return true
		})
	}
}

// decisions are those of a pass that are functions of what was seen alone.
var decisions = map[string]func(Seen) any{
	"fences":         func(s Seen) any { e, p := fences(s); return []any{e, p} },
	"unfinished":     func(s Seen) any { return unfinished(s) },
	"endings":        func(s Seen) any { return endings(s) },
	"keepMarks":      func(s Seen) any { return keepMarks(s) },
	"limits":         func(s Seen) any { return limits(s) },
	"waiting":        func(s Seen) any { return waiting(s) },
	"endedHolds":     func(s Seen) any { return endedHolds(s) },
	"givenUp":        func(s Seen) any { return givenUp(s) },
	"completing":     func(s Seen) any { return completing(s) },
	"endedBlocks":    func(s Seen) any { return endedBlocks(s) },
	"openings":       func(s Seen) any { return openings(s) },
	"endOrphans":     func(s Seen) any { return endOrphans(s) },
	"drainMisplaced": func(s Seen) any { return drainMisplaced(s) },
	"sample":         func(s Seen) any { return sample(s) },
	"rollings":       func(s Seen) any { return rollings(s) },
	"rollOver":       func(s Seen) any { return rollOver(s) },
	"published":      func(s Seen) any { return published(s, "elsewhere") },
	"problems": func(s Seen) any {
		return slices.Concat(setbackProblems(s), orphanProblems(s), leftoverProblems(s), unnamedBlocks(s), neverOpens(s), outOfService(s))
	},
}

// isPure makes each decision twice, which says the same and leaves what was seen as it was.
func (st *stage) isPure(seen Seen) {
	st.Helper()
	if seen.Cluster == nil || seen.Snap == nil {
		return
	}
	shown := func(v any) string {
		text, err := json.Marshal([]any{v, seen})
		if err != nil {
			st.Error(err)
		}
		return string(text)
	}
	for name, decide := range decisions {
		if diff := cmp.Diff(shown(decide(seen)), shown(decide(seen))); diff != "" {
			st.Errorf("%s says another thing the second time, or changes what was seen: %s", name, diff)
		}
	}
}
