package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/site"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// inspection is everything read for a plan. A thing that was not found is zero, with a mismatch; a
// failed read is an error, and there is no inspection.
type inspection struct {
	request    Request
	unattended bool
	now        time.Time
	region     string

	// found: the cluster is known. On self-managed Slurm inv has nothing but the mark, as the cluster's name.
	found       bool
	inv         pcs.Inventory
	reservation capacity.Reservation
	slots       []slotState
	like        pcs.NodeGroup
	// likeFound says why like was chosen where nothing named it; "" else.
	likeFound string
	// source is the launch template of like, zero without one.
	source  capacity.LaunchTemplate
	network network
	names   launchNames
	// ended are the partition's reservations that have ended, according to EC2.
	ended []string
	// others are the partition's other reservations.
	others []capacity.Reservation
	// users are the other users of the reservation.
	users []user
	// slurm: setup waits for fences; fence is the reservation's slot in Slurm.
	slurm bool
	fence SlurmSlot
	// file is the partition's file in conf.d.
	file partitionFile
	// userData is in the form that PCS wants; nil if there is none.
	userData []byte
	// actions are the nodes' lifecycle actions; nil for none.
	actions pcs.LifecycleActions
	// nodeScript describes the start of slurmd on nodes of provider ec2 in the plan.
	nodeScript string
	// planned is the wanted launch template, without an id; zero if there is none to plan.
	planned capacity.LaunchTemplate
	// launch is what was read of the nodes' launch.
	launch site.Launch

	// known are the reservations that EC2 described, unknown its errors for others.
	known   map[string]capacity.Reservation
	unknown map[string]error
	// templates are the newest versions of the slots' launch templates, by name.
	templates map[string]capacity.LaunchTemplate
	// uses are what the node groups of the slots launch with, in their order, and running the
	// instances of a node group, by its id.
	uses    []capacity.LaunchTemplate
	running map[string]int
	// clusters are the other PCS clusters of the region, as far as they may be read; inside are the
	// instances in the reservation.
	inside []capacity.Instance

	notes
}

// notes are problems and warnings found while reading.
type notes struct {
	problems []capacity.Problem
	warnings []string
}

// slotState is a slot with everything of ours that is there: setup asks whether it is free, teardown removes it.
type slotState struct {
	// name is the name of the node group and of its nodes' Slurm feature, base that of the node group in the settings.
	name, base string
	// group is nil while the slot has no node group.
	group *pcs.NodeGroup
	// reservationID is the value of our tag; "" if there is none.
	reservationID string
	// ours is false for a node group of that name without our tag.
	ours bool
	// live is set while the slot's reservation is open or may still open; until is its end.
	live  bool
	until time.Time
	// instances counts the node group's instances.
	instances int
	// template is the launch template of the slot's name, zero if there is none; uses is what a
	// node group of ours launches with.
	template, uses capacity.LaunchTemplate
	// nodes are those that the settings list, and those of instances; slurm is what Slurm has of the slot.
	nodes []string
	slurm SlurmSlot
}

func (n *notes) problem(code capacity.Code, fix, message string, args ...any) {
	n.problems = append(n.problems, capacity.Problemf(code, capacity.Subject{}, fix, message, args...))
}

func (n *notes) warn(message string, args ...any) {
	n.warnings = append(n.warnings, fmt.Sprintf(message, args...))
}

// read reads one part of an inspection, and notes what it finds wrong. Those of one stage run side
// by side: each writes fields of its own, and reads only what earlier stages have written.
type read func(ctx context.Context, in *inspection, n *notes) error

// sideBySide makes the reads of a stage. Their notes come in the order of the reads.
func (in *inspection) sideBySide(ctx context.Context, stage ...read) error {
	said := make([]notes, len(stage))
	reads, readCtx := errgroup.WithContext(ctx)
	for i, one := range stage {
		reads.Go(func() error { return one(readCtx, in, &said[i]) })
	}
	if err := reads.Wait(); err != nil {
		return err
	}
	for _, n := range said {
		in.problems, in.warnings = append(in.problems, n.problems...), append(in.warnings, n.warnings...)
	}
	return nil
}

