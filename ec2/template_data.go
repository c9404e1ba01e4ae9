package ec2

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// templateData translates a spec for EC2.
func (c *Client) templateData(
	ctx context.Context, spec capacity.LaunchTemplateSpec,
) (*types.RequestLaunchTemplateData, error) {
	data := &types.RequestLaunchTemplateData{}
	if spec.From != "" {
		source, err := c.version(ctx, spec.From+":"+cmp.Or(spec.FromVersion, latestVersion), 0)
		if isTemplateMissing(err) {
			return nil, fmt.Errorf("launch template %s has no version %s to copy", spec.From, spec.FromVersion)
		}

		if err != nil {
			return nil, err
		}

		if err = copyByName(source.LaunchTemplateData, data); err != nil {
			return nil, fmt.Errorf("copying launch template %s: %w", spec.From, err)
		}
	}

	sameType := string(data.InstanceType) == spec.InstanceType
	if !sameType { // EC2 refuses a launch with those of another type
		data.CpuOptions = nil
		data.CreditSpecification = nil
		data.NetworkPerformanceOptions = nil
	}

	overlay(data, spec)

	return data, c.overlayNetwork(ctx, data, spec, sameType)
}

// copyByName turns an answer of EC2 into a request, or the other way round. The SDK's structures for both name their
// fields alike at all levels, so a copy by name loses no shared field, and covers fields of later SDKs.
func copyByName(from, to any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}

	return json.Unmarshal(text, to)
}

// overlay lays the fields of a spec over a template.
func overlay(data *types.RequestLaunchTemplateData, spec capacity.LaunchTemplateSpec) {
	data.InstanceType, data.InstanceRequirements = types.InstanceType(spec.InstanceType), nil
	if spec.ImageID != "" {
		data.ImageId = aws.String(spec.ImageID)
	}

	if len(spec.SecurityGroupIDs) > 0 {
		data.SecurityGroupIds = spec.SecurityGroupIDs
	}

	if spec.KeyName != "" {
		data.KeyName = aws.String(spec.KeyName)
	}

	if len(spec.UserData) > 0 {
		data.UserData = aws.String(base64.StdEncoding.EncodeToString(spec.UserData))
	}
	// The operator belongs to the other template, and a protected instance could not be terminated.
	data.DisableApiTermination = nil
	data.IamInstanceProfile, data.Operator = instanceProfile(spec.InstanceProfile), nil
	overlayMetadata(data, spec)
	// A reservation has its own placement and one Availability Zone; those of the copy could only be wrong there.
	data.Placement = placementRequest(spec.PlacementGroup)
	data.CapacityReservationSpecification, data.InstanceMarketOptions = nil, nil

	if spec.ReservationGroup != "" {
		data.CapacityReservationSpecification = &types.LaunchTemplateCapacityReservationSpecificationRequest{
			CapacityReservationPreference: types.CapacityReservationPreferenceCapacityReservationsOnly,
			CapacityReservationTarget: &types.CapacityReservationTarget{
				CapacityReservationResourceGroupArn: aws.String(spec.ReservationGroup),
			},
		}

		return
	}

	if !spec.Kind.IsReserved() || spec.ReservationID == "" {
		return
	}

	data.CapacityReservationSpecification = &types.LaunchTemplateCapacityReservationSpecificationRequest{
		CapacityReservationTarget: &types.CapacityReservationTarget{
			CapacityReservationId: aws.String(spec.ReservationID),
		},
	}
	if market := types.MarketType(spec.Kind.Market()); market != "" {
		data.InstanceMarketOptions = &types.LaunchTemplateInstanceMarketOptionsRequest{MarketType: market}
	}
}

// groupID matches the id of a placement group.
var groupID = regexp.MustCompile(`^pg-[0-9a-f]{8,}$`)

// placementRequest names a placement group as EC2 wants it; nil for none.
func placementRequest(group string) *types.LaunchTemplatePlacementRequest {
	switch {
	case group == "":
		return nil
	case groupID.MatchString(group):
		return &types.LaunchTemplatePlacementRequest{GroupId: aws.String(group)}
	}

	return &types.LaunchTemplatePlacementRequest{GroupName: aws.String(group)}
}

