package awssim

import (
	"cmp"
	"fmt"
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
	address  string // asked private address, or empty

	interfaces     []launchInterface // the primary one first
	placementGroup string            // name, or empty
}

// checkOrder checks everything but capacity.
func (r *region) checkOrder(o launchOrder) (site, error) {
	if o.min < 1 || o.max < o.min {
		return site{}, apiErrorf("InvalidParameterValue", "Invalid value '%d' for MinCount or '%d' for MaxCount: want 1 <= MinCount <= MaxCount", o.min, o.max)
	}
	if err := o.check(); err != nil {
		return site{}, err
	}
	if o.ImageId == "" {
		return site{}, apiErrorf("MissingParameter", "The request must contain the parameter ImageId")
	}
	at := site{image: r.image(o.ImageId), tenancy: "default"}
	if at.image == nil {
		return site{}, imageNotFound(o.ImageId)
	}
	at.platform = reservationPlatform(at.image.Platform)
	name := cmp.Or(o.InstanceType, "m1.small")
	if at.kind = r.types[name]; at.kind == nil {
		return site{}, apiErrorf("InvalidParameterValue", "Invalid value '%s' for InstanceType.", name)
	}
	if at.kind.Architecture != at.image.Architecture {
		return site{}, apiErrorf("InvalidParameterValue",
			"The architecture '%s' of the specified instance type does not match the architecture '%s' of the specified AMI.",
			at.kind.Architecture, at.image.Architecture)
	}
	if err := at.kind.checkOptions(o); err != nil {
		return site{}, err
	}
	if err := at.image.checkVolumes(o.BlockDeviceMappings); err != nil {
		return site{}, err
	}
	if err := r.checkTagKeys(o); err != nil {
		return site{}, err
	}
	if o.Placement != nil {
		at.tenancy, at.placementGroup = cmp.Or(o.Placement.Tenancy, at.tenancy), o.Placement.GroupName
	}
	err := r.checkNames(o)
	if err == nil {
		err = r.sim.checkProfile(o.IamInstanceProfile)
	}
	if err != nil {
		return site{}, err
	}
	if at.subnet, at.address, err = r.launchSubnet(o); err != nil {
		return site{}, err
	}
	if at.interfaces, err = r.checkInterfaces(o, at); err != nil {
		return site{}, err
	}
	if err := r.checkGroups(o, at.subnet); err != nil {
		return site{}, err
	}
	if !r.offers(at.kind.Name, at.subnet.zone.id) {
		return site{}, apiErrorf("Unsupported",
			"Your requested instance type (%s) is not supported in your requested Availability Zone (%s).%s",
			at.kind.Name, at.subnet.zone.name, r.otherZones(at))
	}
	return at, nil
}

// otherZones is the hint with which EC2 ends its capacity errors.
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
	return " Please retry your request by not specifying an Availability Zone or choosing " + strings.Join(zones, ", ") + "."
}

// launchSubnet finds the subnet: of the request, or of its primary network interface.
func (r *region) launchSubnet(o launchOrder) (*subnet, string, error) {
	id, address := o.subnet, o.address
	if len(o.NetworkInterfaces) > 0 {
		if o.subnet != "" {
			return nil, "", apiErrorf("InvalidParameterCombination", "Network interfaces and an instance-level subnet ID may not be specified on the same request")
		}
		if len(o.SecurityGroupIds)+len(o.SecurityGroups) > 0 {
			return nil, "", apiErrorf("InvalidParameterCombination", "Network interfaces and an instance-level security groups may not be specified on the same request")
		}
		for _, n := range o.NetworkInterfaces {
			if n.NetworkInterfaceId != "" {
				return nil, "", apiErrorf("InvalidNetworkInterfaceID.NotFound", "The networkInterface ID '%s' does not exist", n.NetworkInterfaceId)
			}
		}
		primary, err := o.primaryInterface()
		if err != nil {
			return nil, "", err
		}
		id, address = primary.SubnetId, primary.PrivateIpAddress
	}
	sn, err := r.namedSubnet(id, o)
	if err != nil {
		return nil, "", err
	}
	if p := o.Placement; p != nil && (p.AvailabilityZone != "" && p.AvailabilityZone != sn.zone.name ||
		p.AvailabilityZoneId != "" && p.AvailabilityZoneId != sn.zone.id) {
		return nil, "", apiErrorf("InvalidParameterCombination", "The subnet '%s' is in availability zone %s, not in the one of the placement", sn.id, sn.zone.name)
	}
	if address != "" {
		if o.max > 1 {
			return nil, "", apiErrorf("InvalidParameterCombination", "A private IP address can be specified for one instance only")
		}
		if err := r.checkAddress(sn, address); err != nil {
			return nil, "", err
		}
	}
	return sn, address, nil
}

