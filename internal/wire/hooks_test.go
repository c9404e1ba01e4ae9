package wire

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// A state folder that cannot be made keeps no hook from launching or terminating.
func TestHooksBeginWithoutAStateFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Region, cfg.StateDir = "us-east-2", filepath.Join(file, "state")
	h, err := Begin(t.Context(), cfg, nil)
	if err != nil || h.StateErr == nil {
		t.Errorf("%+v, %v", h, err)
	}
}

// Whose credentials a hook has is written down, if they say it.
func TestHookKeepsItsAccount(t *testing.T) {
	for key, value := range map[string]string{"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_ACCOUNT_ID": "444455556666"} {
		t.Setenv(key, value)
	}
	cfg := config.Default()
	cfg.Region, cfg.StateDir = "us-east-2", t.TempDir()
	h, err := Begin(t.Context(), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	h.KeepAccess(t.Context(), slog.New(slog.DiscardHandler))
	if last, err := h.State.LastHook(); err != nil || last != (state.HookAccess{Account: "444455556666", Source: "EnvConfigCredentials"}) {
		t.Errorf("%+v, %v", last, err)
	}
}
