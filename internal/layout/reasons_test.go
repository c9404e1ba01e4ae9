package layout

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/go/packages"
)

// TestEveryReasonIsDocumented compares the tables of docs/reasons.md with the codes of
// verdicts and those that the power hooks give a launch that failed.
func TestEveryReasonIsDocumented(t *testing.T) {
	all := load(t)
	var want []string
	scope := find(t, all, "/capacity").Types.Scope()
	for _, name := range scope.Names() {
		if c, ok := scope.Lookup(name).(*types.Const); ok && c.Type() == scope.Lookup("Code").Type() {
			want = append(want, constant.StringVal(c.Val()))
		}
	}
	power := find(t, all, "/hooks/power")
	if c, ok := power.Types.Scope().Lookup("NotBooted").(*types.Const); ok {
		want = append(want, constant.StringVal(c.Val()))
	}
	for _, file := range power.Syntax {
		ast.Inspect(file, func(n ast.Node) bool {
			if pair, ok := n.(*ast.KeyValueExpr); ok {
				key, isName := pair.Key.(*ast.Ident)
				if text, isText := pair.Value.(*ast.BasicLit); isName && isText && key.Name == "code" {
					code, err := strconv.Unquote(text.Value)
					if err != nil {
						t.Fatal(err)
					}
					want = append(want, code)
				}
			}
			return true
		})
	}
	page, err := os.ReadFile("../../docs/reasons.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| .+ \\| .+ \\|$").FindAllSubmatch(page, -1) {
		got = append(got, string(row[1]))
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(slices.Compact(want), got); diff != "" {
		t.Errorf("codes in the code (-) and in docs/reasons.md (+):\n%s", diff)
	}
}

// TestEveryProblemIsInTheRunbook: a phrase of docs/operations.md is in each sentence that sync and
// status show as a problem, and each phrase is in a sentence of the product.
func TestEveryProblemIsInTheRunbook(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## Problems")
	table, _, _ = strings.Cut(table, "\n## ")
	var phrases []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`.+?`) \\| .+ \\|$").FindAllStringSubmatch(table, -1) {
		for phrase := range strings.SplitSeq(row[1], ", `") {
			phrases = append(phrases, strings.Trim(phrase, "`"))
		}
	}
	used := map[string]bool{}
	for _, p := range load(t) {
		for _, file := range p.Syntax {
			problems := sentencesOfProblems(p, file)
			ast.Inspect(file, func(n ast.Node) bool {
				text, ok := n.(*ast.BasicLit)
				if !ok || text.Kind != token.STRING {
					return true
				}
				known := false
				for _, phrase := range phrases {
					if strings.Contains(text.Value, phrase) {
						used[phrase], known = true, true
					}
				}
				if problems[text] && !known {
					t.Errorf("%s: no phrase of docs/operations.md is in %s", p.Fset.Position(text.Pos()), text.Value)
				}
				return true
			})
		}
	}
	for _, phrase := range phrases {
		if !used[phrase] {
			t.Errorf("docs/operations.md: no sentence has %q", phrase)
		}
	}
	if len(phrases) < 20 {
		t.Errorf("only %d phrases were found: %q", len(phrases), phrases)
	}
}

// sentencesOfProblems are the literals that a file makes problems of: those within a call of
// append to Problems, of problem, say or Problemf, and the sentences of troubles.go.
func sentencesOfProblems(p *packages.Package, file *ast.File) map[*ast.BasicLit]bool {
	found := map[*ast.BasicLit]bool{}
	path := p.Fset.Position(file.Pos()).Filename
	if !strings.Contains(path, "/internal/lifecycle/") && !strings.HasSuffix(path, "/status.go") {
		return found
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		name := ""
		switch f := call.Fun.(type) {
		case *ast.Ident:
			name = f.Name
		case *ast.SelectorExpr:
			name = f.Sel.Name
		}
		first, _ := call.Args[0].(*ast.SelectorExpr)
		switch {
		case name == "problem", name == "say", name == "append" && first != nil && first.Sel.Name == "Problems",
			name == "Problemf", name == "Sprintf" && strings.HasSuffix(path, "/troubles.go"):
		default:
			return true
		}
		for _, arg := range call.Args {
			ast.Inspect(arg, func(n ast.Node) bool {
				if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING && len(text.Value) > 24 && !strings.HasPrefix(text.Value, `"; `) { // else the end of one
					found[text] = true
				}
				return true
			})
		}
		return true
	})
	return found
}

// TestEveryNoticeIsInTheRunbook: docs/operations.md says of each kind of notice when it is told, and
// what to do.
func TestEveryNoticeIsInTheRunbook(t *testing.T) {
	source, err := os.ReadFile("../lifecycle/notice.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| kind |")
	table, _, _ = strings.Cut(table, "\n\n")
	var kinds, rows []string
	for _, m := range regexp.MustCompile(`(?:\badd\(|Kind: +)"([a-z-]+)"`).FindAllStringSubmatch(string(source), -1) {
		kinds = append(kinds, m[1])
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| [^|]+ \\| [^|]+ \\|$").FindAllStringSubmatch(table, -1) {
		rows = append(rows, m[1])
	}
	slices.Sort(kinds)
	slices.Sort(rows)
	if diff := cmp.Diff(slices.Compact(kinds), rows); diff != "" || len(rows) < 9 {
		t.Errorf("notices of the code (-) and of docs/operations.md (+):\n%s", diff)
	}
}
