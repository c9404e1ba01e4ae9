package awssim

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func TestRegionsAndZones(t *testing.T) {
	w := newEC2World(t)
	var names []string
	for _, r := range do(t, w.ec2.DescribeRegions, &ec2.DescribeRegionsInput{}).Regions {
		names = append(names, *r.RegionName)
	}
	if want := []string{"us-east-2", "us-west-2", "eu-west-1"}; !slices.Equal(names, want) {
		t.Errorf("regions %v, want %v: ap-east-1 is not opted in", names, want)
	}
	if n := len(do(t, w.ec2.DescribeRegions, &ec2.DescribeRegionsInput{AllRegions: aws.Bool(true)}).Regions); n != 4 {
		t.Errorf("%d regions with AllRegions, want 4", n)
	}

	west := w.region("us-west-2")
	ids := map[string]string{}
	for _, z := range do(t, west.DescribeAvailabilityZones, &ec2.DescribeAvailabilityZonesInput{}).AvailabilityZones {
		ids[*z.ZoneName] = *z.ZoneId
	}
	if len(ids) != 3 || ids["us-west-2a"] != "usw2-az2" {
		t.Errorf("zones %v, want the three of the region with us-west-2a = usw2-az2", ids)
	}
	local := do(t, west.DescribeAvailabilityZones, &ec2.DescribeAvailabilityZonesInput{
		AllAvailabilityZones: aws.Bool(true), Filters: filters("zone-type", "local-zone")}).AvailabilityZones
	if len(local) != 1 || local[0].OptInStatus != types.AvailabilityZoneOptInStatusNotOptedIn {
		t.Errorf("local zones %v, want one that is not opted in", local)
	}
	fails(t, west.DescribeAvailabilityZones, &ec2.DescribeAvailabilityZonesInput{ZoneNames: []string{"us-west-2z"}}, "InvalidParameterValue")
}

func TestNetwork(t *testing.T) {
	w := newEC2World(t)
	subnets := do(t, w.ec2.DescribeSubnets, &ec2.DescribeSubnetsInput{Filters: filters("availability-zone-id", "use2-az2")}).Subnets
	if len(subnets) != 1 || *subnets[0].SubnetId != defSubnetB || *subnets[0].AvailableIpAddressCount != 4091 {
		t.Errorf("subnets in use2-az2: %+v", subnets)
	}
	if n := len(do(t, w.ec2.DescribeSubnets, &ec2.DescribeSubnetsInput{Filters: filters("tag:Name", "ml-?")}).Subnets); n != 3 {
		t.Errorf("%d subnets named ml-?, want 3", n)
	}
	groups := do(t, w.ec2.DescribeSecurityGroups, &ec2.DescribeSecurityGroupsInput{GroupIds: []string{defGroup}}).SecurityGroups
	if len(groups) != 1 || *groups[0].GroupName != "ml-nodes" {
		t.Errorf("security groups %+v", groups)
	}
	images := do(t, w.ec2.DescribeImages, &ec2.DescribeImagesInput{Owners: []string{"amazon"}, Filters: filters("architecture", "arm64")}).Images
	if len(images) != 1 || *images[0].ImageId != defARMImage || *images[0].ImageOwnerAlias != "amazon" || *images[0].DeprecationTime != "2028-05-22T00:00:00.000Z" {
		t.Errorf("arm64 images %+v", images)
	}
	// One unknown id fails the whole call.
	fails(t, w.ec2.DescribeSubnets, &ec2.DescribeSubnetsInput{SubnetIds: []string{defSubnetA, "subnet-1"}}, "InvalidSubnetID.NotFound")
	fails(t, w.ec2.DescribeSecurityGroups, &ec2.DescribeSecurityGroupsInput{GroupIds: []string{"sg-1"}}, "InvalidGroup.NotFound")
	fails(t, w.ec2.DescribeImages, &ec2.DescribeImagesInput{ImageIds: []string{"ami-1"}}, "InvalidAMIID.NotFound")
	fails(t, w.ec2.DescribeKeyPairs, &ec2.DescribeKeyPairsInput{KeyNames: []string{"admin", "nobody"}}, "InvalidKeyPair.NotFound")
	fails(t, w.ec2.DescribePlacementGroups, &ec2.DescribePlacementGroupsInput{GroupNames: []string{"nowhere"}}, "InvalidPlacementGroup.Unknown")
	if keys := do(t, w.ec2.DescribeKeyPairs, &ec2.DescribeKeyPairsInput{KeyNames: []string{"admin"}}).KeyPairs; len(keys) != 1 || *keys[0].KeyName != "admin" {
		t.Errorf("key pairs %+v", keys)
	}
	fails(t, w.ec2.DescribeSubnets, &ec2.DescribeSubnetsInput{Filters: filters("colour", "red")}, "InvalidParameterValue")
}

func TestInstanceTypes(t *testing.T) {
	w := newEC2World(t)
	var blockTypes []string
	for _, i := range do(t, w.ec2.DescribeInstanceTypes, &ec2.DescribeInstanceTypesInput{
		Filters: filters("supported-usage-class", "capacity-block")}).InstanceTypes {
		blockTypes = append(blockTypes, string(i.InstanceType))
		if i.InstanceType == "p5.48xlarge" && (len(i.GpuInfo.Gpus) != 1 || *i.GpuInfo.Gpus[0].Count != 8 || *i.VCpuInfo.DefaultVCpus != 192) {
			t.Errorf("p5.48xlarge: %+v", i.GpuInfo)
		}
	}
	if want := []string{"p4d.24xlarge", "p5.48xlarge", "p5en.48xlarge", "trn1.32xlarge", "trn2u.48xlarge"}; !slices.Equal(blockTypes, want) {
		t.Errorf("types of blocks in us-east-2: %v, want %v", blockTypes, want)
	}
	fails(t, w.ec2.DescribeInstanceTypes, &ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{"p9.huge"}}, "InvalidInstanceType")
}

// filters is one filter.
func filters(name string, values ...string) []types.Filter {
	return []types.Filter{{Name: aws.String(name), Values: values}}
}
