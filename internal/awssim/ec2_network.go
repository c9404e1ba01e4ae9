package awssim

import (
	"math"
	"net/netip"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

type describeRegionsInput struct {
	AllRegions  bool
	RegionNames []string
	Filters     []filter
}

func (s *Sim) describeRegions(c *call, in *describeRegionsInput) (any, error) {
	var all []object
	for _, name := range s.order {
		r := s.regions[name]
		named := slices.Contains(in.RegionNames, name)
		if (len(in.RegionNames) > 0 && !named) || (r.optIn == "not-opted-in" && !in.AllRegions && !named) {
			continue
		}
		all = append(all, object{"RegionName": name, "Endpoint": "ec2." + name + "." + capacity.AWSPartitionOf(name).Domain, "OptInStatus": r.optIn})
	}
	for _, name := range in.RegionNames {
		if s.regions[name] == nil {
			return nil, apiErrorf("InvalidParameterValue", "Invalid region provided: [%s]", name)
		}
	}
	all, _, err := list(c, listing{Filters: in.Filters}, 1, len(all), true, "region-name endpoint opt-in-status", all)
	return object{"Regions": all}, err
}

type describeAvailabilityZonesInput struct {
	AllAvailabilityZones bool
	ZoneNames            []string
	ZoneIds              []string
	Filters              []filter
}

func (s *Sim) describeAvailabilityZones(c *call, in *describeAvailabilityZonesInput) (any, error) {
	var all []object
	for _, z := range c.region.zones {
		named := slices.Contains(in.ZoneNames, z.name) || slices.Contains(in.ZoneIds, z.id)
		if len(in.ZoneNames)+len(in.ZoneIds) > 0 && !named || z.optIn == "not-opted-in" && !in.AllAvailabilityZones {
			continue
		}
		all = append(all, object{"State": "available", "OptInStatus": z.optIn, "RegionName": c.Region, "ZoneName": z.name, "ZoneId": z.id,
			"GroupName": c.Region, "NetworkBorderGroup": c.Region, "ZoneType": z.kind})
	}
	for _, name := range in.ZoneNames {
		if _, err := c.region.zoneNamed(name); err != nil {
			return nil, invalidZone(name)
		}
	}
	for _, id := range in.ZoneIds {
		if c.region.zoneByID(id) == nil {
			return nil, apiErrorf("InvalidParameterValue", "Invalid availability zone-id: [%s]", id)
		}
	}
	all, _, err := list(c, listing{Filters: in.Filters}, 1, len(all), true, "zone-name zone-id zone-type opt-in-status region-name group-name state", all)
	return object{"AvailabilityZones": all}, err
}

func invalidZone(name string) error {
	return apiErrorf("InvalidParameterValue", "Invalid availability zone: [%s]", name)
}

type describeSubnetsInput struct {
	SubnetIds []string
	listing
}

func (s *Sim) describeSubnets(c *call, in *describeSubnetsInput) (any, error) {
	items, err := byID(c.region.subnets, in.SubnetIds, func(sn *subnet) string { return sn.id }, subnetNotFound)
	if err != nil {
		return nil, err
	}
	var all []object
	for _, sn := range items {
		all = append(all, object{
			"SubnetId": sn.id, "SubnetArn": s.arn("ec2", c.Region, "subnet/"+sn.id), "VpcId": sn.vpc, "State": "available", "CidrBlock": sn.prefix.String(),
			"AvailableIpAddressCount": c.region.freeAddresses(sn), "AvailabilityZone": sn.zone.name, "AvailabilityZoneId": sn.zone.id,
			"DefaultForAz": false, "MapPublicIpOnLaunch": sn.public, "OwnerId": s.scenario.Account, "Tags": c.region.fixedTags[sn.id],
		})
	}
	part, next, err := list(c, in.listing, 5, 1000, len(in.SubnetIds) > 0, "subnet-id vpc-id availability-zone availability-zone-id cidr-block state tag", all)
	return object{"Subnets": part, "NextToken": next}, err
}

func subnetNotFound(id string) error {
	return apiErrorf("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", id)
}

// reservedAddresses are the first four of a subnet and its last: EC2 keeps them (VPC User Guide, subnet sizing).
const reservedAddresses = 5

func (r *region) freeAddresses(sn *subnet) int {
	return int(math.Pow(2, float64(32-sn.prefix.Bits()))) - reservedAddresses - len(r.usedAddresses(sn))
}

func (r *region) usedAddresses(sn *subnet) map[string]bool {
	used := map[string]bool{}
	for _, i := range r.instances {
		for _, n := range i.interfaces {
			if n.subnet == sn && n.address != "" && i.State != stateTerminated {
				used[n.address] = true
			}
		}
	}
	return used
}

// takeAddresses finds the n lowest free addresses of a subnet.
func (r *region) takeAddresses(sn *subnet, n int) ([]string, error) {
	if r.freeAddresses(sn) < n {
		return nil, apiErrorf("InsufficientFreeAddressesInSubnet",
			"There are not enough free addresses in subnet '%s' to satisfy the requested number of instances.", sn.id)
	}
	used := r.usedAddresses(sn)
	ip := sn.prefix.Addr()
	for range reservedAddresses - 1 {
		ip = ip.Next()
	}
	var out []string
	for ; len(out) < n; ip = ip.Next() {
		if !used[ip.String()] {
			out = append(out, ip.String())
		}
	}
	return out, nil
}

// checkAddress tells whether an instance may have the address that a request asked for.
func (r *region) checkAddress(sn *subnet, address string) error {
	ip, err := netip.ParseAddr(address)
	if err != nil || !sn.prefix.Contains(ip) {
		return apiErrorf("InvalidParameterValue", "Address %s does not fall within the subnet's address range", address)
	}
	if r.usedAddresses(sn)[ip.String()] {
		return apiErrorf("InvalidIPAddress.InUse", "Address %s is in use.", address)
	}
	return nil
}

type describeSecurityGroupsInput struct {
	GroupIds   []string
	GroupNames []string
	listing
}

func (s *Sim) describeSecurityGroups(c *call, in *describeSecurityGroupsInput) (any, error) {
	items, err := byID(c.region.groups, in.GroupIds, func(g SecurityGroupScenario) string { return g.ID }, groupNotFound)
	if err == nil {
		items, err = byID(items, in.GroupNames, func(g SecurityGroupScenario) string { return g.Name }, groupNameNotFound)
	}
	if err != nil {
		return nil, err
	}
	var all []object
	for _, g := range items {
		all = append(all, object{"GroupId": g.ID, "GroupName": g.Name, "Description": g.Name, "VpcId": g.VPC, "OwnerId": s.scenario.Account,
			"Tags": c.region.fixedTags[g.ID], "IpPermissions": s.permissions(g, false), "IpPermissionsEgress": s.permissions(g, true)})
	}
	part, next, err := list(c, in.listing, 5, 1000, len(in.GroupIds)+len(in.GroupNames) > 0, "group-id group-name vpc-id tag", all)
	return object{"SecurityGroups": part, "NextToken": next}, err
}

func groupNotFound(id string) error {
	if !wellFormed(id, "sg") {
		return apiErrorf("InvalidGroupId.Malformed", "Invalid id: \"%s\" (expecting \"sg-...\")", id)
	}
	return groupNameNotFound(id)
}

func groupNameNotFound(id string) error {
	return apiErrorf("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
}

// byID keeps the named items, in the order of items; without names it keeps all. One unknown name
// fails the whole call, as in EC2.
func byID[T any](items []T, ids []string, id func(T) string, notFound func(string) error) ([]T, error) {
	if len(ids) == 0 {
		return items, nil
	}
	var kept []T
	for _, item := range items {
		if slices.Contains(ids, id(item)) {
			kept = append(kept, item)
		}
	}
	for _, want := range ids {
		if !slices.ContainsFunc(kept, func(item T) bool { return id(item) == want }) {
			return nil, notFound(want)
		}
	}
	return kept, nil
}

// arn names a resource of the account.
func (s *Sim) arn(service, region, resource string) string {
	return "arn:" + capacity.AWSPartitionOf(region).Name + ":" + service + ":" + region + ":" + s.scenario.Account + ":" + resource
}

// iamARN names something of IAM, which belongs to no region but to a partition.
func (s *Sim) iamARN(resource string) string {
	return "arn:" + capacity.AWSPartitionOf(s.homeRegion()).Name + ":iam::" + s.scenario.Account + ":" + resource
}
