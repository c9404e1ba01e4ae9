package lifecycle

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// What sync takes for the mark, by what lies in slurmctld's folder and in state_dir.
func TestMarkOfSync(t *testing.T) {
	const one, two = "0123456789abcdef", "fedcba9876543210"
	for name, test := range map[string]struct {
		clusterName, id string // in slurmctld's folder; "" for no file
		kept            string // in state_dir
		want            string
		err             string
	}{
		"on the controller":                       {"lab", one, "lab/" + one, "lab/" + one, ""},
		"state_dir was deleted":                   {"lab", one, "", "lab/" + one, ""},
		"elsewhere":                               {"", "", "lab/" + one, "lab/" + one, ""},
		"before the first power-up":               {"lab", "", "", "", "no power-up has made an id"},
		"slurmctld's state was cleared":           {"lab", "", "lab/" + one, "", "no power-up has made an id"},
		"state_dir is that of an older version":   {"lab", one, "lab", "lab/" + one, ""},
		"elsewhere, and of an older version":      {"", "", "lab", "", "of an older version"},
		"elsewhere, and nothing is kept":          {"", "", "", "", "run sync on Slurm's controller"},
		"elsewhere, and kept of another name":     {"", "", "lab2/" + one, "", "is not that of cluster lab"},
		"here was another cluster's controller":   {"lab2", two, "lab/" + one, "lab/" + one, ""},
		"here was a controller of the same name":  {"lab", two, "lab/" + one, "", "delete"},
		"a broken id is not passed over silently": {"lab", "x", "lab/" + one, "", "does not have 16 hex digits"},
	} {
		t.Run(name, func(t *testing.T) {
			stateSave, dir := t.TempDir(), state.Dir(t.TempDir())
			for file, text := range map[string]string{filepath.Join(stateSave, "clustername"): test.clusterName,
				filepath.Join(stateSave, "pcs-capacity-id"): test.id, filepath.Join(string(dir), "mark"): test.kept} {
				if text == "" {
					continue
				}
				if err := os.WriteFile(file, []byte(text+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got, err := markOf(dir, stateSave, "lab")
			if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("%q, %v; want %q, %q", got, err, test.want, test.err)
			}
			if hook, err := dir.KnownMark(); (err == nil) != strings.Contains(test.kept, "/") || err == nil && hook != test.kept {
				t.Errorf("a hook without slurmctld takes %q for the mark", hook)
			}
		})
	}
}
