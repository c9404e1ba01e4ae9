package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// restricted is an AWS whose callers have a policy, and a machine whose Slurm is down.
type restricted struct {
	*testing.T
	sim *awssim.Sim
	env []string
	dir string
	// settings is the path of config.toml, slurm the PATH of a Slurm that answers.
	settings, slurm string
	// program is pcs-capacity, by whose side its hooks are.
	program string
	// said is all that the programs wrote.
	said string
}

// The reservations that the scenes are about, and a pair of names in the cluster "ml" of
// the simulator's default account.
const (
	groupODCR = "cr-0e20000000000aa01"
)

func newRestricted(t *testing.T, clock *awssim.Clock) *restricted {
	t.Helper()
	scenario := awssim.DefaultScenario()
	scenario.PCSDelay, scenario.PaymentDelay, scenario.ShutdownDelay, scenario.CleanupDelay = 0, 0, 0, 0 // the clock stands still
	region := &scenario.Regions[0]
	region.KeyPairs = append(region.KeyPairs, awssim.KeyPairScenario{Name: "ops"})
	region.LaunchTemplates[0].KeyName = "ops"
	region.Images = append(region.Images, awssim.ImageScenario{ID: "ami-0e200000000000d04", Name: "named", Parameter: "/nodes/image"})
	region.LaunchTemplates = append(region.LaunchTemplates, awssim.LaunchTemplateScenario{ID: "lt-0e2000000000000a3", Name: "named-image", Image: "resolve:ssm:/nodes/image", MetadataTags: true,
		SecurityGroups: []string{"sg-0e2000000000000a1"}, InstanceProfile: "arn:aws:iam::111122223333:instance-profile/nodes"},
		awssim.LaunchTemplateScenario{ID: "lt-0e2000000000000a4", Name: "named-nodes", Image: "ami-0e200000000000a01", MetadataTags: true, SecurityGroups: []string{"sg-0e2000000000000a1"}},
		awssim.LaunchTemplateScenario{ID: "lt-0e2000000000000a5", Name: "rhel-nodes", Image: "ami-0e200000000000c03", MetadataTags: true, SecurityGroups: []string{"sg-0e2000000000000a1"}},
		awssim.LaunchTemplateScenario{ID: "lt-0e2000000000000a6", Name: "gone-image", Image: "ami-0e200000000000fff", MetadataTags: true, SecurityGroups: []string{"sg-0e2000000000000a1"}})
	region.Reservations = append(region.Reservations, awssim.ReservationScenario{ID: groupODCR, Kind: "odcr", Type: "p5.48xlarge", Zone: "us-east-2a", Count: 2, PlacementGroup: "ml-cluster"})
	// A VPC without a way out, so that its endpoints are read.
	region.RouteTables = []awssim.RouteTableScenario{{ID: "rtb-0e2000000000000a1", VPC: region.VPCs[0].ID, Main: true}}
	region.VPCEndpoints = []awssim.VPCEndpointScenario{{ID: "vpce-0e2000000000000a1", VPC: region.VPCs[0].ID, Service: "pcs", SecurityGroups: []string{"sg-0e2000000000000a1"}}}
	// UltraServers of which only DescribeCapacityBlocks says so.
	chips := slices.IndexFunc(region.Reservations, func(one awssim.ReservationScenario) bool { return one.ID == "cr-0e2000000000000c6" })
	scenario.HideLaunchStatus = true
	scenario.BootDelay = awssim.Duration(time.Second) // who holds an ODCR for a launch waits for the instance
	for i := range region.Offerings {
		if o := &region.Offerings[i]; o.Type == region.Reservations[chips].Type {
			o.Type = "trn1.32xlarge"
		}
	}
	region.Reservations[chips].Type, region.Reservations[chips].Tags = "trn1.32xlarge", map[string]string{"team": "chips"}
	r := &restricted{T: t, dir: t.TempDir(), program: "pcs-capacity"}
	var err error
	if r.sim, err = awssim.New(scenario, clock); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.sim.Close() })
	if _, err := r.sim.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	r.env = append(os.Environ(), r.sim.Env()...)
	r.env = append(r.env, "SLURM_CONF="+filepath.Join(r.dir, "slurm.conf"), "AWS_EC2_METADATA_DISABLED=true", "AWS_MAX_ATTEMPTS=1", "TZ=UTC")
	r.write("slurm.conf", downConf)
	if err := os.Mkdir(filepath.Join(r.dir, "pcs-capacity"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.settings = filepath.Join(r.dir, "pcs-capacity", "config.toml")
	r.write("pcs-capacity/config.toml", "region = \"us-east-2\"\ncluster = \"ml\"\nstate_dir = \"state\"\n[log]\ndir = \"log\"\n")
	r.slurm = fakeSlurmFor(t, filepath.Join(r.dir, "slurm"), "gpu-a-[1-3]", "gpu-b-[1-3]")
	r.mustAdmin("hooks", "install", "cli_filter")
	return r
}

func (r *restricted) write(name, text string) {
	r.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o644); err != nil {
		r.Fatal(err)
	}
}

// run runs a program in the machine's folder.
func (r *restricted) run(name string, args ...string) (status int) {
	r.Helper()
	command := exec.CommandContext(r.Context(), name, args...)
	command.Dir, command.Env = r.dir, r.env
	if slices.Contains(args, "setup") { // which needs Slurm
		command.Env = append(slices.Clone(r.env), r.slurm)
	}
	out, err := command.CombinedOutput()
	if exit := (&exec.ExitError{}); err != nil && !errors.As(err, &exit) {
		r.Fatal(err)
	}
	r.said += string(out)
	return command.ProcessState.ExitCode()
}

// admin runs a command of the administrator.
func (r *restricted) admin(args ...string) int {
	r.Helper()
	return r.run(r.program, append([]string{"--config", r.settings, "--yes"}, args...)...)
}

// mustAdmin does so before anybody has a policy.
func (r *restricted) mustAdmin(args ...string) {
	r.Helper()
	if status := r.admin(args...); status != 0 {
		r.Fatalf("%q: %d\n%s", args, status, r.said)
	}
	r.said = ""
}

// clients are those of a caller who may do everything: before there is a policy.
func (r *restricted) clients() (*ec2.Client, *pcs.Client) {
	r.Helper()
	shared, err := awsconfig.Load(r.Context(), awsconfig.Options{Region: "us-east-2"})
	if err != nil {
		r.Fatal(err)
	}
	for _, variable := range r.sim.Env() {
		if url, ok := strings.CutPrefix(variable, "AWS_ENDPOINT_URL="); ok {
			shared.Config.BaseEndpoint = &url
		}
	}
	return ec2.From(shared), pcs.From(shared)
}
