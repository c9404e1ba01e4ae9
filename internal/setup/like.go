package setup

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/site"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// network is where nodes can be launched.
type network struct {
	// vpc are all subnets of the cluster's VPC.
	vpc []ec2.Subnet
	// chosen are the requested ones, or the candidates.
	chosen []ec2.Subnet
	// unknown are requested ids that no subnet has, elsewhere requested subnets outside the VPC.
	unknown, elsewhere []string
}

// launchNames are the things named by a launch template, which EC2 looks up only at a launch.
type launchNames struct {
	// gpuImage is PCS's own image, where that is asked for: the newest, or the one that the slot has.
	gpuImage string
	// instanceType is the reservation's; zero if EC2 did not describe it.
	instanceType ec2.InstanceType
	// noPlacementGroup: the named one does not exist.
	noPlacementGroup bool
}

// chooseLike finds the node group to copy from: the requested one, else the slot that has the
// reservation already, else the other slot, else the one that the cluster suggests.
func (in *inspection) chooseLike() {
	name := in.request.Like
	switch {
	case in.onEC2():
	case name == "":
		for _, slot := range in.slots {
			if slot.ours && (in.like.ID == "" || slot.holds(in.request.Reservation)) {
				in.like = *slot.group
			}
		}
		if in.like.ID == "" && !in.unattended {
			in.findLike()
		}
	default:
		g, found := in.inv.Group(name)
		if !found {
			in.problem(capacity.LikeUnknown, "use one of "+cmp.Or(groupNames(in.inv.Groups), "none"),
				"cluster %s has no compute node group %q to copy from (--like)", in.inv.Cluster.Name, name)
		}
		in.like = g
	}
}

// findLike finds the node group to copy from where nothing names one.
func (in *inspection) findLike() {
	others := in.otherGroups()
	ways := []struct {
		why   string
		means func(pcs.NodeGroup) bool
	}{
		{"the only other node group", func(pcs.NodeGroup) bool { return true }},
		{"the only one of its family", func(g pcs.NodeGroup) bool {
			return slices.ContainsFunc(g.InstanceTypes, func(t string) bool { return family(t) == family(in.reservation.InstanceType) })
		}},
		{"the only one with a queue", func(g pcs.NodeGroup) bool {
			return slices.ContainsFunc(in.inv.Queues, func(q pcs.Queue) bool { return slices.Contains(q.GroupIDs, g.ID) })
		}},
	}
	for _, way := range ways {
		var meant []pcs.NodeGroup
		for _, g := range others {
			if way.means(g) {
				meant = append(meant, g)
			}
		}
		if len(meant) == 1 {
			in.like, in.likeFound = meant[0], way.why
			return
		}
	}
	if len(others) > 0 {
		in.problem(capacity.LikeUnknown, "give --like with one of "+groupNames(others),
			"cluster %s has %d node groups to copy image, instance profile and security groups from, and none is named",
			in.inv.Cluster.Name, len(others))
	}
}

// otherGroups are the node groups of the cluster beside the slots. Of a pair of ours it is the first.
func (in *inspection) otherGroups() []pcs.NodeGroup {
	skip := slices.Clone(in.slotNames())
	var others []pcs.NodeGroup
	for _, g := range in.inv.Groups {
		if slices.Contains(skip, g.Name) || g.Status == pcs.Deleting || g.Status == pcs.CreateFailed {
			continue
		}
		others = append(others, g)
		if base, is := strings.CutSuffix(g.Name, "-a"); is && in.ours(g.Tags) {
			skip = append(skip, capacity.SlotNames(capacity.ProviderPCS, base)...)
		}
	}
	return others
}

// family is that of an instance type: p5 of p5.48xlarge.
func family(instanceType string) string {
	name, _, _ := strings.Cut(instanceType, ".")
	return name
}

// readLike reads the launch template of the node group to copy from.
func (s Setup) readLike(ctx context.Context, in *inspection, n *notes) error {
	if in.like.ID == "" {
		return nil
	}
	if in.like.TemplateID == "" {
		in.source = capacity.LaunchTemplate{SecurityGroupIDs: in.like.SecurityGroupIDs, KeyName: in.like.KeyName}
		n.warn("node group %s has no launch template of its own; image, instance profile and security groups are taken from the group", in.like.Name)
		return nil
	}
	source, found, err := s.EC2.LaunchTemplate(ctx, in.like.TemplateID, in.like.TemplateVersion)
	if err != nil {
		return err
	}
	if !found {
		n.problem(capacity.LikeUnknown, "give --like with another node group",
			"node group %s names launch template %s version %s, which EC2 does not have", in.like.Name,
			in.like.TemplateID, in.like.TemplateVersion)
		return nil
	}
	in.source = source
	return nil
}

// readUserData converts the copied user data into the form that PCS wants.
func readUserData(in *inspection) {
	data, err := pcs.UserData(in.source.UserData)
	if err != nil {
		in.problem(capacity.BadUserData, otherUserData, "the user data of %s cannot be used: %s", in.like.Name, err)
	}
	in.userData = data
}

