package wire

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/config"
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
