package main

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// TestLong_Topology gives both files that topology prints to a real Slurm: srun's ranks come
// in the order of the host file, and slurmctld knows the switches of topology.conf.
func TestLong_Topology(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	var config slurmlab.Config
	r := newRehearsalIn(t, rehearsalWorld, rehearsalConfig, func(c *slurmlab.Config) { config = *c })
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(r.ctx, "pcs-capacity", append([]string{"--config", r.path, "topology"}, args...)...).Output()
		if err != nil {
			t.Fatalf("topology %q: %v: %s", args, err, out)
		}
		return string(out)
	}

	id := r.submit("-N", "4", "-t", "60", "-C", "gpu")
	r.running(id)
	running, err := (&slurm.Client{}).Config(r.ctx)
	if err != nil {
		t.Fatal(err)
	}
	// The instances of the nodes: those with even addresses are behind another switch than the others.
	launched, err := r.aws.Launch(r.ctx, capacity.Launch{ClientToken: "one", LaunchTemplate: "lt-0e200000000000a01", InstanceType: "p5.48xlarge", SubnetID: "subnet-0e200000000000a01",
		Kind: capacity.OnDemand, Count: 4, Tags: map[string]string{capacity.TagCluster: capacity.ClusterMark(running.ClusterName, "0123456789abcdef")}})
	if err != nil {
		t.Fatal(err)
	}
	addresses := map[string]netip.Addr{}
	for n, i := range launched {
		addresses[fmt.Sprintf("gpu-%d", n+1)] = netip.MustParseAddr(i.PrivateIP)
	}
	if err := (&slurm.Client{}).SetAddresses(r.ctx, addresses); err != nil {
		t.Fatal(err)
	}

	r.until("the instances run", func() bool { // EC2 tells nothing of those that are pending
		list, err := r.aws.InstanceTopology(r.ctx, []string{launched[0].ID, launched[1].ID, launched[2].ID, launched[3].ID})
		return err == nil && len(list) == 4
	})
	text := run("--job", id)
	hosts := strings.Fields(text)
	if !slices.Contains([]string{"gpu-2 gpu-4 gpu-1 gpu-3", "gpu-1 gpu-3 gpu-2 gpu-4"}, strings.Join(hosts, " ")) {
		t.Errorf("the host file is %q", hosts)
	}
	if twice := strings.Fields(run("--job", id, "--tasks-per-node", "2")); len(twice) != 8 || !slices.Equal(slices.Compact(twice), hosts) {
		t.Errorf("with two tasks a node it is %q", twice)
	}
	file := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := r.cluster.Command(r.ctx, "env", "SLURM_HOSTFILE="+file, "srun", "--jobid", id, "--overlap", "-n", "4", "--distribution=arbitrary", "-l", "sh", "-c", "echo $SLURMD_NODENAME")
	if err != nil {
		t.Fatal(out, err)
	}
	for rank, want := range hosts {
		if !regexp.MustCompile(fmt.Sprintf(`(?m)^ *%d: %s$`, rank, want)).MatchString(out) {
			t.Errorf("rank %d is not on %s:\n%s", rank, want, out)
		}
	}
	waiting := r.submit("-N", "4", "-t", "60", "-C", "gpu", "--hold")
	for job, want := range map[string]string{"4711": "no job 4711 waits or runs", waiting: "has no nodes: it is PENDING"} {
		out, err := exec.CommandContext(r.ctx, "pcs-capacity", "--config", r.path, "topology", "--job", job).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("job %s: %v: %s", job, err, out)
		}
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "node")
	run("--job", id)
	onlyAllowed(t, r.sim)
	r.cancel(id)

	r.sync()
	lines := run()
	if err := os.WriteFile(filepath.Join(filepath.Dir(r.cluster.Conf()), "topology.conf"), []byte(lines), 0o644); err != nil {
		t.Fatal(err)
	}
	config.Extra = append(config.Extra, "TopologyPlugin=topology/tree")
	if err := r.cluster.Reload(r.ctx, config); err != nil {
		t.Fatal(err)
	}
	shown, err := r.cluster.Command(r.ctx, "scontrol", "show", "topology")
	for _, line := range regexp.MustCompile(`(?m)^SwitchName=(\S+)`).FindAllStringSubmatch(lines, -1) {
		if err != nil || !strings.Contains(shown, "SwitchName="+line[1]+" Level=") {
			t.Errorf("slurmctld does not know %s (%v):\n%s", line[1], err, shown)
		}
	}
	if !regexp.MustCompile(`Level=0 .*Nodes=gpu-\[1-4\]`).MatchString(shown) {
		t.Errorf("scontrol show topology: %s", shown)
	}
}