// namedSubnet is the subnet with the id, or without one the default subnet.
func (r *region) namedSubnet(id string, o launchOrder) (*subnet, error) {
	if id == "" {
		return r.defaultSubnet(o)
	}
	if sn := r.subnet(id); sn != nil {
		return sn, nil
	}
	return nil, subnetNotFound(id)
}

// defaultSubnet is one of the default VPC, in the zone of the placement if that names one.
func (r *region) defaultSubnet(o launchOrder) (*subnet, error) {
	for _, sn := range r.subnets {
		if v := r.vpc(sn.vpc); !v.Default {
			continue
		}
		p := o.Placement
		if p == nil || (p.AvailabilityZone == "" || p.AvailabilityZone == sn.zone.name) &&
			(p.AvailabilityZoneId == "" || p.AvailabilityZoneId == sn.zone.id) {
			return sn, nil
		}
	}
	return nil, apiErrorf("VPCIdNotSpecified", "No default VPC for this user")
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
			return apiErrorf("InvalidParameter", "Security group %s and subnet %s belong to different networks.", id, sn.id)
		}
	}
	return nil
}

// A node of PCS registers with PCS, and then talks to slurmctld. EC2 launches it
// whether or not it can: what is missing shows when the node does not come up (AWS PCS User Guide, "Access AWS Parallel
// Computing Service using an interface endpoint", and "Security groups in AWS PCS").
const slurmctldPort, slurmdPort, httpsPort = 6817, 6818, 443

// noContact is why a node that PCS has launched never comes up; "" if it does. Nodes of other clusters find their
// slurmctld wherever it is.
func (s *Sim) noContact(r *region, i *instance) string {
	cl, _, err := s.findNodeGroup(i.Tags[tagClusterID], i.Tags[tagGroupID])
	if err != nil || cl.region != r {
		return ""
	}
	if why := r.noWayTo(i, "pcs"); why != "" {
		return why
	}
	own, controller, at := i.interfaces[0].groups, cl.Networking.SecurityGroupIDs, r.subnet(cl.Networking.SubnetIDs[0]).prefix.Addr().String()
	switch {
	case !r.open(own, i.PrivateIP, controller, at, slurmctldPort):
		return fmt.Sprintf("security groups let no node connect to slurmctld, at port %d", slurmctldPort)
	case !r.open(controller, at, own, i.PrivateIP, slurmdPort):
		return fmt.Sprintf("security groups do not let slurmctld connect to slurmd, at port %d", slurmdPort)
	}
	return ""
}

// noWayTo is why an instance cannot call a service of AWS; "" if it can.
func (r *region) noWayTo(i *instance, service string) string {
	sn := i.interfaces[0].subnet
	table := r.routesOf(sn)
	for _, e := range r.endpoints {
		switch {
		case e.VPC != sn.vpc || e.Service != service || !strings.EqualFold(e.State, "available"):
		case e.Type == "Gateway" && slices.Contains(e.RouteTables, table.ID):
			return ""
		case e.Type == "Interface" && r.open(i.interfaces[0].groups, i.PrivateIP, e.SecurityGroups, r.vpc(e.VPC).address(), httpsPort):
			return ""
		}
	}
	for _, route := range table.Routes {
		if route.To != "0.0.0.0/0" || route.State == "blackhole" {
			continue
		}
		if !strings.HasPrefix(route.Via, "igw-") || i.public() {
			return ""
		}
		return fmt.Sprintf("subnet %s leads to an internet gateway, and the instance has no public address", sn.id)
	}
	return fmt.Sprintf("subnet %s has no route to the internet, and no endpoint for %s", sn.id, service)
}

// address is one of the VPC's, such as that of an endpoint in it.
func (v VPCScenario) address() string {
	network, _, _ := strings.Cut(v.CIDR, "/")
	return network
}

// public reports whether an instance has a public address: EC2 gives one to an instance with one network interface
// only (EC2 User Guide, "Amazon EC2 instance IP addressing").
func (i *instance) public() bool {
	if len(i.interfaces) > 1 {
		return false
	}
	if asked := i.data.NetworkInterfaces; len(asked) == 1 && asked[0].AssociatePublicIpAddress != nil {
		return *asked[0].AssociatePublicIpAddress
	}
	return i.interfaces[0].subnet.public
}
