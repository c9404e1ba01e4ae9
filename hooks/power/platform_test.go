package power

import (
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// The resume hook knows of an image what the last pass of sync found of the version that is
// launched now, unless that is too long ago. It never asks.
func TestPlatformIsWhatSyncFound(t *testing.T) {
	const template, linux = "lt-0e2000000000000a2", "lt-0e2000000000000a2:1"
	sim, err := awssim.New(awssim.DefaultScenario(), awssim.MachineClock())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sim.Close() })
	if err := sim.Serve(t.Setenv); err != nil {
		t.Fatal(err)
	}
	last := func(age time.Duration, version string) *capacity.Snapshot {
		return &capacity.Snapshot{TakenAt: time.Now().Add(-age), Submit: capacity.Submit{StaleAfter: capacity.Duration{Duration: 10 * time.Minute}},
			Partitions: []capacity.Partition{{Groups: []capacity.NodeGroup{{}, {Platform: "SUSE Linux", PlatformOf: version}}}}}
	}
	for name, c := range map[string]struct {
		last     *capacity.Snapshot
		template string
		want     string
	}{
		"sync has asked":      {last(time.Minute, linux), template, "SUSE Linux"},
		"the default version": {last(time.Minute, linux), template + ":$Default", "SUSE Linux"},
		"of an older version": {last(time.Minute, template+":0"), template, ""},
		"long ago":            {last(time.Hour, linux), template, ""},
		"no sync":             {nil, template, ""},
		"no such template":    {last(time.Minute, ""), "lt-0e2000000000000b8", ""},
	} {
		aws, err := ec2.New(t.Context(), ec2.Options{Region: "us-east-2"})
		if err != nil {
			t.Fatal(err)
		}
		r := Resume{Site: &Site{EC2: aws, MachineTime: time.Now}, Last: c.last}
		if got := r.imagePlatform(r.pin(t.Context(), c.template)); got.Platform != c.want {
			t.Errorf("%s: %+v, want %q", name, got, c.want)
		}
	}
	for key := range sim.Calls() {
		if key.Operation == "DescribeImages" {
			t.Error("EC2 was asked about an image")
		}
	}
}