// instanceProfile names an instance profile as EC2 wants it; nil for none.
func instanceProfile(arnOrName string) *types.LaunchTemplateIamInstanceProfileSpecificationRequest {
	switch {
	case arnOrName == "":
		return nil
	case strings.HasPrefix(arnOrName, "arn:"):
		return &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Arn: aws.String(arnOrName)}
	}

	return &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String(arnOrName)}
}

// overlayMetadata demands a token for reading the metadata (IMDSv2). The copy's other settings
// stay, except a disabled service: nodes would not learn their names.
func overlayMetadata(data *types.RequestLaunchTemplateData, spec capacity.LaunchTemplateSpec) {
	if data.MetadataOptions == nil {
		data.MetadataOptions = &types.LaunchTemplateInstanceMetadataOptionsRequest{}
	}

	data.MetadataOptions.HttpTokens = types.LaunchTemplateHttpTokensStateRequired
	data.MetadataOptions.HttpEndpoint = types.LaunchTemplateInstanceMetadataEndpointStateEnabled
	if spec.MetadataTags {
		data.MetadataOptions.InstanceMetadataTags = types.LaunchTemplateInstanceMetadataTagsStateEnabled
	}
}

// overlayNetwork writes the interfaces for EFA. Otherwise it keeps a template's interfaces for the same instance type,
// and only its security groups for another type: the number of network cards goes with the type. EC2 refuses security
// groups together with interfaces, so they go into the interfaces.
func (c *Client) overlayNetwork(
	ctx context.Context, data *types.RequestLaunchTemplateData, spec capacity.LaunchTemplateSpec, sameType bool,
) (err error) {
	groups := data.SecurityGroupIds
	for _, n := range data.NetworkInterfaces {
		groups = unique(append(groups, n.Groups...))
	}

	switch {
	case spec.EFA != "":
		if len(groups) == 0 && len(data.SecurityGroups) > 0 {
			return fmt.Errorf(
				"launch template %s names security groups %v, and network interfaces take ids only; write the ids "+
					"into it",
				spec.From,
				data.SecurityGroups,
			)
		}

		data.NetworkInterfaces, err = c.efaInterfaces(ctx, spec, groups)
		if err != nil {
			return err
		}
	case !sameType:
		data.NetworkInterfaces = nil
	}

	if len(data.NetworkInterfaces) == 0 {
		data.NetworkInterfaces, data.SecurityGroupIds = nil, groups
		return nil
	}

	data.SecurityGroupIds, data.SecurityGroups = nil, nil
	for i := range data.NetworkInterfaces {
		n := &data.NetworkInterfaces[i]
		if n.SubnetId != nil { // in a copy, perhaps another group's
			n.SubnetId = nil
			if spec.SubnetID != "" {
				n.SubnetId = aws.String(spec.SubnetID)
			}
		}
	}

	return nil
}

// digest returns the SHA-256 of the data without empty fields: fields of later SDKs change nothing.
func digest(data *types.RequestLaunchTemplateData) (string, error) {
	said, err := properties(data)
	if err != nil {
		return "", fmt.Errorf("digest of a launch template: %w", err)
	}

	text, err := json.Marshal(said) // sorts the keys
	if err != nil {
		return "", fmt.Errorf("digest of a launch template: %w", err)
	}

	sum := sha256.Sum256(text)

	return hex.EncodeToString(sum[:]), nil
}

// properties returns the fields of a structure of the SDK by their names: without nulls,
// empty strings and what holds nothing else. false and 0 stay: they say something.
func properties(structure any) (map[string]any, error) {
	text, err := json.Marshal(structure)
	if err != nil {
		return nil, fmt.Errorf("the fields of %T: %w", structure, err)
	}

	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()

	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return nil, fmt.Errorf("the fields of %T: %w", structure, err)
	}

	said, _ := removeEmpty(tree).(map[string]any)

	return said, nil
}

// removeEmpty drops nulls, empty strings and whatever holds nothing else; it returns nil if nothing remains.
func removeEmpty(tree any) any {
	switch v := tree.(type) {
	case map[string]any:
		for key, value := range v {
			value = removeEmpty(value)
			if value == nil {
				delete(v, key)
			} else {
				v[key] = value
			}
		}

		if len(v) == 0 {
			return nil
		}
	case []any:
		if len(v) == 0 {
			return nil
		}

		for i := range v {
			v[i] = removeEmpty(v[i])
		}
	case string:
		if v == "" {
			return nil
		}
	}

	return tree
}
