package preflight

import (
	"testing"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// Descriptions are those of PCS's images.
func TestOldAgent(t *testing.T) {
	mount := pcs.LifecycleActions(`{"stages":{"nodeReady":[{"name":"mount"}]}}`)
	for description, c := range map[string]struct {
		actions pcs.LifecycleActions
		want    string
	}{
		"PCS-Ready DLAMI. PCS Agent: 1.4.0-1. Slurm: 24.11.7-1": {mount, "image ami-1 (dlami) has PCS agent 1.4.0-1, which runs no lifecycle actions (nodeReady: mount); give an image with PCS agent 1.5.0-1 or newer with --ami"},
		"PCS Agent: 1.4.10-2. ":                                 {mount, "image ami-1 (dlami) has PCS agent 1.4.10-2, which runs no lifecycle actions (nodeReady: mount); give an image with PCS agent 1.5.0-1 or newer with --ami"},
		"PCS Agent: 1.5.0-1. ":                                  {mount, ""},
		"PCS Agent: 1.10.0-1. ":                                 {mount, ""},
		"PCS Agent: 2.0.0-1. ":                                  {mount, ""},
		"PCS Agent: 1.4.0-1. ":                                  {nil, ""},
		"an image of our own":                                   {mount, ""},
	} {
		got := ""
		for _, p := range oldAgent(Seen{Image: ec2.Image{ID: "ami-1", Name: "dlami", Description: description}, Actions: c.actions}) {
			got += p.Text()
			if !Stops(p) {
				t.Errorf("%q only warns", description)
			}
		}
		if got != c.want {
			t.Errorf("%q: %q, want %q", description, got, c.want)
		}
	}
}