// inspect fills an inspection. It sends reading calls only, in three stages: what the request
// names, what that names, and what is launched with.
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
	inside := func(ctx context.Context, in *inspection, _ *notes) (err error) {
		in.inside, err = s.EC2.InstancesInReservation(ctx, r.Reservation)
		return err
	}
	if err := in.sideBySide(ctx, s.readCluster, s.readReservation, inside); err != nil {
		return nil, err
	}
	if len(in.problems) > 0 {
		return in, nil // decide says them, and what is wrong beside them
	}
	like, userData := s.readLike, readUserData
	if in.onEC2() {
		like, userData = s.readLikeTemplate, readNodeUserData
	}
	in.nameSlots()
	in.chooseLike()
	around := s.readAround
	if in.onEC2() { // readCluster has read it
		around = none
	}
	if err := in.sideBySide(ctx, s.readSlots, like, s.readType, s.readOthers, s.readFence, around); err != nil {
		return nil, err
	}
	in.seeSlots()
	userData(in)
	in.actions = in.lifecycleActions()
	in.addUsers()
	if err := in.sideBySide(ctx, s.readSubnets, s.readKeptImage); err != nil || len(in.problems) > 0 {
		return in, err
	}
	return in, s.readLaunch(ctx, in)
}

func none(context.Context, *inspection, *notes) error { return nil }

// readCluster reads the PCS cluster with its node groups and queues. Self-managed Slurm has none.
func (s Setup) readCluster(ctx context.Context, in *inspection, n *notes) error {
	if in.onEC2() {
		in.inv.Cluster.Name, in.found = in.request.Mark, true
		return s.readAround(ctx, in, n)
	}
	inv, missing, err := s.inventory(ctx, in.request.Cluster)
	if in.inv, in.found = inv, missing == nil; missing != nil {
		n.problems = append(n.problems, *missing)
	}
	return err
}

// readAround reads the subnets of the VPC, and the launch templates of the slots.
func (s Setup) readAround(ctx context.Context, in *inspection, _ *notes) error {
	reads, ctx := errgroup.WithContext(ctx)
	reads.Go(func() (err error) {
		home := in.inv.Cluster.SubnetIDs
		if in.onEC2() {
			home, err = s.oneOf(ctx, in.subnetsOnEC2())
		}
		if err == nil {
			in.network.vpc, err = s.EC2.VPCSubnets(ctx, home)
		}
		return err
	})
	reads.Go(func() (err error) {
		var names []string
		for _, slot := range in.slotNames() {
			names = append(names, pcs.TemplateName(in.inv.Cluster.Name, slot))
		}
		in.templates, err = s.EC2.LaunchTemplates(ctx, names)
		return err
	})
	return reads.Wait()
}

// slotNames are those of the node group. One of provider ec2 stands for its slots.
func (in *inspection) slotNames() []string {
	if in.onEC2() {
		return []string{in.request.NodeGroup}
	}
	return capacity.SlotNames(capacity.ProviderPCS, in.request.NodeGroup)
}

// inventory reads a cluster by name or id, or says what is wrong with that.
func (s Setup) inventory(ctx context.Context, cluster string) (inv pcs.Inventory, missing *capacity.Problem, err error) {
	if cluster != "" {
		if inv, err = s.PCS.Inventory(ctx, cluster); err == nil || !pcs.NotFound(err) {
			return inv, nil, err
		}
	}
	clusters, unread := s.PCS.Clusters(ctx)
	if unread != nil && ec2.DeniedAction(unread) == "" {
		return inv, nil, unread
	}
	no := missingCluster(cluster, s.PCS.Region(), pcs.Code(err), clusters, unread)
	return inv, &no, nil
}

