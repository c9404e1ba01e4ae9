package awssim

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

const mixedGroup = "arn:aws:resource-groups:us-east-2:111122223333:group/gpus"

// groupWorld has a group of an ODCR that ends and one that does not, an interruptible one and a block.
const groupWorld = `
account = "111122223333"
instance_type = [{ name = "p5.48xlarge", vcpus = 192, memory_mib = 2097152, gpus = 8, usage_classes = ["on-demand", "capacity-block"] }]
[[region]]
name = "us-east-2"
zone = [{ name = "us-east-2a", id = "use2-az1" }]
vpc = [{ id = "vpc-0e2000000000000a1", cidr = "10.2.0.0/16" }]
subnet = [{ id = "subnet-0e200000000000a01", vpc = "vpc-0e2000000000000a1", zone = "us-east-2a", cidr = "10.2.1.0/24" }]
image = [{ id = "ami-0e200000000000a01", name = "x" }]
capacity = [{ zone = "us-east-2a", type = "p5.48xlarge", count = 9 }]
reservation = [
  { id = "cr-0f", type = "p5.48xlarge", zone = "us-east-2a", count = 1 },
  { id = "cr-0a", type = "p5.48xlarge", zone = "us-east-2a", count = 2 },
  { id = "cr-0b", type = "p5.48xlarge", zone = "us-east-2a", count = 2, end = "+1d 11:30" },
  { id = "cr-0c", kind = "interruptible-odcr", source = "cr-0f", type = "p5.48xlarge", zone = "us-east-2a", count = 1 },
  { id = "cr-0d", kind = "capacity-block", type = "p5.48xlarge", zone = "us-east-2a", count = 2, start = "-1d 11:30", end = "+1d 11:30" },
  { id = "cr-0e", type = "p5.48xlarge", zone = "us-east-2a", count = 3, owner = "444455556666" },
]
resource_group = [{ name = "gpus", reservations = ["cr-0a", "cr-0b", "cr-0c", "cr-0d"], joining = ["cr-0e"] }]
`

func intoGroup(arn string, only bool) func(*ec2.RunInstancesInput) {
	return func(in *ec2.RunInstancesInput) {
		in.CapacityReservationSpecification = &types.CapacityReservationSpecification{
			CapacityReservationTarget: &types.CapacityReservationTarget{CapacityReservationResourceGroupArn: aws.String(arn)}}
		if only {
			in.CapacityReservationSpecification.CapacityReservationPreference = types.CapacityReservationPreferenceCapacityReservationsOnly
		}
	}
}

// A launch into a group takes members of one kind in an unknown order, and continues on demand when they are full,
// unless it wants reservations only.
func TestLaunchIntoResourceGroup(t *testing.T) {
	sim, endpoint := wireSim(t, groupWorld)
	w := &ec2World{t, sim, ec2Client(endpoint), endpoint}
	const gpu = "p5.48xlarge"
	block, interruptible := market(types.MarketTypeCapacityBlock), market(types.MarketTypeInterruptibleCapacityReservation)
	launch := func(n int32, more ...func(*ec2.RunInstancesInput)) []string {
		t.Helper()
		var in []string
		for _, i := range do(t, w.ec2.RunInstances, run(n, gpu, defSubnetA, more...)).Instances {
			in = append(in, aws.ToString(i.CapacityReservationId))
		}
		return in
	}
	if in := launch(3, intoGroup(mixedGroup, true)); !slices.Equal(in, []string{"cr-0b", "cr-0b", "cr-0a"}) {
		t.Errorf("ODCRs: %v; two nodes of one job are in one that ends tomorrow", in)
	}
	fails(t, w.ec2.RunInstances, run(2, gpu, defSubnetA, intoGroup(mixedGroup, true)), "ReservationCapacityExceeded")
	if in := launch(2, intoGroup(mixedGroup, false)); !slices.Equal(in, []string{"cr-0a", ""}) {
		t.Errorf("without reservations only: %v", in)
	}
	if in := launch(1, intoGroup(mixedGroup, true), interruptible); !slices.Equal(in, []string{"cr-0c"}) {
		t.Errorf("interruptible: %v", in)
	}
	if in := launch(2, intoGroup(mixedGroup, true), block); !slices.Equal(in, []string{"cr-0d", "cr-0d"}) {
		t.Errorf("block: %v", in)
	}
	fails(t, w.ec2.RunInstances, run(1, gpu, defSubnetA, intoGroup(mixedGroup, false), block), "ReservationCapacityExceeded")
	fails(t, w.ec2.RunInstances, run(1, gpu, defSubnetA, intoGroup("arn:aws:resource-groups:us-east-2:111122223333:group/none", false)), "InvalidParameterValue")
	fails(t, w.ec2.RunInstances, run(1, gpu, defSubnetA, into("cr-0d")), "InvalidParameterValue") // no market type
}
