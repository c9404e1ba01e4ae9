package awssim

import (
	"cmp"
	"slices"
	"strings"
)

// site is the place and the kind of instances of a checked order.
type site struct {
	subnet   *subnet
	kind     *instanceType
	image    *ImageScenario
	tenancy  string
	platform string

	interfaces     []launchInterface // the primary one first
	placementGroup string            // name, or empty
}

// checkOrder checks everything but capacity.
func (r *region) checkOrder(o launchOrder) (site, error) {
	if o.min < 1 || o.max < o.min {
		return site{}, apiErrorf(
			"InvalidParameterValue",
			"Invalid value '%d' for MinCount or '%d' for MaxCount: want 1 <= MinCount <= MaxCount",
			o.min,
			o.max,
		)
	}

	if err := o.check(); err != nil {
		return site{}, err
	}

	// EC2 reports one error at a time, and scripts depend on which: parameters first, then names, then capacity.
	if o.ImageId == "" {
		return site{}, apiErrorf("MissingParameter", "The request must contain the parameter ImageId")
	}

	at := site{image: r.image(o.ImageId), tenancy: "default"}
	if at.image == nil {
		return site{}, imageNotFound(o.ImageId)
	}

	at.platform = reservationPlatform(at.image.Platform)
	name := cmp.Or(o.InstanceType, "m1.small")
	at.kind = r.types[name]
	if at.kind == nil {
		return site{}, apiErrorf("InvalidParameterValue", "Invalid value '%s' for InstanceType.", name)
	}

	if at.kind.Architecture != at.image.Architecture {
		return site{}, apiErrorf(
			"InvalidParameterValue",
			"The architecture '%s' of the specified instance type does not match the architecture '%s' of the "+
				"specified AMI.",
			at.kind.Architecture,
			at.image.Architecture,
		)
	}

	if err := at.image.checkVolumes(o.BlockDeviceMappings); err != nil {
		return site{}, err
	}

	if err := r.checkTagKeys(o); err != nil {
		return site{}, err
	}

	if o.Placement != nil {
		at.tenancy = cmp.Or(o.Placement.Tenancy, at.tenancy)
		at.placementGroup = o.Placement.GroupName
	}

	err := r.checkNames(o)
	if err != nil {
		return site{}, err
	}

	at.subnet, err = r.launchSubnet(o)
	if err != nil {
		return site{}, err
	}

	at.interfaces, err = r.checkInterfaces(o, at)
	if err != nil {
		return site{}, err
	}

	if err := r.checkGroups(o, at.subnet); err != nil {
		return site{}, err
	}

	// Last, since it takes the zone, which follows from the subnet.
	if !r.offers(at.kind.Name, at.subnet.zone.id) {
		return site{}, apiErrorf("Unsupported",
			"Your requested instance type (%s) is not supported in your requested Availability Zone (%s).%s",
			at.kind.Name, at.subnet.zone.name, r.otherZones(at))
	}

	return at, nil
}

// otherZones returns the hint with which EC2 ends its capacity errors.
func (r *region) otherZones(at site) string {
	var zones []string
	for _, z := range r.zones {
		if z != at.subnet.zone && r.offers(at.kind.Name, z.id) {
			zones = append(zones, z.name)
		}
	}

	if zones == nil {
		return ""
	}

	return " Please retry your request by not specifying an Availability Zone or choosing " + strings.Join(
		zones,
		", ",
	) + "."
}

// launchSubnet finds the subnet: of the request, or of its primary network interface.
func (r *region) launchSubnet(o launchOrder) (*subnet, error) {
	id := o.subnet
	if len(o.NetworkInterfaces) > 0 {
		if o.subnet != "" {
			return nil, apiErrorf(
				"InvalidParameterCombination",
				"Network interfaces and an instance-level subnet ID may not be specified on the same request",
			)
		}

		if len(o.SecurityGroupIds)+len(o.SecurityGroups) > 0 {
			return nil, apiErrorf(
				"InvalidParameterCombination",
				"Network interfaces and an instance-level security groups may not be specified on the same request",
			)
		}

		primary, err := o.primaryInterface()
		if err != nil {
			return nil, err
		}

		id = primary.SubnetId
	}

	sn, err := r.namedSubnet(id)
	if err != nil {
		return nil, err
	}

	if p := o.Placement; p != nil && (p.AvailabilityZone != "" && p.AvailabilityZone != sn.zone.name ||
		p.AvailabilityZoneId != "" && p.AvailabilityZoneId != sn.zone.id) {
		return nil, apiErrorf(
			"InvalidParameterCombination",
			"The subnet '%s' is in availability zone %s, not in the one of the placement",
			sn.id,
			sn.zone.name,
		)
	}

	return sn, nil
}

// namedSubnet returns the subnet with the id. The account has no default VPC.
func (r *region) namedSubnet(id string) (*subnet, error) {
	if id == "" {
		return nil, apiErrorf("VPCIdNotSpecified", "No default VPC for this user")
	}

	if sn := r.subnet(id); sn != nil {
		return sn, nil
	}

	return nil, subnetNotFound(id)
}

func (r *region) checkGroups(o launchOrder, sn *subnet) error {
	ids := slices.Clone(o.SecurityGroupIds)
	for _, ni := range o.NetworkInterfaces {
		ids = append(ids, ni.Groups...)
	}

	for _, id := range ids {
		g := r.group(id)
		if g == nil {
			return groupNotFound(id)
		}

		if g.VPC != sn.vpc {
			return apiErrorf(
				"InvalidParameter",
				"Security group %s and subnet %s belong to different networks.",
				id,
				sn.id,
			)
		}
	}

	return nil
}
