package layout

import (
	"go/ast"
	"go/types"
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
					method, ok := p.TypesInfo.Uses[selector.Sel].(*types.Func)
					if ok && method.Pkg() != nil && strings.HasSuffix(method.Pkg().Path(), "/service/ec2") && strings.HasPrefix(method.Name(), "CreateCapacityReservation") {
						found = append(found, p.PkgPath+" "+f.Name.Name)
					}
					return true
				})
				return false
			})
		}
	}
	if len(found) != 1 || found[0] != module+"/ec2 createODCR" {
		t.Errorf("ODCRs are created in %q", found)
	}
}
