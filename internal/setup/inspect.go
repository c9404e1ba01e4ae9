package setup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// inspection is everything that a plan depends on, as it was read. What could not be
// found is zero, with a mismatch; what could not be read is an error, and there is none.
type inspection struct {
	request    Request
	unattended bool
	now        time.Time
	region     string

	// found: the cluster is known. Only its inv is of PCS; on self-managed Slurm that has the
	// mark as the cluster's name and nothing else.
	found       bool
	inv         pcs.Inventory
	reservation capacity.Reservation
	slots       []slotState
	like        pcs.NodeGroup
	// source is the launch template of like, zero without one.
	source  capacity.LaunchTemplate
	network network
	names   launchNames
	// ended are those of the partition's reservations that EC2 says are over.
	ended []string
	// others are the partition's reservations that are not.
	others []capacity.Reservation
	// members are those of the groups that the settings select.
	members capacity.Members
	// users are who else has instances in the reservation.
	users []user
	// slurm: fences are waited for; fence is what Slurm has of the reservation's slot.
	slurm bool
	fence SlurmSlot
	// file is that of the partition in conf.d.
	file partitionFile
	// userData is what the nodes run, as PCS wants it; nil if there is none.
	userData []byte
	// nodeScript says in the plan what nodes of provider ec2 start slurmd with.
	nodeScript string
	// digest is that of the wanted launch template.
	digest string

	problems []capacity.Problem
	warnings []string
}

// slotState is a slot with what decides whether it is free.
type slotState struct {
	// name is that of the node group, and of the Slurm feature of its nodes.
	name string
	// group is nil while the slot has no node group.
	group *pcs.NodeGroup
	// reservationID is what our tag says; "" if there is none.
	reservationID string
	// ours is false for a node group of that name without our tag.
	ours bool
	// live is set while the slot's reservation is open or may still open; until is its end.
	live  bool
	until time.Time
	// instances counts those of the node group.
	instances int
	// template is the launch template of the slot's name, zero if there is none; uses is what a
	// node group of ours launches with.
	template, uses capacity.LaunchTemplate
}

func (in *inspection) problem(code capacity.Code, fix, message string, args ...any) {
	in.problems = append(in.problems, capacity.Problemf(code, capacity.Subject{}, fix, message, args...))
}

func (in *inspection) warn(message string, args ...any) {
	in.warnings = append(in.warnings, fmt.Sprintf(message, args...))
}

// inspect fills an inspection. It sends reading calls only.
func (s Setup) inspect(ctx context.Context, r Request) (*inspection, error) {
	in := &inspection{
		request:    r,
		unattended: s.Unattended,
		region:     s.PCS.Region(),
		slurm:      s.Slurm != nil,
		file:       readFile(r.ConfigPath, r.Queue),
	}
	if r.Config != nil && in.request.Cluster == "" {
		in.request.Cluster = r.Config.Cluster
	}
	found, err := s.readCluster(ctx, in)
	if err != nil {
		return nil, err
	}
	in.found = found
	if err := s.readReservation(ctx, in); err != nil || !found {
		return in, err
	}
	if err := s.readMembers(ctx, in); err != nil {
		return nil, err
	}
	slots, like, userData := s.readSlots, s.readLike, readUserData
	if in.onEC2() {
		slots, like, userData = s.readTemplate, s.readLikeTemplate, readNodeUserData
	}
	install := func(context.Context, *inspection) error { in.addInstall(); return nil }
	for _, read := range []func(context.Context, *inspection) error{slots, like, userData, install, s.readNetwork, s.readLaunchNames, s.readProfile, s.readUsers, s.readEnded, s.readDigest, s.readFence} {
		if err := read(ctx, in); err != nil {
			return nil, err
		}
	}
	return in, nil
}

func (s Setup) readCluster(ctx context.Context, in *inspection) (found bool, err error) {
	if in.onEC2() {
		in.inv.Cluster.Name = in.request.Mark
		return true, nil
	}
	inv, missing, err := s.inventory(ctx, in.request.Cluster)
	if missing != nil {
		in.problems = append(in.problems, *missing)
	}
	in.inv = inv
	return err == nil && missing == nil, err
}

