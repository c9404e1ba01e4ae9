package awssim

import (
	"encoding/xml"
	"net/http"
	"strconv"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim/shapes"
)

// ec2Version is the only version of EC2's API that there is.
const ec2Version = "2016-11-15"

// ec2Operations names every EC2 operation of the simulator.
func (s *Sim) ec2Operations() map[string]operation {
	return map[string]operation{
		"DescribeRegions": s.describe(describing{items: s.regionObjects, answer: "Regions", filters: "region-name endpoint opt-in-status", more: "AllRegions"}),
		"DescribeAvailabilityZones": s.describe(describing{items: s.zoneObjects, answer: "AvailabilityZones",
			filters: "zone-name zone-id zone-type opt-in-status region-name group-name state", more: "AllAvailabilityZones"}),
		"DescribeSubnets": s.describe(describing{items: s.subnetObjects, answer: "Subnets", id: "SubnetId", noSuchID: subnetNotFound, least: 5, most: 1000,
			filters: "subnet-id vpc-id availability-zone availability-zone-id cidr-block state tag"}),
		"DescribeRouteTables": s.describe(describing{items: s.routeTableObjects, answer: "RouteTables", least: 5, most: 100,
			filters: "vpc-id route-table-id association.main=Associations.Main association.subnet-id=Associations.SubnetId"}),
		"DescribeVpcEndpoints": s.describe(describing{items: s.endpointObjects, answer: "VpcEndpoints", least: 1, most: 1000,
			filters: "vpc-id vpc-endpoint-id vpc-endpoint-type vpc-endpoint-state=State service-name"}),
		"DescribeSecurityGroups": s.describe(describing{items: s.securityGroupObjects, answer: "SecurityGroups", id: "GroupId", noSuchID: groupNotFound,
			least: 5, most: 1000, filters: "group-id group-name vpc-id tag"}),
		"DescribeImages": s.describe(describing{items: s.imageObjects, answer: "Images", id: "ImageId", noSuchID: imageNotFound, least: 1, most: 1000,
			filters: "image-id name architecture owner-id state tag", more: "Owner.1 IncludeDeprecated IncludeDisabled"}),
		"DescribeKeyPairs": s.describe(describing{items: s.keyPairObjects, answer: "KeyPairs", id: "KeyName", noSuchID: keyPairNotFound, filters: "key-name key-pair-id"}),
		"DescribePlacementGroups": s.describe(describing{items: s.placementGroupObjects, answer: "PlacementGroups", id: "GroupName", noSuchID: placementGroupUnknown,
			filters: "group-name strategy state"}),
		"DescribeInstanceTypes": s.describe(describing{items: s.typeObjects, answer: "InstanceTypes", id: "InstanceType", noSuchID: typeNotFound, least: 5, most: 100,
			filters: "instance-type current-generation bare-metal supported-usage-class=SupportedUsageClasses vcpu-info.default-vcpus=VCpuInfo.DefaultVCpus " +
				"processor-info.supported-architecture=ProcessorInfo.SupportedArchitectures"}),

		"GetConsoleOutput":            ec2Op(s.getConsoleOutput),
		"GetInstanceMetadataDefaults": ec2Op(s.getInstanceMetadataDefaults),

		"CreateLaunchTemplate":        ec2Op(s.createLaunchTemplate),
		"CreateLaunchTemplateVersion": ec2Op(s.createLaunchTemplateVersion),
		"DeleteLaunchTemplate":        ec2Op(s.deleteLaunchTemplate),
		"DescribeLaunchTemplates": s.describe(describing{items: s.templateObjects, answer: "LaunchTemplates", id: "LaunchTemplateId", noSuchID: templateNotFound,
			name: "LaunchTemplateName", noSuchName: templateNameNotFound, least: 1, most: 200, filters: "launch-template-name create-time tag"}),
		"DescribeLaunchTemplateVersions": ec2Op(s.describeLaunchTemplateVersions),

		"RunInstances":      ec2Op(s.runInstances),
		"DescribeInstances": ec2Op(s.describeInstances),
		"DescribeInstanceStatus": s.describe(describing{items: s.statusObjects, answer: "InstanceStatuses", least: 5, most: 1000,
			filters: "system-status.status=SystemStatus.Status event.code=Events.Code"}),
		"TerminateInstances": ec2Op(s.terminateInstances),
		"CreateTags":         ec2Op(s.createTags),
		"DeleteTags":         ec2Op(s.deleteTags),

		// EC2 has no filter for the kind of reservation nor for the zone id.
		"DescribeCapacityReservations": s.describe(describing{items: s.reservationObjects, answer: "CapacityReservations", id: "CapacityReservationId",
			noSuchID: reservationNotFound, least: 1, most: 1000, filters: "instance-type owner-id instance-platform availability-zone tenancy " +
				"outpost-arn placement-group-arn state start-date end-date end-date-type instance-match-criteria tag"}),
		// Ids and pages of topologies: SDK documentation of both operations.
		"DescribeInstanceTopology": s.describe(describing{items: s.instanceTopologies, answer: "Instances", id: "InstanceId", noSuchID: instanceNotFound,
			mostIDs: 100, least: 1, most: 100, filters: "availability-zone instance-type zone-id"}),
		"DescribeCapacityReservationTopology": s.describe(describing{items: s.reservationTopologies, answer: "CapacityReservations", id: "CapacityReservationId",
			noSuchID: reservationNotFound, mostIDs: 10, least: 1, most: 10, filters: "availability-zone instance-type"}),
		"CreateCapacityReservation": ec2Op(s.createCapacityReservation),
		"CancelCapacityReservation": ec2Op(s.cancelCapacityReservation),

		"DescribeCapacityBlockOfferings": ec2Op(s.describeCapacityBlockOfferings),
		"PurchaseCapacityBlock":          ec2Op(s.purchaseCapacityBlock),
		"DescribeCapacityBlocks": s.describe(describing{items: s.blockObjects, answer: "CapacityBlocks", id: "CapacityBlockId", noSuchID: blockNotFound,
			least: 1, most: 1000, filters: "capacity-block-id ultraserver-type availability-zone start-date end-date create-date state tag"}),
		"DescribeCapacityBlockStatus": s.describe(describing{items: s.blockStatuses, answer: "CapacityBlockStatuses", id: "CapacityBlockId", noSuchID: blockNotFound,
			least: 1, most: 1000, filters: "interconnect-status"}),

		"DescribeCapacityBlockExtensionOfferings": ec2Op(s.describeExtensionOfferings),
		"PurchaseCapacityBlockExtension":          ec2Op(s.purchaseExtension),
		"DescribeCapacityBlockExtensionHistory":   ec2Op(s.describeExtensionHistory),
	}
}

