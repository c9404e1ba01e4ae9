package state

import (
	"os"
	"path/filepath"
	"testing"
)

// The owner is the same again for the same settings and state_dir, and another for other settings or another state_dir.
func TestOwner(t *testing.T) {
	base := t.TempDir()
	dir, other := Dir(filepath.Join(base, "state")), Dir(filepath.Join(base, "other"))
	for _, d := range []Dir{dir, other} {
		if err := d.Create(); err != nil {
			t.Fatal(err)
		}
	}
	settings, copied := filepath.Join(base, "config.toml"), filepath.Join(base, "copy.toml")
	if err := os.WriteFile(settings, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(base, "link.toml")
	if err := os.Symlink(settings, link); err != nil {
		t.Fatal(err)
	}
	one := OwnerOf(dir, settings)
	if again := OwnerOf(dir, link); again.ID != one.ID || len(one.ID) != 8 {
		t.Errorf("%s, then %s", one.ID, again.ID)
	}
	for what, o := range map[string]Owner{"other settings": OwnerOf(dir, copied), "another state_dir": OwnerOf(other, settings)} {
		if o.ID == one.ID {
			t.Errorf("%s have the same owner %s", what, o.ID)
		}
	}
}
