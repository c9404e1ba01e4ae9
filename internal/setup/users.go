package setup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// user is another user of the reservation, with instances in it or set up for them.
type user struct {
	who string
	// most is the largest number of its instances, running the present one.
	most, running int
	// group is the id of a PCS compute node group; "" for self-managed nodes.
	group string
	// partition is the partition of self-managed nodes of our cluster.
	partition string
	// freedBy is our command that frees its instances; "" if we have none.
	freedBy string
}

func (u user) takes() int { return max(u.most, u.running) }

// otherClusters are the other PCS clusters of the region; what may not be read is an error of one,
// or of all.
type otherClusters struct {
	err  error
	each []otherCluster
	// targets are the reservations that the launch templates of node groups which are not ours name,
	// by id and version.
	targets map[string]string
}

type otherCluster struct {
	name string
	inv  pcs.Inventory
	err  error
}

// readClusters reads the other PCS clusters of the region.
func (s Setup) readClusters(ctx context.Context, in *inspection, _ *notes) error {
	clusters, err := s.PCS.Clusters(ctx)
	in.clusters.err = err
	clusters = slices.DeleteFunc(clusters, func(c pcs.Cluster) bool {
		return !in.onEC2() && (c.Name == in.request.Cluster || c.ID == in.request.Cluster)
	})
	in.clusters.each = make([]otherCluster, len(clusters))
	var reads errgroup.Group
	reads.SetLimit(clustersAtOnce)
	for i, c := range clusters {
		reads.Go(func() error {
			inv, err := s.PCS.Inventory(ctx, c.Name)
			in.clusters.each[i] = otherCluster{c.Name, inv, err}
			return nil
		})
	}
	return reads.Wait()
}

// clustersAtOnce is a guess: PCS does not publish its rate limits.
const clustersAtOnce = 4

// readInside reads the instances in the reservation.
func (s Setup) readInside(ctx context.Context, in *inspection, _ *notes) (err error) {
	if s.block != nil && s.block.State == capacity.StateScheduled { // nobody has
		return nil
	}
	in.inside, err = s.EC2.InstancesInReservation(ctx, in.request.Reservation)
	return err
}

// readTargets reads the reservations of other people's node groups.
func (s Setup) readTargets(ctx context.Context, in *inspection, _ *notes) error {
	in.clusters.targets = map[string]string{}
	if in.reservation.ID == "" {
		return nil
	}
	if err := in.clusters.err; err != nil && !denied(err) && !in.onEC2() {
		return err
	}
	for _, other := range in.clusters.each {
		if other.err != nil && !denied(other.err) && !pcs.NotFound(other.err) {
			return other.err
		}
	}
	var mu sync.Mutex
	reads, readCtx := errgroup.WithContext(ctx)
	reads.SetLimit(10)
	add := func(inv pcs.Inventory, failed *error) {
		for _, g := range inv.Groups {
			if in.skips(inv, g) || inv.Cluster.Ours(g.Tags) {
				continue
			}
			reads.Go(func() error {
				t, _, err := s.EC2.TemplateVersion(readCtx, g.TemplateID+":"+g.TemplateVersion)
				mu.Lock()
				defer mu.Unlock()
				in.clusters.targets[g.TemplateID+":"+g.TemplateVersion] = t.ReservationID
				if denied(err) && failed != nil {
					*failed, err = err, nil
				}
				return err
			})
		}
	}
	if !in.onEC2() {
		add(in.inv, nil)
	}
	for i := range in.clusters.each {
		add(in.clusters.each[i].inv, &in.clusters.each[i].err)
	}
	return reads.Wait()
}

// skips reports whether a node group cannot use the reservation, or is one of the slots to set up.
func (in *inspection) skips(inv pcs.Inventory, g pcs.NodeGroup) bool {
	here := inv.Cluster.ID == in.inv.Cluster.ID
	return here && in.ownSlot(g.Name) || !slices.Contains(g.InstanceTypes, in.reservation.InstanceType)
}

// addUsers notes all other users of the reservation: compute node groups of this and other PCS
// clusters, other entries of the settings, and owners of running instances.
func (in *inspection) addUsers() {
	if in.reservation.ID == "" {
		return
	}
	if !in.onEC2() {
		in.addGroups(in.inv)
	}
	in.addOtherClusters()
	in.addSettings()
	for _, i := range in.inside {
		in.addInstance(i)
	}
	if hidden := in.reservation.Used() - in.reservation.Unhealthy - len(in.inside); hidden > 0 {
		in.warn(
			"%d instances of reservation %s are taken by what this account does not see: another account, an interruptible allocation, or instances that ended minutes ago",
			hidden, in.reservation.ID)
	}
}

// addGroups notes the node groups of a cluster that launch into the reservation, except the slots to
// set up.
func (in *inspection) addGroups(inv pcs.Inventory) {
	here := inv.Cluster.ID == in.inv.Cluster.ID
	for _, g := range inv.Groups {
		if in.skips(inv, g) {
			continue
		}
		target := g.Tags[capacity.TagReservation]
		if !inv.Cluster.Ours(g.Tags) {
			target = in.clusters.targets[g.TemplateID+":"+g.TemplateVersion]
		}
		if target != in.reservation.ID {
			continue
		}
		one := user{who: "compute node group " + g.Name, most: g.Max, group: g.ID}
		queues := queuesOf(inv, g.ID)
		if len(queues) > 0 {
			one.who += " of queue " + strings.Join(queues, ", ")
		}
		if !here {
			one.who += " in cluster " + inv.Cluster.Name
		} else if inv.Cluster.Ours(g.Tags) && len(queues) == 1 {
			one.freedBy = fmt.Sprintf("pcs-capacity teardown --queue %s --node-group %s", queues[0], g.Name)
		}
		in.users = append(in.users, one)
	}
}

