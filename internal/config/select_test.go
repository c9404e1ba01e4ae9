package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// A tag may have a value that looks like the head of a table.
func TestSelectedTagIsReadBack(t *testing.T) {
	want := capacity.GroupSettings{Name: "gpu", InstanceType: "p5.48xlarge", SubnetIDs: []string{"subnet-0aaaaaaa"}, PurchaseOption: capacity.ODCR,
		Select: &capacity.Select{Tags: map[string]string{"team": "[select.tags]", "[select": "\n[select]"}}, MaxNodes: 4}
	text, err := NodeGroupText(want)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(path, []byte("[[partition]]\nname = \"gpu\"\nprovider = \"pcs\"\n"+text), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := Load(path)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if diff := cmp.Diff([]capacity.GroupSettings{want}, c.Partitions[0].Groups); diff != "" {
		t.Errorf("%s\n%s", diff, text)
	}
}
