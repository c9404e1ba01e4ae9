package facts

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// LaunchReads are the questions about what nodes are launched with, which the adapter ec2 and the model answer.
type LaunchReads interface {
	Region() string
	InstanceTypes(ctx context.Context, names []string) (map[string]ec2.InstanceType, error)
	Image(ctx context.Context, id string) (ec2.Image, error)
	SecurityGroups(ctx context.Context, ids []string) (map[string][]ec2.Rule, error)
	RouteTables(ctx context.Context, vpc string) ([]ec2.RouteTable, error)
	PCSEndpoints(ctx context.Context, vpc string) ([]ec2.Endpoint, error)
}

// Launch is a node group's launches, as far as their parts could be read.
type Launch struct {
	Provider capacity.Provider
	Group    string // the node group, on PCS the slot
	// Template is the nodes' launch template; on PCS with the image and the instance profile of the node group.
	Template capacity.LaunchTemplate
	Image    ec2.Image        // the nodes' image; zero if unknown
	Type     ec2.InstanceType // the instance type; zero if unknown
	// Its network; parts that are nil were not read, and are not judged.
	Region    string
	Nodes     int                   // the largest number of nodes; 0 if unknown
	Subnets   []ec2.Subnet          // the subnets of launches, all in one VPC
	Tables    []ec2.RouteTable      // the route tables of the VPC
	Endpoints []ec2.Endpoint        // the VPC's endpoints for PCS, read only if no route leads out of a subnet
	Rules     map[string][]ec2.Rule // those of the security groups of nodes with EFA, by id
	// ImageErr says why image or type are not known, NetworkErr why security groups, routes or endpoints are not.
	ImageErr, NetworkErr error

	Trial ec2.Trial // of one node
	Tried Answer[[]ec2.TrialResult]
}

// Read completes a launch from EC2, side by side. What cannot be read stays as it is.
func (l *Launch) Read(ctx context.Context, aws LaunchReads) {
	sideBySide(func() { l.ImageErr = l.readImage(ctx, aws) }, func() { l.NetworkErr = l.readNetwork(ctx, aws) })
}

// readImage reads the type and the image. Systems Manager names one that does not begin with ami-.
func (l *Launch) readImage(ctx context.Context, aws LaunchReads) (err error) {
	if l.Type.Name == "" {
		types, failed := aws.InstanceTypes(ctx, []string{l.Template.InstanceType})
		l.Type = types[l.Template.InstanceType]
		err = failed
	}

	if id := l.Template.ImageID; strings.HasPrefix(id, "ami-") {
		image, failed := aws.Image(ctx, id)
		l.Image = image
		err = errors.Join(err, failed)
	}

	return err
}

// readNetwork reads the security groups of nodes with EFA and, for nodes of PCS, the way out: the route tables, and
// where those lead nowhere the endpoints.
func (l *Launch) readNetwork(ctx context.Context, aws LaunchReads) error {
	l.Region = aws.Region()

	var groups, err error
	if l.HasEFA() {
		l.Rules, groups = aws.SecurityGroups(ctx, l.Template.SecurityGroupIDs)
	}

	if l.Provider != capacity.ProviderPCS || len(l.Subnets) == 0 {
		return groups
	}

	l.Tables, err = aws.RouteTables(ctx, l.Subnets[0].VPC)
	if err == nil &&
		slices.ContainsFunc(l.Subnets, func(one ec2.Subnet) bool { return l.UnreachableReason(one) != "" }) {
		l.Endpoints, err = aws.PCSEndpoints(ctx, l.Subnets[0].VPC)
	}

	return cmp.Or(groups, err)
}

// defaultRoute is the destination of a default route.
const defaultRoute = "0.0.0.0/0"

// routeTable returns the route table of a subnet: its own, else the main one of its VPC.
func (l *Launch) routeTable(s ec2.Subnet) (main ec2.RouteTable) {
	for _, t := range l.Tables {
		switch {
		case slices.Contains(t.Subnets, s.ID):
			return t
		case t.Main && t.VPC == s.VPC:
			main = t
		}
	}

	return main
}

// UnreachableReason says why nodes in a subnet do not reach the internet; "" if they do. A NAT or transit gateway, a
// firewall or another VPC is assumed to lead on, and so is an IPv6 route.
func (l *Launch) UnreachableReason(subnet ec2.Subnet) string {
	var route ec2.Route
	for _, r := range l.routeTable(subnet).Routes {
		if r.To == defaultRoute || r.To == "::/0" && !r.Blackhole && route.To == "" {
			route = r
		}
	}
	// EC2 gives a public address to an instance with one network interface only, and refuses a launch with several that
	// asks for one.
	public := subnet.Public
	if asks := l.Template.PublicAddress; asks != nil {
		public = *asks
	}

	toInternet := strings.HasPrefix(route.Via, "igw-") && route.To == defaultRoute

	switch {
	case route.To == "":
		return "no route leads out of the VPC"
	case route.Blackhole:
		return "its route leads to " + route.Via + ", which is gone"
	case toInternet && (!public || len(l.Template.NetworkInterfaces) > 1):
		return "its route leads to " + route.Via + ", and nodes get no public address"
	}

	return ""
}

// HasEFA reports whether nodes connect to each other by EFA.
func (l *Launch) HasEFA() bool {
	return l.Nodes != 1 &&
		slices.ContainsFunc(l.Template.NetworkInterfaces,
			func(i capacity.Interface) bool { return strings.HasPrefix(i.Type, "efa") })
}
