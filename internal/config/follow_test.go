package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Sync goes on with new settings, and with the ones before where a file has lost some.
func TestFollow(t *testing.T) {
	const main = "region = \"us-east-2\"\ncluster = \"ml\"\nstate_dir = \"/srv\"\n[timing]\ndrain_margin = \"2m\"\n"

	without := func(part string) string { return strings.Replace(main, part, "", 1) }
	for name, c := range map[string]struct {
		main string // the new config.toml
		part string // the new conf.d/gpu.toml; "-" removes it
		want string // of the error; "" for none
	}{
		"nothing changed":  {main, goodPartition, ""},
		"a value changed":  {strings.Replace(main, "2m", "3m", 1), goodPartition, ""},
		"a region changed": {strings.Replace(main, "east-2", "west-2", 1), goodPartition, ""},
		"teardown":         {main, "-", ""},
		"region lost": {
			without("region = \"us-east-2\"\n"),
			goodPartition,
			"config.toml has lost region: restore it, or restart sync",
		},
		"timing lost":       {without("[timing]\ndrain_margin = \"2m\"\n"), goodPartition, "has lost timing"},
		"cluster lost":      {without("cluster = \"ml\"\n"), goodPartition, "has lost cluster"},
		"state_dir lost":    {without("state_dir = \"/srv\"\n"), goodPartition, "has lost state_dir"},
		"comments are left": {"# mine\n", goodPartition, "has lost region"},
		"partitions lost":   {main, "# mine\n", "have lost all partitions"},
		"cluster changed": {
			strings.Replace(main, "ml", "mp", 1),
			goodPartition,
			"cluster has changed from ml to mp: restart sync to use it",
		},
		"state_dir changed": {
			strings.Replace(main, "/srv", "/mnt", 1),
			goodPartition,
			"state_dir has changed from /srv to /mnt",
		},
		"empty":              {"", goodPartition, "config.toml is empty: restore it, or remove it"},
		"partition is empty": {main, "\n", "gpu.toml is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, map[string]string{"config.toml": main, "conf.d/gpu.toml": goodPartition})

			was, err := Load(path)
			if err != nil {
				t.Fatal(err)
			}

			part := filepath.Join(filepath.Dir(path), "conf.d", "gpu.toml")
			for file, text := range map[string]string{path: c.main, part: c.part} {
				if text == "-" {
					err = os.Remove(file)
				} else {
					err = os.WriteFile(file, []byte(text), 0o644)
				}

				if err != nil {
					t.Fatal(err)
				}
			}

			now, err := Load(path)
			if err == nil {
				err = now.Follow(was)
			}

			said := ""
			if err != nil {
				said = err.Error()
			}

			if (said == "") != (c.want == "") || !strings.Contains(said, c.want) {
				t.Errorf("it says %q, want %q", said, c.want)
			}
		})
	}
}
