package setup_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

const groupARN = "arn:aws:resource-groups:us-east-2:111122223333:group/gpus"

// withGroup has a resource group of a block and an ODCR for the same type in the same zone.
func withGroup(s *awssim.Scenario) {
	s.Regions[0].ResourceGroups = []awssim.ResourceGroupScenario{{Name: "gpus", Reservations: []string{openBlock, sharedODCR}}}
}

// selecting are settings of an administrator's own, with a node group that selects a group.
func selecting(provider, purchaseOption, group string) string {
	top, more := "region = \"us-east-2\"\n", ""
	if provider == "pcs" {
		top += "cluster = \"ml\"\n"
	} else {
		more = "slots = 2\nlaunch_template = \"" + templateName + ":$Latest\"\n"
	}
	return top + fmt.Sprintf("[[partition]]\nname = \"gpu\"\nprovider = %q\n[[partition.node_group]]\nname = \"gpu\"\ninstance_type = \"p5.48xlarge\"\nsubnet_ids = [%q]\n"+
		"purchase_option = %q\nselect = { group = %q }\nmax_nodes = 4\n", provider, subnetA, purchaseOption, group) + more
}

// On PCS a resource group is set up member by member, each in a compute node group of its own
// that targets it and buys what it is. Settings that select the group stay as they are.
func TestMixedGroupOnPCS(t *testing.T) {
	w := newAccount(t, withGroup)
	w.write(selecting("pcs", "mixed", groupARN))
	if p := w.run(w.request(openBlock)); actions(p) != "create create create nothing nothing" {
		t.Errorf("block: %s", actions(p))
	}
	second := w.request(sharedODCR)
	second.MaxNodes, second.Dynamic = 2, false
	if p := w.run(second); p.Slot != "gpu-b" || actions(p) != "create create update nothing nothing" {
		t.Errorf("ODCR: slot %s, %s", p.Slot, actions(p))
	}
	for name, want := range map[string]struct {
		id, market string
		kind       capacity.Kind
	}{"gpu-a": {openBlock, "capacity-block", capacity.CapacityBlock}, "gpu-b": {sharedODCR, "", capacity.OnDemand}} { // PCS buys an ODCR like capacity on demand
		g := w.group(name)
		if template := w.template(g); g.PurchaseOption != want.kind || template.Market != want.market || template.ReservationID != want.id {
			t.Errorf("%s buys %s: %+v", name, g.PurchaseOption, template)
		}
	}
	// As without a group: the entry that setup itself has written, made mixed by hand.
	w = newAccount(t, nil)
	w.run(w.request(openBlock))
	file := filepath.Join(filepath.Dir(w.configPath()), "conf.d", "gpu.toml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), `purchase_option = "capacity-block"`, `purchase_option = "mixed"`, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	second.ConfigPath = w.configPath()
	w.run(second)
	part, _ := w.config().Partition("gpu")
	if g := part.Groups[0]; g.PurchaseOption != capacity.Mixed || !slices.Equal(g.ReservationIDs, []string{openBlock, sharedODCR}) {
		t.Errorf("settings %+v", g)
	}
}

// A purchase option that is not the reservation's is an error that names the right one.
func TestWrongPurchaseOption(t *testing.T) {
	listing := func(provider, purchaseOption string, ids ...string) string {
		return strings.Replace(selecting(provider, purchaseOption, "gpus"), `select = { group = "gpus" }`, `capacity_reservation_ids = ["`+strings.Join(ids, `", "`)+`"]`, 1)
	}
	for name, test := range map[string]struct {
		provider, settings, message, fix string
	}{
		"PCS, by group": {"pcs", selecting("pcs", "odcr", "gpus"), "is of kind capacity-block, but node_group \"gpu\" of the settings buys odcr for " + sharedODCR,
			`set purchase_option = "mixed" there`},
		"EC2, by group":             {"ec2", selecting("ec2", "interruptible-odcr", "gpus"), "buys interruptible-odcr for " + sharedODCR, `set purchase_option = "mixed" there`},
		"a group of one kind":       {"ec2", selecting("ec2", "odcr", "blocks"), "buys odcr for " + laterBlock, `set purchase_option = "capacity-block" there`},
		"PCS, beside another kind":  {"pcs", listing("pcs", "odcr", sharedODCR), "buys odcr for " + sharedODCR, `set purchase_option = "mixed" there`},
		"EC2, beside the same kind": {"ec2", listing("ec2", "odcr", laterBlock), "buys odcr for " + laterBlock, `set purchase_option = "capacity-block" there`},
		"on demand":                 {"ec2", listing("ec2", "on-demand", openBlock), "buys on-demand", `set purchase_option = "capacity-block" there`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newAccount(t, func(s *awssim.Scenario) {
				withGroup(s)
				s.Regions[0].ResourceGroups = append(s.Regions[0].ResourceGroups, awssim.ResourceGroupScenario{Name: "blocks", Reservations: []string{openBlock, laterBlock}})
			})
			w.write(test.settings)
			r := w.request(openBlock)
			if test.provider == "ec2" {
				r = w.requestOnEC2(openBlock)
			}
			p := w.plan(r)
			i := slices.IndexFunc(p.Mismatches, func(m capacity.Problem) bool { return m.Code == "purchase-option" })
			if i < 0 || !strings.Contains(p.Mismatches[i].Sentence, test.message) || !strings.HasPrefix(p.Mismatches[i].Fix, test.fix) {
				t.Errorf("mismatches %v", p.Mismatches)
			}
		})
	}
}

func TestUnknownGroup(t *testing.T) {
	w := newAccount(t, nil)
	w.write(selecting("pcs", "mixed", "none"))
	r := w.request(openBlock)
	r.Config = w.config()
	if _, err := w.setup.Plan(t.Context(), r); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("%v", err)
	}
}
