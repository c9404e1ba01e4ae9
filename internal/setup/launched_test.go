package setup_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/site"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Somebody has changed what the nodes of a node group are launched with: what EC2 would refuse each launch for, and what
// the nodes would not run, is found with its fix, by reads and a dry run. As setup made it, nothing is said.
func TestWhatNodesAreLaunchedWith(t *testing.T) {
	group := func(s *awssim.Scenario) *awssim.LaunchTemplateScenario { return &s.Regions[0].LaunchTemplates[0] }
	for name, c := range map[string]struct {
		world func(*awssim.Scenario)
		want  string
	}{
		"right": {func(*awssim.Scenario) {}, ""},
		"a tag key": {func(s *awssim.Scenario) {
			group(s).MetadataTags, group(s).InstanceTags = true, map[string]string{"Cost Center": "4711"}
		}, `fail tag-key: launch template pcs-capacity-ml-gpu-a tags instances with "Cost Center", and by the template their metadata shows tags: EC2 refuses every launch for such a key`},
		"a tag key, by the account's default": {func(s *awssim.Scenario) {
			s.Regions[0].MetadataTags, group(s).InstanceTags = true, map[string]string{"team/a": "x"}
		}, `fail tag-key: launch template pcs-capacity-ml-gpu-a tags instances with "team/a", and by the account's default`},
		"a refused launch": {func(s *awssim.Scenario) { group(s).RootGiB = 7 },
			"fail launch-refused: EC2 would not launch a node of gpu-a into subnet-0e200000000000a01: InvalidBlockDeviceMapping: Volume of size 7GB is smaller than snapshot"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newAccount(t, c.world)
			plan := w.plan(w.request(openBlock))
			if codes := len(plan.Mismatches); codes > 0 != (c.want != "") {
				t.Errorf("setup says %v", plan.Mismatches)
			}
			plan.Mismatches = nil // as if it had been changed afterwards
			if err := w.setup.Apply(t.Context(), plan); err != nil {
				t.Fatal(err)
			}
			found := site.Sources{Config: w.config(), EC2: w.ec2, PCS: w.setup.PCS, Slurm: &slurm.Client{Dir: t.TempDir()}}.Run(t.Context())
			found = slices.DeleteFunc(found, func(f site.Finding) bool { return f.Code != capacity.TagKey && f.Code != capacity.LaunchRefused })
			if c.want == "" && len(found) > 0 || c.want != "" && (len(found) != 1 || found[0].Fix == "" || !strings.HasPrefix(string(found[0].Status)+" "+found[0].Check+": "+found[0].What, c.want)) {
				t.Errorf("%+v, want %s", found, c.want)
			}
		})
	}
}