// ec2Op wraps an operation of EC2: decode, DryRun, run, encode.
func ec2Op[In any](run func(*call, *In) (any, error)) operation {
	return func(c *call) ([]byte, error) {
		if v := c.form.Get("Version"); v != ec2Version {
			return nil, apiErrorf("NoSuchVersion", "The requested version (%s) of service AmazonEC2 does not exist", v)
		}
		dryRun, _ := strconv.ParseBool(c.form.Get("DryRun"))
		delete(c.form, "DryRun")
		var in In
		if err := decodeForm(c, &in); err != nil {
			return nil, err
		}
		if try, checks := any(&in).(dryRunner); dryRun && checks {
			if err := try.dryRun(c); err != nil {
				return nil, err
			}
		}
		if dryRun {
			return nil, &APIError{Code: "DryRunOperation", Status: http.StatusPreconditionFailed,
				Message: "Request would have succeeded, but DryRun flag is set."}
		}
		out, err := run(c, &in)
		if err != nil {
			return nil, err
		}
		return shapes.EncodeEC2(c.Operation, c.requestID, out)
	}
}

// dryRunner is the input of an operation whose dry run looks at more than parameters and permissions.
type dryRunner interface{ dryRun(*call) error }

// stsOperations has the one call with which clients ask who they are.
func (s *Sim) stsOperations() map[string]operation {
	return map[string]operation{"GetCallerIdentity": func(c *call) ([]byte, error) {
		type identity struct{ Arn, UserId, Account string }
		arn := s.caller()
		if c.temporary() {
			arn = s.arn("sts", "", "assumed-role/simulated/session")
		}
		return xml.Marshal(struct {
			XMLName   xml.Name `xml:"https://sts.amazonaws.com/doc/2011-06-15/ GetCallerIdentityResponse"`
			Result    identity `xml:"GetCallerIdentityResult"`
			RequestID string   `xml:"ResponseMetadata>RequestId"`
		}{
			Result: identity{
				Arn:    arn,
				UserId: "AIDASIMULATED", Account: s.scenario.Account,
			},
			RequestID: c.requestID,
		})
	}}
}
