package pcs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// world is everything that a plan depends on, as it was read. What could not be found
// is zero, with a mismatch; what could not be read is an error, and there is no world.
type world struct {
	request Request
	now     time.Time
	region  string

	inv         Inventory
	reservation capacity.Reservation
	slots       []slotState
	like        NodeGroup
	// source is the launch template of like, zero without one.
	source capacity.LaunchTemplate
	// subnets are those asked for, or those to choose from. neighbours are all of the VPC.
	subnets, neighbours []capacity.Subnet
	platform            string
	// digest is that of the wanted launch template.
	digest string

	problems []capacity.Mismatch
}

// slotState is a slot with what decides whether it is free.
type slotState struct {
	Slot
	// ours is false for a node group of that name without our tag.
	ours bool
	// live is set while the slot's reservation is open or may still open; until is its end.
	live  bool
	until time.Time
	// instances counts those of the node group.
	instances int
	// template is the launch template of the slot's name, zero if there is none.
	template capacity.LaunchTemplate
}

func (w *world) problem(code, fix, message string, args ...any) {
	w.problems = append(w.problems, capacity.Mismatch{Code: code, Message: fmt.Sprintf(message, args...), Fix: fix})
}

// read fills a world. It sends reading calls only.
func (s Setup) read(ctx context.Context, r Request, now time.Time) (*world, error) {
	w := &world{request: r, now: now, region: s.PCS.Region()}
	if r.Config != nil && w.request.Cluster == "" {
		w.request.Cluster = r.Config.Cluster
	}
	found, err := s.readCluster(ctx, w)
	if err != nil {
		return nil, err
	}
	if err := s.readReservation(ctx, w); err != nil || !found {
		return w, err
	}
	for _, read := range []func(context.Context, *world) error{s.readSlots, s.readLike, s.readSubnets, s.readImage, s.readDigest} {
		if err := read(ctx, w); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (s Setup) readCluster(ctx context.Context, w *world) (found bool, err error) {
	if w.request.Cluster != "" {
		w.inv, err = s.PCS.Inventory(ctx, w.request.Cluster)
		if err == nil || !notFound(err) {
			return err == nil, err
		}
	}
	names, err := s.PCS.Clusters(ctx)
	if err != nil {
		return false, err
	}
	fix := fmt.Sprintf("use one of %s", strings.Join(names, ", "))
	if len(names) == 0 {
		fix = "check --region; there is no PCS cluster in " + w.region
	}
	if w.request.Cluster == "" {
		w.problem("cluster", fix, "no cluster is given")
	} else {
		w.problem("cluster", fix, "there is no PCS cluster %q in %s", w.request.Cluster, w.region)
	}
	return false, nil
}

func (s Setup) readReservation(ctx context.Context, w *world) (err error) {
	w.reservation, err = s.EC2.Reservation(ctx, w.request.Reservation)
	if absent(err) {
		w.reservation = capacity.Reservation{}
		w.problem("reservation-unknown", "check the id and --region; `pcs-capacity list` shows what there is", "EC2 has no reservation %q in %s (%s)", w.request.Reservation, w.region, Code(err))
		return nil
	}
	return err
}

// absent reports whether EC2 says that an id is of nothing, or cannot be one.
func absent(err error) bool {
	code := Code(err)
	return strings.HasPrefix(code, "Invalid") && (strings.Contains(code, "NotFound") || strings.Contains(code, "Malformed") || strings.HasSuffix(code, ".Unavailable"))
}

func (s Setup) readSlots(ctx context.Context, w *world) error {
	slots, err := s.Slots(ctx, w.inv, w.request.NodeGroup)
	if err != nil {
		return err
	}
	for _, slot := range slots {
		state := slotState{Slot: slot}
		if slot.Group != nil {
			state.ours = w.inv.ours(slot.Group.Tags)
			if state.live, state.until, err = s.isLive(ctx, slot.ReservationID, w.now); err != nil {
				return err
			}
			if state.instances, err = s.instances(ctx, slot.Group.ID); err != nil {
				return err
			}
		}
		if state.template, _, err = s.EC2.LaunchTemplate(ctx, templateName(w.inv.Cluster.Name, slot.Name), ""); err != nil {
			return err
		}
		w.slots = append(w.slots, state)
	}
	return nil
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
	return r.State.Live() && (r.End.IsZero() || r.End.After(now)), r.End, nil
}

// instances counts the instances of a node group by the tag that PCS writes on them.
func (s Setup) instances(ctx context.Context, groupID string) (int, error) {
	ids, err := s.EC2.InstanceIDsByTag(ctx, map[string][]string{"aws:pcs:compute-node-group-id": {groupID}})
	if err != nil {
		return 0, fmt.Errorf("looking for instances of node group %s: %w", groupID, err)
	}
	return len(ids), nil
}

// readLike finds the node group to copy from: the one asked for; else the slot that
// has the reservation already; else the other slot.
func (s Setup) readLike(ctx context.Context, w *world) error {
	if name := w.request.Like; name != "" {
		g, found := w.inv.Group(name)
		if !found {
			w.problem("like", "use one of "+orNone(groupNames(w.inv.Groups)), "cluster %s has no compute node group %q to copy from (--like)", w.inv.Cluster.Name, name)
			return nil
		}
		w.like = g
	} else {
		for _, slot := range w.slots {
			if slot.ours && (w.like.ID == "" || slot.holds(w.request.Reservation)) {
				w.like = *slot.Group
			}
		}
	}
	if w.like.ID == "" {
		return nil
	}
	source, found, err := s.EC2.LaunchTemplate(ctx, w.like.TemplateID, w.like.TemplateVersion)
	if err != nil {
		return err
	}
	if !found {
		w.problem("like", "give --ami, --instance-profile and --security-groups instead", "node group %s names launch template %s version %s, which EC2 does not have", w.like.Name, w.like.TemplateID, w.like.TemplateVersion)
		return nil
	}
	w.source = source
	return nil
}

func (s Setup) readSubnets(ctx context.Context, w *world) (err error) {
	ids := w.request.SubnetIDs
	if len(ids) == 0 {
		ids = append(slices.Clone(w.like.SubnetIDs), w.inv.Cluster.SubnetIDs...)
	}
	if w.subnets, err = s.EC2.Subnets(ctx, ids); absent(err) {
		w.problem("subnet-unknown", "name existing subnets with --subnet-ids", "EC2 does not have all of the subnets %s (%s)", strings.Join(ids, ", "), Code(err))
		return nil
	}
	if err != nil {
		return err
	}
	w.neighbours, err = s.EC2.NeighbourSubnets(ctx, ids)
	return err
}

func (s Setup) readImage(ctx context.Context, w *world) (err error) {
	if w.ami() == "" {
		return nil
	}
	if w.platform, err = s.EC2.ImagePlatform(ctx, w.ami()); absent(err) {
		w.problem("image", "give an image of this region with --ami", "EC2 has no image %s in %s (%s)", w.ami(), w.region, Code(err))
		return nil
	}
	return err
}

func (s Setup) readDigest(ctx context.Context, w *world) (err error) {
	if w.reservation.ID == "" || w.request.Like != "" && w.source.ID == "" {
		return nil
	}
	w.digest, err = s.EC2.LaunchTemplateDigest(ctx, w.templateSpec(""))
	return err
}

// ami is the image of the nodes: the one asked for, else that of the group to copy,
// else that of its launch template.
func (w *world) ami() string {
	return first(w.request.AMI, w.like.AMI, w.source.ImageID)
}

func (w *world) profile() string {
	return first(w.request.InstanceProfile, w.like.InstanceProfile)
}

func (w *world) securityGroups() []string {
	if len(w.request.SecurityGroups) > 0 {
		return w.request.SecurityGroups
	}
	return w.source.SecurityGroupIDs
}

func templateName(cluster, slot string) string { return "pcs-capacity-" + cluster + "-" + slot }

// templateSpec is the launch template of a slot.
func (w *world) templateSpec(slot string) capacity.LaunchTemplateSpec {
	return capacity.LaunchTemplateSpec{
		Name:             templateName(w.inv.Cluster.Name, slot),
		From:             w.source.ID,
		FromVersion:      w.source.Version,
		ImageID:          w.ami(),
		SecurityGroupIDs: w.request.SecurityGroups,
		UserData:         w.request.UserData,
		InstanceType:     w.reservation.InstanceType,
		ReservationID:    w.reservation.ID,
		Kind:             w.reservation.Kind,
		Tags:             w.tags(),
	}
}

func (w *world) tags() map[string]string {
	return map[string]string{capacity.TagCluster: w.inv.Cluster.Name, capacity.TagReservation: w.reservation.ID}
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

func groupNames(groups []NodeGroup) string {
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
