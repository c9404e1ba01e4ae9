package setup

import (
	"cmp"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/internal/preflight"
)

// seen is what the nodes are to be launched with.
func (in *inspection) seen() preflight.Seen {
	t, image := in.planned, in.names.image
	if in.unattended {
		image.ID = "" // its drivers are those of the slot that runs
	}
	t.ImageID, t.InstanceProfile = in.ami(), in.profile()
	return preflight.Seen{
		Provider:     in.provider(),
		Group:        in.request.NodeGroup,
		Source:       first(in.source.Name, t.Name),
		Template:     t,
		Image:        image,
		Type:         in.names.instanceType,
		MetadataTags: in.metadataTags,
		Profile:      in.roleProfile,
		Network:      in.attachment(),
	}
}

// attachment is what the nodes are to be attached to. A roll over goes by the slot that runs.
func (in *inspection) attachment() preflight.Network {
	if in.unattended {
		return preflight.Network{}
	}
	n := preflight.Network{
		Region: in.region, Nodes: cmp.Or(in.request.MaxNodes, in.reservation.Size()), Tables: in.network.tables, Endpoints: in.network.endpoints,
		Groups: in.names.groups, ClusterGroups: in.inv.Cluster.SecurityGroupIDs, Subnets: in.launchSubnets(),
	}
	for _, s := range in.network.vpc {
		if slices.Contains(in.inv.Cluster.SubnetIDs, s.ID) {
			n.ClusterSubnets = append(n.ClusterSubnets, s)
		}
	}
	return n
}

// judge says what is wrong with what the nodes are to be launched with.
func (in *inspection) judge() {
	if in.source.Protected {
		in.warn("launch template %s protects instances from termination, which is not copied: nodes could never be ended", in.source.Name)
	}
	if keys := in.planned.VolumeKeys; len(keys) > 0 && !in.unattended {
		in.warn("volumes are encrypted with %s: that it is enabled, and that its policy lets nodes use it, was not checked; `aws kms describe-key --region %s --key-id %s` shows its state",
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
