package setup

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/check"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/facts"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// Plan reads AWS, Slurm and settings, and returns the steps. It changes nothing. An error is a
// failed read; obstacles are among Plan.Problems.
func (s Setup) Plan(ctx context.Context, r Request) (*Plan, error) {
	in, err := s.sources().inspect(ctx, r)
	if err != nil {
		return nil, err
	}

	p := plan(*in)
	if !s.Unattended && len(p.Mismatches()) == 0 &&
		len(p.trial.Subnets) > 0 { // else EC2 would only name a known problem again
		tried, err := s.EC2.TryLaunches(ctx, p.trial)
		p.Add(check.Trial(p.Slot, tried, err)...)
	}

	return p.withoutNil(), ctx.Err()
}

// EC2 answers what setup and teardown ask before they plan, as the adapter ec2 and the model do.
type EC2 interface {
	facts.AWS
	facts.LaunchReads
	Now() time.Time
	VPCSubnets(ctx context.Context, vpcs ...string) ([]ec2.Subnet, error)
	LaunchTemplate(ctx context.Context, idOrName, version string) (t capacity.LaunchTemplate, found bool, err error)
	LaunchTemplates(ctx context.Context, names []string) (map[string]capacity.LaunchTemplate, error)
	LaunchTemplatesByTag(ctx context.Context, tags map[string]string) ([]capacity.LaunchTemplate, error)
	TemplateVersion(ctx context.Context, reference string) (t capacity.LaunchTemplate, found bool, err error)
	PlannedTemplate(ctx context.Context, spec capacity.LaunchTemplateSpec) (capacity.LaunchTemplate, error)
}

// sources are asked before anything is planned. Slurm may be nil.
type sources struct {
	EC2
	pcs        facts.PCS
	slurm      Slurm
	groups     Groups
	unattended bool // as Setup says
}

func (s Setup) sources() sources { return sources{s.EC2, s.PCS, s.Slurm, s.Groups, s.Unattended} }

// newView returns a view with what the request says.
func (s sources) newView(r Request) view {
	v := view{request: r, unattended: s.unattended, partitionFile: readFile(r)}
	v.Provider = cmp.Or(r.Provider, capacity.ProviderPCS)

	if r.Config == nil {
		v.request.Config = config.Default()
	}

	v.request.Cluster = cmp.Or(r.Cluster, v.request.Config.Cluster)

	return v
}

// inspect reads what setup goes by. It sends reading calls only, in stages: what the request names, what that names,
// and what is launched with.
func (s sources) inspect(ctx context.Context, r Request) (*inspection, error) {
	in := &inspection{view: s.newView(r), waits: s.slurm != nil, known: map[string]capacity.Reservation{}}
	in.Region = s.Region()

	err := s.sideBySide(ctx, in.readCluster, in.readReservation, in.readInside)
	if err != nil {
		return nil, err
	}

	if in.absent != nil {
		in.problem(capacity.ReservationUnknown, ec2.Advice(in.absent),
			"EC2 has no reservation %q in %s (%s)", r.Reservation, in.Region, ec2.Code(in.absent))
	}

	if in.hasProblems() {
		return in, nil // plan says them, and what is wrong beside them
	}

	in.slots = in.newSlots()

	like, found := in.chooseLike()
	in.like = like
	in.Add(found.Problems...)

	err = s.sideBySide(ctx, in.readSlots, in.readGroup, in.readLike, in.readType, in.readOthers, in.readSlurm)
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
	in.choose()

	if in.hasProblems() {
		return in, nil
	}

	return in, in.readLaunch(ctx, s)
}

// sideBySide makes the reads of a stage: each writes fields of its own, and reads only what earlier stages have
// written. One of a stage at most finds problems.
func (s sources) sideBySide(ctx context.Context, stage ...func(context.Context, sources) error) error {
	reads, ctx := errgroup.WithContext(ctx)
	for _, read := range stage {
		reads.Go(func() error { return read(ctx, s) })
	}

	return reads.Wait()
}

// completeSlots notes what EC2 says of the slots. The launch template of provider ec2 is what its node group uses, and
// where nobody names another one what is copied, too.
func (in *inspection) completeSlots() {
	for i := range in.slots {
		slot := &in.slots[i]
		if in.OnEC2() && in.Owns(slot.Template.Tags) {
			slot.Uses = slot.Template
		}

		if in.OnEC2() && in.request.Like == "" { // one that is not ours is refused
			in.source = slot.Template
		}
	}
}