// ownSlot reports whether a node group is one of the two slots to set up.
func (in *inspection) ownSlot(name string) bool {
	names := capacity.SlotNames(capacity.ProviderPCS, in.request.NodeGroup)
	return slices.Contains(names[:], name)
}

func queuesOf(inv pcs.Inventory, groupID string) []string {
	var names []string
	for _, q := range inv.Queues {
		if slices.Contains(q.GroupIDs, groupID) {
			names = append(names, q.Name)
		}
	}
	return names
}

// addOtherClusters notes users in the other PCS clusters of the region. A cluster that may not be
// read causes a warning only.
func (in *inspection) addOtherClusters() {
	switch err := in.clusters.err; {
	case denied(err):
		in.warn("the PCS clusters of %s may not be listed (%s), so another one may use reservation %s", in.region,
			ec2.Message(err), in.reservation.ID)
	case err != nil: // not every region has PCS
		in.warn("whether a PCS cluster of %s uses reservation %s is not known: %s", in.region, in.reservation.ID,
			ec2.Message(err))
	}
	for _, other := range in.clusters.each {
		in.addGroups(other.inv)
		if other.err != nil && !pcs.NotFound(other.err) {
			in.warn("PCS cluster %s may not be read (%s), so it may use reservation %s", other.name,
				ec2.Message(other.err), in.reservation.ID)
		}
	}
}

// denied reports whether AWS refused a call for lack of permission.
func denied(err error) bool {
	code := pcs.Code(err)
	return strings.HasPrefix(code, "AccessDenied") || strings.HasPrefix(code, "Unauthorized")
}

// addSettings notes other entries of the settings with the reservation, unless their PCS node group
// has been found already.
func (in *inspection) addSettings() {
	if in.request.Config == nil {
		return
	}
	for _, p := range in.request.Config.Partitions {
		for _, g := range p.Groups {
			listed := slices.Contains(g.ReservationIDs, in.reservation.ID) ||
				g.Select.Matches(in.reservation, in.members)
			if !listed || g.Name == in.request.NodeGroup || in.hasGroup(p, g) {
				continue
			}
			one := user{
				who:  fmt.Sprintf("partition %q of %s", p.Name, p.File),
				most: min(g.MaxNodes, in.reservation.Size()),
			}
			if p.Provider == capacity.ProviderEC2 {
				one.partition = p.Name
			}
			in.users = append(in.users, one)
		}
	}
}

// hasGroup reports whether one of an entry's node groups was found to use the reservation.
func (in *inspection) hasGroup(p capacity.PartitionSettings, g capacity.GroupSettings) bool {
	names := capacity.SlotNames(capacity.ProviderPCS, g.Name)
	return p.Provider == capacity.ProviderPCS && slices.ContainsFunc(in.users, func(u user) bool {
		found, ok := in.inv.Group(u.group)
		return ok && slices.Contains(names[:], found.Name)
	})
}

// addInstance counts an instance for its user, who may be new. Instances of the slots to set up do
// not count.
func (in *inspection) addInstance(i capacity.Instance) {
	one := user{who: "instances without a tag of ours or of PCS", group: i.Tags[pcs.TagNodeGroupID]}
	cluster, partition := i.Tags[capacity.TagCluster], i.Tags[capacity.TagPartition]
	if g, found := in.inv.Group(one.group); found && in.ownSlot(g.Name) {
		return
	}
	if in.onEC2() && cluster == in.request.Mark && partition == in.request.Queue {
		in.slots[0].instances++
		return
	}
	switch {
	case one.group != "":
		one.who = "PCS cluster " + i.Tags[pcs.TagClusterID]
	case cluster == in.inv.Cluster.Name:
		one.partition, one.who = partition, "partition "+partition
	case cluster != "":
		one.who = "partition " + partition + " of cluster " + cluster
	}
	at := slices.IndexFunc(in.users, func(u user) bool {
		return u.group == one.group && u.partition == one.partition &&
			(one.group+one.partition != "" || u.who == one.who)
	})
	if at < 0 {
		at, in.users = len(in.users), append(in.users, one)
	}
	in.users[at].running++
}

// checkUsers refuses a plan that needs more instances than others leave: launches of both would
// fail for ever.
func (in *inspection) checkUsers(want *wanted) {
	size := in.reservation.Size()
	taken, who := in.taken()
	left := size - taken
	if taken == 0 || want.partition.MaxNodes <= left {
		return
	}
	fix := "choose another reservation, or free it there first"
	switch {
	case left > 0:
		fix = fmt.Sprintf("give --max-nodes %d or less", left)
	case len(in.users) == 1 && in.users[0].freedBy != "":
		fix = "free it first: " + in.users[0].freedBy
	}
	in.problem(capacity.ReservationInUse, fix, "%d of the %d instances of reservation %s are used already: %s",
		min(taken, size), size, in.reservation.ID, who)
}
