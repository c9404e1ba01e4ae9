package layout

import (
	"go/ast"
	"go/types"
	"strings"
	"testing"
)

// Every ODCR that we create is targeted, with an end, a client token and our tags, and is
// cancelled when its nodes run. None is created: a call that does so fails here until
// tests of the rule itself take the place of this one.
func TestR4_NoODCRIsCreated(t *testing.T) {
	const call = "CreateCapacityReservation"
	sdk := false
	for _, p := range load(t) {
		for _, file := range p.Syntax {
			ast.Inspect(file, func(n ast.Node) bool {
				selector, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				method, ok := p.TypesInfo.Uses[selector.Sel].(*types.Func)
				if !ok || method.Pkg() == nil || !strings.HasSuffix(method.Pkg().Path(), "/service/ec2") {
					return true
				}
				sdk = true
				if strings.HasPrefix(method.Name(), call) {
					t.Errorf("%s: %s calls %s", p.Fset.Position(selector.Pos()), p.PkgPath, method.Name())
				}
				return true
			})
		}
	}
	if !sdk {
		t.Error("no call of EC2 was found at all")
	}
}
