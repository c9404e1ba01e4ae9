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
// (package ec2, TestR4_Hold, TestR3_Commit). A call elsewhere would get round it.
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
					if _, isType := call.(*types.TypeName); !isType && call != nil && call.Pkg() != nil && strings.HasSuffix(call.Pkg().Path(), "/ec2") && strings.HasPrefix(call.Name(), "CreateCapacityReservation") {
						found = append(found, p.PkgPath+" "+f.Name.Name)
					}
					return true
				})
				return false
			})
		}
	}
	slices.Sort(found)
	if !slices.Equal(found, []string{module + "/ec2 createODCR", module + "/ec2 newAPI"}) {
		t.Errorf("ODCRs are created in %q", found)
	}
}

// A kind of reservation knows itself: what differs between kinds is asked of capacity.Kind, so
// that a new kind is one row of a table.
func TestKindsAreNotCompared(t *testing.T) {
	kinds := []string{"CapacityBlock", "ODCR", "InterruptibleODCR", "OnDemand", "Mixed"}
	found := 0
	for _, p := range load(t) {
		isKind := func(e ast.Expr) bool {
			selector, ok := e.(*ast.SelectorExpr)
			if !ok || !slices.Contains(kinds, selector.Sel.Name) {
				return false
			}
			constant, ok := p.TypesInfo.Uses[selector.Sel].(*types.Const)
			return ok && constant.Pkg().Path() == module+"/capacity"
		}
		for _, file := range p.Syntax {
			ast.Inspect(file, func(n ast.Node) bool {
				var compared []ast.Expr
				switch n := n.(type) {
				case *ast.BinaryExpr:
					compared = []ast.Expr{n.X, n.Y}
				case *ast.CaseClause:
					compared = n.List
				case *ast.SelectorExpr:
					if isKind(n) {
						found++
					}
				}
				if slices.ContainsFunc(compared, isKind) {
					t.Errorf("%s compares a kind; ask it by a method of capacity.Kind", p.Fset.Position(n.Pos()))
				}
				return true
			})
		}
	}
	if found < 3 {
		t.Errorf("kinds are named %d times: the test looks at too little", found)
	}
}

// A job's comment is parsed in one place, Request.Wish: parseWish is not exported, and nothing else
// calls it.
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
