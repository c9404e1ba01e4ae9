package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/check"
)

// check holds each member of a resource group against the node group that selects it, and names
// the purchase option that is right.
func TestCheckOfAGroup(t *testing.T) {
	r := newRestricted(t, awssim.NewClock(simStart, 0))
	settings, err := os.ReadFile(r.settings)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		provider, option, chosen string
		status                   check.Status
		what, fix                string
	}{
		"mixed":           {"ec2", "mixed", `select = { group = "open" }`, check.OK, openBlock + " goes with node group own", ""},
		"wrong":           {"ec2", "odcr", `select = { group = "open" }`, check.Fail, "reservation " + openBlock + " is of kind capacity-block, but node group own buys odcr", `set purchase_option = "capacity-block"`},
		"wrong, on PCS":   {"pcs", "interruptible-odcr", `select = { group = "open" }`, check.Fail, "is of kind capacity-block, but node group own buys interruptible-odcr", `set purchase_option = "capacity-block"`},
		"wrong on demand": {"ec2", "on-demand", `capacity_reservation_ids = ["` + openBlock + `"]`, check.Fail, "is of kind capacity-block, but node group own buys on-demand", `set purchase_option = "capacity-block"`},
		"empty":           {"ec2", "mixed", `select = { group = "empty" }`, check.Warn, "resource group empty is empty", "add reservations to it"},
		"none":            {"ec2", "mixed", `select = { group = "none" }`, check.Fail, "NotFoundException", "check group in select"},
	} {
		t.Run(name, func(t *testing.T) {
			text := fmt.Sprintf("%s[[partition]]\nname = \"own\"\nprovider = %q\n[[partition.node_group]]\nname = \"own\"\ninstance_type = \"p5.48xlarge\"\nsubnet_ids = [\"subnet-0e200000000000a01\"]\n"+
				"purchase_option = %q\n%s\nmax_nodes = 4\n", settings, c.provider, c.option, c.chosen)
			if c.provider == "ec2" {
				text += "launch_template = \"lt-0e2000000000000a3\"\n"
			}
			r.write("pcs-capacity/config.toml", text)
			r.said = ""
			r.admin("-o", "json", "check")
			var doc checkDocument
			if err := json.Unmarshal([]byte(r.said[strings.Index(r.said, "{"):]), &doc); err != nil {
				t.Fatalf("%v: %s", err, r.said)
			}
			var seen []string
			for _, f := range doc.Findings {
				if f.Check != "reservation" {
					continue
				}
				if f.Status == c.status && strings.Contains(f.What, c.what) && strings.Contains(f.What+f.Fix, c.fix) {
					return
				}
				seen = append(seen, fmt.Sprintf("%+v", f))
			}
			t.Errorf("findings:\n%s", strings.Join(seen, "\n"))
		})
	}
}

// The resume hook, where a site calls it for PCS, refuses a reservation that the settings buy
// otherwise, and says what to set; mixed goes with any.
func TestResumeNamesThePurchaseOption(t *testing.T) {
	r := newRestricted(t, awssim.NewClock(simStart, 0))
	r.mustAdmin(setupArgs(openBlock, "--max-nodes", "3")...)
	path := filepath.Join(r.dir, "pcs-capacity", "conf.d", "gpu.toml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for option, want := range map[string]string{"odcr": `set purchase_option = \"capacity-block\"`, "mixed": ""} {
		r.write("pcs-capacity/conf.d/gpu.toml", strings.Replace(string(text), `purchase_option = "capacity-block"`, fmt.Sprintf("purchase_option = %q", option), 1))
		if status := r.hook("resume", "gpu-a-[1-3]"); status != 0 != (want != "") || !strings.Contains(r.said, want) {
			t.Errorf("%s: %d\n%s", option, status, r.said)
		}
	}
}
