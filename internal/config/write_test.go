package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

func TestWrittenSettingsAreReadBack(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077)) // of a strict root; SlurmUser reads them all the same

	path := filepath.Join(t.TempDir(), "etc", "config.toml")
	if err := WriteClusterRef(path, ClusterRef{Region: "us-east-2", Cluster: "ml"}); err != nil {
		t.Fatal(err)
	}

	if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the folder: %v %v", info.Mode(), err)
	}

	if err := WriteClusterRef(path, ClusterRef{Region: "us-east-2", Cluster: "other"}); err == nil {
		t.Errorf("a second time: %v", err)
	}

	want := NewPartition(
		"gpu",
		capacity.ProviderPCS,
		capacity.GroupSettings{
			Name:           "gpu",
			InstanceType:   "p5.48xlarge",
			SubnetIDs:      []string{"subnet-0aa00000000000000"},
			PurchaseOption: capacity.CapacityBlock,
			ReservationIDs: []string{"cr-0123456789abcdef0"},
			MaxNodes:       4,
			Dynamic:        true,
		},
	)
	want.AllowAccounts = []string{"nlp"}
	file := PartitionPath(path, "gpu")
	for range 2 { // the second time over our own file
		if err := WritePartition(file, want); err != nil {
			t.Fatal(err)
		}
	}

	c, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}

	want.File = file
	if diff := cmp.Diff([]capacity.PartitionSettings{want}, c.Partitions); diff != "" {
		t.Errorf("partitions (-want +got):\n%s", diff)
	}

	if c.Cluster != "ml" || c.Region != "us-east-2" {
		t.Errorf("cluster %q, region %q", c.Cluster, c.Region)
	}

	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 2 {
		t.Errorf("left behind: %v, %v", entries, err)
	}

	for _, name := range []string{path, file} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("%s: %v, %v; users' commands must read it", name, info.Mode(), err)
		}
	}
}

func TestForeignFileIsNotWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gpu.toml")
	if err := os.WriteFile(file, []byte("# mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	if err := WritePartition(file, capacity.PartitionSettings{Name: "gpu"}); err == nil {
		t.Error("it was written")
	}

	if text, err := os.ReadFile(file); err != nil || string(text) != "# mine\n" {
		t.Errorf("it says %q, %v", text, err)
	}
}

// A file that does not say yet where the cluster is gets it below its first comment; nothing else changes.
func TestPlaceIsAddedToSettings(t *testing.T) {
	place := ClusterRef{Region: "us-east-2", Cluster: "ml"}

	const cluster = "cluster = \"ml\"\n"
	for _, c := range []struct{ name, was, is string }{
		{"empty", "", ""},
		{"comments alone", "# one\n# two", "# one\n# two\nregion = \"us-east-2\"\n" + cluster},
		{
			"a region",
			"# one\n\nregion = \"us-east-2\" # mine\n[timing]\npoll = \"30s\"\n",
			"# one\n" + cluster + "\nregion = \"us-east-2\" # mine\n[timing]\npoll = \"30s\"\n",
		},
		{"both", "region = \"us-east-2\"\ncluster = \"ml\"\n", "region = \"us-east-2\"\ncluster = \"ml\"\n"},
		{"another region", "region = \"eu-west-1\"\n", ""},
		{"another cluster", "cluster = \"mp\"\n", ""},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "config.toml")
		if err := os.WriteFile(filepath.Join(dir, "real"), []byte(c.was), 0o640); err != nil {
			t.Fatal(err)
		}

		if err := os.Symlink("real", path); err != nil {
			t.Fatal(err)
		}

		err := WriteClusterRef(path, place)
		text, _ := os.ReadFile(path)
		if c.is == "" {
			if err == nil || string(text) != c.was {
				t.Errorf("%s: %v, %s", c.name, err, text)
			}
			continue
		}

		info, _ := os.Lstat(filepath.Join(dir, "real"))
		if err != nil || string(text) != c.is || info.Mode() != 0o640 {
			t.Errorf("%s: %v, %v, %s", c.name, err, info.Mode(), text)
		}
	}
}

// fill sets every field of a struct to something.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("1")
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	default:
		panic(v.Kind())
	}
}

// zero names the fields that are not set.
func zero(name string, v reflect.Value) []string {
	var all []string
	switch {
	case v.IsZero():
		return []string{name}
	case v.Kind() == reflect.Slice:
		return zero(name, v.Index(0))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			all = append(all, zero(name+"."+v.Type().Field(i).Name, v.Field(i))...)
		}
	}

	return all
}

// TestDomainLeavesNothingOut: whatever decisions depend on comes from a setting.
func TestDomainLeavesNothingOut(t *testing.T) {
	var c Config
	fill(reflect.ValueOf(&c).Elem())

	domain := c.Domain()
	domain.Timing.OverTime.Duration = 1 // Slurm's
	if missing := zero("settings", reflect.ValueOf(domain)); len(missing) > 0 {
		t.Errorf("not set: %v", missing)
	}
}

// TestPartitionIsWrittenWhole: whatever settings a partition has, its own file keeps.
func TestPartitionIsWrittenWhole(t *testing.T) {
	var want capacity.PartitionSettings
	fill(reflect.ValueOf(&want).Elem())

	want.Groups[0].Select.Tags = map[string]string{"team": "nlp"}
	want.Groups[0].Nodes = capacity.NodeNames{"gpu1", "gpu10", "gpu2"}
	if missing := zero("partition", reflect.ValueOf(want)); len(missing) > 0 {
		t.Fatalf("not set: %v", missing)
	}

	want.File = ""

	text, err := PartitionText(want)
	if err != nil {
		t.Fatal(err)
	}

	var got Config
	if _, errs := decodeText("gpu.toml", text, &got); len(errs) > 0 {
		t.Fatal(errs)
	}

	if diff := cmp.Diff([]capacity.PartitionSettings{want}, got.Partitions); diff != "" ||
		!strings.Contains(text, `nodes = "gpu[1-2,10]"`) {
		t.Errorf("(-written +read):\n%s\n%s", diff, text)
	}
}
