package setup

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/site"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// wanted is the result of a plan, beside what was read for it.
type wanted struct {
	*inspection
	template  capacity.LaunchTemplateSpec
	group     pcs.NodeGroup // without ID, status and template
	partition capacity.GroupSettings
}

// decide returns the steps from what was read, or what prevents them. It checks in stages, and a stage
// with a problem is the last one: what the next would find may follow from that.
func decide(read inspection) *Plan {
	in := &read
	in.problems, in.warnings = slices.Clip(in.problems), slices.Clip(in.warnings)
	p := &Plan{Cluster: in.inv.Cluster, Reservation: in.reservation}
	var slot slotState
	var want *wanted
	for _, stage := range []func(){
		in.checkAsked,
		in.checkBound,
		func() { slot = in.chooseSlot() },
		func() {
			want = in.want(slot)
			in.checkMatch(want, slot)
			in.checkSubnets()
		},
		func() {
			in.checkLaunch()
			in.judge()
			in.checkEFA()
			in.checkAddresses(want, slot)
			in.checkUsers(want)
			in.checkQuotas(want, slot)
			in.checkAccounts()
			in.checkEntry(want)
			p.Slot = slot.name
			var files Steps
			if !in.unattended {
				files, p.Snippet = want.files()
			}
			made := in.onAWS(want, slot)
			if in.onEC2() { // the settings name the template, and slurm.conf has no node before them
				p.Actions = append(made, files...)
			} else { // wherever it stops, there is no queue without settings, which the filter and sync go by, and without a fence
				p.Actions = append(files, made...)
			}
			for i := range p.Actions {
				p.Actions[i].About = capacity.Subject{Partition: in.request.Queue, Slot: slot.name, Reservation: in.reservation.ID}
			}
			p.Warnings, p.trial = in.warnings, in.trial(want)
		},
	} {
		if stage(); len(in.problems) > 0 {
			break
		}
	}
	p.Mismatches = in.problems
	return p
}

// onAWS returns the steps in AWS, and the fence between them. Each has what the one before has made.
func (in *inspection) onAWS(want *wanted, slot slotState) Steps {
	var written capacity.LaunchTemplate
	template := in.templateStep(want, slot)
	steps := Steps{template.with(func(ctx context.Context, w World) (err error) {
		if template.Verb != Nothing {
			written, err = w.EnsureLaunchTemplate(ctx, want.template)
		}
		return err
	})}
	if in.onEC2() {
		return steps
	}

	group, compared := groupStep(want, slot, template)
	g := wantedGroup(want, slot, template)
	steps = append(steps, group.with(func(ctx context.Context, w World) (err error) {
		if group.Verb == Nothing {
			g, err = w.AwaitNodeGroup(ctx, g)
			return err
		}
		if g.TemplateVersion == "" {
			g.TemplateID, g.TemplateVersion = written.ID, written.Version
		}
		g, _, err = w.EnsureNodeGroup(ctx, g, true)
		return err
	}))
	in.checkUnused(slot, compared)
	if in.slurm && !in.reservation.End.IsZero() {
		steps = append(steps, in.fenceStep(want, slot, group.Verb).with(func(ctx context.Context, w World) error {
			return placeFence(ctx, w, want.request.Queue, slot.name, in.reservation.ID)
		}))
	}
	queue := in.queueStep(want, slot)
	now, _ := in.inv.Queue(want.request.Queue)
	steps = append(steps, queue.with(func(ctx context.Context, w World) error {
		if queue.Verb == Nothing {
			return nil
		}
		return w.EnsureQueue(ctx, want.queueWith(now, []string{g.ID}))
	}))
	in.checkUnknown(want, slot, template, group, queue)
	in.checkFamiliar()
	return steps
}

// chooseSlot takes the slot that has the reservation already, else one without a node group, else
// one with an ended reservation.
func (in *inspection) chooseSlot() slotState {
	for _, slot := range in.slots {
		if slot.group != nil && !slot.ours {
			in.notOurs("compute node group", slot.name, slot.group.ARN)
		}
	}
	choices := []func(slotState) bool{
		func(s slotState) bool { return s.holds(in.reservation.ID) },
		func(s slotState) bool { return s.group == nil },
		func(s slotState) bool { return s.ours && !s.live },
	}
	for _, fits := range choices {
		if i := slices.IndexFunc(in.slots, fits); i >= 0 {
			return in.slots[i]
		}
	}
	var held []string
	for _, slot := range in.slots {
		if slot.ours {
			held = append(held, fmt.Sprintf("%s has %s until %s", slot.name, slot.reservationID, until(slot.until)))
		}
	}
	if len(held) > 0 {
		in.problem(capacity.SlotsTaken, "run this again after one of them has ended, or choose another --node-group",
			"both slots of node group %s are taken: %s", in.request.NodeGroup, strings.Join(held, ", "))
	}
	return in.slots[0]
}

