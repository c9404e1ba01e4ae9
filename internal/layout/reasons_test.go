package layout

import (
	"fmt"
	"go/ast"
	"go/constant"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// TestCodesInDocs: docs/codes.md names each code of capacity.Codes, by the first place where it appears.
// UPDATE_TRANSCRIPTS=1 writes it.
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
	for _, place := range []struct {
		name    capacity.Place
		heading string
	}{
		{capacity.AtSubmission, "Of jobs"},
		{capacity.AtLaunch, "Of launches"},
		{capacity.AtPass, "Of `sync` and `status`"},
		{capacity.AtNotice, "Of [notices](notices.md)"},
		{capacity.AtSetup, "Of `setup`, `teardown` and `check`"},
		{capacity.AtExplain, "Of `explain` and `when`"},
	} {
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

// TestCodesAreTheOnlyOnes: each text of type capacity.Code in the source, a constant's or one written where it is used,
// is in capacity.Codes, and something uses each of these.
func TestCodesAreTheOnlyOnes(t *testing.T) {
	all := load(t)
	code := find(t, all, "/capacity").Types.Scope().Lookup("Code").Type().String()
	used := map[string]bool{}
	for _, p := range all {
		for _, file := range p.Syntax {
			path := p.Fset.Position(file.Pos()).Filename
			if strings.HasSuffix(path, "/capacity/codes.go") || strings.HasSuffix(path, "_test.go") {
				continue
			}

			ast.Inspect(file, func(n ast.Node) bool {
				e, is := n.(ast.Expr)
				typed, known := p.TypesInfo.Types[e]
				if !is || !known || typed.Value == nil || typed.Type.String() != code {
					return true
				}

				text := constant.StringVal(typed.Value)
				if _, listed := capacity.Code(text).Meaning(); !listed && text != "" {
					t.Errorf("%s: %q is no code of capacity.Codes", p.Fset.Position(n.Pos()), text)
				}

				if _, literal := e.(*ast.BasicLit); literal && text != "" {
					t.Errorf("%s: %q is written out, and has a constant", p.Fset.Position(n.Pos()), text)
				}

				used[text] = true

				return false
			})
		}
	}

	for _, m := range capacity.Codes {
		if !used[string(m.Code)] {
			t.Errorf("nothing uses code %s", m.Code)
		}
	}
}
