package packaging

import (
	"debug/buildinfo"
	"encoding/json"
	"path/filepath"
	"strings"
)

// listsItsModules compares the package's list of what it is made of with what the linker wrote into its programs.
func (i *installation) listsItsModules() {
	i.Helper()

	var sbom struct {
		Components []struct{ Name, Version, PURL string }
	}
	if err := json.Unmarshal([]byte(i.read("usr/share/doc/pcs-capacity/sbom.cdx.json")), &sbom); err != nil {
		i.Fatal(err)
	}

	listed := map[string]string{}
	for _, c := range sbom.Components {
		if c.PURL != "pkg:golang/"+c.Name+"@"+c.Version {
			i.Errorf("%s %s has the purl %s", c.Name, c.Version, c.PURL)
		}

		listed[c.Name] = c.Version
	}

	programs, err := filepath.Glob(i.at("usr/libexec/pcs-capacity/*"))
	if err != nil || len(programs) == 0 {
		i.Fatal(programs, err)
	}

	for _, program := range append(programs, i.at("usr/bin/pcs-capacity")) {
		built, err := buildinfo.ReadFile(program)
		if err != nil {
			i.Fatal(err)
		}

		if listed["std"] != strings.TrimPrefix(built.GoVersion, "go") {
			i.Errorf("%s is built with %s, listed is %q", program, built.GoVersion, listed["std"])
		}

		for _, m := range built.Deps {
			if listed[m.Path] != m.Version {
				i.Errorf("%s has %s %s, listed is %q", program, m.Path, m.Version, listed[m.Path])
			}
		}
	}
}
