package awssim

import (
	"strings"
	"testing"
)

func TestScenarioOfPCSThatIsWrong(t *testing.T) {
	const group = `
[[region.cluster.node_group]]
name = "gpu"
type = "p4d.24xlarge"
instance_profile = "arn:aws:iam::111122223333:instance-profile/AWSPCS-nodes"
image = "ami-0000000000000000a"
launch_template = "lt-0000000000000000a"
subnets = ["subnet-0000000000000000a"]
max = 4
`
	const right = pcsScenario + `
[[region.launch_template]]
id = "lt-0000000000000000a"
name = "nodes"

[[region.cluster]]
name = "third"
subnets = ["subnet-0000000000000000a"]
` + group + `
[[region.cluster.queue]]
name = "gpu"
node_groups = ["gpu"]
`
	// pcsScenario ends with a second region; without it, what follows belongs to the first.
	inFirst := strings.Replace(right, "[[region]]\nname = \"eu-west-1\"\n", "", 1)
	tests := []struct{ name, old, new, want string }{
		{"right", "", "", ""},
		{"version", `name = "third"`, `name = "third"
slurm_version = "25"`, `cluster third: slurm_version "25"`},
		{"size", `name = "third"`, `name = "third"
size = "TINY"`, `size "TINY"`},
		{"no subnet", `name = "third"
subnets = ["subnet-0000000000000000a"]`, `name = "third"`, "a cluster has 1 subnet, not 0"},
		{"template", `launch_template = "lt-0000000000000000a"`, `launch_template = "lt-0000000000000000b"`, "node group gpu: ValidationException: customLaunchTemplate"},
		{"too large", "max = 4", "max = 40", "ServiceQuotaExceededException"},
		{"unknown group", `node_groups = ["gpu"]`, `node_groups = ["cpu"]`, `queue gpu: ResourceNotFoundException`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			sc, err := ParseScenario("test", []byte(strings.Replace(inFirst, test.old, test.new, 1)))
			must(t, sc, err)
			sim, err := New(sc, NewClock(noon, 0))
			if err == nil {
				sim.Close()
			}
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}
