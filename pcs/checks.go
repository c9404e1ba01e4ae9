package pcs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
)

// maxGroups and maxQueues are for one cluster and cannot be raised: AWS PCS User
// Guide, "Quotas".
const maxGroups, maxQueues = 10, 10

// sizeLimits are the nodes that a cluster may have, by its size: AWS PCS API
// Reference, CreateCluster, size. They bound the sum of all groups' maxima.
var sizeLimits = map[string]int{"SMALL": 32, "MEDIUM": 512, "LARGE": 2048}

// maxUserData is EC2's limit in bytes, before it is encoded.
const maxUserData = 16 << 10

// documentedFamilies are those that PCS documents for Capacity Blocks (AWS PCS User
// Guide, "Capacity Blocks"). Others have been seen to work, so that a type which is
// not in the list is only warned about.
var documentedFamilies = []string{"p6-b300", "p6-b200", "p5en", "p5e", "p5", "p4d"}

var queueName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{2,24}$`)

func (w *world) checkNames() {
	if problem := config.PCSBaseName(w.request.NodeGroup); problem != "" {
		w.problem("name", "choose another --node-group", "%s", problem)
	}
	if !queueName.MatchString(w.request.Queue) {
		w.problem("name", "choose another --queue", "%q cannot name a PCS queue: it has 3 to 25 letters, digits and hyphens, and starts with a letter", w.request.Queue)
	}
}

func (w *world) checkCluster() {
	c := w.inv.Cluster
	if c.Status != Active {
		w.problem("cluster-status", "run this again once it is ACTIVE", "cluster %s is %s%s", c.Name, c.Status, because(c.Failures))
	}
	// Both have two digits twice, so that they compare as text.
	if w.reservation.Kind == capacity.CapacityBlock && c.SlurmVersion < "24.05" {
		w.problem("slurm-version", "use a cluster with a newer Slurm", "cluster %s has Slurm %s, but PCS needs 24.05 for Capacity Blocks", c.Name, c.SlurmVersion)
	}
}

func because(f Failures) string {
	if len(f) == 0 {
		return ""
	}
	return " (" + f.String() + ")"
}

// checkMatch holds the reservation against the node group that is to launch into it.
func (w *world) checkMatch(want *wanted, slot slotState) {
	g := capacity.NodeGroup{
		Name: slot.Name, InstanceType: w.instanceType(), PurchaseOption: w.reservation.Kind,
		MaxNodes: want.group.Max, Platform: w.platform, Subnets: w.subnets,
	}
	for _, m := range capacity.Match(w.reservation, g, w.now) {
		if m.Code == "az" {
			m.Fix = w.subnetFix(m.Fix)
		}
		if m.Code == "size" {
			m.Fix = fmt.Sprintf("give --max-nodes %d or less", w.reservation.Size())
		}
		w.problems = append(w.problems, m)
	}
	for _, other := range w.slots {
		if other.ours && other.live && other.Name != slot.Name && purchaseOptions[other.Group.PurchaseOption] != purchaseOptions[w.reservation.Kind] {
			w.problem("purchase-option", "choose another --node-group", "reservation %s is of kind %s, but %s holds %s of kind %s, and the slots of a node group buy the same",
				w.reservation.ID, w.reservation.Kind, other.Name, other.ReservationID, other.Group.PurchaseOption)
		}
	}
	if want.group.Max < 1 {
		w.problem("size", "run this again once EC2 shows its size", "EC2 does not say yet how many instances reservation %s has", w.reservation.ID)
	}
	if slot.ours && slot.Group.Status == CreateFailed {
		w.problem("node-group-failed", "delete that node group and run this again", "PCS could not create node group %s: %s", slot.Name, slot.Group.Failures)
	}
}

// instanceType is the type that the node group is bound to: PCS never changes that of
// a group, and one entry of the configuration has one type.
func (w *world) instanceType() string {
	for _, slot := range w.slots {
		if slot.ours && len(slot.Group.InstanceTypes) > 0 && slot.Group.InstanceTypes[0] != w.reservation.InstanceType {
			return slot.Group.InstanceTypes[0]
		}
	}
	if w.request.Config != nil {
		for _, p := range w.request.Config.Partitions {
			for _, g := range p.NodeGroups {
				if g.Name == w.request.NodeGroup {
					return g.InstanceType
				}
			}
		}
	}
	return w.reservation.InstanceType
}

// subnetFix names the subnets of the VPC that would do.
func (w *world) subnetFix(fix string) string {
	var ids []string
	for _, s := range w.neighbours {
		if s.AZID == w.reservation.AZID {
			ids = append(ids, s.ID)
		}
	}
	if len(ids) == 0 {
		return fix + "; the VPC has none there, so create one"
	}
	return fix + ": --subnet-ids " + strings.Join(ids, " or ")
}

// checkLaunch says what is missing to start an instance.
func (w *world) checkLaunch() {
	if w.ami() == "" {
		w.problem("image", "give --ami, or --like with a node group that has one", "no image is given for the nodes")
	}
	switch profile := w.profile(); {
	case profile == "":
		w.problem("instance-profile", "give --instance-profile, or --like with a node group that has one", "no instance profile is given for the nodes")
	case !strings.HasPrefix(profile, "arn:"):
		w.problem("instance-profile", "give its ARN: arn:aws:iam::ACCOUNT:instance-profile/NAME", "PCS takes an instance profile by ARN, not %q", profile)
	}
	if len(w.securityGroups()) == 0 {
		w.problem("security-groups", "give --security-groups, or --like with a node group that has some", "no security group is given for the nodes")
	}
	if n := len(w.request.UserData); n > maxUserData {
		w.problem("user-data", "let it fetch the rest from Amazon S3", "the user data has %d bytes; EC2 takes %d", n, maxUserData)
	}
}

func (w *world) checkQuotas(want *wanted, slot slotState) {
	groups, nodes := 0, want.group.Max
	for _, g := range w.inv.Groups {
		groups++
		if g.Name != want.group.Name {
			nodes += g.Max
		}
	}
	if slot.Group == nil && groups+1 > maxGroups {
		w.problem("quota-node-groups", "delete one whose block has ended", "cluster %s has %d compute node groups, and PCS allows no more than %d: %s", w.inv.Cluster.Name, groups, maxGroups, groupNames(w.inv.Groups))
	}
	if _, found := w.inv.Queue(want.queue); !found && len(w.inv.Queues)+1 > maxQueues {
		w.problem("quota-queues", "use one of them, or delete one", "cluster %s has %d queues, and PCS allows no more than %d", w.inv.Cluster.Name, len(w.inv.Queues), maxQueues)
	}
	if limit, known := sizeLimits[w.inv.Cluster.Size]; known && nodes > limit {
		w.problem("cluster-size", fmt.Sprintf("give --max-nodes %d or less, lower the maximum of another node group, or use a larger cluster", max(0, want.group.Max-(nodes-limit))),
			"cluster %s is %s and may have %d nodes; with %d in %s the maxima of its node groups add up to %d", w.inv.Cluster.Name, w.inv.Cluster.Size, limit, want.group.Max, want.group.Name, nodes)
	}
}

// warnings do not stand in the way.
func (w *world) warnings() []string {
	var all []string
	family, _, _ := strings.Cut(w.reservation.InstanceType, ".")
	if w.reservation.Kind == capacity.CapacityBlock && !slices.Contains(documentedFamilies, family) {
		all = append(all, fmt.Sprintf("PCS documents Capacity Blocks for %s only; %s may work, but AWS does not say so", strings.Join(documentedFamilies, ", "), w.reservation.InstanceType))
	}
	if n := w.source.NetworkInterfaces; n > 0 && w.source.InstanceType != w.reservation.InstanceType {
		all = append(all, fmt.Sprintf("the launch template of %s describes %d network interfaces for %s; they are not copied for %s, so the nodes come up with one and without EFA",
			w.like.Name, n, orNone(w.source.InstanceType), w.reservation.InstanceType))
	}
	return all
}

func shortTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04 UTC")
}
