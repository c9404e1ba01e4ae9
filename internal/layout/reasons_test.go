package layout

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// TestCodesInDocs: docs/codes.md names each code of capacity.Codes, by the first place where it appears. UPDATE_TRANSCRIPTS=1
// writes it.
func TestCodesInDocs(t *testing.T) {
	const path, begin, end = "../../docs/codes.md", "<!-- codes -->\n", "<!-- end of codes -->\n"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, listed, found := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(listed, end)
	if !found || !closed {
		t.Fatalf("%s has no list of codes", path)
	}
	text := ""
	for _, place := range []struct{ name, heading string }{{"submission", "Of jobs"}, {"launch", "Of launches"},
		{"pass", "Of `sync` and `status`"}, {"notice", "Of [notices](notices.md)"}, {"setup", "Of `setup`, `teardown` and `check`"}} {
		text += fmt.Sprintf("## %s\n\n", place.heading)
		for _, who := range []capacity.Severity{capacity.Admin, capacity.User, capacity.Note} {
			var names []string
			for _, m := range capacity.Codes {
				if m.At[0] == place.name && m.Severity == who {
					names = append(names, fmt.Sprintf("`%s`", m.Code))
				}
			}
			if names != nil {
				text += fmt.Sprintf("- %s acts: %s\n", capacity.Meaning{Severity: who}.Who(), strings.Join(names, ", "))
			}
		}
		text += "\n"
	}
	want := before + begin + text + end + after
	if diff := cmp.Diff(string(page), want); diff != "" {
		if os.Getenv("UPDATE_TRANSCRIPTS") == "" {
			t.Errorf("%s is not what capacity.Codes has; UPDATE_TRANSCRIPTS=1 writes it:\n%s", path, diff)
		} else if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range capacity.Codes {
		if !strings.Contains(text, fmt.Sprintf("`%s`", m.Code)) {
			t.Errorf("no list of docs/codes.md has %s", m.Code)
		}
	}
}

// TestCodesAreTheOnlyOnes: each constant of type capacity.Code is in capacity.Codes, once, and is
// used; and no other code is written anywhere.
func TestCodesAreTheOnlyOnes(t *testing.T) {
	all := load(t)
	scope := find(t, all, "/capacity").Types.Scope()
	code := scope.Lookup("Code").Type()
	used := map[string]bool{} // by name
	for _, p := range all {
		for _, file := range p.Syntax {
			path := p.Fset.Position(file.Pos()).Filename
			if strings.HasSuffix(path, "/capacity/codes.go") || strings.HasSuffix(path, "_test.go") {
				continue
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Ident:
					if c, ok := p.TypesInfo.Uses[n].(*types.Const); ok && c.Type().String() == code.String() {
						used[c.Name()] = true
					}
				case *ast.BasicLit:
					if typed, ok := p.TypesInfo.Types[n]; ok && n.Kind == token.STRING && n.Value != `""` && typed.Type.String() == code.String() {
						t.Errorf("%s: %s is written as a text: make it a constant of capacity/codes.go", p.Fset.Position(n.Pos()), n.Value)
					}
				}
				return true
			})
		}
	}
	var want, got []string
	for _, name := range scope.Names() {
		if c, ok := scope.Lookup(name).(*types.Const); ok && c.Type() == code {
			want = append(want, constant.StringVal(c.Val()))
			if !used[name] {
				t.Errorf("nothing gives code %s", name)
			}
		}
	}
	for _, m := range capacity.Codes {
		got = append(got, string(m.Code))
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("constants of type Code (-) and capacity.Codes (+):\n%s", diff)
	}
}