// missingCluster says that there is no such cluster, and which there are; unread is why that is not known.
func missingCluster(cluster, region, code string, clusters []pcs.Cluster, unread error) capacity.Problem {
	var names []string
	for _, c := range clusters {
		names = append(names, c.Name)
	}
	missing := capacity.Problem{
		Code:     capacity.NoCluster,
		Severity: capacity.Admin,
		Sentence: "no cluster is given",
		Fix:      "name it with --cluster: " + strings.Join(names, ", "),
	}
	if cluster != "" {
		missing.Sentence = fmt.Sprintf("there is no PCS cluster %q in %s (%s)", cluster, region, code)
		missing.Fix = "use one of " + strings.Join(names, ", ")
	}
	switch {
	case unread != nil:
		missing.Fix = "name one with --cluster; which there are is not known: " + ec2.Message(unread)
	case len(names) == 0:
		missing.Fix = "check --region; there is no PCS cluster in " + region + ". For Slurm that you run yourself add --provider ec2"
	}
	return missing
}

// listedIDs are the reservations that the settings name for the queue.
func (in *inspection) listedIDs() (ids []string) {
	for _, g := range in.settings().Groups {
		ids = append(ids, g.ReservationIDs...)
	}
	return ids
}

// readReservation reads the reservation, and beside it those that the settings name.
func (s Setup) readReservation(ctx context.Context, in *inspection, n *notes) error {
	id := in.request.Reservation
	if id == "" {
		return errors.New("no reservation is named")
	}
	err := s.addReservations(ctx, in, append([]string{id}, in.listedIDs()...))
	in.now = s.EC2.Now() // not before EC2's answer, which tells the time
	if err != nil {
		return err
	}
	var is bool
	if in.reservation, is = in.known[id]; is {
		return nil
	}
	err = in.unknown[id]
	if !absent(err) {
		return fmt.Errorf("describing %s in %s: %w", id, in.region, err)
	}
	n.problem(capacity.ReservationUnknown, ec2.Advice(err), "EC2 has no reservation %q in %s (%s)", id, in.region, ec2.Code(err))
	return nil
}

// addReservations reads those reservations that were not read yet.
func (s Setup) addReservations(ctx context.Context, in *inspection, ids []string) error {
	if in.known == nil {
		in.known, in.unknown = map[string]capacity.Reservation{}, map[string]error{}
	}
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		_, is := in.known[id]
		return is || id == "" || in.unknown[id] != nil
	})
	found, missing, err := s.EC2.Reservations(ctx, ids)
	for _, r := range found {
		in.known[r.ID] = r
	}
	for _, m := range missing {
		in.unknown[m.ID] = m.Err
	}
	return err
}

// absent reports whether EC2 says that an id is of nothing, or cannot be one.
func absent(err error) bool {
	code := ec2.Code(err)
	return strings.HasPrefix(code, "Invalid") &&
		(strings.Contains(code, "NotFound") || strings.Contains(code, "Malformed") || strings.HasSuffix(code, ".Unavailable"))
}

// nameSlots notes what the inventory says of the slots.
func (in *inspection) nameSlots() {
	for _, name := range in.slotNames() {
		slot := slotState{name: name}
		if g, found := in.inv.Group(name); found {
			slot.group, slot.ours = &g, in.ours(g.Tags)
			if slot.ours {
				slot.reservationID = g.Tags[capacity.TagReservation]
			}
		}
		in.slots = append(in.slots, slot)
	}
}

// readSlots reads what the node groups of the slots launch with, and counts their instances by the
// tag that PCS writes on them.
func (s Setup) readSlots(ctx context.Context, in *inspection, _ *notes) error {
	in.uses = make([]capacity.LaunchTemplate, len(in.slots))
	var ids []string
	reads, ctx := errgroup.WithContext(ctx)
	for i, slot := range in.slots {
		if slot.group != nil {
			ids = append(ids, slot.group.ID)
		}
		if slot.ours {
			reads.Go(func() (err error) {
				in.uses[i], _, err = s.EC2.TemplateVersion(ctx, slot.group.TemplateID+":"+slot.group.TemplateVersion)
				return err
			})
		}
	}
	reads.Go(func() (err error) { in.running, err = s.instances(ctx, ids); return err })
	return reads.Wait()
}

