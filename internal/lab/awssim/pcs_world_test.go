package awssim

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/pcs"
	"github.com/aws/aws-sdk-go-v2/service/pcs/types"
)

const (
	subnetA     = "subnet-0000000000000000a" // us-east-2a, use2-az1
	subnetB     = "subnet-0000000000000000b" // us-east-2b, use2-az2
	subnetOther = "subnet-0000000000000000c" // another VPC
	activeBlock = "cr-00000000000000001"     // 4 × p5.48xlarge in use2-az1
	futureBlock = "cr-00000000000000002"
	unpaidBlock = "cr-00000000000000003"
	odcr        = "cr-00000000000000004" // 2 × c7i.large in use2-az1
	profile     = "arn:aws:iam::111122223333:instance-profile/AWSPCS-nodes"
)

// pcsDelay is how long PCS takes in these tests.
const pcsDelay = time.Minute

const pcsScenario = `
account = "111122223333"
instance_profiles = [
  "arn:aws:iam::111122223333:instance-profile/AWSPCS-nodes",
  "arn:aws:iam::111122223333:instance-profile/aws-pcs/nodes",
  "arn:aws:iam::111122223333:instance-profile/site/AWSPCS-nodes",
  "arn:aws:iam::111122223333:instance-profile/AWSPCS/nodes",
  "arn:aws:iam::111122223333:instance-profile/nodes",
]
pcs_delay = "1m"
boot_delay = "0s"
reclaim_lead = "30m"
shutdown_delay = "0s"
cleanup_delay = "5m"

[[instance_type]]
name = "p5.48xlarge"
vcpus = 192
memory_mib = 2097152
gpus = 8
gpu_name = "H100"
gpu_memory_mib = 81920
usage_classes = ["capacity-block"]

[[instance_type]]
name = "p4d.24xlarge"
vcpus = 96
memory_mib = 1179648
gpus = 8
gpu_name = "A100"
gpu_memory_mib = 40960
usage_classes = ["capacity-block", "on-demand"]

[[instance_type]]
name = "c7i.large"
vcpus = 2
memory_mib = 4096

[[region]]
name = "us-east-2"
zone = [{name = "us-east-2a", id = "use2-az1"}, {name = "us-east-2b", id = "use2-az2"}]
vpc = [{id = "vpc-0000000000000000a", cidr = "10.0.0.0/16"}, {id = "vpc-0000000000000000b", cidr = "10.1.0.0/16"}]
subnet = [
  {id = "subnet-0000000000000000a", vpc = "vpc-0000000000000000a", zone = "us-east-2a", cidr = "10.0.0.0/24"},
  {id = "subnet-0000000000000000b", vpc = "vpc-0000000000000000a", zone = "us-east-2b", cidr = "10.0.1.0/24"},
  {id = "subnet-0000000000000000c", vpc = "vpc-0000000000000000b", zone = "us-east-2a", cidr = "10.1.0.0/24"},
]
security_group = [{id = "sg-0000000000000000a", name = "nodes", vpc = "vpc-0000000000000000a"}]
image = [{id = "ami-0000000000000000a", name = "node"}]
capacity = [
  {zone = "us-east-2a", type = "c7i.large", count = 100},
  {zone = "us-east-2b", type = "c7i.large", count = 100},
  {zone = "us-east-2a", type = "p4d.24xlarge", count = 4},
]
reservation = [
  {id = "cr-00000000000000001", kind = "capacity-block", type = "p5.48xlarge", zone = "us-east-2a", count = 4, start = "-1h", end = "+1d 11:30"},
  {id = "cr-00000000000000002", kind = "capacity-block", type = "p5.48xlarge", zone = "us-east-2a", count = 4, start = "+1d 11:30", end = "+3d 11:30"},
  {id = "cr-00000000000000003", kind = "capacity-block", type = "p5.48xlarge", zone = "us-east-2a", count = 4, start = "+1d 11:30", end = "+3d 11:30", state = "payment-pending"},
  {id = "cr-00000000000000004", type = "c7i.large", zone = "us-east-2a", count = 2},
  {id = "cr-00000000000000006", type = "c7i.large", zone = "us-east-2b", count = 4},
]

[[region.cluster]]
name = "hpc"
size = "SMALL"
slurm_version = "25.11"
subnets = ["subnet-0000000000000000a"]

[[region.cluster]]
name = "old"
slurm_version = "23.11"
subnets = ["subnet-0000000000000000a"]

[[region]]
name = "eu-west-1"
`

// pcsWorld is a simulator with clients.
type pcsWorld struct {
	*testing.T
	sim *Sim
	pcs *pcs.Client
	ec2 *ec2.Client

	endpoint string
}