// choose notes what follows from the reads for the launch, which is read last.
func (in *inspection) choose() {
	var err error

	in.userData, in.nodeScript, err = in.nodeUserData()
	if err != nil {
		in.problem(capacity.BadUserData, "correct it in its launch template, or name another --like",
			"the user data of %s cannot be used: %s", cmp.Or(in.like.Name, in.source.Name), err)
	}

	in.users = in.findUsers()
	in.slots[0].Instances += in.users.own
	in.chosen, in.unknownSubnets = in.chooseSubnets()
}

// readCluster reads the PCS cluster with its node groups and queues, and counts the instances of ours. Self-managed
// Slurm has none.
func (v *view) readCluster(ctx context.Context, s sources) (err error) {
	if v.Provider != capacity.ProviderPCS {
		v.Cluster.Name = v.request.Mark
		return nil
	}

	missing, err := v.ReadCluster(ctx, s.pcs, v.request.Cluster)
	if missing != nil {
		v.Add(*missing)
	}

	if err != nil {
		return err
	}

	var ours []string
	for _, g := range v.Groups {
		if v.Owns(g.Tags) {
			ours = append(ours, g.ID)
		}
	}

	found, err := s.FindInstances(ctx,
		capacity.InstanceQuery{Tags: map[string][]string{pcs.TagNodeGroupID: ours}})
	if err != nil {
		return fmt.Errorf("looking for instances of node groups %s: %w", strings.Join(ours, ", "), err)
	}

	v.running = map[string]int{}
	for _, i := range found {
		v.running[i.Tags[pcs.TagNodeGroupID]]++
	}

	return nil
}

// note adds the reservations of some answers to the known ones. A failed read is an error; absent says why EC2 does not
// have one of them.
func (in *inspection) note(answers facts.Answers) (absent, err error) {
	for _, r := range answers.Reservations.Value {
		in.known[r.ID] = r
	}

	for _, m := range answers.Missing {
		if !isAbsent(m.Err) {
			return nil, fmt.Errorf("describing %s in %s: %w", m.ID, in.Region, m.Err)
		}

		absent = m.Err
	}

	return absent, answers.Reservations.Err
}

// isAbsent reports whether EC2 says that an id is of nothing, or cannot be one.
func isAbsent(err error) bool {
	code := ec2.Code(err)
	return strings.HasPrefix(code, "Invalid") &&
		(strings.Contains(code,
			"NotFound") || strings.Contains(code, "Malformed") || strings.HasSuffix(code, ".Unavailable"))
}

// readReservation reads the reservation. Nodes on demand have none: what stands for it is what is asked for.
func (in *inspection) readReservation(ctx context.Context, s sources) (err error) {
	if in.onDemand() {
		in.Now = s.Now()
		in.reservation = capacity.Reservation{
			Kind:         capacity.OnDemand,
			State:        capacity.StateActive,
			InstanceType: in.request.InstanceType,
			Total:        cmp.Or(in.request.MaxNodes, in.entry().MaxNodes),
		}

		return nil
	}

	answers := facts.Read(ctx, s, facts.Query{Reservations: []string{in.request.Reservation}})
	in.Now = s.Now() // not before EC2's answer, which tells the time
	in.absent, err = in.note(answers)
	in.reservation = in.known[in.request.Reservation]

	return err
}

// readOthers reads the reservations of the slots and of the settings, and the subnets of the nodes' VPC: with provider
// ec2 that of the first subnet that there is.
func (in *inspection) readOthers(ctx context.Context, s sources) error {
	query := facts.Query{Reservations: reservationsOf(in.settings()), Subnets: in.Cluster.SubnetIDs}
	for i := range in.slots { // beside who writes other fields
		query.Reservations = append(query.Reservations, in.slots[i].ReservationID)
	}

	if in.OnEC2() {
		query.Subnets, _ = in.subnets()
	}

	query.Reservations = difference(query.Reservations, in.request.Reservation)
	answers := facts.Read(ctx, s, query)

	_, err := in.note(answers)
	if err = cmp.Or(err, answers.Subnets.Err); err != nil || len(answers.Subnets.Value) == 0 {
		return err
	}

	in.vpc, err = s.VPCSubnets(ctx, answers.Subnets.Value[0].VPC)

	return err
}

