package layout

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// lists are where docs/ has the codes: a code stands in the first list that it belongs to, and later ones link there.
// A list of names leaves the rest to the command that shows the code, and to explain.
var lists = []struct {
	page, heading string
	names         bool
	has           func(capacity.Where) bool
}{
	{"problems.md", "## The codes", false, func(w capacity.Where) bool { return w&capacity.AtPass != 0 }},
	{"notices.md", "## The codes", false, func(w capacity.Where) bool { return w&capacity.AsNotice != 0 }},
	{"reasons.md", "## Of admission", false, func(w capacity.Where) bool { return w&capacity.AtSubmission != 0 }},
	{"reasons.md", "## Of launches", false, func(w capacity.Where) bool { return w&capacity.AtLaunch != 0 && w&capacity.AtSubmission == 0 }},
	{"reasons.md", "## Of setup and teardown", true, func(w capacity.Where) bool { return w&capacity.AtSetup != 0 }},
}

// TestCodesInDocs: the lists of codes in docs/ are those of capacity.Codes. UPDATE_TRANSCRIPTS=1
// writes them.
func TestCodesInDocs(t *testing.T) {
	const begin, end = "<!-- codes -->\n", "<!-- end of codes -->\n"
	shown := map[capacity.Code]string{} // the page
	for _, list := range lists {
		path := "../../docs/" + list.page
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		before, section, found := strings.Cut(string(page), list.heading+"\n")
		text, rest, listed := strings.Cut(section, begin)
		_, rest, closed := strings.Cut(rest, end)
		if !found || !listed || !closed || strings.Contains(text, "\n## ") {
			t.Fatalf("%s has no list of codes in %q", path, list.heading)
		}
		items, elsewhere := map[capacity.Severity]string{}, map[string][]string{}
		var named []string
		for _, m := range capacity.Codes {
			if !list.has(m.Where) {
				continue
			}
			if there := shown[m.Code]; there != "" {
				elsewhere[there] = append(elsewhere[there], fmt.Sprintf("`%s`", m.Code))
				continue
			}
			shown[m.Code] = list.page
			if list.names {
				named = append(named, fmt.Sprintf("`%s`", m.Code))
				continue
			}
			item := fmt.Sprintf("- `%s`: %s", m.Code, m.Text)
			do := strings.TrimPrefix(strings.TrimPrefix(m.Do, "Nothing. "), "Nothing: ") // under "Nobody has to act"
			if m.Do != "Nothing." && m.Do != capacity.WaitForPass {
				item += " " + strings.ToUpper(do[:1]) + do[1:]
			}
			if m.More != "" {
				item += fmt.Sprintf(" [More](%s).", strings.TrimPrefix(m.More, list.page))
			}
			items[m.Severity] += item + "\n"
		}
		written := ""
		for _, group := range []struct {
			severity capacity.Severity
			title    string
		}{{capacity.Admin, "An administrator acts:"}, {capacity.User, "The owner of the job acts:"}, {capacity.Note, "Nobody has to act:"}} {
			if items[group.severity] != "" {
				written += group.title + "\n\n" + items[group.severity] + "\n"
			}
		}
		if named != nil {
			written += strings.Join(named, ", ") + "\n\n"
		}
		for _, page := range slices.Sorted(maps.Keys(elsewhere)) {
			written += fmt.Sprintf("In [%s](%s): %s.\n\n", page, page, strings.Join(elsewhere[page], ", "))
		}
		want := before + list.heading + "\n" + text + begin + written + end + rest
		if diff := cmp.Diff(string(page), want); diff != "" {
			if os.Getenv("UPDATE_TRANSCRIPTS") == "" {
				t.Errorf("%s is not what capacity.Codes has; UPDATE_TRANSCRIPTS=1 writes it:\n%s", path, diff)
			} else if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, m := range capacity.Codes {
		if shown[m.Code] == "" {
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
