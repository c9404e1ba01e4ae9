package setup

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/site"
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
func (in *inspection) checkRequest() {
	if problem := config.GroupName(in.Provider, in.request.NodeGroup); problem != "" {
		in.problem(capacity.BadName, "choose another --node-group", "%s", problem)
	}

	if !in.OnEC2() && !queueName.MatchString(in.request.Queue) {
		in.problem(capacity.BadName, "choose another --queue",
			"%q cannot name a PCS queue: it has 3 to 25 letters, digits and hyphens, and starts with a letter",
			in.request.Queue)
	}

	if in.Cluster.ID != "" && !in.OnEC2() {
		in.Add(in.ClusterProblems(in.reservation.Kind)...)
	}

	if m := capacity.StateMismatch(in.reservation, in.Now); in.reservation.ID != "" && m != nil {
		in.Add(*m)
	}
}

// checkEntryFits compares the reservation with what the settings have of its node group.
func (in *inspection) checkEntryFits() {
	for _, p := range in.request.Config.Partitions {
		if p.Name != in.request.Queue && p.Group(in.request.NodeGroup).Name != "" {
			in.problem("node-group-name", "choose another --node-group",
				"node_group %q is already in partition %q of %s", in.request.NodeGroup, p.Name, p.File)

			return
		}
	}
	// The id would replace the `select`, and with it all selected reservations.
	if g := in.entry(); g.Select != nil && !g.Select.Matches(in.reservation) {
		in.problem("select", "tag it as `select` there says, or choose another --node-group",
			"node_group %q of the settings selects its reservations, and %s is none of them", g.Name, in.reservation.ID)
	}
}

