package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLoadEnvironment(t *testing.T) {
	path := EnvironmentPath(filepath.Join(t.TempDir(), "config.toml"))
	if err := LoadEnvironment(path); err != nil {
		t.Errorf("no file: %v", err)
	}
	t.Setenv("PCS_TEST_SET", "caller")
	for _, name := range []string{"PCS_TEST_PROFILE", "PCS_TEST_QUOTED"} {
		t.Setenv(name, "")
		os.Unsetenv(name)
	}
	for _, c := range []struct {
		text string
		mode os.FileMode
		want string // of the error
	}{
		{"# a comment\n\nPCS_TEST_PROFILE=capacity\nPCS_TEST_QUOTED=\"a b\"\nPCS_TEST_SET=file\n", 0o640, ""},
		{"PCS_TEST_PROFILE=other\n", 0o666, "everyone can write it"},
		{"\nexport PCS_TEST_PROFILE=other\n", 0o600, "line 2 of"},
	} {
		if err := os.WriteFile(path, []byte(c.text), c.mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		err := LoadEnvironment(path)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q, mode %o: %v, want %q", c.text, c.mode, err, c.want)
		}
	}
	for name, want := range map[string]string{"PCS_TEST_PROFILE": "capacity", "PCS_TEST_QUOTED": "a b", "PCS_TEST_SET": "caller"} {
		if got := os.Getenv(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}
