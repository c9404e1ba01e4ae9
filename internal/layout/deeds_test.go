// Package layout has tests of the source as a whole.
package layout

import (
	"errors"
	"go/ast"
	"go/types"
	"os"
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

// Every key of --comment that is accepted is read, and documented; and no other is.
func TestEveryCommentKeyIsReadAndDocumented(t *testing.T) {
	all := load(t)
	domain := find(t, all, "/capacity")
	wish := domain.Types.Scope().Lookup("Wish").Type().(*types.Named)
	fields := wish.Underlying().(*types.Struct)
	read := map[string]bool{}
	for _, p := range all {
		for _, file := range p.Syntax {
			if strings.HasSuffix(p.Fset.File(file.Pos()).Name(), "capacity/wish.go") {
				continue
			}
			one := *p
			one.Syntax = []*ast.File{file}
			for name := range reads([]*packages.Package{&one}, func(string) bool { return true }) {
				read[name] = true
			}
		}
	}
	for i := range fields.NumFields() {
		if name := fieldName(wish, fields.Field(i)); !read[name] {
			t.Errorf("%s is taken from --comment, and nothing reads it", name)
		}
	}
	accepted := acceptedKeys(t, domain)
	documented := documentedKeys(t)
	if !slices.Equal(accepted, documented) {
		t.Errorf("accepted in --comment: %v; in the table of docs/submitting-jobs.md: %v", accepted, documented)
	}
}

// acceptedKeys are the cases of Wish.set that take a value.
func acceptedKeys(t *testing.T, domain *packages.Package) []string {
	t.Helper()
	var keys []string
	for _, file := range domain.Syntax {
		ast.Inspect(file, func(n ast.Node) bool {
			f, ok := n.(*ast.FuncDecl)
			if !ok {
				return true
			}
			if f.Name.Name != "set" || f.Recv == nil {
				return false
			}
			ast.Inspect(f, func(n ast.Node) bool {
				c, ok := n.(*ast.CaseClause)
				if !ok || !assigns(c) {
					return true
				}
				for _, e := range c.List {
					keys = append(keys, strings.Trim(e.(*ast.BasicLit).Value, `"`))
				}
				return true
			})
			return false
		})
	}
	slices.Sort(keys)
	return keys
}

// assigns reports whether a case stores something in the wish: by assignment, or by
// handing out the address of a field.
func assigns(c *ast.CaseClause) bool {
	found := false
	ast.Inspect(c, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			_, field := n.Lhs[0].(*ast.SelectorExpr)
			found = found || field
		case *ast.UnaryExpr:
			_, field := n.X.(*ast.SelectorExpr)
			found = found || field && n.Op.String() == "&"
		}
		return true
	})
	return found
}

func documentedKeys(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/submitting-jobs.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Keys in `--comment`")
	section, _, _ = strings.Cut(section, "\n## ")
	keys := []string{"time"} // written by the filter: described with the time limit
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(section, -1) {
		keys = append(keys, m[1])
	}
	slices.Sort(keys)
	return keys
}