func newPCSWorld(t *testing.T) *pcsWorld {
	sim, endpoint := wireSim(t, pcsScenario)
	return &pcsWorld{t, sim, pcsClient(endpoint), ec2Client(endpoint), endpoint}
}

// settle lets PCS finish what it does.
func (w *pcsWorld) settle() { w.sim.Clock().Advance(pcsDelay) }

// must fails the test for an error.
func must[T any](t testing.TB, value T, err error) T {
	t.Helper()

	if err != nil {
		t.Fatal(err)
	}

	return value
}

// template makes a launch template and returns it for a node group. An empty market, reservation or instance type is
// left out.
func (w *pcsWorld) template(market, reservation, instanceType string) *types.CustomLaunchTemplate {
	w.Helper()

	data := &ec2types.RequestLaunchTemplateData{
		ImageId:      aws.String("ami-0000000000000000a"),
		InstanceType: ec2types.InstanceType(instanceType),
	}
	if market != "" {
		data.InstanceMarketOptions = &ec2types.LaunchTemplateInstanceMarketOptionsRequest{
			MarketType: ec2types.MarketType(market),
		}
	}

	if reservation != "" {
		data.CapacityReservationSpecification = &ec2types.LaunchTemplateCapacityReservationSpecificationRequest{
			CapacityReservationTarget: &ec2types.CapacityReservationTarget{CapacityReservationId: &reservation},
		}
	}

	w.sim.mu.Lock()
	name := w.sim.newID("template")
	w.sim.mu.Unlock()
	out, err := w.ec2.CreateLaunchTemplate(
		w.Context(),
		&ec2.CreateLaunchTemplateInput{LaunchTemplateName: &name, LaunchTemplateData: data},
	)
	must(w, out, err)

	return &types.CustomLaunchTemplate{Id: out.LaunchTemplate.LaunchTemplateId, Version: aws.String("1")}
}

// blockGroup is a request for a node group on the active block, right in every respect.
func (w *pcsWorld) blockGroup(name string) *pcs.CreateComputeNodeGroupInput {
	w.Helper()

	return &pcs.CreateComputeNodeGroupInput{
		ClusterIdentifier:     aws.String("hpc"),
		ComputeNodeGroupName:  &name,
		IamInstanceProfileArn: aws.String(profile),
		SubnetIds:             []string{subnetB, subnetA},
		PurchaseOption:        types.PurchaseOptionCapacityBlock,
		CustomLaunchTemplate:  w.template("capacity-block", activeBlock, "p5.48xlarge"),
		ScalingConfiguration:  scaling(4, 4),
		InstanceConfigs:       []types.InstanceConfig{{InstanceType: aws.String("p5.48xlarge")}},
	}
}

// demandGroup is a request for a dynamic node group on demand, right in every respect.
func (w *pcsWorld) demandGroup(name string, most int32) *pcs.CreateComputeNodeGroupInput {
	w.Helper()

	return &pcs.CreateComputeNodeGroupInput{
		ClusterIdentifier:    aws.String("hpc"),
		ComputeNodeGroupName: &name, IamInstanceProfileArn: aws.String(profile), SubnetIds: []string{subnetA},
		CustomLaunchTemplate: w.template("", "", ""), ScalingConfiguration: scaling(0, most),
		InstanceConfigs: []types.InstanceConfig{{InstanceType: aws.String("c7i.large")}},
	}
}

func scaling(least, most int32) *types.ScalingConfigurationRequest {
	return &types.ScalingConfigurationRequest{MinInstanceCount: least, MaxInstanceCount: most}
}

// group makes a node group and waits until it is ACTIVE.
func (w *pcsWorld) group(in *pcs.CreateComputeNodeGroupInput) *types.ComputeNodeGroup {
	w.Helper()
	out, err := w.pcs.CreateComputeNodeGroup(w.Context(), in)
	must(w, out, err)
	w.settle()

	return out.ComputeNodeGroup
}

// queue makes a queue and waits until it is ACTIVE.
func (w *pcsWorld) queue(name string, groups ...*types.ComputeNodeGroup) *types.Queue {
	w.Helper()
	out, err := w.pcs.CreateQueue(
		w.Context(),
		&pcs.CreateQueueInput{
			ClusterIdentifier:              aws.String("hpc"),
			QueueName:                      &name,
			ComputeNodeGroupConfigurations: members(groups...),
		},
	)
	must(w, out, err)
	w.settle()

	return out.Queue
}

func members(groups ...*types.ComputeNodeGroup) []types.ComputeNodeGroupConfiguration {
	list := []types.ComputeNodeGroupConfiguration{}
	for _, g := range groups {
		list = append(list, types.ComputeNodeGroupConfiguration{ComputeNodeGroupId: g.Id})
	}

	return list
}
