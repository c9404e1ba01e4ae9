package slurm

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// The files are what slurmctld of each version wrote.
func TestParseResumeFile(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []capacity.ResumeJob
	}{
		{
			"22.05",
			`{"jobs":[{"job_id":3,"nodes":"cloud[2-4]"}],"all_nodes":"cloud[2-4]"}`,
			[]capacity.ResumeJob{{ID: 3, Nodes: []string{"cloud2", "cloud3", "cloud4"}}},
		},
		{
			"24.11",
			`{"jobs":[{"extra":"{\"cap\":\"cb\"}","job_id":2829,"features":"gpu","nodes_alloc":"cloud[1-2]","nodes_resume":"cloud2","oversubscribe":"NO","partition":"cloud","reservation":null}],"all_nodes_resume":"cloud[2-4]"}`,
			[]capacity.ResumeJob{{ID: 2829, Nodes: []string{"cloud2"}}},
		},
		{
			"26.05",
			`{"jobs":[{"exclusive":"NODE","extra":null,"job_id":2828,"priority":1,"features":"gpu","nodes_alloc":"cloud[1-2]","nodes_resume":"cloud[1-2]","oversubscribe":"NO","partition":"cloud","reservation":"r1"}],"all_nodes_resume":"cloud[1-2]"}`,
			[]capacity.ResumeJob{{ID: 2828, Nodes: []string{"cloud1", "cloud2"}}},
		},
		{"nodes without a job", `{"jobs":[],"all_nodes_resume":"cloud1"}`, nil},
		{
			"binary in what a user wrote",
			"{\"jobs\":[{\"extra\":\"\xff\xfe\\u0001\",\"job_id\":1,\"nodes_resume\":\"a1\"}],\"all_nodes_resume\":\"a1\"}",
			[]capacity.ResumeJob{{ID: 1, Nodes: []string{"a1"}}},
		},
	} {
		got, err := parseResumeFile([]byte(test.text))
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		}

		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}

	for text, jobs := range map[string]int{
		"":                                     0,
		"{":                                    0,
		`{"jobs":[{"job_id":0,"nodes":"a1"}]}`: 0,
		`{"jobs":[{"job_id":1,"nodes":"a[1"},{"job_id":2,"nodes":"a2"}]}`: 1,
	} {
		if got, err := parseResumeFile([]byte(text)); err == nil || len(got) != jobs {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

// The longest SuspendTime of a node's partitions counts, else that of slurm.conf.
func TestPowersDown(t *testing.T) {
	partitions := []capacity.SlurmPartition{
		{Name: "cpu"},
		{Name: "gpu", SuspendTime: time.Minute},
		{Name: "up", SuspendTime: Never},
	}
	for _, c := range []struct {
		node   capacity.Node
		config Config
		want   bool
	}{
		{capacity.Node{Name: "cpu-1", Partitions: []string{"cpu"}}, Config{}, false},
		{capacity.Node{Name: "cpu-1", Partitions: []string{"cpu"}}, Config{SuspendTime: time.Hour}, true},
		{
			capacity.Node{Name: "cpu-1", Partitions: []string{"cpu"}},
			Config{SuspendTime: time.Hour, SuspendExcNodes: "gpu-1,cpu-[1-4]:2"},
			false,
		},
		{
			capacity.Node{Name: "cpu-1", Partitions: []string{"cpu"}},
			Config{SuspendTime: time.Hour, SuspendExcParts: []string{"cpu"}},
			false,
		},
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
	partitions := []capacity.SlurmPartition{
		{Name: "cpu"},
		{Name: "gpu", ResumeTimeout: 15 * time.Minute},
		{Name: "big", ResumeTimeout: time.Hour},
	}
	for _, c := range []struct {
		names []string
		want  time.Duration
	}{
		{[]string{"gpu"}, 15 * time.Minute},
		{[]string{"big", "gpu"}, 15 * time.Minute},
		{[]string{"gpu", "cpu"}, time.Minute},
		{nil, time.Minute},
		{[]string{"gone"}, time.Minute},
	} {
		if got := config.ShortestResumeTimeout(partitions, c.names); got != c.want {
			t.Errorf("%v: %s", c.names, got)
		}
	}
}

// A job's state, or the flag that squeue shows in its place.
func TestSplitState(t *testing.T) {
	for word, want := range map[string]string{
		"PENDING":       "PENDING",
		"RUNNING":       "RUNNING",
		"SUSPENDED":     "SUSPENDED",
		"COMPLETED":     "COMPLETED",
		"CANCELLED":     "CANCELLED",
		"FAILED":        "FAILED",
		"TIMEOUT":       "TIMEOUT",
		"NODE_FAIL":     "NODE_FAIL",
		"PREEMPTED":     "PREEMPTED",
		"BOOT_FAIL":     "BOOT_FAIL",
		"DEADLINE":      "DEADLINE",
		"OUT_OF_MEMORY": "OUT_OF_MEMORY",
	} {
		if base, flag := splitState(word); base != want || flag != "" {
			t.Errorf("%s: %s %v", word, base, flag)
		}
	}

	for flag, want := range map[string]string{
		"CONFIGURING":   "RUNNING",
		"RESIZING":      "RUNNING",
		"SIGNALING":     "RUNNING",
		"STAGE_OUT":     "RUNNING",
		"STOPPED":       "RUNNING",
		"REQUEUED":      "PENDING",
		"REQUEUE_FED":   "PENDING",
		"REQUEUE_HOLD":  "PENDING",
		"RESV_DEL_HOLD": "PENDING",
		"SPECIAL_EXIT":  "PENDING",
		"EXPEDITING":    "PENDING", // from 25.11, after a requeue with --requeue=expedite
		"COMPLETING":    "COMPLETING",
		"LAUNCHED":      "LAUNCHED", // the state is unknown
	} {
		if base, got := splitState(flag); base != want || got != flag {
			t.Errorf("%s: %s %v", flag, base, got)
		}
	}
}
