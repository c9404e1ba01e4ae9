package layout

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Decisions take no context, clock, log or adapter; only an action's Do takes a context, with its World. In these
// folders that is every file but those that read, or order what is done.
func TestDecisionsArePure(t *testing.T) {
	impure := []string{"log", "log/slog", "os", "os/exec", "io", "net", "net/http", "sync"}
	clock := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
	ours := []string{
		"capacity",
		"internal/check",
		"internal/facts",
		"hooks/internal/hook",
		"internal/hostlist",
		"internal/metrics",
		"internal/state",
	}
	for folder, c := range map[string]struct {
		doing, words, selectors []string
		types                   []string // adapters of which they may use types and pure functions
	}{
		"internal/lifecycle": {
			doing: []string{
				"read_aws.go",
				"read_slurm.go",
				"read_tests.go",
				"jobs.go",
				"world.go",
				"pass.go",
				"odcrs.go",
				"rollover.go",
				"notices.go",
				"watch.go",
			},
			words: []string{"pass", "Sources"},
		},
		"hooks/power": {
			doing: []string{
				"configure.go",
				"launch.go",
				"odcr.go",
				"program.go",
				"read.go",
				"suspend.go",
				"takedown.go",
			},
			selectors: []string{"hook.Log", "hook.FilterLog", "state.Dir"},
		},
		"internal/check": {
			words:     []string{"Surveyor", "ReadHost"},
			selectors: []string{"ec2.Client", "pcs.Client", "slurm.Client", "config.Load", "config.TryFolder"},
			types:     []string{"ec2", "pcs", "slurm", "internal/config", "internal/permissions"},
		},
		"internal/market": {
			doing: []string{
				"buyer.go",
				"extend.go",
				"fit.go",
				"hold.go",
				"intents.go",
				"purchase.go",
				"queue.go",
				"regions.go",
				"search.go",
				"settle.go",
				"subnets.go",
			},
			words:     []string{"deal", "Buyer", "Holder", "Intents", "AskRegions"},
			selectors: []string{"ec2.Client", "config.Load"},
			types:     []string{"ec2", "internal/config"},
		},
		"internal/setup": {
			doing:     []string{"do.go", "inspect.go", "remains.go", "rollover.go"},
			words:     []string{"Setup", "sources"},
			selectors: []string{"ec2.Client", "pcs.Client", "config.Load", "config.WrittenBySetup"},
			types:     []string{"ec2", "pcs", "internal/config"},
		},
	} {
		files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}

		decide := 0
		for _, path := range files {
			name := filepath.Base(path)
			if i := slices.Index(c.doing, name); strings.HasSuffix(name, "_test.go") || i >= 0 {
				c.doing = slices.DeleteFunc(c.doing, func(file string) bool { return file == name })
				continue
			}

			decide++
			fset := token.NewFileSet()

			file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}

			for _, spec := range file.Imports {
				path, _ := strconv.Unquote(spec.Path.Value)
				if in, is := strings.CutPrefix(path, module+"/"); is && !slices.Contains(ours, in) &&
					!slices.Contains(c.types, in) ||
					slices.Contains(impure, path) {
					t.Errorf("%s/%s decides, and imports %s", folder, name, path)
				}
			}

			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncType:
					var types []string
					for _, field := range n.Params.List {
						types = append(types, fmt.Sprint(field.Type))
					}

					if slices.Contains(types, "&{context Context}") && !slices.Contains(types, "World") {
						t.Errorf("%s decides, and takes a context without a World", fset.Position(n.Pos()))
					}
				case *ast.GoStmt:
					t.Errorf("%s decides, and starts a goroutine", fset.Position(n.Pos()))
				case *ast.Ident:
					if slices.Contains(c.words, n.Name) {
						t.Errorf("%s decides, and uses %s", fset.Position(n.Pos()), n.Name)
					}
				case *ast.SelectorExpr:
					if of, ok := n.X.(*ast.Ident); ok && (of.Name == "time" && slices.Contains(clock, n.Sel.Name) || slices.Contains(c.selectors, of.Name+"."+n.Sel.Name)) {
						t.Errorf("%s decides, and uses %s.%s", fset.Position(n.Pos()), of.Name, n.Sel.Name)
					}
				}

				return true
			})
		}

		if decide == 0 || len(c.doing) > 0 {
			t.Errorf("%s: %d files decide; there is no %q", folder, decide, c.doing)
		}
	}
}
