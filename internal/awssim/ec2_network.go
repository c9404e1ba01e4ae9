package awssim

import (
	"math"
	"net/netip"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

type describeRegionsInput struct {
	AllRegions  bool
	RegionNames []string `form:"RegionName"`
	Filters     []filter `form:"Filter"`
}

type wireRegion struct {
	Name     string `xml:"regionName"`
	Endpoint string `xml:"regionEndpoint"`
	OptIn    string `xml:"optInStatus"`
}

func (s *Sim) describeRegions(c *call, in *describeRegionsInput) (any, error) {
	var all []wireRegion
	for _, name := range s.order {
		r := s.regions[name]
		named := slices.Contains(in.RegionNames, name)
		if (len(in.RegionNames) > 0 && !named) || (r.optIn == "not-opted-in" && !in.AllRegions && !named) {
			continue
		}
		all = append(all, wireRegion{name, "ec2." + name + "." + capacity.AWSPartitionOf(name).Domain, r.optIn})
	}
	for _, name := range in.RegionNames {
		if s.regions[name] == nil {
			return nil, apiErrorf("InvalidParameterValue", "Invalid region provided: [%s]", name)
		}
	}
	names := filterNames[wireRegion]{values: map[string]func(wireRegion) []string{
		"region-name":   one(func(r wireRegion) string { return r.Name }),
		"endpoint":      one(func(r wireRegion) string { return r.Endpoint }),
		"opt-in-status": one(func(r wireRegion) string { return r.OptIn }),
	}}
	kept, err := names.apply(in.Filters, all)
	return struct {
		Regions []wireRegion `xml:"regionInfo>item"`
	}{kept}, err
}

type describeAvailabilityZonesInput struct {
	AllAvailabilityZones bool
	ZoneNames            []string `form:"ZoneName"`
	ZoneIDs              []string `form:"ZoneId"`
	Filters              []filter `form:"Filter"`
}

type wireZone struct {
	State              string `xml:"zoneState"`
	OptIn              string `xml:"optInStatus"`
	Region             string `xml:"regionName"`
	Name               string `xml:"zoneName"`
	ID                 string `xml:"zoneId"`
	Group              string `xml:"groupName"`
	NetworkBorderGroup string `xml:"networkBorderGroup"`
	Type               string `xml:"zoneType"`
}

func (s *Sim) describeAvailabilityZones(c *call, in *describeAvailabilityZonesInput) (any, error) {
	var all []wireZone
	for _, z := range c.region.zones {
		named := slices.Contains(in.ZoneNames, z.name) || slices.Contains(in.ZoneIDs, z.id)
		if len(in.ZoneNames)+len(in.ZoneIDs) > 0 && !named || z.optIn == "not-opted-in" && !in.AllAvailabilityZones {
			continue
		}
		all = append(all, wireZone{"available", z.optIn, c.Region, z.name, z.id, c.Region, c.Region, z.kind})
	}
	for _, name := range in.ZoneNames {
		if _, err := c.region.zoneNamed(name); err != nil {
			return nil, invalidZone(name)
		}
	}
	for _, id := range in.ZoneIDs {
		if c.region.zoneByID(id) == nil {
			return nil, apiErrorf("InvalidParameterValue", "Invalid availability zone-id: [%s]", id)
		}
	}
	names := filterNames[wireZone]{values: map[string]func(wireZone) []string{
		"zone-name":     one(func(z wireZone) string { return z.Name }),
		"zone-id":       one(func(z wireZone) string { return z.ID }),
		"zone-type":     one(func(z wireZone) string { return z.Type }),
		"opt-in-status": one(func(z wireZone) string { return z.OptIn }),
		"region-name":   one(func(z wireZone) string { return z.Region }),
		"group-name":    one(func(z wireZone) string { return z.Group }),
		"state":         one(func(z wireZone) string { return z.State }),
	}}
	kept, err := names.apply(in.Filters, all)
	return struct {
		Zones []wireZone `xml:"availabilityZoneInfo>item"`
	}{kept}, err
}

func invalidZone(name string) error {
	return apiErrorf("InvalidParameterValue", "Invalid availability zone: [%s]", name)
}

type describeSubnetsInput struct {
	SubnetIDs []string `form:"SubnetId"`
	Filters   []filter `form:"Filter"`
	paging
}

type wireSubnet struct {
	ID        string `xml:"subnetId"`
	ARN       string `xml:"subnetArn"`
	VPC       string `xml:"vpcId"`
	State     string `xml:"state"`
	CIDR      string `xml:"cidrBlock"`
	Free      int    `xml:"availableIpAddressCount"`
	Zone      string `xml:"availabilityZone"`
	ZoneID    string `xml:"availabilityZoneId"`
	Default   bool   `xml:"defaultForAz"`
	PublicIPs bool   `xml:"mapPublicIpOnLaunch"`
	Owner     string `xml:"ownerId"`
	Tags      []tag  `xml:"tagSet>item"`
}

func (s *Sim) describeSubnets(c *call, in *describeSubnetsInput) (any, error) {
	items, err := byID(c.region.subnets, in.SubnetIDs, func(sn *subnet) string { return sn.id }, subnetNotFound)
	if err != nil {
		return nil, err
	}
	names := filterNames[*subnet]{
		tags: func(sn *subnet) map[string]string { return c.region.fixedTags[sn.id] },
		values: map[string]func(*subnet) []string{
			"subnet-id":            one(func(sn *subnet) string { return sn.id }),
			"vpc-id":               one(func(sn *subnet) string { return sn.vpc }),
			"availability-zone":    one(func(sn *subnet) string { return sn.zone.name }),
			"availability-zone-id": one(func(sn *subnet) string { return sn.zone.id }),
			"cidr-block":           one(func(sn *subnet) string { return sn.prefix.String() }),
			"state":                one(func(*subnet) string { return "available" }),
		}}
	if items, err = names.apply(in.Filters, items); err != nil {
		return nil, err
	}
	part, next, err := page(c, in.paging, 5, 1000, len(in.SubnetIDs) > 0, items)
	out := struct {
		Subnets []wireSubnet `xml:"subnetSet>item"`
		Next    string       `xml:"nextToken,omitempty"`
	}{Next: next}
	for _, sn := range part {
		out.Subnets = append(out.Subnets, wireSubnet{
			ID: sn.id, ARN: s.arn("ec2", c.Region, "subnet/"+sn.id), VPC: sn.vpc, State: "available", CIDR: sn.prefix.String(),
			Free: c.region.freeAddresses(sn), Zone: sn.zone.name, ZoneID: sn.zone.id, PublicIPs: sn.public, Owner: s.scenario.Account,
			Tags: wireTags(c.region.fixedTags[sn.id]),
		})
	}
	return out, err
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
	GroupIDs   []string `form:"GroupId"`
	GroupNames []string `form:"GroupName"`
	Filters    []filter `form:"Filter"`
	paging
}

type wireGroup struct {
	ID          string `xml:"groupId"`
	Name        string `xml:"groupName"`
	Description string `xml:"groupDescription"`
	VPC         string `xml:"vpcId"`
	Owner       string `xml:"ownerId"`
	Tags        []tag  `xml:"tagSet>item"`

	In  []wirePermission `xml:"ipPermissions>item"`
	Out []wirePermission `xml:"ipPermissionsEgress>item"`
}

func (s *Sim) describeSecurityGroups(c *call, in *describeSecurityGroupsInput) (any, error) {
	items, err := byID(c.region.groups, in.GroupIDs, func(g SecurityGroupScenario) string { return g.ID }, groupNotFound)
	if err == nil {
		items, err = byID(items, in.GroupNames, func(g SecurityGroupScenario) string { return g.Name }, groupNameNotFound)
	}
	if err != nil {
		return nil, err
	}
	names := filterNames[SecurityGroupScenario]{
		tags: func(g SecurityGroupScenario) map[string]string { return c.region.fixedTags[g.ID] },
		values: map[string]func(SecurityGroupScenario) []string{
			"group-id":   one(func(g SecurityGroupScenario) string { return g.ID }),
			"group-name": one(func(g SecurityGroupScenario) string { return g.Name }),
			"vpc-id":     one(func(g SecurityGroupScenario) string { return g.VPC }),
		}}
	if items, err = names.apply(in.Filters, items); err != nil {
		return nil, err
	}
	part, next, err := page(c, in.paging, 5, 1000, len(in.GroupIDs)+len(in.GroupNames) > 0, items)
	out := struct {
		Groups []wireGroup `xml:"securityGroupInfo>item"`
		Next   string      `xml:"nextToken,omitempty"`
	}{Next: next}
	for _, g := range part {
		out.Groups = append(out.Groups, wireGroup{
			g.ID, g.Name, g.Name, g.VPC, s.scenario.Account, wireTags(c.region.fixedTags[g.ID]), s.permissions(g, false), s.permissions(g, true),
		})
	}
	return out, err
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