// seeSlots notes what EC2 says of the slots. The launch template of provider ec2 is what its node group uses, too.
func (in *inspection) seeSlots() {
	for i := range in.slots {
		slot := &in.slots[i]
		slot.uses, slot.template = in.uses[i], in.templates[pcs.TemplateName(in.inv.Cluster.Name, slot.name)]
		if in.onEC2() && in.ours(slot.template.Tags) {
			slot.uses = slot.template
		}
		if slot.group != nil {
			slot.instances = in.running[slot.group.ID]
		}
		if r, is := in.known[slot.reservationID]; is {
			slot.live, slot.until = open(r, in.now), r.End
		}
	}
}

// ours reports whether tags carry our mark for the cluster (R9).
func (in *inspection) ours(tags map[string]string) bool { return in.inv.Cluster.Ours(tags) }

// holds reports whether the slot was set up for the reservation, or half of it was
// before a run was cut off: the tag is written first, the template follows.
func (s slotState) holds(reservationID string) bool {
	return s.ours && reservationID != "" && s.reservationID == reservationID
}

// failed reports whether PCS could not create the node group in an earlier run of ours: then it is made anew.
func (s slotState) failed() bool { return s.ours && s.group.Status == pcs.CreateFailed }

// readFence looks for the reservation's fence. Where Slurm does not answer, none is known.
func (s Setup) readFence(ctx context.Context, in *inspection, _ *notes) error {
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

// readOthers reads the reservations of the slots and of the groups that the settings select, and finds those of the
// partition that are over. One that EC2 does not describe is not among them: it may only be missing from this answer.
func (s Setup) readOthers(ctx context.Context, in *inspection, _ *notes) error {
	var held []string
	for _, slot := range in.slots {
		held = append(held, slot.reservationID)
	}
	ids := in.listedIDs()
	if err := s.addReservations(ctx, in, slices.Concat(held, ids)); err != nil {
		return err
	}
	for _, id := range held {
		if err := in.unknown[id]; err != nil && !absent(err) {
			return fmt.Errorf("describing %s in %s: %w", id, in.region, err)
		}
	}
	for _, id := range union(nil, ids) {
		if r, is := in.known[id]; is && !open(r, in.now) {
			in.ended = append(in.ended, id)
		} else if is {
			in.others = append(in.others, r)
		}
	}
	return nil
}

// open reports whether a reservation is open or may still open.
func open(r capacity.Reservation, now time.Time) bool {
	return r.State.Live() && (r.End.IsZero() || r.End.After(now))
}

// instances counts the instances of node groups by the tag that PCS writes on them.
func (s Setup) instances(ctx context.Context, groups []string) (map[string]int, error) {
	counts := map[string]int{}
	if len(groups) == 0 {
		return counts, nil
	}
	found, err := s.EC2.InstancesByTag(ctx, map[string][]string{pcs.TagNodeGroupID: groups})
	if err != nil {
		return nil, fmt.Errorf("looking for instances of node groups %s: %w", strings.Join(groups, ", "), err)
	}
	for _, i := range found {
		counts[i.Tags[pcs.TagNodeGroupID]]++
	}
	return counts, nil
}

// templateSpec is the launch template of a slot. That of provider ec2 is for all of a node
// group: each launch says reservation, subnet and placement itself.
func (in *inspection) templateSpec(slot string) capacity.LaunchTemplateSpec {
	r := in.reservation
	spec := capacity.LaunchTemplateSpec{Name: pcs.TemplateName(in.inv.Cluster.Name, slot), From: in.source.ID, FromVersion: in.source.Version,
		ImageID: in.ami(), UserData: in.userData, InstanceType: r.InstanceType, EFA: in.efa(), Tags: in.tags()}
	if in.onEC2() {
		spec.InstanceProfile, spec.MetadataTags, spec.Kind = in.profile(), true, capacity.OnDemand
		return spec
	}
	if in.source.ID == "" { // else they are copied
		spec.SecurityGroupIDs, spec.KeyName = in.source.SecurityGroupIDs, in.source.KeyName
	}
	spec.SubnetID, spec.ReservationID, spec.Kind, spec.PlacementGroup = in.interfaceSubnet(), r.ID, r.Kind, r.PlacementGroup
	return spec
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