// inventory reads a cluster by name or id, or says what is wrong with that.
func (s Setup) inventory(
	ctx context.Context,
	cluster string,
) (inv pcs.Inventory, missing *capacity.Problem, err error) {
	if cluster != "" {
		if inv, err = s.PCS.Inventory(ctx, cluster); err == nil || !pcs.NotFound(err) {
			return inv, nil, err
		}
	}
	code := pcs.Code(err)
	names, err := s.PCS.Clusters(ctx)
	if err != nil && !denied(err) {
		return inv, nil, err
	}
	missing = &capacity.Problem{
		Code:     capacity.NoCluster,
		Severity: capacity.Admin,
		Sentence: "no cluster is given",
		Fix:      "use one of " + strings.Join(names, ", "),
	}
	if cluster != "" {
		missing.Sentence = fmt.Sprintf("there is no PCS cluster %q in %s (%s)", cluster, s.PCS.Region(), code)
	}
	switch {
	case err != nil:
		missing.Fix = "name one with --cluster; which there are is not known: " + ec2.Message(err)
	case len(names) == 0:
		missing.Fix = "check --region; there is no PCS cluster in " + s.PCS.Region()
	}
	return inv, missing, nil
}

func (s Setup) readReservation(ctx context.Context, in *inspection) (err error) {
	in.reservation, err = s.EC2.Reservation(ctx, in.request.Reservation)
	in.now = s.EC2.Now() // not before EC2's answer, which tells the time
	if absent(err) {
		in.reservation = capacity.Reservation{}
		in.problem(
			capacity.ReservationUnknown,
			ec2.Advice(err),
			"EC2 has no reservation %q in %s (%s)",
			in.request.Reservation,
			in.region,
			ec2.Code(err),
		)
		return nil
	}
	return err
}

// readMembers asks for the groups that the settings select, if there are any.
func (s Setup) readMembers(ctx context.Context, in *inspection) (err error) {
	in.members = capacity.Members{}
	if in.request.Config == nil {
		return nil
	}
	for _, group := range in.request.Config.Domain().SelectedGroups() {
		if in.members[group], err = s.EC2.GroupMembers(ctx, group); err != nil {
			return err
		}
	}
	return nil
}

// absent reports whether EC2 says that an id is of nothing, or cannot be one.
func absent(err error) bool {
	code := ec2.Code(err)
	return strings.HasPrefix(code, "Invalid") &&
		(strings.Contains(code, "NotFound") || strings.Contains(code, "Malformed") || strings.HasSuffix(code, ".Unavailable"))
}

func (s Setup) readSlots(ctx context.Context, in *inspection) error {
	for _, name := range capacity.SlotNames(capacity.ProviderPCS, in.request.NodeGroup) {
		state := slotState{name: name}
		if g, found := in.inv.Group(name); found {
			if err := s.readGroup(ctx, in, g, &state); err != nil {
				return err
			}
		}
		var err error
		if state.template, _, err = s.EC2.LaunchTemplate(ctx, pcs.TemplateName(in.inv.Cluster.Name, name), ""); err != nil {
			return err
		}
		in.slots = append(in.slots, state)
	}
	return nil
}

func (s Setup) readGroup(ctx context.Context, in *inspection, g pcs.NodeGroup, state *slotState) (err error) {
	state.group, state.ours = &g, in.ours(g.Tags)
	if state.ours {
		state.reservationID = g.Tags[capacity.TagReservation]
		if state.uses, _, err = s.EC2.LaunchTemplate(ctx, g.TemplateID, g.TemplateVersion); err != nil {
			return err
		}
	}
	if state.live, state.until, err = s.isLive(ctx, state.reservationID, in.now); err != nil {
		return err
	}
	state.instances, err = s.instances(ctx, g.ID)
	return err
}

// ours reports whether tags carry our mark for the cluster (R9).
func (in *inspection) ours(tags map[string]string) bool { return in.inv.Cluster.Ours(tags) }

// holds reports whether the slot was set up for the reservation, or half of it was
// before a run was cut off: the tag is written first, the template follows.
func (s slotState) holds(reservationID string) bool {
	return s.ours && reservationID != "" && s.reservationID == reservationID
}

// failed reports whether PCS could not create the node group in an earlier run of ours:
// then it is made anew.
func (s slotState) failed() bool { return s.ours && s.group.Status == pcs.CreateFailed }

