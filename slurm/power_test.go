package slurm

import (
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// The longest SuspendTime of a node's partitions counts, else that of slurm.conf.
func TestPowersDown(t *testing.T) {
	partitions := []capacity.SlurmPartition{{Name: "cpu"}, {Name: "gpu", SuspendTime: time.Minute}, {Name: "up", SuspendTime: Never}}
	for _, c := range []struct {
		node   capacity.Node
		config Config
		want   bool
	}{
		{capacity.Node{Name: "cpu-1", Partitions: []string{"cpu"}}, Config{}, false},
		{capacity.Node{Name: "cpu-1", Partitions: []string{"cpu"}}, Config{SuspendTime: time.Hour}, true},
		{capacity.Node{Name: "cpu-1", Partitions: []string{"cpu"}}, Config{SuspendTime: time.Hour, SuspendExcNodes: "gpu-1,cpu-[1-4]:2"}, false},
		{capacity.Node{Name: "cpu-1", Partitions: []string{"cpu"}}, Config{SuspendTime: time.Hour, SuspendExcParts: []string{"cpu"}}, false},
		{capacity.Node{Name: "gpu-1", Partitions: []string{"cpu", "gpu"}}, Config{}, true},
		{capacity.Node{Name: "gpu-1", Partitions: []string{"up", "gpu"}}, Config{SuspendTime: time.Hour}, false},
		{capacity.Node{Name: "cpu-1"}, Config{SuspendTime: time.Hour}, true},
	} {
		if got := c.config.PowersDown(c.node, partitions); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

// A node boots within the ResumeTimeout of its partition, where that has one.
func TestShortestResumeTimeout(t *testing.T) {
	config := Config{ResumeTimeout: time.Minute}
	partitions := []capacity.SlurmPartition{{Name: "cpu"}, {Name: "gpu", ResumeTimeout: 15 * time.Minute}, {Name: "big", ResumeTimeout: time.Hour}}
	for _, c := range []struct {
		names []string
		want  time.Duration
	}{
		{[]string{"gpu"}, 15 * time.Minute}, {[]string{"big", "gpu"}, 15 * time.Minute}, {[]string{"gpu", "cpu"}, time.Minute}, {nil, time.Minute}, {[]string{"gone"}, time.Minute},
	} {
		if got := config.ShortestResumeTimeout(partitions, c.names); got != c.want {
			t.Errorf("%v: %s", c.names, got)
		}
	}
}
