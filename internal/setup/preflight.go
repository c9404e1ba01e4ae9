package setup

import (
	"cmp"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/internal/site"
)

// seen is the nodes' launch, with what was read of it.
func (in *inspection) seen() site.Launch {
	l := in.launch
	l.Provider, l.Group, l.Brief = in.provider(), in.request.NodeGroup, in.unattended
	l.Template, l.Actions, l.Type = in.planned, in.actions, in.names.instanceType
	l.Template.ImageID, l.Template.InstanceProfile = in.ami(), in.profile()
	if !in.onEC2() && !strings.HasPrefix(in.profile(), "arn:") { // PCS wants its ARN, and checkLaunch says so
		l.Template.InstanceProfile = ""
	}
	l.Source, l.ClusterARN = cmp.Or(in.source.Name, in.copied(), l.Template.Name), in.inv.Cluster.ARN
	n := &l.Network
	n.Region, n.Nodes = in.region, cmp.Or(in.request.MaxNodes, in.reservation.Size())
	n.ClusterGroups, n.Subnets, n.ClusterSubnets = in.inv.Cluster.SecurityGroupIDs, in.launchSubnets(), nil
	for _, s := range in.network.vpc {
		if slices.Contains(in.inv.Cluster.SubnetIDs, s.ID) {
			n.ClusterSubnets = append(n.ClusterSubnets, s)
		}
	}
	return l
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
	for _, p := range site.Judge(in.seen()) {
		if site.Stops(p) {
			in.problems = append(in.problems, p)
		} else {
			in.warnings = append(in.warnings, p.Text())
		}
	}
}
