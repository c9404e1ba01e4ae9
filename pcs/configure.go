package pcs

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// ConfigureRequest is the wanted state of one node group.
type ConfigureRequest struct {
	Cluster     string // a name or id
	Group       string // the full name of the node group (gpu-a)
	Reservation capacity.Reservation
	SubnetIDs   []string
	SubnetID    string // the only one in the reservation's zone; "" if there are several
	MaxNodes    int    // at most the size of the reservation; 0 means all of it
	Dynamic     bool
}

// Configure fits an existing node group of ours to a reservation: purchase option, launch template, subnets and
// scaling; image and instance profile stay. It reports whether it changed anything, and waits until PCS is done. It
// leaves alone a group whose instances the change would replace (ErrInUse), and any group without our tag (ErrNotOurs).
// It does not check that reservation and group go together; capacity.Match does.
func (p Provisioner) Configure(ctx context.Context, r ConfigureRequest) (changed bool, err error) {
	cluster, err := p.PCS.Cluster(ctx, r.Cluster)
	if err != nil {
		return false, err
	}

	g, found, err := p.PCS.NodeGroup(ctx, cluster.ID, r.Group)
	switch {
	case err != nil:
		return false, err
	case !found:
		return false, fmt.Errorf("cluster %s has no compute node group %s; `pcs-capacity setup` creates it",
			cluster.Name, r.Group)
	case !cluster.Owns(g.Tags):
		return false, fmt.Errorf("compute node group %s: %w", g.Name, ErrNotOurs)
	case g.TemplateID == "":
		return false, fmt.Errorf(
			"compute node group %s has no launch template of its own, so PCS launches it into no reservation; delete "+
				"it, and run `pcs-capacity setup`",
			g.Name,
		)
	case len(g.InstanceTypes) == 0 || g.InstanceTypes[0] != r.Reservation.InstanceType:
		return false, fmt.Errorf("compute node group %s launches %v, which PCS cannot change to %s of reservation %s",
			g.Name, g.InstanceTypes, r.Reservation.InstanceType, r.Reservation.ID)
	}

	want, err := p.wantedGroup(ctx, r, cluster, g)
	if err != nil {
		return false, err
	}

	_, changed, err = p.EnsureNodeGroup(ctx, want, false)

	return changed, err
}

// wantedGroup returns the node group with the changes of the request. A launch template is written only
// when the group may be changed at all.
func (p Provisioner) wantedGroup(
	ctx context.Context, r ConfigureRequest, cluster Cluster, g NodeGroup,
) (NodeGroup, error) {
	most := r.Reservation.Size()
	if r.MaxNodes > 0 {
		most = min(most, r.MaxNodes)
	}

	want := g

	want.Tags = map[string]string{capacity.TagCluster: cluster.Name, capacity.TagReservation: r.Reservation.ID}
	want.PurchaseOption, want.SubnetIDs = r.Reservation.Kind, r.SubnetIDs
	want.Min, want.Max = most, most
	if r.Dynamic {
		want.Min = 0
	}

	now, _, err := p.EC2.LaunchTemplate(ctx, g.TemplateID, g.TemplateVersion)
	if err != nil {
		return want, err
	}

	spec := capacity.LaunchTemplateSpec{
		Name:           capacity.TemplateName(cluster.Name, g.Name),
		From:           g.TemplateID,
		FromVersion:    g.TemplateVersion,
		ImageID:        g.AMI,
		InstanceType:   r.Reservation.InstanceType,
		SubnetID:       r.SubnetID,
		ReservationID:  r.Reservation.ID,
		Kind:           r.Reservation.Kind,
		PlacementGroup: r.Reservation.PlacementGroup,
		Tags:           want.Tags,
	}
	if !r.Reservation.Kind.IsBlock() {
		spec.PlacementGroup = cmp.Or(spec.PlacementGroup, now.PlacementGroup) // as setup has copied it
	}

	planned, err := p.EC2.PlannedTemplate(ctx, spec)
	if err != nil {
		return NodeGroup{}, err
	}

	if now.Digest == planned.Digest {
		return want, nil
	}

	want.TemplateVersion = "" // not made yet

	if err := errors.Join(checkLost(WhatNodeGroup, g.Name, g.LostByUpdate()), p.checkUnused(ctx, g, true)); err != nil {
		return NodeGroup{}, err
	}

	template, err := p.EC2.EnsureLaunchTemplate(ctx, spec)
	want.TemplateID, want.TemplateVersion = template.ID, template.Version

	return want, err
}
