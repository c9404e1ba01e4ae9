package setup

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/site"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// inspection is the site as read for a request, and what the request leads to. A thing that was not found is zero, with
// a problem; a failed read is an error, and there is no inspection.
type inspection struct {
	site.Site
	request       Request
	unattended    bool
	waits         bool         // setup waits for fences
	partitionFile settingsFile // the partition's file in conf.d

	reservation    capacity.Reservation
	like           pcs.NodeGroup           // the node group that is copied from
	source         capacity.LaunchTemplate // the launch template of like; zero without one
	chosen         []ec2.Subnet            // the requested subnets, or the candidates
	unknownSubnets []string                // requested ids that no subnet of the VPC has
	usedInstances  int                     // instances of the reservation that others use, or are set up to use
	users          string                  // names those others
	userData       []byte                  // in the form that PCS wants; nil if there is none
	nodeScript     string                  // describes the user data of provider ec2
	launch         site.Launch             // of the nodes, with the wanted Template, without an id; zero if none is planned

	slot        site.Slot                   // that takes the reservation
	template    capacity.LaunchTemplateSpec // wanted
	group       pcs.NodeGroup               // wanted, without ID, status and template
	wantedEntry capacity.GroupSettings

	// What steps have made so far.
	writtenTemplate capacity.LaunchTemplate
	createdGroup    pcs.NodeGroup

	capacity.Problems          // found while reading or deciding; a note stops nothing
	byHand            []string // work left to a person
}

func (in *inspection) problem(code capacity.Code, fix, message string, args ...any) {
	in.Add(capacity.Problemf(code, capacity.Subject{}, fix, message, args...))
}

func (in *inspection) warn(message string, args ...any) {
	in.Add(capacity.Problem{Severity: capacity.Note, Sentence: fmt.Sprintf(message, args...)})
}

func (in *inspection) hasProblems() bool { return len(in.Texts(capacity.Admin)) > 0 }

// sideBySide makes the reads of a stage: each writes fields of its own, and reads only what earlier stages have
// written. One of a stage at most finds problems.
func (in *inspection) sideBySide(ctx context.Context, stage ...func(ctx context.Context, in *inspection) error) error {
	reads, ctx := errgroup.WithContext(ctx)
	for _, one := range stage {
		reads.Go(func() error { return one(ctx, in) })
	}

	return reads.Wait()
}

// newInspection returns an inspection with what the request says.
func (s Setup) newInspection(r Request) *inspection {
	in := &inspection{
		request:       r,
		unattended:    s.Unattended,
		waits:         s.Slurm != nil,
		partitionFile: readFile(r),
	}
	in.Provider = cmp.Or(r.Provider, capacity.ProviderPCS)
	if r.Config == nil {
		in.request.Config = config.Default()
	}

	in.request.Cluster = cmp.Or(r.Cluster, in.request.Config.Cluster)

	return in
}

// inspect reads what setup goes by. It sends reading calls only, in stages: what the request names, what that names,
// and what is launched with.
func (s Setup) inspect(ctx context.Context, r Request) (*inspection, error) {
	in := s.newInspection(r)
	in.Region = s.PCS.Region()

	err := in.sideBySide(ctx, s.readCluster, s.readReservation, s.readInside)
	if err != nil {
		return nil, err
	}

	if err := in.Unknown[r.Reservation]; err != nil {
		in.problem("reservation-unknown", ec2.Advice(err),
			"EC2 has no reservation %q in %s (%s)", r.Reservation, in.Region, ec2.Code(err))
	}

	if in.hasProblems() {
		return in, nil // decide says them, and what is wrong beside them
	}

	in.addSlots()
	in.chooseLike()

	err = in.sideBySide(ctx, s.readSlots, s.readLike, s.readType, s.readOthers, s.readVPC, s.readSlurm)
	if err != nil {
		return nil, err
	}

	if in.like.ID != "" && in.like.TemplateID == "" {
		in.warn(
			"node group %s has no launch template of its own; image, instance profile and security groups are taken "+
				"from the group",
			in.like.Name)
	}

	in.completeSlots()
	in.chooseUserData()
	in.addUsers()
	in.chooseSubnets()

	if in.hasProblems() {
		return in, nil
	}

	return in, s.readLaunch(ctx, in)
}

// readCluster reads the PCS cluster with its node groups and queues, and counts the instances of ours. Self-managed
// Slurm has none.
func (s Setup) readCluster(ctx context.Context, in *inspection) (err error) {
	if in.Provider != capacity.ProviderPCS {
		in.Cluster.Name = in.request.Mark
		return nil
	}

	missing, err := in.ReadCluster(ctx, s.PCS, in.request.Cluster)
	if missing != nil {
		in.Add(*missing)
	}

	if err != nil {
		return err
	}

	var ours []string
	for _, g := range in.Groups {
		if in.Owns(g.Tags) {
			ours = append(ours, g.ID)
		}
	}

	return in.ReadRunning(ctx, s.EC2, ours)
}

