package awssim

import (
	"math"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

func (s *Sim) regionObjects(c *call) (all []object) {
	for _, name := range s.order {
		if r := s.regions[name]; r.optIn != "not-opted-in" || c.in["AllRegions"] == true {
			all = append(
				all,
				object{
					"RegionName":  name,
					"Endpoint":    "ec2." + name + "." + capacity.AWSPartitionOf(name).Domain,
					"OptInStatus": r.optIn,
				},
			)
		}
	}

	return all
}

func (s *Sim) zoneObjects(c *call) (all []object) {
	for _, z := range c.region.zones {
		if z.optIn != "not-opted-in" || c.in["AllAvailabilityZones"] == true {
			all = append(
				all,
				object{
					"State":              "available",
					"OptInStatus":        z.optIn,
					"RegionName":         c.Region,
					"ZoneName":           z.name,
					"ZoneId":             z.id,
					"GroupName":          c.Region,
					"NetworkBorderGroup": c.Region,
					"ZoneType":           z.kind,
				},
			)
		}
	}

	return all
}

func (s *Sim) subnetObjects(c *call) (all []object) {
	for _, sn := range c.region.subnets {
		all = append(
			all,
			object{
				"SubnetId":                sn.id,
				"SubnetArn":               s.arn("ec2", c.Region, "subnet/"+sn.id),
				"VpcId":                   sn.vpc,
				"State":                   "available",
				"CidrBlock":               sn.prefix.String(),
				"AvailableIpAddressCount": c.region.freeAddresses(sn),
				"AvailabilityZone":        sn.zone.name,
				"AvailabilityZoneId":      sn.zone.id,
				"DefaultForAz":            false,
				"MapPublicIpOnLaunch":     false,
				"OwnerId":                 s.scenario.Account,
				"Tags":                    sn.tags,
			},
		)
	}

	return all
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

func (s *Sim) securityGroupObjects(c *call) (all []object) {
	for _, g := range c.region.groups {
		w := object{"GroupId": g.ID, "GroupName": g.Name, "VpcId": g.VPC, "Tags": copyTags(g.Tags)}
		if itself := (object{"IpProtocol": "-1", "UserIdGroupPairs": []object{{"GroupId": g.ID}}}); !g.Closed {
			w["IpPermissions"] = []object{itself}
			w["IpPermissionsEgress"] = []object{itself}
		}

		all = append(all, w)
	}

	return all
}

func groupNotFound(id string) error {
	if !wellFormed(id, "sg") {
		return apiErrorf("InvalidGroupId.Malformed", "Invalid id: \"%s\" (expecting \"sg-...\")", id)
	}
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
	return "arn:" + capacity.AWSPartitionOf(
		region,
	).Name + ":" + service + ":" + region + ":" + s.scenario.Account + ":" + resource
}

// iamARN names something of IAM, which belongs to no region but to a partition.
func (s *Sim) iamARN(resource string) string {
	return "arn:" + capacity.AWSPartitionOf(s.homeRegion()).Name + ":iam::" + s.scenario.Account + ":" + resource
}

// routeTableObjects returns the main route table of each VPC, which leads to a NAT gateway unless the VPC is isolated.
func (s *Sim) routeTableObjects(c *call) (all []object) {
	for _, v := range c.region.vpcs {
		id := strings.TrimPrefix(v.ID, "vpc-")
		routes := []object{{"DestinationCidrBlock": "0.0.0.0/0", "NatGatewayId": "nat-" + id, "State": "active"}}
		if v.Isolated {
			routes = nil
		}

		all = append(
			all,
			object{
				"RouteTableId": "rtb-" + id,
				"VpcId":        v.ID,
				"Associations": []object{{"Main": true}},
				"Routes":       routes,
			},
		)
	}

	return all
}
