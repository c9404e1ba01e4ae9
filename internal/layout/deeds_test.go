// Package layout has tests of the source as a whole.
package layout

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/tools/go/packages"

	"github.com/pcs-capacity/pcs-capacity/internal/config"
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
	mode := packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes |
		packages.NeedTypesInfo | packages.NeedImports | packages.NeedExportFile

	all, err := packages.Load(&packages.Config{Mode: mode}, module+"/...")
	if err == nil && packages.PrintErrors(all) > 0 {
		err = errors.New("packages have errors")
	}

	return all, err
})

func find(t *testing.T, all []*packages.Package, path string) *packages.Package {
	t.Helper()

	i := slices.IndexFunc(all, func(p *packages.Package) bool { return p.PkgPath == module+path })
	if i < 0 {
		t.Fatalf("there is no package %s", path)
	}

	return all[i]
}

// Every setting that a file may have is read by something that acts on it: package config itself only decodes, checks
// and shows.
func TestEverySettingIsRead(t *testing.T) {
	read := map[string]bool{} // names of fields
	for _, p := range load(t) {
		if strings.HasSuffix(p.PkgPath, "/internal/config") {
			continue
		}

		for of := range p.TypesInfo.Selections {
			read[of.Sel.Name] = true
		}
	}

	keys := 0

	var settings func(t reflect.Type, prefix string) // of a type that a file can set

	settings = func(of reflect.Type, prefix string) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}

		for field := range of.Fields() {
			key, _, _ := strings.Cut(field.Tag.Get("toml"), ",")
			if key == "" || key == "-" {
				continue
			}

			if keys++; !read[field.Name] {
				t.Errorf("%s%s is accepted in settings, and nothing reads it", prefix, key)
			}

			inner := field.Type
			for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
				inner = inner.Elem()
			}

			if inner.Kind() == reflect.Struct && inner.PkgPath() == of.PkgPath() {
				settings(inner, prefix+key+".")
			}
		}
	}
	if settings(reflect.TypeFor[config.Config](), ""); keys < 15 {
		t.Fatalf("only %d settings were found", keys)
	}
}
