package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
)

// With its nodes up, a block has no free instance for EC2. Those that Slurm has idle are free all the
// same, for fit, list and timeline; those that are down, or have a job, are not.
func TestIdleNodes(t *testing.T) {
	dir := t.TempDir()
	path := fakeSlurmFor(t, dir)
	var nodes string
	for i, state := range []string{"IDLE+CLOUD", "MIXED+CLOUD", "ALLOCATED+CLOUD", "IDLE+CLOUD+POWERED_DOWN", "IDLE+CLOUD+POWERING_UP", "IDLE+CLOUD"} {
		nodes += fmt.Sprintf("NodeName=gpu-%d CPUTot=192 NodeAddr=gpu-%[1]d State=%s Partitions=gpu\n", i+1, state)
	}
	if err := os.WriteFile(filepath.Join(dir, "nodes"), []byte(nodes), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", strings.TrimPrefix(path, "PATH="))
	cfg := &maybeConfig{&config.Config{Partitions: []capacity.PartitionSettings{{Name: "gpu"}}}, true}
	if idle := readIdle(t.Context(), cfg); idle.err != nil || !slices.Equal(idle.names, []string{"gpu-1", "gpu-6"}) {
		t.Errorf("idle are %v (%v)", idle.names, idle.err)
	}
}