func (in *inspection) checkMatch() {
	instanceType, kind := in.fixedTypeAndKind()
	g := capacity.NodeGroup{
		Name:           in.slot.Name,
		InstanceType:   instanceType,
		PurchaseOption: kind,
		MaxNodes:       in.wantedEntry.MaxNodes,
		Platform:       in.launch.Image.Platform,
	}
	for _, s := range in.chosen {
		g.Subnets = append(g.Subnets, s.Subnet)
	}

	for _, m := range capacity.Match(in.reservation, g, in.Now) {
		there := subnetIDs(in.inZone(in.VPC))
		switch size := in.reservation.Size(); {
		case m.Code == capacity.WrongSize && size == 0, m.Code == capacity.WrongZone && len(in.chosen) == 0:
			continue // below, and checkSubnets says why
		case m.Code == capacity.WrongType || m.Code == capacity.WrongPurchase:
			m.Fix = "choose another --node-group, or another reservation"
		case m.Code == capacity.WrongSize:
			m.Fix = fmt.Sprintf("give --max-nodes %d or less", size)
		case m.Code == capacity.WrongZone && len(there) > 0:
			m.Fix = subnetFlag + strings.Join(there, " or ")
		case m.Code == capacity.WrongZone:
			m.Fix += "; the VPC has none there, so create one"
		}

		in.Add(m)
	}

	if r := in.reservation; r.Size() == 0 && r.State != capacity.StateActive {
		in.problem(capacity.WrongSize, "run this again once EC2 shows its size",
			"EC2 has not yet reported how many instances reservation %s has", r.ID)
	}
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

	for _, other := range in.Slots {
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

func (in *inspection) checkQuotas() {
	if in.OnEC2() {
		return
	}

	nodes := in.group.Max
	for _, g := range in.Groups {
		if g.Name != in.group.Name {
			nodes += g.Max
		}
	}

	_, found := in.Queue(in.request.Queue)
	if in.slot.Group == nil && len(in.Groups) >= maxPerCluster || !found && len(in.Queues) >= maxPerCluster {
		in.problem("quota", "delete one that is not used",
			"PCS allows a cluster %d compute node groups and as many queues; %s has %d and %d", maxPerCluster,
			in.Cluster.Name, len(in.Groups), len(in.Queues))
	}

	if limit, known := sizeLimits[in.Cluster.Size]; known && nodes > limit {
		in.problem("cluster-size",
			fmt.Sprintf("give --max-nodes %d or less, lower the maximum of another node group, or use a larger cluster",
				max(0, in.group.Max-(nodes-limit))),
			"cluster %s is %s and may have %d nodes; with %d in %s the maxima of its node groups add up to %d",
			in.Cluster.Name, in.Cluster.Size, limit, in.group.Max, in.group.Name, nodes)
	}
}

// checkUsers refuses a plan that needs more instances than others leave: launches of both would fail for ever.
func (in *inspection) checkUsers() {
	size := in.reservation.Size()
	left := size - in.usedInstances
	if in.usedInstances == 0 || in.wantedEntry.MaxNodes <= left {
		return
	}

	fix := "choose another reservation, or free it there first"
	if left > 0 {
		fix = fmt.Sprintf("give --max-nodes %d or less", left)
	}

	in.problem("reservation-in-use", fix, "%d of the %d instances of reservation %s are used already: %s",
		min(in.usedInstances, size), size, in.reservation.ID, in.users)
}

// checkUnused refuses a change that would replace running nodes.
func (in *inspection) checkUnused(compared pcs.Comparison) {
	if !in.slot.Owned || in.slot.Instances == 0 || !compared.Disruptive() {
		return
	}

	var changed []string
	for _, s := range compared {
		if s.Changed() {
			changed = append(changed, s.Name)
		}
	}

	fix := fmt.Sprintf("wait until the reservation of %s has ended, or until its nodes are down", in.slot.Name)
	in.problem("in-use", fix,
		"node group %s has %d instances, which this change would replace under their jobs: %s", in.slot.Name,
		in.slot.Instances, strings.Join(changed, ", "))
}

func (in *inspection) checkLaunch() {
	if in.launch.Template.ImageID == "" {
		in.problem(capacity.BadImage, "give --ami, or another --like that has one", "no image is given for the nodes")
	}

	if !in.OnEC2() && in.like.InstanceProfile == "" {
		in.problem(capacity.InstanceProfile, "give another --like that has one",
			"no instance profile is given for the nodes")
	}

	if len(in.source.SecurityGroupIDs) == 0 {
		in.problem("security-groups", "give another --like that has some", "no security group is given for the nodes")
	}
}

const subnetFlag = "give --subnet-ids "

func (in *inspection) checkSubnets() {
	fix := "name subnets of the cluster's VPC with --subnet-ids"
	if in.OnEC2() {
		fix = fmt.Sprintf("name subnets of one VPC in %s with --subnet-ids", in.reservation.AZID)
		if len(in.chosen)+len(in.unknownSubnets) == 0 {
			in.problem("subnets", fix, "no subnet is given for the nodes")
		}
	}

	if there := subnetIDs(in.inZone(in.VPC)); len(there) > 0 {
		fix = subnetFlag + strings.Join(there, " or ")
	}

	if ids := in.unknownSubnets; len(ids) > 0 {
		in.problem("subnet-unknown", fix, "the VPC of the nodes has no subnet %s", strings.Join(ids, ", "))
	}
}

// checkAddresses compares free addresses with the nodes that do not run yet.
func (in *inspection) checkAddresses() {
	free := in.slot.Instances
	there := []string{}
	for _, s := range in.launchSubnets() {
		free += s.Free / in.addressesPerNode()
		there = append(there, s.ID)
	}

	if len(there) > 0 && free < in.wantedEntry.MaxNodes {
		fix := "use a larger subnet, free some addresses, or give a smaller --max-nodes"
		if n := in.addressesPerNode(); n > 1 {
			fix += fmt.Sprintf("; a node takes %d addresses, and one with --efa efa-only", n)
		}

		in.problem("addresses", fix, "subnet %s has free addresses for %d nodes, but %d are wanted",
			strings.Join(there, ", "), max(free, 0), in.wantedEntry.MaxNodes)
	}
}

// checkUnknown refuses changes that would lose settings unknown to this program, and warns about settings that are not
// copied. Slurm settings of an existing node group are never changed.
func (in *inspection) checkUnknown(group, queue Step) {
	mayLose := func(what, name string, lost []string) {
		if len(lost) > 0 {
			in.problem("unknown-settings", "change it in PCS",
				"%s %s has settings that this version of pcs-capacity does not know, and this change could lose "+
					"them: %s",
				what, name, strings.Join(lost, ", "))
		}
	}
	switch g := in.slot.Group; group.Verb {
	case Update:
		mayLose("node group", g.Name, g.LostByUpdate())
	case Replace:
		mayLose("node group", g.Name, g.Unknown)
	}

	if q, found := in.Queue(queue.Name); found && queue.Verb == Update {
		mayLose("queue", q.Name, q.LostByUpdate(in.queueSettings()))
	}

	if g := in.slot.Group; g != nil && !in.slot.HasFailed() {
		if g.TemplateID == "" {
			in.Add(site.NoTemplateProblem(*g))
		}
		return
	}

	_, dropped := in.like.SettingsFor(in.reservation.InstanceType)
	if in.like.SlurmSettings[pcs.Gres] != "" { // it needs records of gres.conf; PCS describes the GPUs of a type itself
		dropped = append(dropped, pcs.Gres)
	}

	dropped = append(dropped, in.like.Unknown...)
	if len(dropped) > 0 {
		in.warn("settings of node group %s are not copied: %s", in.like.Name, strings.Join(dropped, ", "))
	}
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

func (in *inspection) checkAccounts() {
	asked := in.request.AllowAccounts
	has := in.allowAccounts()
	if len(asked) > 0 && !sameSet(asked, has) {
		in.problem(capacity.AllowAccounts,
			"change allow_accounts in "+in.settings().File+", and leave out --allow-accounts",
			"partition %q lets accounts %s in, not %s", in.request.Queue, strings.Join(has, ","),
			strings.Join(asked, ","))
	}
}

func (in *inspection) queueSettings() map[string]string {
	accounts := in.allowAccounts()
	if len(accounts) == 0 {
		return nil
	}

	return map[string]string{lock: strings.Join(accounts, ",")}
}

// checkEFA warns where nodes come up without EFA, although people may expect it.
func (in *inspection) checkEFA() {
	t := in.launch.Type
	switch {
	case in.request.EFA == capacity.EFAOnly && t.EFAInterfaces == 0 && t.Name != "":
		in.problem("efa", "leave out --efa",
			"%s has no EFA, so there is none to set up with --efa %s", t.Name, in.request.EFA)
	case t.GPUs > 0 && (in.efaMode() == "" || in.efaMode() == capacity.NoEFA):
		in.warn("the nodes come up without EFA, so jobs on several nodes talk over plain TCP")
	}
}

// checkEntry compares a reservation with the entry of the settings that it joins.
func (in *inspection) checkEntry() {
	if _, wanted := in.partition(); !in.hasProblems() && !in.unattended {
		for _, err := range in.request.Config.ValidateWith(wanted) { // such as a slot that is another's too
			in.problem("settings", "choose another --queue or --node-group, or fix the settings", "%s", err)
		}
	}

	if p := in.settings(); p.Name != "" && p.Provider != in.Provider {
		in.problem(capacity.WrongProvider, "choose another --queue", "partition %q of %s has provider %q", p.Name,
			p.File, p.Provider)
	}
}
