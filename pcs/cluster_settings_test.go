package pcs_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// Of the cluster's custom settings, of which PCS takes the whole list only, those stay that are not meant.
func TestChangeClusterSettings(t *testing.T) {
	a := newAccount(t)
	for _, step := range []struct{ change, want map[string]string }{
		{map[string]string{"MinJobAge": "60", "Prolog": "/site/prolog"}, map[string]string{"MinJobAge": "60", "Prolog": "/site/prolog"}},
		{map[string]string{"CliFilterPlugins": "cli_filter/lua"}, map[string]string{"MinJobAge": "60", "Prolog": "/site/prolog", "CliFilterPlugins": "cli_filter/lua"}},
		{map[string]string{"CliFilterPlugins": "cli_filter/lua"}, map[string]string{"MinJobAge": "60", "Prolog": "/site/prolog", "CliFilterPlugins": "cli_filter/lua"}},
		{map[string]string{"CliFilterPlugins": "", "Prolog": ""}, map[string]string{"MinJobAge": "60"}},
		{map[string]string{"MinJobAge": ""}, nil},
	} {
		if err := a.provisioner.ChangeClusterSettings(t.Context(), "ml", step.change); err != nil {
			t.Fatal(err)
		}
		c, err := a.provisioner.PCS.Cluster(t.Context(), "ml")
		if diff := cmp.Diff(step.want, c.SlurmSettings); err != nil || diff != "" || c.Status != pcs.Active {
			t.Errorf("%v: %s, %v\n%s", step.change, c.Status, err, diff)
		}
	}
	if n := a.calls("UpdateCluster"); n != 4 {
		t.Errorf("%d updates", n)
	}
}

// An update whose answer was lost is found to be done.
func TestChangeClusterSettingsAgain(t *testing.T) {
	a := newAccount(t)
	if _, err := a.sim.AddFault(awssim.Fault{Operation: "UpdateCluster", Effect: "fail-after", Count: 1}); err != nil {
		t.Fatal(err)
	}
	change := map[string]string{"CliFilterPlugins": "cli_filter/lua"}
	_ = a.provisioner.ChangeClusterSettings(t.Context(), "ml", change)
	n := a.calls("UpdateCluster")
	if err := a.provisioner.ChangeClusterSettings(t.Context(), "ml", change); err != nil || a.calls("UpdateCluster") != n {
		t.Errorf("%v, %d updates after %d", err, a.calls("UpdateCluster"), n)
	}
}
