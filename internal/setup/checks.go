package setup

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// maxGroups and maxQueues are quotas of a cluster that cannot be raised: AWS PCS User Guide, "Quotas".
const maxGroups, maxQueues = 10, 10

// sizeLimits are the largest sums of all node groups' maxima, by the cluster's size: AWS PCS API
// Reference, CreateCluster, size.
var sizeLimits = map[string]int{"SMALL": 32, "MEDIUM": 512, "LARGE": 2048}

var queueName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{2,24}$`)

// checkAsked finds what is wrong with what is asked for: names, the cluster, and the reservation's state.
func (in *inspection) checkAsked() {
	in.checkNames()
	if in.found && !in.onEC2() {
		in.checkCluster()
	}
	if m := capacity.StateMismatch(in.reservation, in.now); in.reservation.ID != "" && m != nil {
		in.problems = append(in.problems, *m)
	}
}

// checkBound compares the reservation with what its node group is bound to: one instance type, one kind of
// reservation, and what the settings select.
func (in *inspection) checkBound() {
	if c := in.request.Config; c != nil {
		for _, p := range c.Partitions {
			if p.Name != in.request.Queue && groupOf(p, in.request.NodeGroup).Name != "" {
				in.problem(capacity.NodeGroupName, "choose another --node-group", "node_group %q is already in partition %q of %s",
					in.request.NodeGroup, p.Name, p.File)
				return
			}
		}
	}
	if r, has := in.reservation, in.instanceType(); has != r.InstanceType {
		in.problem(capacity.WrongType, "choose another --node-group, or another reservation",
			"reservation %s is for %s, but node group %s launches %s", r.ID, r.InstanceType, in.request.NodeGroup, has)
		return
	}
	in.checkPurchaseOption()
	in.checkSelect()
}

func (in *inspection) checkNames() {
	if in.onEC2() {
		for _, n := range []struct{ flag, name string }{{"--queue", in.request.Queue}, {"--node-group", in.request.NodeGroup}} {
			if !config.SlurmName(n.name) {
				in.problem(capacity.BadName, "choose another "+n.flag,
					"%q cannot be a name in Slurm: it starts with a letter and has letters, digits, '-', '_' and '.' only",
					n.name)
			}
		}
		return
	}
	if problem := config.PCSBaseName(in.request.NodeGroup); problem != "" {
		in.problem(capacity.BadName, "choose another --node-group", "%s", problem)
	}
	if !queueName.MatchString(in.request.Queue) {
		in.problem(capacity.BadName, "choose another --queue",
			"%q cannot name a PCS queue: it has 3 to 25 letters, digits and hyphens, and starts with a letter",
			in.request.Queue)
	}
}

func (in *inspection) checkCluster() {
	c := in.inv.Cluster
	if what, fix := c.NotActive(); what != "" {
		in.problem(capacity.ClusterStatus, fix, "%s", what)
	}
	// Versions have two digits on each side of the dot, so text comparison works.
	if in.reservation.Kind.Bought() && c.SlurmVersion < "24.05" {
		in.problem(capacity.SlurmTooOld, "use a cluster with a newer Slurm",
			"cluster %s has Slurm %s, but PCS needs 24.05 for Capacity Blocks", c.Name, c.SlurmVersion)
	}
}

// checkMatch compares the reservation with the node group that will launch into it.
func (in *inspection) checkMatch(want *wanted, slot slotState) {
	g := capacity.NodeGroup{
		Name: slot.name, InstanceType: in.reservation.InstanceType, PurchaseOption: in.reservation.Kind,
		MaxNodes: want.partition.MaxNodes, Platform: in.launch.Image.Platform, Subnets: subnets(in.network.chosen),
	}
	for _, m := range capacity.Match(in.reservation, g, in.now) {
		if m.Code == capacity.WrongSize && in.reservation.Size() == 0 {
			continue // below
		}
		if m.Code == capacity.WrongZone {
			if len(in.network.chosen) == 0 {
				continue // checkSubnets says why
			}
			m.Fix += "; the VPC has none there, so create one"
			if there := in.subnetsThere(); len(there) > 0 {
				m.Fix = quoted("give --subnet-ids", there)
			}
		}
		if m.Code == capacity.WrongSize && in.joins() {
			in.warn(
				"reservation %s has %d instances, and node group %s has up to %d nodes: sync keeps jobs off the last ones",
				in.reservation.ID, in.reservation.Size(), g.Name, g.MaxNodes)
			continue
		}
		if m.Code == capacity.WrongSize {
			m.Fix = fmt.Sprintf("give --max-nodes %d or less", in.reservation.Size())
		}
		in.problems = append(in.problems, m)
	}
	if r := in.reservation; r.Size() == 0 && r.State != capacity.StateActive {
		in.problem(capacity.WrongSize, "run this again once EC2 shows its size",
			"EC2 does not say yet how many instances reservation %s has", r.ID)
	}
}

// joins reports whether the reservation joins others of a node group that already has the
// requested number of nodes. All nodes stay, and sync keeps jobs off nodes without an instance.
func (in *inspection) joins() bool {
	g := in.entry()
	return in.onEC2() && g.MaxNodes >= in.request.MaxNodes &&
		slices.ContainsFunc(g.ReservationIDs, func(id string) bool { return id != in.reservation.ID })
}

// checkPurchaseOption compares the kind of the reservation with purchase_option in the settings,
// and on PCS with the other slot. An entry without another reservation is changed to fit.
func (in *inspection) checkPurchaseOption() {
	r, g := in.reservation, in.entry()
	var has []string
	for _, other := range in.others {
		if other.ID == r.ID || !slices.Contains(g.ReservationIDs, other.ID) && !g.Select.Matches(other) {
			continue
		}
		has = append(has, other.ID)
	}
	selected := g.Select.Matches(r)
	if g.Name != "" && !g.PurchaseOption.Buys(r.Kind) && (len(has) > 0 || selected || !g.PurchaseOption.Reserved()) {
		in.problem(capacity.WrongPurchase,
			fmt.Sprintf("set purchase_option = %q there, or choose another --node-group", r.Kind),
			"reservation %s is of kind %s, but node_group %q of the settings buys %s%s", r.ID, r.Kind, g.Name,
			g.PurchaseOption, forWhat(has))
		return
	}
	for _, other := range in.slots {
		if other.ours && other.live && !other.holds(r.ID) &&
			other.group.PurchaseOption.PCSPurchaseOption() != r.Kind.PCSPurchaseOption() {
			in.problem(capacity.WrongPurchase, "choose another --node-group", "reservation %s is of kind %s, but %s holds %s of kind %s", r.ID,
				r.Kind, other.name, other.reservationID, other.group.PurchaseOption)
		}
	}
}

func forWhat(has []string) string {
	if len(has) == 0 {
		return ""
	}
	return " for " + strings.Join(has, ", ")
}

// entry returns the node group of the settings; zero if they do not have it.
func (in *inspection) entry() capacity.GroupSettings {
	if in.request.Config == nil {
		return capacity.GroupSettings{}
	}
	p, _ := in.request.Config.Partition(in.request.Queue)
	return groupOf(p, in.request.NodeGroup)
}

// instanceType returns the type that the node group is bound to: PCS never changes the type of a
// group, and an entry of the settings has one type.
func (in *inspection) instanceType() string {
	for _, slot := range in.slots {
		if slot.ours && len(slot.group.InstanceTypes) > 0 &&
			slot.group.InstanceTypes[0] != in.reservation.InstanceType {
			return slot.group.InstanceTypes[0]
		}
	}
	if in.request.Config != nil {
		for _, p := range in.request.Config.Partitions {
			for _, g := range p.Groups {
				if g.Name == in.request.NodeGroup {
					return g.InstanceType
				}
			}
		}
	}
	return in.reservation.InstanceType
}

func (in *inspection) checkQuotas(want *wanted, slot slotState) {
	if in.onEC2() {
		return
	}
	groups, nodes := 0, want.group.Max
	for _, g := range in.inv.Groups {
		groups++
		if g.Name != want.group.Name {
			nodes += g.Max
		}
	}
	if slot.group == nil && groups+1 > maxGroups {
		in.problem(capacity.QuotaNodeGroups, "delete one whose block has ended",
			"cluster %s has %d compute node groups, and PCS allows no more than %d: %s", in.inv.Cluster.Name, groups,
			maxGroups, groupNames(in.inv.Groups))
	}
	if _, found := in.inv.Queue(want.queue); !found && len(in.inv.Queues)+1 > maxQueues {
		in.problem(capacity.QuotaQueues, "use one of them, or delete one",
			"cluster %s has %d queues, and PCS allows no more than %d", in.inv.Cluster.Name, len(in.inv.Queues),
			maxQueues)
	}
	if limit, known := sizeLimits[in.inv.Cluster.Size]; known && nodes > limit {
		in.problem(capacity.ClusterSize,
			fmt.Sprintf("give --max-nodes %d or less, lower the maximum of another node group, or use a larger cluster",
				max(0, want.group.Max-(nodes-limit))),
			"cluster %s is %s and may have %d nodes; with %d in %s the maxima of its node groups add up to %d",
			in.inv.Cluster.Name, in.inv.Cluster.Size, limit, want.group.Max, want.group.Name, nodes)
	}
}

// checkUnused refuses a change that would replace running nodes.
func (in *inspection) checkUnused(slot slotState, compared pcs.Comparison) {
	if !slot.ours || slot.instances == 0 || !compared.Disruptive() {
		return
	}
	var changed []string
	for _, s := range compared {
		if s.Changed() {
			changed = append(changed, s.Name)
		}
	}
	in.problem(capacity.NodesInUse,
		fmt.Sprintf("wait until the reservation of %s has ended, or until its nodes are down", slot.name),
		"node group %s has %d instances, which this change would replace under their jobs: %s", slot.name,
		slot.instances, strings.Join(changed, ", "))
}

// checkFamiliar warns about instance types that AWS does not document for PCS.
func (in *inspection) checkFamiliar() {
	family, _, _ := strings.Cut(in.reservation.InstanceType, ".")
	documented := capacity.FamiliesOfPCS()
	if in.reservation.Kind.Bought() && !slices.Contains(documented, family) {
		in.warn("PCS documents Capacity Blocks for %s only; %s may work, but AWS does not say so",
			strings.Join(documented, ", "), in.reservation.InstanceType)
	}
}