// readSubnets finds the candidates among the VPC's subnets.
func (s Setup) readSubnets(ctx context.Context, in *inspection, _ *notes) error {
	ids := in.request.SubnetIDs
	switch {
	case in.onEC2():
		ids = in.subnetsOnEC2()
	case len(ids) > 0:
	case len(in.keptSubnets()) > 0:
		ids = in.keptSubnets()
	default:
		ids = slices.Concat(in.like.SubnetIDs, in.inv.Cluster.SubnetIDs)
	}
	var others []string
	for _, id := range union(nil, ids) {
		i := slices.IndexFunc(in.network.vpc, func(s ec2.Subnet) bool { return s.ID == id })
		if i >= 0 {
			in.network.chosen = append(in.network.chosen, in.network.vpc[i])
		} else {
			others = append(others, id)
		}
	}
	_, missing, err := s.EC2.KnownSubnets(ctx, others)
	if err != nil {
		return err
	}
	for _, m := range missing {
		if !absent(m.Err) {
			return m.Err
		}
		in.network.unknown = append(in.network.unknown, m.ID)
	}
	in.network.elsewhere = without(others, in.network.unknown...)
	return nil
}

// readType reads the instance type and the placement group of the reservation.
func (s Setup) readType(ctx context.Context, in *inspection, n *notes) error {
	reads, ctx := errgroup.WithContext(ctx)
	reads.Go(func() error {
		types, err := s.EC2.InstanceTypes(ctx, []string{in.reservation.InstanceType})
		in.names.instanceType = types[in.reservation.InstanceType]
		if err == nil && in.request.AMI == pcs.GPUImage && in.names.instanceType.Name != "" {
			err = s.readGPUImage(ctx, in, n)
		}
		return err
	})
	if name := in.reservation.PlacementGroup; name != "" {
		reads.Go(func() error {
			has, err := s.EC2.HasPlacementGroup(ctx, name)
			in.names.noPlacementGroup = !has
			return err
		})
	}
	return reads.Wait()
}

// readLaunch reads what nodes will be launched with.
func (s Setup) readLaunch(ctx context.Context, in *inspection) (err error) {
	if in.planned, err = s.EC2.PlannedTemplate(ctx, in.templateSpec("")); err != nil {
		return err
	}
	var not site.Unread
	in.launch, not = in.seen().Read(ctx, s.EC2, s.PCS)
	if absent(not.Image) {
		in.problem(capacity.BadImage, "give an image of this region with --ami", "EC2 has no image %s in %s (%s)", in.ami(),
			in.region, ec2.Code(not.Image))
		not.Image = nil
	}
	role := in.launch.Profile.Role.Name
	switch {
	case not.Profile == nil || ctx.Err() != nil:
	case not.NotSimulated:
		in.warn("whether role %s allows %s was not checked: %s", role, pcs.Registering, ec2.Message(not.Profile))
	default:
		in.warn("the role of instance profile %s was not checked: %s", in.profile(), ec2.Message(not.Profile))
	}
	if action := ec2.DeniedAction(not.Network); action != "" {
		in.warn("whether nodes reach AWS was not checked: %s is not allowed", action)
		not.Network = nil
	}
	if ec2.DeniedAction(not.Defaults) != "" {
		in.warn("whether instance metadata shows tags by the account's default is not known: %s", ec2.Message(not.Defaults))
		not.Defaults = nil
	}
	return cmp.Or(ctx.Err(), not.Image, not.Names, not.Network, not.Defaults)
}

// ami returns the image of the nodes: the requested one, else the copied node group's, else its launch template's.
func (in *inspection) ami() string {
	if in.request.AMI == pcs.GPUImage {
		return in.names.gpuImage
	}
	return cmp.Or(in.request.AMI, in.like.AMI, in.source.ImageID)
}

func (in *inspection) profile() string {
	if in.onEC2() {
		return in.source.InstanceProfile
	}
	return in.like.InstanceProfile
}

// subnetsThere returns the subnets of the cluster's VPC in the reservation's zone.
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

func quoted(flag string, ids []string) string { return flag + " " + strings.Join(ids, " or ") }

// readGPUImage asks which image PCS publishes for the instance type.
func (s Setup) readGPUImage(ctx context.Context, in *inspection, n *notes) error {
	image, parameter, err := s.PCS.GPUImageFor(ctx, in.names.instanceType.Architectures)
	if pcs.Code(err) == "ParameterNotFound" {
		n.problem(capacity.BadImage,
			"give an image by its id with --ami; `aws ec2 describe-images --region "+in.region+" --owners amazon --filters 'Name=name,Values=aws-pcs-ready-dlami-*'` lists those of PCS",
			"PCS publishes no image for %s in %s: Systems Manager has no parameter %s there (%s)",
			strings.Join(in.names.instanceType.Architectures, " and "), in.region, parameter, pcs.Code(err))
		return nil
	}
	in.names.gpuImage = image
	return err
}

// readKeptImage keeps an older image of PCS that a slot has: PCS would replace its nodes for a newer one.
func (s Setup) readKeptImage(ctx context.Context, in *inspection, n *notes) error {
	kept, newest := in.keptImage(), in.names.gpuImage
	if in.request.AMI != pcs.GPUImage || kept == "" || kept == newest {
		return nil
	}
	has, err := s.EC2.Image(ctx, kept)
	switch {
	case absent(err):
		return nil
	case err == nil && pcs.IsGPUImage(has.Name, has.Owner):
		n.warn("the nodes keep image %s (%s), since a change would replace them; by now PCS publishes %s, which --ami %[3]s takes",
			has.ID, has.Name, newest)
		in.names.gpuImage = has.ID
	}
	return err
}

// keptImage is that of the node group in the reservation; "" if none is.
func (in *inspection) keptImage() string {
	for _, slot := range in.slots {
		if slot.group != nil && slot.launchesInto(in.reservation.ID) {
			return cmp.Or(slot.group.AMI, slot.uses.ImageID)
		}
	}
	return ""
}