// readFence looks for the reservation's fence. Where Slurm does not answer, none is known.
func (s Setup) readFence(ctx context.Context, in *inspection) error {
	at := slices.IndexFunc(in.slots, func(slot slotState) bool { return slot.holds(in.reservation.ID) })
	if in.onEC2() || !in.slurm || in.reservation.End.IsZero() || at < 0 {
		return nil
	}
	name := in.slots[at].name
	slots, _, err := s.Slurm.Slots(ctx, in.request.Queue, map[string][]string{name: nil})
	if err == nil {
		in.fence = slots[name]
	}
	return ctx.Err()
}

// readEnded finds the reservations in the partition's settings that are over. One that
// EC2 does not describe is not among them: it may only be missing from this answer.
func (s Setup) readEnded(ctx context.Context, in *inspection) error {
	if in.request.Config == nil {
		return nil
	}
	var ids []string
	p, _ := in.request.Config.Partition(in.request.Queue)
	for _, g := range p.Groups {
		ids = append(ids, g.ReservationIDs...)
		if g.Select != nil {
			ids = append(ids, in.members[g.Select.Group]...)
		}
	}
	found, _, err := s.EC2.Reservations(ctx, ids)
	for _, r := range found {
		if !open(r, in.now) {
			in.ended = append(in.ended, r.ID)
		} else {
			in.others = append(in.others, r)
		}
	}
	return err
}

// open reports whether a reservation is open or may still open.
func open(r capacity.Reservation, now time.Time) bool {
	return r.State.Live() && (r.End.IsZero() || r.End.After(now))
}

// isLive reports whether a reservation is open or may still open, and until when.
func (s Setup) isLive(ctx context.Context, id string, now time.Time) (bool, time.Time, error) {
	if id == "" {
		return false, time.Time{}, nil
	}
	r, err := s.EC2.Reservation(ctx, id)
	if absent(err) {
		return false, time.Time{}, nil
	}
	if err != nil {
		return false, time.Time{}, err
	}
	return open(r, now), r.End, nil
}

// instances counts the instances of a node group by the tag that PCS writes on them.
func (s Setup) instances(ctx context.Context, groupID string) (int, error) {
	ids, err := s.EC2.InstanceIDsByTag(ctx, map[string][]string{pcs.TagNodeGroupID: {groupID}})
	if err != nil {
		return 0, fmt.Errorf("looking for instances of node group %s: %w", groupID, err)
	}
	return len(ids), nil
}

// templateSpec is the launch template of a slot. That of provider ec2 is for all of a node
// group: each launch says reservation, subnet and placement itself.
func (in *inspection) templateSpec(slot string) capacity.LaunchTemplateSpec {
	root := in.request.RootVolume
	root.Device = in.names.image.RootDevice
	if in.onEC2() {
		return capacity.LaunchTemplateSpec{
			Name: pcs.TemplateName(in.request.Mark, slot), From: in.source.ID, FromVersion: in.source.Version,
			ImageID: in.ami(), InstanceProfile: in.profile(), SecurityGroupIDs: in.request.SecurityGroups, UserData: in.userData,
			InstanceType: in.reservation.InstanceType, EFA: in.efa(), MetadataTags: true, RootVolume: root, Kind: capacity.OnDemand, Tags: in.tags(),
		}
	}
	return capacity.LaunchTemplateSpec{
		Name:             pcs.TemplateName(in.inv.Cluster.Name, slot),
		From:             in.source.ID,
		FromVersion:      in.source.Version,
		ImageID:          in.ami(),
		SecurityGroupIDs: in.request.SecurityGroups,
		UserData:         in.userData,
		InstanceType:     in.reservation.InstanceType,
		EFA:              in.efa(),
		SubnetID:         in.interfaceSubnet(),
		ReservationID:    in.reservation.ID,
		Kind:             in.reservation.Kind,
		PlacementGroup:   in.reservation.PlacementGroup,
		RootVolume:       root,
		Tags:             in.tags(),
	}
}

func (in *inspection) tags() map[string]string {
	if in.onEC2() {
		return map[string]string{capacity.TagCluster: in.request.Mark, capacity.TagPartition: in.request.Queue}
	}
	return map[string]string{
		capacity.TagCluster:     in.inv.Cluster.Name,
		capacity.TagReservation: in.reservation.ID,
		capacity.TagPartition:   in.request.Queue,
	}
}

func groupNames(groups []pcs.NodeGroup) string {
	var names []string
	for _, g := range groups {
		names = append(names, g.Name)
	}
	return strings.Join(names, ", ")
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
