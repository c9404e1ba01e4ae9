package power

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
)

// reads are the files that ask or change anything: see doc.go. All others decide.
var reads = []string{"configure.go", "executor.go", "facts.go", "lookup.go", "resume.go", "suspend.go"}

// What decides has no context, clock, log or adapter: of the state folder it knows the form of a record.
func TestDecisionsArePure(t *testing.T) {
	const module = "github.com/pcs-capacity/pcs-capacity/"
	allowed := []string{"cmp", "crypto/sha256", "errors", "fmt", "maps", "net/netip", "slices", "strconv", "strings", "time",
		module + "capacity", module + "internal/hook", module + "internal/hostlist", module + "internal/state"}
	names := map[string][]string{"time": {"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker"}, "hook": {"Log", "FilterLog"}}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	pure := 0
	for _, e := range entries {
		if name := e.Name(); !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || slices.Contains(reads, name) {
			continue
		}
		pure++
		file, err := parser.ParseFile(token.NewFileSet(), e.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			if path := strings.Trim(spec.Path.Value, `"`); !slices.Contains(allowed, path) {
				t.Errorf("%s decides, and imports %s", e.Name(), path)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if _, ok := n.(*ast.GoStmt); ok {
				t.Errorf("%s decides, and starts a goroutine", e.Name())
			}
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if of, ok := s.X.(*ast.Ident); ok && of.Obj == nil && (slices.Contains(names[of.Name], s.Sel.Name) || of.Name == "state" && s.Sel.Name != "Record") {
				t.Errorf("%s decides, and uses %s.%s", e.Name(), of.Name, s.Sel.Name)
			}
			return true
		})
	}
	if pure < 12 {
		t.Errorf("%d files decide", pure)
	}
}
