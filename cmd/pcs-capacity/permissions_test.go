package main

import (
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// permissions are the actions of AWS that docs/wiring.md lists, by program: "setup" has
// "ec2:DescribeSubnets", ….
func permissions(t *testing.T) map[string]map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../docs/wiring.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "| who | EC2 | PCS |\n")
	if !found {
		t.Fatal("docs/wiring.md has no table of permissions")
	}
	all := map[string]map[string]bool{}
	name, action := regexp.MustCompile("`([a-z]+)`"), regexp.MustCompile(`\b[A-Z][a-z]+[A-Z][A-Za-z]+\b`)
	var above map[string]bool
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.Contains(line, "---") {
			continue
		}
		row := map[string]bool{}
		for i, service := range []string{"ec2", "pcs"} {
			cell := cells[i+2]
			if strings.Contains(cell, "those of `sync`") {
				cell = strings.ReplaceAll(cell, "those of `sync`", "")
				copyService(row, all["sync"], service)
			}
			if strings.Contains(cell, "these") {
				copyService(row, above, service)
			}
			for _, a := range action.FindAllString(cell, -1) {
				row[service+":"+a] = true
			}
		}
		for _, n := range name.FindAllStringSubmatch(cells[1], -1) {
			all[n[1]] = row
		}
		above = row
	}
	return all
}

func copyService(to, from map[string]bool, service string) {
	for a := range from {
		if strings.HasPrefix(a, service+":") {
			to[a] = true
		}
	}
}

// TestPermissionsAreDocumented runs each command and compares what it asked of AWS with
// the table in docs/wiring.md: every action has to be listed.
func TestPermissionsAreDocumented(t *testing.T) {
	documented := permissions(t)
	asked := func(ts *testscript.TestScript, _ bool, args []string) {
		sim, before := ts.Value("sim").(*awssim.Sim), ts.Value("counted").(map[awssim.CallKey]int)
		who := args[0]
		now := sim.Calls()
		for key, n := range now {
			action := key.Service + ":" + key.Operation
			// AWS answers sts:GetCallerIdentity to everybody, without a permission.
			if n > before[key] && key.Service != "sts" && !documented[who][action] {
				t.Errorf("%s asks for %s, which docs/wiring.md does not list", who, action)
			}
		}
		clear(before)
		maps.Copy(before, now)
	}
	runTranscriptsWith(t, "testdata/permissions", func() (*awssim.Scenario, error) {
		scenario := awssim.DefaultScenario()
		scenario.PCSDelay = 0 // the clock stands still
		return scenario, nil
	}, map[string]func(*testscript.TestScript, bool, []string){"asked": asked})
}