// readReservations reads reservations. One that EC2 has not is absent, and of any other it has to tell.
func (s Setup) readReservations(ctx context.Context, in *inspection, ids ...string) error {
	if err := in.ReadReservations(ctx, s.EC2, ids); err != nil {
		return err
	}

	for _, id := range ids {
		if err := in.Unknown[id]; err != nil && !site.IsAbsent(err) {
			return fmt.Errorf("describing %s in %s: %w", id, in.Region, err)
		}
	}

	return nil
}

func (s Setup) readReservation(ctx context.Context, in *inspection) error {
	err := s.readReservations(ctx, in, in.request.Reservation)
	in.reservation = in.Known[in.request.Reservation]
	return err
}

// readOthers reads the reservations of the slots and of the settings.
func (s Setup) readOthers(ctx context.Context, in *inspection) error {
	ids := reservationsOf(in.settings())
	for i := range in.Slots { // beside who writes other fields
		ids = append(ids, in.Slots[i].ReservationID)
	}

	return s.readReservations(ctx, in, ids...)
}

func (s Setup) readInside(ctx context.Context, in *inspection) (err error) {
	in.Inside, err = s.EC2.FindInstances(ctx, capacity.InstanceQuery{Reservation: in.request.Reservation})
	return err
}

// addSlots notes what the inventory says of the slots. A node group of provider ec2 stands for its slots.
func (in *inspection) addSlots() {
	for _, name := range capacity.SlotNames(in.Provider, in.request.NodeGroup) {
		in.Slots = append(in.Slots, in.newSlot(name))
	}
}

func (in *inspection) newSlot(name string) site.Slot {
	slot := site.Slot{Name: name}
	if g, found := in.Group(name); found && g.Name == name {
		slot.Group = &g
		slot.Owned = in.Owns(g.Tags)
		if slot.Owned {
			slot.ReservationID = g.Tags[capacity.TagReservation]
		}

		slot.Instances = in.Running[g.ID]
	}

	return slot
}

// readSlots reads the launch templates of the slots, and what their node groups launch with.
func (s Setup) readSlots(ctx context.Context, in *inspection) error {
	var names []string

	reads, ctx := errgroup.WithContext(ctx)
	for i := range in.Slots {
		slot := &in.Slots[i]
		names = append(names, pcs.TemplateName(in.Cluster.Name, slot.Name))
		if slot.Owned {
			reads.Go(func() (err error) {
				slot.Uses, _, err = s.EC2.TemplateVersion(ctx, slot.Group.TemplateID+":"+slot.Group.TemplateVersion)
				return err
			})
		}
	}

	reads.Go(func() error {
		templates, err := s.EC2.LaunchTemplates(ctx, names)
		for i, name := range names {
			in.Slots[i].Template = templates[name]
		}

		return err
	})

	return reads.Wait()
}

// completeSlots notes what EC2 says of the slots. The launch template of provider ec2 is what its node group uses, and
// where nobody names another one what is copied, too.
func (in *inspection) completeSlots() {
	for i := range in.Slots {
		slot := &in.Slots[i]
		if in.OnEC2() && in.Owns(slot.Template.Tags) {
			slot.Uses = slot.Template
		}

		if in.OnEC2() && in.request.Like == "" { // one that is not ours is refused
			in.source = slot.Template
		}
	}
}

// readSlurm reads what Slurm has of the slots. If it does not answer, SlurmErr says why.
func (s Setup) readSlurm(ctx context.Context, in *inspection) error {
	if len(in.Slots) == 0 || s.Slurm == nil {
		return nil
	}

	var found map[string]site.SlurmSlot

	found, in.Waiting, in.SlurmErr = s.Slurm.Slots(ctx, in.request.Queue, in.slotNodes())
	for i := range in.Slots {
		in.Slots[i].Slurm = found[in.Slots[i].Name]
	}

	return ctx.Err()
}

func (in *inspection) slotNodes() map[string][]string {
	nodes := map[string][]string{}
	for i := range in.Slots {
		nodes[in.Slots[i].Name] = in.Slots[i].Nodes
	}

	return nodes
}

// readVPC reads the subnets of the nodes' VPC: with provider ec2 that of the first subnet that there is.
func (s Setup) readVPC(ctx context.Context, in *inspection) error {
	ids := in.Cluster.SubnetIDs
	if in.OnEC2() {
		ids, _ = in.subnets()
	}

	home, _, err := s.EC2.Subnets(ctx, ids)
	if err != nil || len(home) == 0 {
		return err
	}

	in.VPC, err = s.EC2.VPCSubnets(ctx, home[0].VPC)

	return err
}

