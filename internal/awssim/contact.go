package awssim

import (
	"fmt"
	"slices"
	"strings"
)

// A node of PCS registers with pcs:RegisterComputeNodeGroupInstance, and then talks to slurmctld. EC2 launches it
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
	if p := i.data.IamInstanceProfile; p != nil {
		path, name := cutProfile(p.Arn)
		if found, _ := s.instanceProfile(path, name); found.CannotRegister {
			return fmt.Sprintf("AccessDeniedException: role %s may not %s", found.Role, registering)
		}
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
