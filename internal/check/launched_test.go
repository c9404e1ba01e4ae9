package check

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/pcs"
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
			scenario := awssim.DefaultScenario()
			scenario.PCSDelay = 0
			c.world(scenario)
			_, client := simOf(t, scenario)
			s := setup.Setup{PCS: pcs.From(client.Shared()), EC2: client, Poll: time.Millisecond}
			path := filepath.Join(t.TempDir(), "config.toml")
			plan, err := s.Plan(t.Context(), setup.Request{Cluster: "ml", Queue: "gpu", NodeGroup: "gpu", Reservation: "cr-0e2000000000000a1", Like: "compute", MaxNodes: 2,
				ConfigPath: path})
			if err != nil {
				t.Fatal(err)
			}
			if codes := len(plan.Mismatches); codes > 0 != (c.want != "") {
				t.Errorf("setup says %v", plan.Mismatches)
			}
			plan.Mismatches = nil // as if it had been changed afterwards
			if err := s.Apply(t.Context(), plan); err != nil {
				t.Fatal(err)
			}
			cfg, err := config.Load(path)
			if err != nil {
				t.Fatal(err)
			}
			r := run{Sources: Sources{Config: cfg, EC2: client, PCS: s.PCS}, settings: cfg.Domain()}
			r.pcsCluster(t.Context())
			r.templates(t.Context())
			r.preflight(t.Context())
			r.Findings = slices.DeleteFunc(r.Findings, func(f Finding) bool { return f.Status == OK })
			if c.want == "" && len(r.Findings) > 0 || c.want != "" && (len(r.Findings) != 1 || r.Findings[0].Fix == "" || !strings.HasPrefix(string(r.Findings[0].Status)+" "+r.Findings[0].Check+": "+r.Findings[0].What, c.want)) {
				t.Errorf("%+v, want %s", r.Findings, c.want)
			}
		})
	}
}