// subnets returns the requested ones, else the present ones of the nodes in the reservation, and then nodes get all of
// them; else those of the node group in the settings, those of its partition, or on PCS those of like and of the
// cluster, of which they get those in the reservation's zone: no other takes a launch into it.
func (in *inspection) subnets() (ids []string, all bool) {
	asked := in.request.SubnetIDs
	own := in.entry()
	at := -1
	for i := range in.Slots { // beside who writes other fields
		if at < 0 && in.Slots[i].Group != nil && in.Slots[i].LaunchesInto(in.reservation.ID) {
			at = i
		}
	}

	switch {
	case len(asked) > 0 && (in.OnEC2() || !in.unattended):
		return asked, true
	case at >= 0:
		return in.Slots[at].Group.SubnetIDs, in.interfaceSubnet() == "" || in.efaMode() == efaModeOf(in.keptTemplate())
	case len(asked) > 0: // sync names those of all zones
		return asked, false
	case !in.OnEC2():
		return slices.Concat(in.like.SubnetIDs, in.Cluster.SubnetIDs), false
	case own.Name != "":
		return own.SubnetIDs, in.isListed()
	}

	for _, g := range in.settings().Groups {
		ids = union(ids, g.SubnetIDs)
	}

	return ids, false
}

// chooseSubnets finds the candidates among the VPC's subnets.
func (in *inspection) chooseSubnets() {
	ids, _ := in.subnets()
	for _, id := range union(nil, ids) {
		if i := slices.IndexFunc(in.VPC, func(s ec2.Subnet) bool { return s.ID == id }); i >= 0 {
			in.chosen = append(in.chosen, in.VPC[i])
		} else {
			in.unknownSubnets = append(in.unknownSubnets, id)
		}
	}
}

// readLike reads the launch template to copy: that of the node group, with provider ec2 the requested one.
func (s Setup) readLike(ctx context.Context, in *inspection) error {
	name := in.like.TemplateID

	version := in.like.TemplateVersion
	fix := "give --like with another node group"
	missing := fmt.Sprintf("node group %s names launch template %s version %s, which EC2 does not have", in.like.Name,
		name, version)
	if in.OnEC2() {
		name, version, _ = strings.Cut(in.request.Like, ":")
		fix = "name another one"
		missing = fmt.Sprintf("EC2 has no launch template %s in %s to copy from (--like)",
			in.request.Like, in.Region)
	}

	if name == "" {
		if in.like.ID != "" {
			in.source = capacity.LaunchTemplate{SecurityGroupIDs: in.like.SecurityGroupIDs, KeyName: in.like.KeyName}
		}
		return nil
	}

	source, found, err := s.EC2.LaunchTemplate(ctx, name, version)
	if err == nil && !found {
		in.problem(capacity.LikeUnknown, fix, "%s", missing)
	}

	in.source = source

	return err
}

func (s Setup) readType(ctx context.Context, in *inspection) error {
	types, err := s.EC2.InstanceTypes(ctx, []string{in.reservation.InstanceType})
	in.launch.Type = types[in.reservation.InstanceType]
	return err
}

// readLaunch reads what nodes will be launched with.
func (s Setup) readLaunch(ctx context.Context, in *inspection) (err error) {
	l := &in.launch

	l.Template, err = s.EC2.PlannedTemplate(ctx, in.templateSpec())
	if err != nil {
		return err
	}

	if !in.unattended { // else it is that of nodes that run
		in.attach()
		l.Read(ctx, s.EC2)
	}

	if site.IsAbsent(l.ImageErr) {
		in.problem(capacity.BadImage, "give an image of this region with --ami",
			"EC2 has no image %s in %s (%s)", l.Template.ImageID, in.Region, ec2.Code(l.ImageErr))
		l.ImageErr = nil
	}

	if action := ec2.DeniedAction(l.NetworkErr); action != "" {
		in.warn("whether nodes reach AWS was not checked: %s is not allowed", action)

		l.NetworkErr = nil
	}

	return cmp.Or(ctx.Err(), l.ImageErr, l.NetworkErr)
}

// attach notes what the nodes of the launch are attached to.
func (in *inspection) attach() {
	l := &in.launch
	l.Provider = in.Provider
	l.Group = in.request.NodeGroup
	l.Region = in.Region
	l.Nodes = cmp.Or(in.request.MaxNodes, in.reservation.Size())
	l.Subnets = in.launchSubnets()
}

// settings returns those of the queue, entry those of its node group; zero if there are none.
func (in *inspection) settings() capacity.PartitionSettings {
	p, _ := in.request.Config.Partition(in.request.Queue)
	return p
}

func (in *inspection) entry() capacity.GroupSettings {
	return in.settings().Group(in.request.NodeGroup)
}

// settingsFile is the file in conf.d for the partition.
type settingsFile struct {
	path string
	// owned: setup wrote it, or may; err is why that is not known.
	owned bool
	err   error
}

func readFile(r Request) (f settingsFile) {
	path := r.ConfigPath
	if path == "" && r.Config != nil {
		path = r.Config.Path
	}

	if path != "" {
		f.path = config.PartitionPath(path, r.Queue)
		f.owned, f.err = config.WrittenBySetup(f.path)
	}

	return f
}