func (in *inspection) notOurs(what, name, id string) {
	fix := fmt.Sprintf("choose another name, or hand it over by tagging %s with %s=%s", id, capacity.TagCluster,
		in.inv.Cluster.Name)
	in.problem(capacity.NotOurs, fix, "%s %s exists, but does not carry our tag, so it is not changed", what, name)
}

// want returns the result of the plan.
func (in *inspection) want(slot slotState) *wanted {
	r := in.reservation
	most := in.mostNodes(slot)
	least := most
	if in.request.Dynamic {
		least = 0
	}
	subnets := in.wantedSubnets()
	settings, _ := in.like.SettingsFor(r.InstanceType)
	launchTemplate := ""
	if in.onEC2() {
		launchTemplate = in.keptEntryTemplate(slot)
	}
	return &wanted{
		inspection: in,
		template:   in.templateSpec(slot.name),
		group: pcs.NodeGroup{
			Name: slot.name, PurchaseOption: r.Kind, InstanceTypes: []string{r.InstanceType}, SubnetIDs: subnets,
			ClusterID: in.inv.Cluster.ID, AMI: in.ami(), InstanceProfile: in.profile(), Min: least, Max: most, Tags: in.tags(),
			SlurmSettings: settings, IdleSeconds: in.like.IdleSeconds, Actions: in.actions,
		},
		partition: capacity.GroupSettings{
			Name: in.request.NodeGroup, InstanceType: r.InstanceType, SubnetIDs: subnets, PurchaseOption: r.Kind,
			ReservationIDs: []string{r.ID}, MaxNodes: most, Dynamic: in.request.Dynamic, LaunchTemplate: launchTemplate,
		},
	}
}

// place is where the cluster is; self-managed Slurm has no name in the settings.
func (in *inspection) place() config.Place {
	p := config.Place{Region: in.region, RegionFrom: in.request.RegionFrom}
	if !in.onEC2() {
		p.Cluster, p.ClusterFrom = in.inv.Cluster.Name, in.request.ClusterFrom
	}
	return p
}

// queueWith is the wanted queue with these node groups; now is the queue as it is.
func (w *wanted) queueWith(now pcs.Queue, groups []string) pcs.Queue {
	return pcs.Queue{
		Name:          w.request.Queue,
		ClusterID:     w.inv.Cluster.ID,
		GroupIDs:      groups,
		SlurmSettings: w.queueSettings(now.SlurmSettings),
		Tags:          map[string]string{capacity.TagCluster: w.inv.Cluster.Name},
	}
}

// wantedSubnets returns the requested or kept subnets; else the candidates in the reservation's
// zone, since no other takes a launch into it.
func (in *inspection) wantedSubnets() []string {
	var ids []string
	said := len(in.request.SubnetIDs) > 0
	stays := !said && len(in.keptSubnets()) > 0
	if only := in.interfaceSubnet(); only != "" && !said && (!stays || in.efa() != efaOf(in.keptTemplate())) {
		return []string{only}
	}
	for _, s := range in.network.chosen {
		if (said || stays || s.AZID == in.reservation.AZID) && !slices.Contains(ids, s.ID) {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// launchSubnets returns the subnets of launches: the candidates in the reservation's zone, or the
// one inside the network interfaces.
func (in *inspection) launchSubnets() (subnets []ec2.Subnet) {
	only := in.interfaceSubnet()
	for _, s := range in.network.chosen {
		if s.AZID == in.reservation.AZID && (only == "" || only == s.ID) {
			subnets = append(subnets, s)
		}
	}
	return subnets
}

// until is the end of a reservation in words.
func until(end time.Time) string {
	if end.IsZero() {
		return "it is cancelled"
	}
	return capacity.FormatUTC(end)
}

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

// trial is the launch of one node into each subnet in question.
func (in *inspection) trial(want *wanted) ec2.Trial {
	r := in.reservation
	t := ec2.Trial{
		Spec:            &want.template,
		ImageID:         in.ami(),
		InstanceProfile: in.profile(),
		Launch: capacity.Launch{
			InstanceType: r.InstanceType, ReservationID: r.ID, Kind: r.Kind, PlacementGroup: r.PlacementGroup,
		},
	}
	if in.onEC2() {
		t.Launch.Tags = in.tags()
	}
	for _, s := range in.launchSubnets() {
		t.Subnets = append(t.Subnets, s.ID)
	}
	return t
}

// try asks EC2 about the launch, unless a known problem prevents it: EC2 would only name that again.
func (s Setup) try(ctx context.Context, p *Plan) {
	if s.Unattended || len(p.Mismatches) > 0 || len(p.trial.Subnets) == 0 {
		return
	}
	tried, err := s.EC2.TryLaunches(ctx, p.trial)
	answers := site.Tried(p.Slot, tried, err)
	p.Mismatches = append(p.Mismatches, answers.Refusals...)
	if answers.Unasked != "" {
		p.Warnings = append(p.Warnings, answers.Unasked)
	}
	p.DryRun = answers.OK
}
