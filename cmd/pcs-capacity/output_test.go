package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/explain"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/market"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
)

// Every field that a command shows is in docs/output.md: those of the structs of this
// package, and those of the types of other packages that commands show.
func TestFieldsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/output.md")
	if err != nil {
		t.Fatal(err)
	}
	fields := fieldsOfThisPackage(t)
	seen := map[reflect.Type]bool{}
	for _, shown := range []any{setup.Plan{}, setup.TeardownPlan{}, lifecycle.Report{}, capacity.Need{}, capacity.Window{}, capacity.Period{}, explain.Explanation{}, explain.Start{}, explain.Opening{}, market.RegionFailure{}, capacity.Extension{}} {
		fieldsOf(reflect.TypeOf(shown), fields, seen)
	}
	if len(fields) < 50 || fields["fee_per_gpu_hour"] == "" || fields["security_group_ids"] == "" {
		t.Fatalf("the test finds too few fields: %v", fields)
	}
	for name, of := range fields {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/output.md does not name `%s` (%s)", name, of)
		}
	}
}

// fieldsOfThisPackage maps the names in json tags of all structs here to their file.
func fieldsOfThisPackage(t *testing.T) map[string]string {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]string{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if f, ok := n.(*ast.Field); ok && f.Tag != nil {
				tag, err := strconv.Unquote(f.Tag.Value)
				if err != nil {
					t.Fatal(err)
				}
				note(fields, reflect.StructTag(tag), file)
			}
			return true
		})
	}
	return fields
}

// fieldsOf adds the names in the json tags of a type and of what it holds.
func fieldsOf(shown reflect.Type, fields map[string]string, seen map[reflect.Type]bool) {
	switch shown.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		fieldsOf(shown.Elem(), fields, seen)
	case reflect.Struct:
		if seen[shown] {
			return
		}
		seen[shown] = true
		for i := range shown.NumField() {
			if f := shown.Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
				note(fields, f.Tag, shown.String())
				fieldsOf(f.Type, fields, seen)
			}
		}
	}
}

func note(fields map[string]string, tag reflect.StructTag, of string) {
	name, _, _ := strings.Cut(tag.Get("json"), ",")
	if name != "" && name != "-" {
		fields[name] = of
	}
}
