package setup

import (
	"cmp"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/internal/preflight"
)

// seen returns the parts of a launch for preflight.
func (in *inspection) seen() preflight.Seen {
	t, image := in.planned, in.names.image
	if in.unattended {
		image.ID = "" // the running slot has the same drivers
	}
	t.ImageID, t.InstanceProfile = in.ami(), in.profile()
	return preflight.Seen{
		Provider:     in.provider(),
		Group:        in.request.NodeGroup,
		Source:       first(in.source.Name, t.Name),
		Template:     t,
		Actions:      in.actions,
		Image:        image,
		Type:         in.names.instanceType,
		MetadataTags: in.metadataTags,
		Profile:      in.roleProfile,
		Network:      in.attachment(),
	}
}

// attachment returns the network of the nodes; nothing for a roll over, whose other slot runs in it.
func (in *inspection) attachment() preflight.Network {
	if in.unattended {
		return preflight.Network{}
	}
	n := preflight.Network{
		Region:        in.region,
		Nodes:         cmp.Or(in.request.MaxNodes, in.reservation.Size()),
		Tables:        in.network.tables,
		Endpoints:     in.network.endpoints,
		Groups:        in.names.groups,
		ClusterGroups: in.inv.Cluster.SecurityGroupIDs,
		Subnets:       in.launchSubnets(),
	}
	for _, s := range in.network.vpc {
		if slices.Contains(in.inv.Cluster.SubnetIDs, s.ID) {
			n.ClusterSubnets = append(n.ClusterSubnets, s)
		}
	}
	return n
}

// judge adds problems and warnings about the parts of a launch.
func (in *inspection) judge() {
	if in.source.Protected {
		in.warn(
			"launch template %s protects instances from termination, which is not copied: nodes could never be ended",
			in.source.Name)
	}
	if keys := in.planned.VolumeKeys; len(keys) > 0 && !in.unattended {
		in.warn(
			"volumes are encrypted with %s: that it is enabled, and that its policy lets nodes use it, was not checked; `aws kms describe-key --region %s --key-id %s` shows its state",
			strings.Join(keys, " and "), in.region, keys[0])
	}
	for _, p := range preflight.Judge(in.seen()) {
		if preflight.Stops(p) {
			in.problems = append(in.problems, p)
		} else {
			in.warnings = append(in.warnings, p.Text())
		}
	}
}
