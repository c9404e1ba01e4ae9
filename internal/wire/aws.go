package wire

import (
	"context"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/hooks"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// EC2 shows EC2 to hooks.
type EC2 struct{ *ec2.Client }

var _ hooks.EC2 = EC2{}

// Reservations describes reservations by id and leaves out what EC2 does not describe.
func (e EC2) Reservations(ctx context.Context, ids []string) ([]capacity.Reservation, error) {
	found, _, err := e.Client.Reservations(ctx, ids)
	return found, err
}

// Launch is one RunInstances.
func (e EC2) Launch(ctx context.Context, l hooks.Launch) ([]hooks.Instance, error) {
	launched, err := e.Client.Launch(ctx, ec2.LaunchRequest{ClientToken: l.Token, LaunchTemplate: l.LaunchTemplate, InstanceType: l.InstanceType,
		SubnetID: l.SubnetID, ReservationID: l.ReservationID, Kind: l.Kind, Count: l.Count, Tags: l.Tags})
	return instances(launched), err
}

// InstancesByTag are the instances with one of the values for each tag.
func (e EC2) InstancesByTag(ctx context.Context, tags map[string][]string) ([]hooks.Instance, error) {
	found, err := e.Client.InstancesByTag(ctx, tags)
	return instances(found), err
}

// Code is EC2's error code and what EC2 said with it.
func (EC2) Code(err error) (code, message string) {
	if code = ec2.Code(err); code != "" {
		message = ec2.Message(err)
	}
	return code, message
}

// TokenUsed is ec2.TokenUsed.
func (EC2) TokenUsed(err error) bool { return ec2.TokenUsed(err) }

func instances(all []ec2.Instance) []hooks.Instance {
	out := make([]hooks.Instance, len(all))
	for i, a := range all {
		out[i] = hooks.Instance{ID: a.ID, PrivateIP: a.PrivateIP, State: a.State, LaunchIndex: a.LaunchIndex, Launched: a.Launched, Tags: a.Tags}
	}
	return out
}

// PCS shows a PCS cluster to hooks.
type PCS struct {
	pcs.Setup
	Cluster string
}

var _ hooks.PCS = PCS{}

// ReservationOf is what our tag on a compute node group says.
func (p PCS) ReservationOf(ctx context.Context, group string) (string, error) {
	cluster, err := p.PCS.Cluster(ctx, p.Cluster)
	if err != nil {
		return "", err
	}
	g, _, err := p.PCS.NodeGroup(ctx, cluster.ID, group)
	return g.Tags[capacity.TagReservation], err
}

// Configure makes a compute node group right for a reservation.
func (p PCS) Configure(ctx context.Context, group string, r capacity.Reservation, g capacity.NodeGroup) (bool, error) {
	var subnets []string
	for _, s := range g.Subnets {
		subnets = append(subnets, s.ID)
	}
	return p.Setup.Configure(ctx, pcs.ConfigureRequest{Cluster: p.Cluster, Group: group, Reservation: r, SubnetIDs: subnets,
		MaxNodes: g.MaxNodes, Dynamic: g.Dynamic})
}
