package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

const goodPartition = `
[[partition]]
name = "gpu"
provider = "pcs"
allow_accounts = ["nlp"]

  [[partition.node_group]]
  name = "gpu"
  instance_type = "p5.48xlarge"
  subnet_ids = ["subnet-0aaaaaaa"]
  capacity_reservation_ids = ["cr-0123456789abcdef0"]
  max_nodes = 16
`

// write puts files below a new folder and returns the path of config.toml in it.
func write(t *testing.T, files map[string]string) string {
	t.Helper()

	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}

		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	return filepath.Join(dir, "config.toml")
}

func TestLoadAppliesDefaults(t *testing.T) {
	path := write(
		t,
		map[string]string{
			"config.toml":     "cluster = \"ml\"\n[timing]\nreclaim_lead = \"1m30s\"\n",
			"conf.d/gpu.toml": goodPartition,
		},
	)

	got, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}

	want := Default()
	want.Path, want.Cluster = path, "ml"

	want.Set = []string{"cluster", "timing", "timing"}
	want.Timing.ReclaimLead.Duration = 90 * time.Second
	want.Partitions = []capacity.PartitionSettings{{
		Name: "gpu", Provider: capacity.ProviderPCS,
		AllowAccounts: []string{
			"nlp",
		}, MinTime: capacity.Duration{Duration: 30 * time.Minute}, OnEnd: capacity.StopAtEnd,
		File: filepath.Join(filepath.Dir(path), "conf.d", "gpu.toml"), Groups: []capacity.GroupSettings{{
			Name:         "gpu",
			InstanceType: "p5.48xlarge", SubnetIDs: []string{"subnet-0aaaaaaa"}, PurchaseOption: capacity.CapacityBlock,
			ReservationIDs: []string{"cr-0123456789abcdef0"}, MaxNodes: 16,
		}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

var ec2Partition = strings.Replace(
	goodPartition,
	`"pcs"`,
	`"ec2"`,
	1,
) + "  launch_template = \"lt-0123456789abcdef0\"\n"

// Nodes may have any names, if the settings say so.
func TestNodesOfTheSettings(t *testing.T) {
	big := strings.ReplaceAll(ec2Partition, `"gpu"`, `"big"`) + "  nodes = \"ip-10-0-0-[9-11],gpu[001-016]\"\n"

	c, err := Load(write(t, map[string]string{"config.toml": ec2Partition + "  slots = 2\n" + big}))
	if err != nil {
		t.Fatal(err)
	}

	settings := c.Domain()
	for node, want := range map[string]string{
		"gpu-a-1": "gpu-a", "gpu-b-12": "gpu-b", "gpu-1": "", "gpu001": "big", "gpu016": "big", "gpu017": "",
		"ip-10-0-0-10": "big", "ip-10-0-0-8": "", "big-1": "",
	} {
		if _, _, slot, _ := settings.FindNode(node); slot != want {
			t.Errorf("%s is in slot %q, want %q", node, slot, want)
		}
	}
}

func TestLoadNamesFileLineAndNearestKey(t *testing.T) {
	for _, c := range []struct{ name, main, fragment, want string }{
		{
			"misspelt at the top",
			"regoin = \"us-east-2\"\n",
			"",
			`config.toml:1: unknown key "regoin"; did you mean "region"?`,
		},
		{
			"misspelt in a table",
			"region = \"x\"\n\n[submit]\nstrikt = true\n",
			"",
			`config.toml:4: unknown key "submit.strikt"; did you mean "strict"?`,
		},
		{
			"misspelt in a node group",
			"",
			strings.Replace(goodPartition, "max_nodes", "max_node", 1),
			`gpu.toml:12: unknown key "partition.node_group.max_node"; did you mean "max_nodes"?`,
		},
		{
			"of a table, at the top",
			"drain_margin = \"5m\"\n",
			"",
			`config.toml:1: unknown key "drain_margin"; it belongs under [timing]`,
		},
		{
			"of the top, in a table",
			"[timing]\nregion = \"x\"\n",
			"",
			`config.toml:2: unknown key "timing.region"; it belongs at the top, before the first [table]`,
		},
		{
			"of another table",
			"[submit]\nmax_instances = 4\n",
			"",
			`config.toml:2: unknown key "submit.max_instances"; it belongs under [reserve]`,
		},
		{
			"of a partition, at the top",
			"min_time = \"1h\"\n",
			"",
			`config.toml:1: unknown key "min_time"; it belongs under [[partition]]`,
		},
		{
			"of a node group, in its partition",
			strings.Replace(goodPartition, "provider = ", "max_nodes = 4\nprovider = ", 1),
			"",
			`unknown key "partition.max_nodes"; it belongs under [[partition.node_group]]`,
		},
		{
			"of a node group, in the second partition",
			goodPartition + strings.Replace(goodPartition, "provider = ", "max_nodes = 4\nprovider = ", 1),
			"",
			`config.toml:16: unknown key "partition.max_nodes"; it belongs under [[partition.node_group]]`,
		},
		{
			"over several lines",
			"# max_node\n" + goodPartition + "  max_node = [\n    1,\n  ]\n",
			"",
			`config.toml:14: unknown key "partition.node_group.max_node"; did you mean "max_nodes"?`,
		},
		{
			"in an inline table",
			goodPartition + "  select = {\n    tag = { team = \"nlp\" },\n  }\n",
			"",
			`config.toml:13: unknown key "partition.node_group.select.tag"; did you mean "tags"?`,
		},
		{
			"nothing near",
			"[timing]\nxyz = 1\n",
			"",
			`config.toml:2: unknown key "timing.xyz"; known here: poll, drain_margin`,
		},
		{"fragments add partitions only", "", "region = \"x\"\n" + goodPartition, `gpu.toml:1: unknown key "region"`},
		{"wrong type", "region = 5\n", "", `config.toml: toml: line 1 (last key "region")`},
		{
			"bad duration",
			"[timing]\npoll = \"5 minutes\"\n",
			"",
			`config.toml:2: "5 minutes" is not a duration; write it like 90s, 10m, 36h, 7d or 1-12:00:00`,
		},
		{"not TOML", "region = \n", "", `config.toml:1: `},
		{"twice", goodPartition, goodPartition, `partition "gpu": is there already in`},
		{
			"unknown provider",
			strings.Replace(goodPartition, `"pcs"`, `"gcp"`, 1),
			"",
			`provider = "gcp" is not valid; use "pcs", "ec2" or "none"`,
		},
		{
			"a spare partition without a name for Slurm",
			strings.Replace(goodPartition, `name = "gpu"`, "name = \"gpu\"\nspare = \"a b\"", 1),
			"",
			`spare = "a b" cannot be the name of a partition`,
		},
		{
			"a partition that is its own spare",
			strings.Replace(goodPartition, `name = "gpu"`, "name = \"gpu\"\nspare = \"gpu\"", 1),
			"",
			`spare = "gpu" is partition "gpu" of the settings, or its spare one; give it another name`,
		},
		{
			"two partitions with one spare",
			strings.Replace(goodPartition, `name = "gpu"`, "name = \"gpu\"\nspare = \"low\"", 1),
			strings.Replace(strings.ReplaceAll(goodPartition, `name = "gpu"`, `name = "big"`),
				`name = "big"`, "name = \"big\"\nspare = \"low\"", 1),
			`spare = "low" is partition "gpu" of the settings, or its spare one`,
		},
		{
			"a spare partition of nodes on demand",
			strings.Replace(goodPartition, `name = "gpu"`, "name = \"gpu\"\nspare = \"low\"", 1) +
				"  purchase_option = \"on-demand\"\n",
			"",
			`spare = "low" lends the nodes of reservations, and no node_group has one`,
		},
		{
			"roll over of a guest",
			strings.Replace(ec2Partition, `"ec2"`, "\"none\"\nroll_over = true", 1),
			"",
			"whoever launches the nodes launches them into the next block",
		},
		{
			"launch template of a guest",
			strings.Replace(ec2Partition, `"ec2"`, `"none"`, 1),
			"",
			"launch_template is for provider ec2; with none, nothing of ours launches: leave it out",
		},
		{
			"slots of a guest",
			strings.Replace(ec2Partition, `"ec2"`, `"none"`, 1) + "  slots = 2\n",
			"",
			"slots = 2 is for provider ec2; with none, use a node group for each of two reservations at once",
		},
		{"no launch template", strings.Replace(goodPartition, `"pcs"`, `"ec2"`, 1), "", "launch_template is missing"},
		{
			"name too long for two slots",
			strings.Replace(goodPartition, "name = \"gpu\"\n  inst", "name = \"abcdefghijklmnopqrstuvwx\"\n  inst", 1),
			"",
			"use at most 23",
		},
		{
			"bad reservation id",
			strings.Replace(goodPartition, "cr-0123456789abcdef0", "cr-1", 1),
			"",
			`"cr-1" is not a capacity reservation id`,
		},
		{"ids and select", goodPartition + "  select = { tags = { team = \"nlp\" } }\n", "", "keep one of them"},
		{
			"select without tags",
			strings.Replace(goodPartition, `capacity_reservation_ids = `+
				`["cr-0123456789abcdef0"]`, "select = { tags = {} }", 1),
			"",
			"choose every reservation",
		},
		{
			"unknown purchase option",
			goodPartition + "  purchase_option = \"spot\"\n",
			"",
			`purchase_option = "spot" is not valid; use "capacity-block", "odcr" or "on-demand"`,
		},
		{
			"held capacity and reservations on PCS",
			"[reserve]\nmax_instances = 4\n" + goodPartition +
				"  purchase_option = \"on-demand\"\n  reserve = \"per-job\"\n",
			"",
			"nodes launch only into ODCRs that sync creates; leave capacity_reservation_ids and select out",
		},
		{
			"held capacity in a block",
			"[reserve]\nmax_instances = 4\n" + goodPartition + "  reserve = \"per-job\"\n",
			"",
			`reserve = "per-job" is for provider ec2 or pcs and purchase_option = "on-demand"; leave it out`,
		},
		{
			"slots on PCS",
			goodPartition + "  slots = 2\n",
			"",
			"slots = 2 is for provider ec2; with pcs a node group always has two slots",
		},
		{
			"test of a guest",
			strings.NewReplacer(`"ec2"`, `"none"`, "  launch_template", "  # launch_template").Replace(ec2Partition) +
				"  open_test = \"/etc/test.sh\"\n",
			"",
			"open_test is for provider pcs and ec2",
		},
		{"test without a folder", goodPartition + "  open_test = \"test.sh\"\n", "", "not a path that begins with /"},
		{
			"test on demand",
			goodPartition + "  purchase_option = \"odcr\"\n  open_test = \"/etc/test.sh\"\n",
			"",
			`open_test is for purchase_option = "capacity-block"`,
		},
		{
			"test of nodes that jobs start",
			goodPartition + "  dynamic = true\n  open_test = \"/etc/test.sh\"\n",
			"",
			"open_test needs nodes that are up",
		},
		{
			"limit without a test",
			goodPartition + "  open_test_limit = \"5m\"\n",
			"",
			"open_test_limit is for open_test, which is missing",
		},
		{
			"short limit of a test",
			goodPartition + "  open_test = \"/etc/test.sh\"\n  open_test_limit = \"30s\"\n",
			"",
			`open_test_limit = "30s" is too short`,
		},
		{"nodes on PCS", goodPartition + "  nodes = \"gpu[1-4]\"\n", "", "nodes is for provider ec2"},
		{"three slots", ec2Partition + "  slots = 3\n", "", "slots = 3: use 1 or 2"},
		{
			"two slots and nodes",
			ec2Partition + "  slots = 2\n  nodes = \"gpu[1-4]\"\n",
			"",
			"slots = 2 names the nodes gpu-a-1, gpu-b-1, …: leave nodes out",
		},
		{
			"bad hostlist",
			ec2Partition + "  nodes = \"gpu[4-1]\"\n",
			"",
			`nodes: invalid hostlist "gpu[4-1]": range "4-1" runs backwards; write it like gpu[001-016]`,
		},
		{
			"a slot twice",
			ec2Partition + "  slots = 2\n" + strings.ReplaceAll(ec2Partition, `"gpu"`, `"gpu-a"`),
			"",
			`node_group "gpu-a": its slot gpu-a is one of node_group "gpu" as well`,
		},
		{
			"a node twice",
			ec2Partition + strings.ReplaceAll(ec2Partition, `"gpu"`, `"big"`) + "  nodes = \"big[1-2],gpu-7\"\n",
			"",
			`node_group "big": nodes: gpu-7 is a node of node_group "gpu" as well`,
		},
		{"time too short", "[timing]\npoll = \"1ms\"\n", "", "timing.poll: 1ms is too short"},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := map[string]string{"config.toml": c.main}
			if c.fragment != "" {
				files["conf.d/gpu.toml"] = c.fragment
			}

			_, err := Load(write(t, files))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestLoadReportsAllErrors(t *testing.T) {
	_, err := Load(write(t, map[string]string{"config.toml": "a = 1\n[submit]\nb = 2\n", "conf.d/x.toml": "c = 3\n"}))
	for _, want := range []string{`"a"`, `"submit.b"`, `"c"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

func TestLoadMissing(t *testing.T) {
	if _, err := Load(filepath.Join(t.TempDir(), "config.toml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
}

func TestFind(t *testing.T) {
	path := write(t, map[string]string{"slurm.conf": "", "pcs-capacity/config.toml": ""})
	t.Setenv("SLURM_CONF", filepath.Join(filepath.Dir(path), "slurm.conf"))

	if got, want := Find(""), filepath.Join(filepath.Dir(path), "pcs-capacity", "config.toml"); got != want {
		t.Errorf("beside SLURM_CONF: %s, want %s", got, want)
	}

	if got := Find("/x"); got != "/x" {
		t.Errorf("--config: %s", got)
	}

	t.Setenv("SLURM_CONF", filepath.Join(t.TempDir(), "slurm.conf"))

	if got := Find(""); got != SystemPath {
		t.Errorf("nothing there: %s, want %s", got, SystemPath)
	}
}

// The example of the documentation is read as it is printed there, so that it cannot name a setting that is not there.
func TestDocumentedExampleLoads(t *testing.T) {
	c, err := Load(write(t, map[string]string{"config.toml": documented(t)}))
	if err != nil {
		t.Fatal(err)
	}

	want := Default()
	want.Path, want.Region, want.Cluster, want.Partitions = c.Path, "us-east-2", "ml", c.Partitions
	want.Set = c.Set
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("the example shows other values than the defaults:\n%s", diff)
	}
}

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

	for name, want := range map[string]string{
		"PCS_TEST_PROFILE": "capacity",
		"PCS_TEST_QUOTED":  "a b",
		"PCS_TEST_SET":     "caller",
	} {
		if got := os.Getenv(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}
