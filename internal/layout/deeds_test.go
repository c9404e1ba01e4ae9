// Package layout has tests of the source as a whole.
package layout

import (
	"errors"
	"go/ast"
	"go/types"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/tools/go/packages"
)

const module = "github.com/pcs-capacity/pcs-capacity"

// load type-checks every package of the module, without tests, once for all tests here.
func load(t *testing.T) []*packages.Package {
	t.Helper()
	all, err := loaded()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var loaded = sync.OnceValues(func() ([]*packages.Package, error) {
	mode := packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports | packages.NeedExportFile
	all, err := packages.Load(&packages.Config{Mode: mode}, module+"/...")
	if err == nil && packages.PrintErrors(all) > 0 {
		err = errors.New("packages have errors")
	}
	return all, err
})

// struct fields are known by the package, type and name: a package that is read from
// export data has other objects than the same package read from source.
func fieldName(owner types.Type, field *types.Var) string {
	for {
		switch o := owner.(type) {
		case *types.Pointer:
			owner = o.Elem()
			continue
		case *types.Named:
			return o.Obj().Pkg().Path() + "." + o.Obj().Name() + "." + field.Name()
		}
		return ""
	}
}

// holder is the type that has the selected field itself, behind embedded ones.
func holder(s *types.Selection) types.Type {
	owner := s.Recv()
	for _, i := range s.Index()[:len(s.Index())-1] {
		if p, ok := owner.Underlying().(*types.Pointer); ok {
			owner = p.Elem()
		}
		owner = owner.Underlying().(*types.Struct).Field(i).Type()
	}
	return owner
}

// reads are the fields that are read in the given packages: every mention that is
// neither the left side of an assignment nor a key of a composite literal.
func reads(all []*packages.Package, in func(path string) bool) map[string]bool {
	found := map[string]bool{}
	for _, p := range all {
		if !in(p.PkgPath) {
			continue
		}
		for _, file := range p.Syntax {
			written := map[ast.Expr]bool{}
			ast.Inspect(file, func(n ast.Node) bool {
				if a, ok := n.(*ast.AssignStmt); ok {
					for _, left := range a.Lhs {
						written[left] = true
					}
				}
				s, ok := n.(*ast.SelectorExpr)
				if !ok || written[s] {
					return true
				}
				if selection := p.TypesInfo.Selections[s]; selection != nil && selection.Kind() == types.FieldVal {
					found[fieldName(holder(selection), selection.Obj().(*types.Var))] = true
				}
				return true
			})
		}
	}
	delete(found, "") // of structs without a name
	return found
}

// settings are the fields of a configuration type that a file can set, with their keys.
func settings(p *packages.Package, name, prefix string) map[string]string {
	fields := map[string]string{}
	t := p.Types.Scope().Lookup(name).Type().(*types.Named)
	s := t.Underlying().(*types.Struct)
	for i := range s.NumFields() {
		key, _, _ := strings.Cut(tag(s.Tag(i), "toml"), ",")
		if key == "" || key == "-" {
			continue
		}
		inner := s.Field(i).Type()
		for {
			switch i := inner.(type) {
			case *types.Pointer:
				inner = i.Elem()
				continue
			case *types.Slice:
				inner = i.Elem()
				continue
			}
			break
		}
		if n, ok := inner.(*types.Named); ok && n.Obj().Pkg() == p.Types {
			for f, k := range settings(p, n.Obj().Name(), prefix+key+".") {
				fields[f] = k
			}
			continue
		}
		fields[fieldName(t, s.Field(i))] = prefix + key
	}
	return fields
}

func tag(text, key string) string {
	m := regexp.MustCompile(key + `:"([^"]*)"`).FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	return m[1]
}

func find(t *testing.T, all []*packages.Package, path string) *packages.Package {
	t.Helper()
	i := slices.IndexFunc(all, func(p *packages.Package) bool { return p.PkgPath == module+path })
	if i < 0 {
		t.Fatalf("there is no package %s", path)
	}
	return all[i]
}

// copies are the fields that a package copies into fields of other structs, in composite
// literals: config hands settings to the domain so.
func copies(p *packages.Package) map[string]string {
	found := map[string]string{}
	for _, file := range p.Syntax {
		ast.Inspect(file, func(n ast.Node) bool {
			literal, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			to, ok := p.TypesInfo.TypeOf(literal).(*types.Named)
			if !ok {
				return true
			}
			for _, e := range literal.Elts {
				pair, ok := e.(*ast.KeyValueExpr)
				if !ok {
					continue
				}
				value := pair.Value
				if call, ok := value.(*ast.CallExpr); ok && len(call.Args) == 1 { // copied in another form
					value = call.Args[0]
				}
				from, ok := value.(*ast.SelectorExpr)
				if !ok {
					continue
				}
				if selection := p.TypesInfo.Selections[from]; selection != nil && selection.Kind() == types.FieldVal {
					key := to.Obj().Pkg().Path() + "." + to.Obj().Name() + "." + pair.Key.(*ast.Ident).Name
					found[fieldName(holder(selection), selection.Obj().(*types.Var))] = key
				}
			}
			return true
		})
	}
	return found
}

// Every setting that a file may have is read by something that acts on it: package
// config itself only decodes, checks and shows.
func TestEverySettingIsRead(t *testing.T) {
	all := load(t)
	config := find(t, all, "/internal/config")
	read := reads(all, func(path string) bool { return path != config.PkgPath })
	handedOn := copies(config)
	keys := settings(config, "Config", "")
	if len(keys) < 20 {
		t.Fatalf("only %d settings were found: %v", len(keys), keys)
	}
	for field, key := range keys {
		if !read[field] && !read[handedOn[field]] {
			t.Errorf("%s is accepted in settings, and nothing reads it", key)
		}
	}
}
