package layout

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// TestCodesInDocs: the tables of codes in docs/ are those of capacity.Codes. UPDATE_TRANSCRIPTS=1
// writes them.
func TestCodesInDocs(t *testing.T) {
	const header = "| code | who acts | when | what to do |\n"
	shown := map[capacity.Code]bool{}
	for _, table := range []struct {
		page, heading string
		has           func(capacity.Where) bool
	}{
		{"reasons.md", "## Of admission", func(w capacity.Where) bool { return w&capacity.AtSubmission != 0 }},
		{"reasons.md", "## Of launches", func(w capacity.Where) bool { return w&capacity.AtLaunch != 0 && w&capacity.AtSubmission == 0 }},
		{"reasons.md", "## Of setup and teardown", func(w capacity.Where) bool { return w&capacity.AtSetup != 0 }},
		{"operations.md", "## Problems", func(w capacity.Where) bool { return w&capacity.AtPass != 0 }},
		{"operations.md", "## Being told", func(w capacity.Where) bool { return w&capacity.AsNotice != 0 }},
	} {
		path := "../../docs/" + table.page
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		before, section, found := strings.Cut(string(page), table.heading+"\n")
		text, rest, tabled := strings.Cut(section, header)
		if !found || !tabled || strings.Contains(text, "\n## ") {
			t.Fatalf("%s has no table of codes in %q", path, table.heading)
		}
		_, rest, _ = strings.Cut("\n"+rest, "\n\n")
		rows := header + "| --- | --- | --- | --- |\n"
		for _, m := range capacity.Codes {
			if !table.has(m.Where) {
				continue
			}
			shown[m.Code] = true
			more := ""
			if m.More != "" {
				more = fmt.Sprintf(" [More](%s).", strings.TrimPrefix(m.More, table.page))
			}
			rows += fmt.Sprintf("| `%s` | %s | %s | %s%s |\n", m.Code, m.Who(), m.Text, m.Do, more)
		}
		want := strings.TrimSuffix(before+table.heading+"\n"+text+rows+"\n"+rest, "\n") + "\n"
		if diff := cmp.Diff(string(page), want); diff != "" {
			if os.Getenv("UPDATE_TRANSCRIPTS") == "" {
				t.Errorf("%s is not what capacity.Codes has; UPDATE_TRANSCRIPTS=1 writes it:\n%s", path, diff)
			} else if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, m := range capacity.Codes {
		if !shown[m.Code] {
			t.Errorf("no page of docs/ has %s", m.Code)
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

// TestCodesHavePages: a page says what a code means and what to do, and its example has words of the product.
func TestCodesHavePages(t *testing.T) {
	var fragments []string
	for _, p := range load(t) {
		for _, file := range p.Syntax {
			if path := p.Fset.Position(file.Pos()).Filename; strings.HasSuffix(path, "/capacity/codes.go") || strings.HasSuffix(path, "_test.go") {
				continue
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
					if value, err := strconv.Unquote(text.Value); err == nil {
						for fragment := range strings.SplitSeq(value, "%") {
							if len(fragment) >= 10 {
								fragments = append(fragments, fragment[1:]) // after the verb
							}
						}
					}
				}
				return true
			})
		}
	}
	for _, m := range capacity.Codes {
		if !strings.HasSuffix(m.Text, ".") || !strings.HasSuffix(m.Do, ".") || m.Where == 0 || m.Severity == "" {
			t.Errorf("%+v: sentences end with a full stop", m)
		}
		goesThrough := m.Code == capacity.OK || m.Code == capacity.NotManaged || m.Code == capacity.ReservationNotKnown
		refusal := m.Where&capacity.AtSubmission != 0 && !goesThrough
		if refusal != (m.Slurm != "") {
			t.Errorf("%s: what does Slurm say of a job that is refused so?", m.Code)
		}
		known := slices.ContainsFunc(fragments, func(f string) bool { return strings.Contains(m.Example, f) })
		if !known && m.Code != capacity.OK && m.Code != capacity.NotManaged {
			t.Errorf("%s: the product has no sentence like %q", m.Code, m.Example)
		}
	}
}
