package awssim

import (
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// Instances that run have a place in the network; those that do not have none. An unknown one
// fails the call.
func TestInstanceTopology(t *testing.T) {
	w := newEC2World(t)
	var ids []string
	for _, i := range do(t, w.ec2.RunInstances, run(3, "c7i.4xlarge", defSubnetA)).Instances {
		ids = append(ids, *i.InstanceId)
	}
	ask := func() (paths [][]string) {
		for _, i := range do(t, w.ec2.DescribeInstanceTopology, &ec2.DescribeInstanceTopologyInput{InstanceIds: ids}).Instances {
			paths = append(paths, i.NetworkNodes)
		}
		return paths
	}
	if paths := ask(); len(paths) != 3 || len(paths[0]) > 0 {
		t.Errorf("pending: %v", paths)
	}
	w.sim.Clock().Advance(10 * time.Minute)
	paths := ask()
	if len(paths) != 3 || !slices.Equal(paths[0], paths[2]) || !slices.Equal(paths[0][:2], paths[1][:2]) || paths[0][2] == paths[1][2] {
		t.Errorf("running: %v", paths)
	}
	fails(t, w.ec2.DescribeInstanceTopology, &ec2.DescribeInstanceTopologyInput{InstanceIds: append(ids, "i-0123456789abcdef0")}, "InvalidInstanceID.NotFound")
	fails(t, w.ec2.DescribeInstanceTopology, &ec2.DescribeInstanceTopologyInput{InstanceIds: slices.Repeat(ids, 34)}, "InvalidParameterValue")
}
