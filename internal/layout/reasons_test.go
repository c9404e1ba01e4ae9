package layout

import (
	"go/ast"
	"go/constant"
	"go/types"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// TestEveryReasonIsDocumented compares the tables of docs/reasons.md with the codes of
// verdicts and those that the power hooks give a launch that failed.
func TestEveryReasonIsDocumented(t *testing.T) {
	all := load(t)
	var want []string
	domain := find(t, all, "/capacity")
	scope := domain.Types.Scope()
	for _, name := range scope.Names() {
		c, ok := scope.Lookup(name).(*types.Const)
		if ok && c.Type() == scope.Lookup("Code").Type() && strings.HasSuffix(domain.Fset.Position(c.Pos()).Filename, "/verdict.go") {
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

// TestEveryProblemIsInTheRunbook: the table of docs/operations.md has the codes of
// capacity.Codes, each once.
func TestEveryProblemIsInTheRunbook(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## Problems")
	table, _, _ = strings.Cut(table, "\n## ")
	var got, want []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`.+?`) \\| .+ \\|$").FindAllStringSubmatch(table, -1) {
		for code := range strings.SplitSeq(row[1], ", ") {
			got = append(got, strings.Trim(code, "`"))
		}
	}
	for _, m := range capacity.Codes {
		want = append(want, string(m.Code))
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("codes of capacity.Codes (-) and of docs/operations.md (+):\n%s", diff)
	}
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
