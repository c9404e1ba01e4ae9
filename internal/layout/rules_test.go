package layout

import (
	"go/ast"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// One function makes ODCRs, which refuses an order without an end, a token or our tags
// (package ec2, TestR4_Hold). A call elsewhere would get round it.
func TestR4_ODCRsAreCreatedInOnePlace(t *testing.T) {
	var found []string
	for _, p := range load(t) {
		for _, file := range p.Syntax {
			ast.Inspect(file, func(n ast.Node) bool {
				f, ok := n.(*ast.FuncDecl)
				if !ok {
					return true
				}

				ast.Inspect(f, func(n ast.Node) bool {
					selector, ok := n.(*ast.SelectorExpr)
					if !ok {
						return true
					}

					call := p.TypesInfo.Uses[selector.Sel] // the SDK's, or our api's
					if _, isType := call.(*types.TypeName); !isType && call != nil && call.Pkg() != nil &&
						strings.HasSuffix(call.Pkg().Path(), "/ec2") &&
						strings.HasPrefix(call.Name(), "CreateCapacityReservation") {
						found = append(found, p.PkgPath+" "+f.Name.Name)
					}

					return true
				})

				return false
			})
		}
	}

	slices.Sort(found)

	if !slices.Equal(found, []string{module + "/ec2 CreateODCR", module + "/ec2 newAPI"}) {
		t.Errorf("ODCRs are created in %q", found)
	}
}

// A job's comment is parsed in one place, Request.Wish: parseWish is not exported, and nothing else calls it.
func TestCommentsAreParsedInOnePlace(t *testing.T) {
	var found []string
	for _, p := range load(t) {
		for id, used := range p.TypesInfo.Uses {
			if f, ok := used.(*types.Func); ok && strings.EqualFold(f.Name(), "parseWish") {
				found = append(found, p.PkgPath+" "+filepath.Base(p.Fset.Position(id.Pos()).Filename))
			}
		}
	}

	if !slices.Equal(found, []string{module + "/capacity wish.go"}) {
		t.Errorf("comments are parsed in %q", found)
	}
}
