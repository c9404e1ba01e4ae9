package awssim

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim/shapes"
)

// The record of shapes holds the operations that the simulator answers. What is missing
// is added to services in shapes/shapegen, which then has to run again.
func TestEveryOperationIsRecorded(t *testing.T) {
	sim, _ := wireSim(t, string(defaultTOML))
	for service, operations := range map[string]map[string]operation{
		"ec2": sim.ec2, "pcs": sim.pcs, "iam": sim.iamOperations(), "ssm": sim.ssmOperations(), "sts": sim.stsOperations(),
	} {
		if diff := cmp.Diff(shapes.Operations(service), slices.Sorted(maps.Keys(operations))); diff != "" {
			t.Errorf("%s: -recorded +answered:\n%s", service, diff)
		}
	}
}

// The record holds every operation that the product calls, so its requests are checked wherever a test sends them.
func TestEveryCallIsRecorded(t *testing.T) {
	const sdk = "github.com/aws/aws-sdk-go-v2/service/"
	services := map[string]string{"ec2": "ec2", "pcs": "pcs", "iam": "iam", "ssm": "ssm", "sts": "sts"}
	calls := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && slices.Contains([]string{".git", "bin", "dist"}, d.Name()) {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		imported := map[string]string{} // name in the file → service
		for _, i := range file.Imports {
			full, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			if name, ok := strings.CutPrefix(full, sdk); ok && !strings.Contains(name, "/") {
				local := name
				if i.Name != nil {
					local = i.Name.Name
				}
				imported[local] = name
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			of, _ := selector.X.(*ast.Ident)
			operation, isInput := strings.CutSuffix(selector.Sel.Name, "Input")
			if of == nil || imported[of.Name] == "" || !isInput {
				return true
			}
			calls++
			if service := services[imported[of.Name]]; !slices.Contains(shapes.Operations(service), operation) {
				t.Errorf("%s: %s of %s is not in the record", path, operation, imported[of.Name])
			}
			return true
		})
		return nil
	})
	if err != nil || calls < 50 {
		t.Fatal(calls, err)
	}
}