func (in *inspection) readInside(ctx context.Context, s sources) (err error) {
	if in.onDemand() {
		return nil
	}

	in.inside, err = s.FindInstances(ctx, capacity.InstanceQuery{Reservation: in.request.Reservation})

	return err
}

// readSlots reads the launch templates of the slots, and what their node groups launch with.
func (in *inspection) readSlots(ctx context.Context, s sources) error {
	var names []string

	reads, ctx := errgroup.WithContext(ctx)
	for i := range in.slots {
		slot := &in.slots[i]
		names = append(names, capacity.TemplateName(in.Cluster.Name, slot.Name))
		if slot.Owned {
			reads.Go(func() (err error) {
				slot.Uses, _, err = s.TemplateVersion(ctx, slot.Group.TemplateID+":"+slot.Group.TemplateVersion)
				return err
			})
		}
	}

	reads.Go(func() error {
		templates, err := s.LaunchTemplates(ctx, names)
		for i, name := range names {
			in.slots[i].Template = templates[name]
		}

		return err
	})

	return reads.Wait()
}

// readGroup reads the Capacity Reservation group of nodes on demand.
func (in *inspection) readGroup(ctx context.Context, s sources) (err error) {
	if in.onDemand() {
		in.group, in.hasGroup, err = s.groups.Find(ctx, in.groupName())
	}

	return err
}

// readSlurm reads what Slurm has of the slots. If it does not answer, SlurmErr says why.
func (v *view) readSlurm(ctx context.Context, s sources) error {
	if len(v.slots) == 0 && v.lender() == "" || s.slurm == nil {
		return nil
	}

	var found map[string]SlurmSlot

	found, v.jobs, v.SlurmErr = s.slurm.Slots(ctx, v.request.Queue, v.slotNodes())
	for i := range v.slots {
		v.slots[i].Slurm = found[v.slots[i].Name]
	}

	return ctx.Err()
}

// readLike reads the launch template to copy: that of the node group, with provider ec2 the requested one.
func (in *inspection) readLike(ctx context.Context, s sources) error {
	name := in.like.TemplateID

	version := in.like.TemplateVersion
	fix := "use --like with another node group"
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

	source, found, err := s.LaunchTemplate(ctx, name, version)
	if err == nil && !found {
		in.problem(capacity.LikeUnknown, fix, "%s", missing)
	}

	in.source = source

	return err
}

func (in *inspection) readType(ctx context.Context, s sources) error {
	types, err := s.InstanceTypes(ctx, []string{in.reservation.InstanceType})
	in.launch.Type = types[in.reservation.InstanceType]
	return err
}

// readLaunch reads what nodes will be launched with.
func (in *inspection) readLaunch(ctx context.Context, s sources) (err error) {
	l := &in.launch

	l.Template, err = s.PlannedTemplate(ctx, in.templateSpec())
	if err != nil {
		return err
	}

	if !in.unattended { // else it is that of nodes that run
		in.launch = in.attached()

		l.Read(ctx, s)
	}

	if isAbsent(l.ImageErr) {
		in.problem(capacity.BadImage, "name an image of this region with --ami",
			"EC2 has no image %s in %s (%s)", l.Template.ImageID, in.Region, ec2.Code(l.ImageErr))
		l.ImageErr = nil
	}

	if action := ec2.DeniedAction(l.NetworkErr); action != "" {
		in.warn("whether nodes reach AWS was not checked: %s is not allowed", action)

		l.NetworkErr = nil
	}

	return cmp.Or(ctx.Err(), l.ImageErr, l.NetworkErr)
}

func readFile(r Request) (f settingsFile) {
	path := r.ConfigPath
	if path == "" && r.Config != nil {
		path = r.Config.Path
	}

	// The file of a spare partition is the lender's.
	partition := r.Queue
	if r.Config != nil {
		for _, p := range r.Config.Partitions {
			if p.Spare == r.Queue {
				partition = p.Name
			}
		}
	}

	if path != "" {
		f.path = config.PartitionPath(path, partition)
		f.owned, f.err = config.WrittenBySetup(f.path)
	}

	return f
}
