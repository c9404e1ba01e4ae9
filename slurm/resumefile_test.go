package slurm

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The files are what slurmctld of each version wrote.
func TestParseResumeFile(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       Resume
	}{
		{"22.05",
			`{"jobs":[{"job_id":3,"nodes":"cloud[2-4]"}],"all_nodes":"cloud[2-4]"}`,
			Resume{Nodes: "cloud[2-4]", Jobs: []ResumeJob{{ID: 3, ResumeNodes: "cloud[2-4]", AllocNodes: "cloud[2-4]"}}}},
		{"24.11",
			`{"jobs":[{"extra":"{\"cap\":\"cb\"}","job_id":2829,"features":"gpu","nodes_alloc":"cloud[1-2]","nodes_resume":"cloud2","oversubscribe":"NO","partition":"cloud","reservation":null}],"all_nodes_resume":"cloud[2-4]"}`,
			Resume{Nodes: "cloud[2-4]", Jobs: []ResumeJob{{ID: 2829, ResumeNodes: "cloud2", AllocNodes: "cloud[1-2]", Partition: "cloud", Features: "gpu"}}}},
		{"26.05",
			`{"jobs":[{"exclusive":"NODE","extra":null,"job_id":2828,"priority":1,"features":"gpu","nodes_alloc":"cloud[1-2]","nodes_resume":"cloud[1-2]","oversubscribe":"NO","partition":"cloud","reservation":"r1"}],"all_nodes_resume":"cloud[1-2]"}`,
			Resume{Nodes: "cloud[1-2]", Jobs: []ResumeJob{{ID: 2828, ResumeNodes: "cloud[1-2]", AllocNodes: "cloud[1-2]", Partition: "cloud", Features: "gpu", Reservation: "r1"}}}},
		{"nodes without a job", `{"jobs":[],"all_nodes_resume":"cloud1"}`, Resume{Nodes: "cloud1"}},
		{"binary in what a user wrote", "{\"jobs\":[{\"extra\":\"\xff\xfe\\u0001\",\"job_id\":1,\"nodes_resume\":\"a1\"}],\"all_nodes_resume\":\"a1\"}",
			Resume{Nodes: "a1", Jobs: []ResumeJob{{ID: 1, ResumeNodes: "a1", AllocNodes: "a1"}}}},
	} {
		got, err := ParseResumeFile([]byte(test.text))
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
	for _, text := range []string{"", "{", `{"jobs":[{"job_id":0,"nodes":"a1"}]}`, `{"jobs":[{"job_id":1,"nodes":"a[1"}]}`, `{"all_nodes":"a b"}`} {
		if got, err := ParseResumeFile([]byte(text)); err == nil {
			t.Errorf("ParseResumeFile(%q) = %+v, want an error", text, got)
		}
	}
}

func TestReadResumeFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resume")
	if _, err := ReadResumeFile(path); err == nil {
		t.Error("a missing file is not an error")
	}
	if err := os.WriteFile(path, []byte(`{"all_nodes":"cloud1"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadResumeFile(path); err != nil || got.Nodes != "cloud1" {
		t.Errorf("got %+v, %v", got, err)
	}
}
