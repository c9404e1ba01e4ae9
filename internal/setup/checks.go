package setup

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/check"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// maxPerCluster bounds the node groups, and the queues, of a cluster; it cannot be raised: AWS PCS User Guide,
// "Quotas".
const maxPerCluster = 10

// sizeLimits are the largest sums of all node groups' maxima, by the cluster's size: AWS PCS API
// Reference, CreateCluster, size.
var sizeLimits = map[string]int{"SMALL": 32, "MEDIUM": 512, "LARGE": 2048}

var queueName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{2,24}$`)

// checkRequest finds what is wrong with what is asked for: names, the cluster, and the reservation's state.
func checkRequest(in inspection) (found findings) {
	if problem := config.GroupName(in.Provider, in.request.NodeGroup); problem != "" {
		found.problem(capacity.BadName, "choose another --node-group", "%s", problem)
	}

	if !in.OnEC2() && !queueName.MatchString(in.request.Queue) {
		found.problem(capacity.BadName, "choose another --queue",
			"%q cannot name a PCS queue: it has 3 to 25 letters, digits and hyphens, and starts with a letter",
			in.request.Queue)
	}

	if in.Cluster.ID != "" && !in.OnEC2() {
		found.Add(check.Cluster(in.Site, in.reservation.Kind)...)
	}

	if in.onDemand() && in.reservation.Total == 0 {
		found.problem(capacity.WrongSize, "add --max-nodes", "nothing says how many nodes on demand there may be")
	}

	if m := capacity.StateMismatch(in.reservation, in.Now); in.reservation.ID != "" && m != nil {
		found.Add(*m)
	}

	return found
}

// checkEntryFits compares the reservation with what the settings have of its node group.
func checkEntryFits(in inspection) (found findings) {
	for _, p := range in.request.Config.Partitions {
		if p.Name != in.request.Queue && p.Group(in.request.NodeGroup).Name != "" {
			found.problem(capacity.NodeGroupName, "choose another --node-group",
				"node_group %q is already in partition %q of %s", in.request.NodeGroup, p.Name, p.File)

			return found
		}
	}
	// The id would replace the `select`, and with it all selected reservations.
	if g := in.entry(); g.Select != nil && !g.Select.Matches(in.reservation) {
		found.problem(
			capacity.SelectFails,
			"tag it as `select` there says, or choose another --node-group",
			"node_group %q of the settings selects its reservations, and %s is not one of them",
			g.Name,
			in.reservation.ID,
		)
	}

	return found
}

func checkMatch(in inspection, want wanted) (found findings) {
	if in.onDemand() {
		return checkOnDemand(in)
	}

	if r := in.reservation; want.leaves {
		found.warn("%d of the %d instances of reservation %s are for others (%s), so the node group gets the %d that "+
			"are left", in.users.instances, r.Size(), r.ID, in.users.names, want.entry.MaxNodes)
	}

	instanceType, kind := in.fixedTypeAndKind()
	g := capacity.NodeGroup{
		Name:           want.slot.Name,
		InstanceType:   instanceType,
		PurchaseOption: kind,
		MaxNodes:       want.entry.MaxNodes,
		Platform:       in.launch.Image.Platform,
	}
	for _, s := range in.chosen {
		g.Subnets = append(g.Subnets, s.Subnet)
	}

	for _, m := range capacity.Match(in.reservation, g, in.Now) {
		there := subnetIDs(in.inZone(in.vpc))
		switch size := in.reservation.Size(); {
		case m.Code == capacity.WrongSize && size == 0, m.Code == capacity.WrongZone && len(in.chosen) == 0:
			continue // below, and checkSubnets says why
		case m.Code == capacity.WrongType || m.Code == capacity.WrongPurchase:
			m.Fix = "choose another --node-group, or another reservation"
		case m.Code == capacity.WrongSize:
			m.Fix = fmt.Sprintf("use --max-nodes %d or less", size)
		case m.Code == capacity.WrongZone && len(there) > 0:
			m.Fix = subnetFlag + strings.Join(there, " or ")
		case m.Code == capacity.WrongZone:
			m.Fix += "; the VPC has none there, so create one"
		}

		found.Add(m)
	}

	if r := in.reservation; r.Size() == 0 && r.State != capacity.StateActive {
		found.problem(capacity.WrongSize, "run this again once EC2 shows its size",
			"EC2 has not yet reported how many instances reservation %s has", r.ID)
	}

	return found
}

// checkOnDemand compares nodes on demand with what the node group is already.
func checkOnDemand(in inspection) (found findings) {
	g := in.entry()
	if g.Name != "" && (g.PurchaseOption.IsReserved() || g.InstanceType != in.request.InstanceType) {
		found.problem(capacity.NodeGroupName, "choose another --node-group",
			"node_group %q of the settings has %s nodes of type %s", g.Name, g.PurchaseOption, g.InstanceType)
	}

	if in.hasGroup && !in.Owns(in.group.Tags) {
		found.notOurs(in, WhatGroup, in.group.Name, in.group.ARN)
	}

	// The launch template has it inside.
	if subnet := in.interfaceSubnet(); subnet != "" && len(in.chosen) > 1 {
		found.warn("with EFA all nodes are in subnet %s; for more zones use a node group for each, or --efa none", subnet)
	}

	return found
}

// fixedTypeAndKind returns the type and the kind that the node group keeps: those of a slot beside it, which PCS never
// changes, else those of its entry in the settings. The kind of an entry without another reservation is changed to fit.
func (in *inspection) fixedTypeAndKind() (instanceType string, kind capacity.Kind) {
	r := in.reservation
	g := in.entry()

	instanceType = cmp.Or(g.InstanceType, r.InstanceType)
	kind = r.Kind
	has := slices.ContainsFunc(g.ReservationIDs,
		func(id string) bool { live, _ := in.IsLive(id); return live && id != r.ID })
	if g.Name != "" && (has || g.Select.Matches(r) || !g.PurchaseOption.IsReserved()) {
		kind = g.PurchaseOption
	}

	for _, other := range in.slots {
		if other.Owned && len(other.Group.InstanceTypes) > 0 && other.Group.InstanceTypes[0] != r.InstanceType {
			instanceType = other.Group.InstanceTypes[0]
		}

		if live, _ := in.IsLive(other.ReservationID); live && !other.HasReservation(r.ID) &&
			other.Group.PurchaseOption.PCSPurchaseOption() != r.Kind.PCSPurchaseOption() {
			kind = other.Group.PurchaseOption
		}
	}

	return instanceType, kind
}

func checkQuotas(in inspection, want wanted) (found findings) {
	if in.OnEC2() {
		return found
	}

	nodes := want.group.Max
	for _, g := range in.Groups {
		if g.Name != want.group.Name {
			nodes += g.Max
		}
	}

	queues := len(in.Queues)
	for _, name := range []string{in.request.Queue, in.spare()} {
		if _, exists := in.Queue(name); !exists && name != "" {
			queues++
		}
	}

	if want.slot.Group == nil && len(in.Groups) >= maxPerCluster || queues > max(maxPerCluster, len(in.Queues)) {
		found.problem(capacity.PCSQuota, "delete one that is not used",
			"PCS allows a cluster %d compute node groups and as many queues; %s has %d and %d", maxPerCluster,
			in.Cluster.Name, len(in.Groups), len(in.Queues))
	}

	if limit, known := sizeLimits[in.Cluster.Size]; known && nodes > limit {
		found.problem(capacity.ClusterSize,
			fmt.Sprintf("use --max-nodes %d or less, lower the maximum of another node group, or use a larger cluster",
				max(0, want.group.Max-(nodes-limit))),
			"cluster %s is %s and may have %d nodes; with %d in %s the maxima of its node groups add up to %d",
			in.Cluster.Name, in.Cluster.Size, limit, want.group.Max, want.group.Name, nodes)
	}

	return found
}

// checkUsers refuses a plan that needs more instances than others leave: launches of both would fail for ever.
func checkUsers(in inspection, want wanted) (found findings) {
	size := in.reservation.Size()
	left := size - in.users.instances
	if in.users.instances == 0 || want.entry.MaxNodes <= left {
		return found
	}

	fix := "choose another reservation, or free it there first"
	if left > 0 {
		fix = fmt.Sprintf("use --max-nodes %d or less", left)
	}

	found.problem(capacity.ReservationInUse, fix, "%d of the %d instances of reservation %s are used already: %s",
		min(in.users.instances, size), size, in.reservation.ID, in.users.names)

	return found
}

// checkOwners refuses changes of what somebody else made.
func checkOwners(in inspection, want wanted) (found findings) {
	if t := want.slot.Template; t.ID != "" && !in.Owns(t.Tags) {
		found.notOurs(in, "launch template", t.Name, t.ID)
	}

	if q, exists := in.Queue(in.request.Queue); exists && !in.Owns(q.Tags) {
		found.notOurs(in, "queue", q.Name, q.ARN)
	}

	return found
}

// checkUnused refuses a change that would replace running nodes.
func checkUnused(want wanted, compared pcs.Comparison) (found findings) {
	if !want.slot.Owned || want.slot.Instances == 0 || !compared.Disruptive() {
		return found
	}

	var changed []string
	for _, s := range compared {
		if s.Changed() {
			changed = append(changed, s.Name)
		}
	}

	fix := fmt.Sprintf("wait until the reservation of %s has ended, or until its nodes are down", want.slot.Name)
	found.problem(capacity.InUse, fix,
		"node group %s has %d instances, which this change would replace under their jobs: %s", want.slot.Name,
		want.slot.Instances, strings.Join(changed, ", "))

	return found
}

func checkLaunch(in inspection) (found findings) {
	if in.launch.Template.ImageID == "" {
		found.problem(
			capacity.BadImage,
			"use --ami, or name another --like that has one",
			"no image is given for the nodes",
		)
	}

	if !in.OnEC2() && in.like.InstanceProfile == "" {
		found.problem(capacity.InstanceProfile, "name another --like that has one",
			"no instance profile is given for the nodes")
	}

	if len(in.source.SecurityGroupIDs) == 0 {
		found.problem(
			capacity.SecurityGroups,
			"name another --like that has some",
			"no security group is given for the nodes",
		)
	}

	if !in.unattended { // else nodes with these parts run
		found.Add(check.Launch(in.launch)...)
	}

	return found
}

const subnetFlag = "use --subnet-ids "

func checkSubnets(in inspection) (found findings) {
	fix := "name subnets of the cluster's VPC with --subnet-ids"
	if in.OnEC2() {
		fix = fmt.Sprintf("name subnets of one VPC in %s with --subnet-ids", in.reservation.AZID)
		if len(in.chosen)+len(in.unknownSubnets) == 0 {
			found.problem(capacity.NoSubnets, fix, "no subnet is given for the nodes")
		}
	}

	if there := subnetIDs(in.inZone(in.vpc)); len(there) > 0 {
		fix = subnetFlag + strings.Join(there, " or ")
	}

	if ids := in.unknownSubnets; len(ids) > 0 {
		found.problem(capacity.SubnetUnknown, fix, "the VPC of the nodes has no subnet %s", strings.Join(ids, ", "))
	}

	return found
}

// checkAddresses compares free addresses with the nodes that do not run yet.
func checkAddresses(in inspection, want wanted) (found findings) {
	free := want.slot.Instances
	there := []string{}
	for _, s := range in.launchSubnets() {
		free += s.Free / in.addressesPerNode()
		there = append(there, s.ID)
	}

	if len(there) > 0 && free < want.entry.MaxNodes {
		fix := "use a larger subnet, free some addresses, or lower --max-nodes"
		if n := in.addressesPerNode(); n > 1 {
			fix += fmt.Sprintf("; a node takes %d addresses, and one with --efa efa-only", n)
		}

		found.problem(capacity.TooFewAddresses, fix, "subnet %s has free addresses for %d nodes, but %d are wanted",
			strings.Join(there, ", "), max(free, 0), want.entry.MaxNodes)
	}

	return found
}

// checkUnknown refuses changes that would lose settings unknown to this program, and warns about settings that are not
// copied. Slurm settings of an existing node group are never changed.
func checkUnknown(in inspection, want wanted, group, queue Step) (found findings) {
	mayLose := func(what, name string, lost []string) {
		if len(lost) > 0 {
			found.problem(capacity.UnknownSettings, "change it in PCS",
				"%s %s has settings that this version of pcs-capacity does not know, and this change could lose "+
					"them: %s",
				what, name, strings.Join(lost, ", "))
		}
	}
	switch g := want.slot.Group; group.Verb {
	case Update:
		mayLose("node group", g.Name, g.LostByUpdate())
	case Replace:
		mayLose("node group", g.Name, g.Unknown)
	}

	if q, exists := in.Queue(queue.Name); exists && queue.Verb == Update {
		mayLose("queue", q.Name, q.LostByUpdate(in.queueSettings()))
	}

	if g := want.slot.Group; g != nil && !want.slot.HasFailed() {
		if g.TemplateID == "" {
			found.Add(check.NoTemplate(*g))
		}
		return found
	}

	_, dropped := in.like.SettingsFor(in.reservation.InstanceType)
	if in.like.SlurmSettings[pcs.Gres] != "" { // it needs records of gres.conf; PCS describes the GPUs of a type itself
		dropped = append(dropped, pcs.Gres)
	}

	dropped = append(dropped, in.like.Unknown...)
	if len(dropped) > 0 {
		found.warn("settings of node group %s are not copied: %s", in.like.Name, strings.Join(dropped, ", "))
	}

	return found
}

// lock is Slurm's setting of a queue that lets accounts in: the submit filter only tells users, this keeps them out.
const lock = "AllowAccounts"

// allowAccounts returns the accounts that Slurm shall let into the queue: those of the
// partition's settings, else those asked for.
func (in *inspection) allowAccounts() []string {
	if p := in.settings(); len(p.AllowAccounts) > 0 {
		return p.AllowAccounts
	}
	return in.request.AllowAccounts
}

func checkAccounts(in inspection) (found findings) {
	asked := in.request.AllowAccounts
	has := in.allowAccounts()
	if len(asked) > 0 && !sameSet(asked, has) {
		found.problem(capacity.AllowAccounts,
			"change allow_accounts in "+in.settings().File+", and leave out --allow-accounts",
			"partition %q allows accounts %s, not %s", in.request.Queue, strings.Join(has, ","),
			strings.Join(asked, ","))
	}

	return found
}

func (in *inspection) queueSettings() map[string]string {
	accounts := in.allowAccounts()
	if len(accounts) == 0 {
		return nil
	}

	return map[string]string{lock: strings.Join(accounts, ",")}
}

// checkEFA warns where nodes come up without EFA, although people may expect it.
func checkEFA(in inspection) (found findings) {
	t := in.launch.Type
	switch {
	case in.request.EFA == capacity.EFAOnly && t.EFAInterfaces == 0 && t.Name != "":
		found.problem(capacity.EFAMissing, "leave out --efa",
			"%s has no EFA, so there is none to set up with --efa %s", t.Name, in.request.EFA)
	case t.GPUs > 0 && (in.efaMode() == "" || in.efaMode() == capacity.NoEFA):
		found.warn("the nodes come up without EFA, so jobs on several nodes talk over plain TCP")
	}

	return found
}

// checkEntry compares a reservation with the entry of the settings that it joins.
func checkEntry(in inspection) (found findings) {
	if p := in.settings(); p.Name != "" && p.Provider != in.Provider {
		found.problem(capacity.WrongProvider, "choose another --queue", "partition %q of %s has provider %q", p.Name,
			p.File, p.Provider)
	}

	return found
}

// checkSettings finds what would make the settings invalid, such as a slot that is another's too.
func checkSettings(in inspection, want wanted) (found findings) {
	for _, err := range in.request.Config.ValidateWith(want.partition) {
		found.problem(capacity.BadSettings, "choose another --queue or --node-group, or fix the settings", "%s", err)
	}

	return found
}
