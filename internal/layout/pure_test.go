package layout

import (
	"go/ast"
	"go/types"
	"maps"
	"slices"
	"testing"
)

// decisions are functions that decide: from what was seen to effects. Neither they nor what they
// call has a context, a clock, a log, files or an adapter.
var decisions = map[string][]string{
	"internal/setup": {"decide", "decideTeardown"},
}

// impure are packages of the standard library that a decision uses nothing of, and clocks those
// functions of time that ask the machine's clock.
var (
	impure = []string{"context", "os", "os/exec", "os/user", "log", "log/slog", "net", "net/http", "sync", "runtime", "math/rand", "math/rand/v2"}
	clocks = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
)

// TestDecisionsArePure follows the calls of each decision through this module.
func TestDecisionsArePure(t *testing.T) {
	bodies := map[types.Object]*ast.FuncDecl{}
	infos := map[types.Object]*types.Info{}
	roots := map[types.Object]string{}
	for _, p := range load(t) {
		for _, file := range p.Syntax {
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || f.Body == nil {
					continue
				}
				object := p.TypesInfo.Defs[f.Name]
				bodies[object], infos[object] = f, p.TypesInfo
				for folder, names := range decisions {
					if p.PkgPath == module+"/"+folder && f.Recv == nil && slices.Contains(names, f.Name.Name) {
						roots[object] = folder + "." + f.Name.Name
					}
				}
			}
		}
	}
	want := 0
	for _, names := range decisions {
		want += len(names)
	}
	if len(roots) != want {
		t.Fatalf("of %d decisions there are %v", want, slices.Sorted(maps.Values(roots)))
	}
	for root, name := range roots {
		for _, what := range uses(root, bodies, infos) {
			t.Errorf("%s uses %s", name, what)
		}
		if reached := len(reach(root, bodies, infos)); reached < 20 {
			t.Errorf("%s calls %d functions only: the test follows too few", name, reached)
		}
	}
}

// reach are the functions of this module that a function calls, or may call, itself among them.
func reach(root types.Object, bodies map[types.Object]*ast.FuncDecl, infos map[types.Object]*types.Info) map[types.Object]bool {
	reached := map[types.Object]bool{root: true}
	for todo := []types.Object{root}; len(todo) > 0; {
		f := todo[0]
		todo = todo[1:]
		ast.Inspect(bodies[f], func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				if used := infos[f].Uses[id]; used != nil && bodies[used] != nil && !reached[used] {
					reached[used] = true
					todo = append(todo, used)
				}
			}
			return true
		})
	}
	return reached
}

// uses are what a function, or one that it calls, uses of the world outside.
func uses(root types.Object, bodies map[types.Object]*ast.FuncDecl, infos map[types.Object]*types.Info) []string {
	found := map[string]bool{}
	for f := range reach(root, bodies, infos) {
		ast.Inspect(bodies[f], func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			used := infos[f].Uses[id]
			if used == nil || used.Pkg() == nil {
				return true
			}
			path := used.Pkg().Path()
			if slices.Contains(impure, path) || path == "time" && slices.Contains(clocks, used.Name()) && used.Parent() == used.Pkg().Scope() {
				found[f.Name()+" "+path+"."+used.Name()] = true
			}
			return true
		})
	}
	return slices.Sorted(maps.Keys(found))
}
