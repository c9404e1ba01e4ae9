package setup

import (
	"context"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// network is where nodes can be launched.
type network struct {
	// vpc are all subnets of the cluster's VPC.
	vpc []ec2.Subnet
	// chosen are those of them that were asked for, or that there are to choose from.
	chosen []ec2.Subnet
	// unknown are ids that were asked for and are of no subnet, elsewhere those of
	// subnets outside the VPC.
	unknown, elsewhere []string
}

// launchNames are what a launch template names, and EC2 looks up only when an instance
// is launched.
type launchNames struct {
	image ec2.Image
	// instanceType is that of the reservation; zero if EC2 did not say.
	instanceType ec2.InstanceType
	// groupVPCs maps the security groups that exist to their VPC.
	groupVPCs map[string]string
	// noKeyPair and noPlacementGroup: the one that is named does not exist.
	noKeyPair, noPlacementGroup bool
}

// readLike finds the node group to copy from: the one asked for; else the slot that
// has the reservation already; else the other slot.
func (s Setup) readLike(ctx context.Context, in *inspection) error {
	if name := in.request.Like; name != "" {
		g, found := in.inv.Group(name)
		if !found {
			in.problem(
				capacity.LikeUnknown,
				"use one of "+orNone(groupNames(in.inv.Groups)),
				"cluster %s has no compute node group %q to copy from (--like)",
				in.inv.Cluster.Name,
				name,
			)
			return nil
		}
		in.like = g
	} else {
		for _, slot := range in.slots {
			if slot.ours && (in.like.ID == "" || slot.holds(in.request.Reservation)) {
				in.like = *slot.group
			}
		}
	}
	if in.like.ID == "" {
		return nil
	}
	source, found, err := s.EC2.LaunchTemplate(ctx, in.like.TemplateID, in.like.TemplateVersion)
	if err != nil {
		return err
	}
	if !found {
		in.problem(
			capacity.LikeUnknown,
			"give --ami, --instance-profile and --security-groups instead",
			"node group %s names launch template %s version %s, which EC2 does not have",
			in.like.Name,
			in.like.TemplateID,
			in.like.TemplateVersion,
		)
		return nil
	}
	in.source = source
	return nil
}

// readUserData brings what was asked for, or is copied, into the form that PCS wants.
func readUserData(_ context.Context, in *inspection) error {
	whose, fix, plain := "the user data", "begin it with #! or #cloud-config", in.request.UserData
	if len(plain) == 0 {
		whose, fix, plain = "the user data of "+in.like.Name, "give other user data with --user-data-file", in.source.UserData
	}
	data, err := pcs.UserData(plain)
	if err != nil {
		in.problem(capacity.BadUserData, fix, "%s cannot be used: %s", whose, err)
	}
	in.userData = data
	return nil
}

func (s Setup) readNetwork(ctx context.Context, in *inspection) (err error) {
	home, ids := in.inv.Cluster.SubnetIDs, in.request.SubnetIDs
	switch {
	case in.onEC2():
		if ids = in.subnetsOnEC2(); len(ids) > 0 {
			home, err = s.oneOf(ctx, ids)
		}
	case len(ids) > 0:
	case len(in.keptSubnets()) > 0:
		ids = in.keptSubnets()
	default:
		ids = slices.Concat(in.like.SubnetIDs, in.inv.Cluster.SubnetIDs)
	}
	if err != nil {
		return err
	}
	if in.network.vpc, err = s.EC2.VPCSubnets(ctx, home); err != nil {
		return err
	}
	for _, id := range union(nil, ids) {
		i := slices.IndexFunc(in.network.vpc, func(s ec2.Subnet) bool { return s.ID == id })
		if i >= 0 {
			in.network.chosen = append(in.network.chosen, in.network.vpc[i])
			continue
		}
		switch _, err := s.EC2.Subnets(ctx, []string{id}); {
		case absent(err):
			in.network.unknown = append(in.network.unknown, id)
		case err != nil:
			return err
		default:
			in.network.elsewhere = append(in.network.elsewhere, id)
		}
	}
	return nil
}

func (s Setup) readLaunchNames(ctx context.Context, in *inspection) (err error) {
	n := &in.names
	if image := in.ami(); image != "" {
		if n.image, err = s.EC2.Image(ctx, image); absent(err) {
			in.problem(
				capacity.BadImage,
				"give an image of this region with --ami",
				"EC2 has no image %s in %s (%s)",
				image,
				in.region,
				ec2.Code(err),
			)
		} else if err != nil {
			return err
		}
	}
	if n.groupVPCs, err = s.EC2.SecurityGroups(ctx, in.securityGroups()); err != nil {
		return err
	}
	if name := in.source.KeyName; name != "" {
		has, err := s.EC2.HasKeyPair(ctx, name)
		if err != nil {
			return err
		}
		n.noKeyPair = !has
	}
	if name := in.reservation.PlacementGroup; name != "" {
		has, err := s.EC2.HasPlacementGroup(ctx, name)
		if err != nil {
			return err
		}
		n.noPlacementGroup = !has
	}
	types, err := s.EC2.InstanceTypes(ctx, []string{in.reservation.InstanceType})
	n.instanceType = types[in.reservation.InstanceType]
	return err
}

// readProfile looks at the role of the instance profile. Not everybody may ask IAM, and
// not every network leads there: then it is said that nobody has looked.
func (s Setup) readProfile(ctx context.Context, in *inspection) error {
	profile := in.profile()
	if profile == "" || !in.onEC2() && !strings.HasPrefix(profile, "arn:") { // checkLaunch says so
		return nil
	}
	role, err := s.PCS.RoleOf(ctx, profile)
	const fix = "give an instance profile whose role has a name that begins with AWSPCS, or the path /aws-pcs/, with --instance-profile"
	switch {
	case pcs.Code(err) == "NoSuchEntity":
		in.problem(
			capacity.InstanceProfile,
			"name one that exists with --instance-profile",
			"IAM has no instance profile %s",
			profile,
		)
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		in.warn("the role of instance profile %s was not checked: %s", profile, ec2.Message(err))
	case in.onEC2():
	case role == pcs.Role{}:
		in.problem(capacity.InstanceProfile, fix, "instance profile %s has no role", profile)
	case !role.Taken():
		in.problem(
			capacity.InstanceProfile,
			fix,
			"PCS does not take role %s%s of instance profile %s for nodes",
			role.Path,
			role.Name,
			profile,
		)
	}
	return nil
}

func (s Setup) readDigest(ctx context.Context, in *inspection) (err error) {
	if in.reservation.ID == "" || in.request.Like != "" && in.source.ID == "" {
		return nil
	}
	in.digest, err = s.EC2.LaunchTemplateDigest(ctx, in.templateSpec(""))
	return err
}

// ami is the image of the nodes: the one asked for, else that of the group to copy,
// else that of its launch template.
func (in *inspection) ami() string {
	return first(in.request.AMI, in.like.AMI, in.source.ImageID)
}

func (in *inspection) profile() string {
	if in.onEC2() {
		return first(in.request.InstanceProfile, in.source.InstanceProfile)
	}
	return first(in.request.InstanceProfile, in.like.InstanceProfile)
}

func (in *inspection) securityGroups() []string {
	if len(in.request.SecurityGroups) > 0 {
		return in.request.SecurityGroups
	}
	return in.source.SecurityGroupIDs
}

// subnetsThere are those of the cluster's VPC in the reservation's zone.
func (in *inspection) subnetsThere() []string {
	var ids []string
	for _, s := range in.network.vpc {
		if s.AZID == in.reservation.AZID {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

func subnets(detailed []ec2.Subnet) []capacity.Subnet {
	var all []capacity.Subnet
	for _, s := range detailed {
		all = append(all, s.Subnet)
	}
	return all
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

func quoted(flag string, ids []string) string { return flag + " " + strings.Join(ids, " or ") }
