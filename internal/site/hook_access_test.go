package site

import (
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// What the shell of whoever runs check has of AWS tells nothing about hooks.
func TestHookAccess(t *testing.T) {
	cfg := config.Default()
	cfg.Path, cfg.StateDir = "/etc/pcs-capacity/config.toml", t.TempDir()
	for _, c := range []struct {
		last    *state.HookAccess
		account string // of whoever runs check
		want    Status
		says    string
	}{
		{nil, "", "", ""},
		{&state.HookAccess{Without: "there are no AWS credentials"}, "111122223333", Fail, "had no AWS credentials"},
		{&state.HookAccess{}, "111122223333", OK, "had AWS credentials"},
		{&state.HookAccess{Source: "EC2RoleProvider"}, "111122223333", OK, "(EC2RoleProvider)"},
		{&state.HookAccess{Account: "111122223333", Source: "EnvConfigCredentials"}, "111122223333", OK, "of account 111122223333 (EnvConfigCredentials)"},
		{&state.HookAccess{Account: "111122223333"}, "", OK, "of account 111122223333"},
		{&state.HookAccess{Account: "444455556666", Source: "EC2RoleProvider"}, "111122223333", Warn, "of account 444455556666 (EC2RoleProvider), and this command those of account 111122223333"},
	} {
		if c.last != nil {
			if err := state.Dir(cfg.StateDir).KeepHook(*c.last); err != nil {
				t.Fatal(err)
			}
		}
		r := run{Sources: Sources{Config: cfg}, account: c.account, settings: capacity.Settings{Partitions: []capacity.PartitionSettings{{Name: "gpu", Provider: capacity.ProviderEC2}}}}
		r.hooks()
		switch {
		case c.want == "" && len(r.Findings) == 0:
		case len(r.Findings) != 1 || r.Findings[0].Status != c.want || !strings.Contains(r.Findings[0].What, c.says):
			t.Errorf("%+v: %+v", c.last, r.Findings)
		case c.want == Fail && !strings.Contains(r.Findings[0].Fix, "/etc/pcs-capacity/environment"):
			t.Errorf("the fix is %s", r.Findings[0].Fix)
		}
	}
}
