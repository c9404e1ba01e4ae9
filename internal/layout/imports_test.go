package layout

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// root is the folder of the module.
const root = "../.."

// layer is a row of the table in ARCHITECTURE.md: packages, and what they may import. A package of ours is a path in
// the module, one of others has its whole path; "cmd/*" is every package below cmd.
type layer struct {
	packages, imports []string
	everythingBelow   bool // the packages of all later rows
}

// readLayers reads the table, whose rows import from later rows only.
func readLayers(t *testing.T) []layer {
	t.Helper()

	text, err := os.ReadFile(root + "/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}

	_, section, _ := strings.Cut(string(text), "\n## The layers")
	section, _, _ = strings.Cut(section, "\n## ")
	quoted := regexp.MustCompile("`([^`]+)`")

	names := func(cell string) (found []string) {
		for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
			found = append(found, m[1])
		}
		return found
	}

	var layers []layer
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.Contains(cells[1], "`") {
			continue
		}

		l := layer{names(cells[1]), names(cells[2]), strings.Contains(cells[2], "everything below")}
		layers = append(layers, l)
		for row, upper := range layers {
			for _, name := range l.imports {
				if covers(upper.packages, name) {
					t.Errorf(
						"ARCHITECTURE.md: row %d of the layers imports %s of row %d, which is not below it",
						len(layers),
						name,
						row+1,
					)
				}
			}
		}
	}

	if len(layers) < 5 {
		t.Fatalf("ARCHITECTURE.md has a table of %d layers", len(layers))
	}

	return layers
}

// covers reports whether a package is one of the names, or below one.
func covers(names []string, one string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		folder, wild := strings.CutSuffix(name, "*")
		return name == one || wild && strings.HasPrefix(one, folder)
	})
}

// askAWS are the packages whose tests use the AWS SDK: to show that the simulator is like AWS, or to see in it what ec2
// and pcs do not show. All others go through those, as the product does.
var askAWS = []string{"internal/lab/awssim", "cmd/capacity-lab", "internal/setup", "internal/lifecycle"}

// Packages import what the table in ARCHITECTURE.md lets them. A package of others
// may be imported by anyone, unless the table has it: then as it says.
func TestImportsPointOneWay(t *testing.T) {
	layers := readLayers(t)

	var reserved []string
	for _, l := range layers {
		for _, name := range l.imports {
			if strings.HasPrefix(name, "github.com/") {
				reserved = append(reserved, name)
			}
		}
	}

	product, tests := readImports(t, reserved)
	if len(product) < 20 || !slices.Contains(product["ec2"], "capacity") ||
		!slices.Contains(product["cmd/pcs-capacity"], "github.com/alecthomas/kong") {
		t.Fatalf("the imports are not found: %v", product)
	}

	for _, from := range slices.Sorted(maps.Keys(product)) {
		row := slices.IndexFunc(layers, func(l layer) bool { return covers(l.packages, from) })
		if row < 0 {
			t.Errorf("%s is in no row of the layers in ARCHITECTURE.md", from)
			continue
		}

		below := func(name string) bool {
			return slices.ContainsFunc(layers[row+1:], func(l layer) bool { return covers(l.packages, name) })
		}
		for _, to := range product[from] {
			if !covers(layers[row].imports, to) && !(layers[row].everythingBelow && below(to)) {
				t.Errorf("%s imports %s, which ARCHITECTURE.md does not let it", from, to)
			}
		}

		for _, to := range tests[from] {
			if slices.Contains(reserved, to) && !covers(layers[row].imports, to) && !slices.Contains(askAWS, from) {
				t.Errorf("a test of %s imports %s, which ARCHITECTURE.md does not let it", from, to)
			}
		}
	}
}

// Programs that run at each submission and before each job link no AWS SDK (R1) and nothing that starts programs; those
// that launch and terminate nodes link no SDK for groups, which only setup and sync use.
func TestProgramsOfSlurmLinkLittle(t *testing.T) {
	const groups = "github.com/aws/aws-sdk-go-v2/service/resourcegroups"

	heavy := []string{groups, "github.com/aws", "os/exec"}
	imports, _ := readImports(t, heavy)
	for from, unlinked := range map[string][]string{
		"cmd/pcs-capacity-filter":  heavy,
		"cmd/pcs-capacity-prolog":  heavy,
		"hooks/submit":             heavy,
		"hooks/prolog":             heavy,
		"cmd/pcs-capacity-resume":  {groups},
		"cmd/pcs-capacity-suspend": {groups},
	} {
		if len(imports[from]) == 0 {
			t.Errorf("%s is not found", from)
		}

		via := map[string]string{from: from} // each package, with the way to it
		for next := []string{from}; len(next) > 0; next = next[1:] {
			for _, to := range imports[next[0]] {
				if slices.Contains(unlinked, to) {
					t.Errorf("%s links %s", via[next[0]], to)
				} else if via[to] == "" {
					via[to] = via[next[0]] + " > " + to
					next = append(next, to)
				}
			}
		}
	}

	if !slices.Contains(imports["slurm"], "os/exec") || !slices.Contains(imports["ec2"], "github.com/aws") ||
		!slices.Contains(imports["ec2/groups"], groups) {
		t.Error("the imports of slurm, ec2 and ec2/groups are not found")
	}
}

// readImports are the imports of each package and of its tests: those of our packages, and the reserved ones.
func readImports(t *testing.T, reserved []string) (product, tests map[string][]string) {
	t.Helper()

	product, tests = map[string][]string{}, map[string][]string{}

	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (entry.Name() == "testdata" || strings.ContainsAny(entry.Name()[:1], "._")):
			return filepath.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}

		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}

		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}

		into := product
		if strings.HasSuffix(path, "_test.go") {
			into = tests
		}

		for _, spec := range file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}

			name, ours := strings.CutPrefix(name, module+"/")
			if !ours {
				i := slices.IndexFunc(
					reserved,
					func(r string) bool { return name == r || strings.HasPrefix(name, r+"/") },
				)
				if i < 0 {
					continue
				}

				name = reserved[i]
			}

			if !slices.Contains(into[folder], name) {
				into[folder] = append(into[folder], name)
			}
		}

		if into[folder] == nil {
			into[folder] = []string{} // a package that imports nothing is one
		}

		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	return product, tests
}
