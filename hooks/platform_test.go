package hooks

import (
	"log/slog"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// The resume hook asks EC2 about an image only where the last pass of sync did not, or not of
// the version that is launched now, or too long ago.
func TestImageIsAskedForOnlyIfSyncDidNot(t *testing.T) {
	const template, linux, gone = "lt-0e2000000000000a2", "lt-0e2000000000000a2:1", "lt-0e2000000000000b9"
	scenario := awssim.DefaultScenario()
	home := &scenario.Regions[0]
	home.LaunchTemplates = append(home.LaunchTemplates, awssim.LaunchTemplateScenario{ID: gone, Name: "gone", Image: "ami-0e200000000000fff"})
	sim, err := awssim.New(scenario, awssim.MachineClock())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sim.Close() })
	if err := sim.Serve(t.Setenv); err != nil {
		t.Fatal(err)
	}
	asked := func() (n int) {
		for key, count := range sim.Calls() {
			if key.Operation == "DescribeImages" {
				n += count
			}
		}
		return n
	}
	last := func(age time.Duration, version string) *capacity.Snapshot {
		return &capacity.Snapshot{TakenAt: time.Now().Add(-age), Submit: capacity.Submit{StaleAfter: capacity.Duration{Duration: 10 * time.Minute}},
			Partitions: []capacity.Partition{{Groups: []capacity.NodeGroup{{}, {Platform: "SUSE Linux", PlatformOf: version}}}}}
	}
	for name, c := range map[string]struct {
		last     *capacity.Snapshot
		template string
		want     string
		asks     int
	}{
		"sync has asked":       {last(time.Minute, linux), template, "SUSE Linux", 0},
		"of an older version":  {last(time.Minute, template+":0"), template, capacity.LinuxUNIX, 1},
		"long ago":             {last(time.Hour, linux), template, capacity.LinuxUNIX, 1},
		"no sync":              {nil, template, capacity.LinuxUNIX, 1},
		"an image that is not": {nil, gone, "", 1},
		"no such template":     {nil, "lt-0e2000000000000b8", "", 0},
	} {
		aws, err := ec2.New(t.Context(), ec2.Options{Region: "us-east-2"})
		if err != nil {
			t.Fatal(err)
		}
		r := Resume{EC2: aws, MachineTime: time.Now, Log: slog.New(slog.DiscardHandler), Last: c.last}
		before := asked()
		if got := r.imagePlatform(t.Context(), c.template); got.Platform != c.want || asked() != before+c.asks {
			t.Errorf("%s: %+v, asked %d times, want %q and %d", name, got, asked()-before, c.want, c.asks)
		}
	}
}
