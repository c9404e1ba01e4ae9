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
		"DescribeRegions":           ec2Op(s.describeRegions),
		"DescribeAvailabilityZones": ec2Op(s.describeAvailabilityZones),
		"DescribeSubnets":           ec2Op(s.describeSubnets),
		"DescribeRouteTables":       ec2Op(s.describeRouteTables),
		"DescribeVpcEndpoints":      ec2Op(s.describeVPCEndpoints),
		"DescribeSecurityGroups":    ec2Op(s.describeSecurityGroups),
		"DescribeImages":            ec2Op(s.describeImages),
		"DescribeKeyPairs":          ec2Op(s.describeKeyPairs),
		"DescribePlacementGroups":   ec2Op(s.describePlacementGroups),
		"DescribeInstanceTypes":     ec2Op(s.describeInstanceTypes),

		"GetConsoleOutput":            ec2Op(s.getConsoleOutput),
		"GetInstanceMetadataDefaults": ec2Op(s.getInstanceMetadataDefaults),

		"CreateLaunchTemplate":           ec2Op(s.createLaunchTemplate),
		"CreateLaunchTemplateVersion":    ec2Op(s.createLaunchTemplateVersion),
		"DeleteLaunchTemplate":           ec2Op(s.deleteLaunchTemplate),
		"DescribeLaunchTemplates":        ec2Op(s.describeLaunchTemplates),
		"DescribeLaunchTemplateVersions": ec2Op(s.describeLaunchTemplateVersions),

		"RunInstances":           ec2Op(s.runInstances),
		"DescribeInstances":      ec2Op(s.describeInstances),
		"DescribeInstanceStatus": ec2Op(s.describeInstanceStatus),
		"TerminateInstances":     ec2Op(s.terminateInstances),
		"CreateTags":             ec2Op(s.createTags),
		"DeleteTags":             ec2Op(s.deleteTags),

		"DescribeCapacityReservations":        ec2Op(s.describeCapacityReservations),
		"DescribeInstanceTopology":            ec2Op(s.describeInstanceTopology),
		"DescribeCapacityReservationTopology": ec2Op(s.describeReservationTopology),
		"CreateCapacityReservation":           ec2Op(s.createCapacityReservation),
		"CancelCapacityReservation":           ec2Op(s.cancelCapacityReservation),

		"DescribeCapacityBlockOfferings": ec2Op(s.describeCapacityBlockOfferings),
		"PurchaseCapacityBlock":          ec2Op(s.purchaseCapacityBlock),
		"DescribeCapacityBlocks":         ec2Op(s.describeCapacityBlocks),
		"DescribeCapacityBlockStatus":    ec2Op(s.describeCapacityBlockStatus),

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
