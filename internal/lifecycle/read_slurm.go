package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// This file reads what a pass decides by, except AWS's half of the snapshot: see read_aws.go.

// lookForRollOver finds the work of roll overs, and their earlier setbacks.
func (p *pass) lookForRollOver() {
	if p.view.Cluster == nil {
		return
	}

	rolling, lack := findRollings(p.view)
	p.view.Snap.Add(lack...)

	setbacks, err := p.State.Setbacks().Read()
	if err != nil && !errors.Is(err, fs.ErrPermission) { // a reader of status may have no right to the file
		p.addFailure(capacity.StateFile, err)
	}

	p.view.Rolling = rolling
	p.view.Setbacks = setbacks
	for i := range p.view.Rolling {
		p.view.Rolling[i].Setback = setbacks[p.view.Rolling[i].key()]
	}
}

// lookForOrphans finds our instances without a node. If a read fails, the last pass's orphans stay, and nothing acts
// on them.
func (p *pass) lookForOrphans() {
	if !p.mayHaveInstances(p.view.Cluster) {
		p.view.Snap.Orphans = nil
		return
	}

	if p.view.NoAWS || p.view.Cluster == nil {
		return // that has been said
	}

	if p.instances.Err != nil {
		words, _ := p.EC2.Explain(p.instances.Err)
		p.addProblem(capacity.InstancesNotKnown, capacity.Subject{}, "",
			"looking for instances that belong to no node: %s", words)
		return
	}

	var ours, others []capacity.Instance
	for _, i := range capacity.WithNodes(p.instances.Value) {
		if mark := i.Tags[capacity.TagCluster]; mark == p.view.Cluster.Mark {
			ours = append(ours, i)
		} else {
			others = append(others, i)
		}
	}

	p.view.Instances = ours
	p.view.Snap.Add(p.view.checkForeignInstances(others)...)
	recorded := sync.OnceValue(p.launched) // few passes need to know
	p.view.Snap.Orphans = orphans(ours, p.view.Cluster, p.view.Snap.Orphans,
		func(node string) string { return recorded()[node] }, p.view.Now)
	p.view.OrphansSeen = true
}

// launched returns the instances of the last launches that hooks have recorded, by node.
func (p *pass) launched() map[string]string {
	records, err := p.State.Records()
	if err != nil {
		p.addFailure(capacity.StateFile, err)
	}

	last := map[string]string{}
	for _, r := range records {
		names, err := hostlist.Expand(r.Nodes)
		if r.Hook != "resume" || r.Code != string(capacity.OK) || err != nil || len(names) != len(r.Instances) {
			continue
		}

		for i, name := range names {
			last[name] = r.Instances[i]
		}
	}

	return last
}

// lookForMisplaced judges the Prologs' findings by what AWS and Slurm say now.
func (p *pass) lookForMisplaced() {
	if p.view.Cluster == nil {
		return
	}

	found, err := p.State.Misplaced()
	if err != nil {
		p.addFailure(capacity.StateFile, err)
	}

	for _, f := range found {
		_, _, slot, _ := p.Settings.FindNode(f.Node)
		at, known := p.view.Snap.FindSlot(slot)
		isOn := func(n capacity.Node) bool { return !n.PoweredDown() }

		// The instance of a node that is off is gone.
		differs := ""
		if known && len(p.view.Cluster.filterNodes([]string{f.Node}, isOn)) > 0 {
			differs = p.view.Snap.DescribeMisplacement(at, f.Metadata, p.view.Now)
		}

		// Either corrected, or the instance is gone: the finding is removed.
		if differs == "" {
			p.view.Placed = append(p.view.Placed, f.Node)
			continue
		}

		p.addProblem(capacity.WrongInstance, capacity.Subject{Slot: slot, Node: f.Node},
			"find out what launched it, and power the node down", "node %s: %s", f.Node, differs)
	}
}

// askGuarded asks EC2 about reservations that only our fences name, provided EC2 has answered before.
func (p *pass) askGuarded(ctx context.Context) {
	snap := p.view.Snap
	ids := []string{}
	for _, r := range p.view.Cluster.Reservations {
		g := r.Guard()
		_, told := snap.Reservation(g.Block)
		_, missing := snap.Missing[g.Block]
		if !told && !missing && r.IsOurs() && g.Kind == capacity.GuardFence && g.Block != "" &&
			!slices.Contains(ids, g.Block) {
			ids = append(ids, g.Block)
		}
	}

	if len(ids) == 0 || p.view.NoAWS {
		return
	}

	slices.Sort(ids)

	found, missing, err := p.EC2.Reservations(ctx, ids)
	if err != nil {
		words, _ := p.EC2.Explain(err)
		p.addProblem(capacity.FenceNotKnown, capacity.Subject{}, "",
			"describing %s, for which there are fences: %s; the fences stay", strings.Join(ids, ", "), words)
		return
	}

	snap.Reservations = append(snap.Reservations, found...)

	// Only a fence whose reservation has been missing for a while is removed: see isObsolete.
	for _, m := range missing {
		if !m.Unread {
			snap.Missing[m.ID] = cmp.Or(p.view.old().Missing[m.ID], p.view.nowInSeconds())
		}
	}
}

// otherOwners tells of the Slurm reservations that other settings made. They are left alone.
func otherOwners(s View) (told []capacity.Problem) {
	for _, r := range s.Cluster.Reservations {
		g := r.Guard()
		if !r.IsOurs() || g.Owner == s.Owner || !r.End.IsZero() && !r.End.After(s.Now) {
			continue
		}

		who := ""
		if r.Comment != "" {
			who = " (" + r.Comment + ")"
		}

		told = append(
			told,
			capacity.Problemf(capacity.OtherOwner, capacity.Subject{Slot: g.Slot, Reservation: g.Block}, "",
				"Slurm reservation %s, which keeps jobs off %s, was made with other settings%s; it is left alone: use "+
					"those settings, or, if nobody does, `scontrol delete ReservationName=%s`",
				r.Name, hostlist.Compress(r.Nodes), who, r.Name),
		)
	}

	return told
}

// lookForImpaired says which nodes of open reservations run on hosts that EC2 is about to take away.
func (p *pass) lookForImpaired() {
	open := slices.ContainsFunc(p.view.slotStates(),
		func(v capacity.SlotState) bool { return v.Reservation.State == capacity.StateActive })
	if !open || p.view.NoAWS || p.view.Cluster == nil {
		return
	}

	if p.impaired.Err != nil {
		words, _ := p.EC2.Explain(p.impaired.Err)
		p.addProblem(capacity.AWSUnanswered, capacity.Subject{}, "",
			"%s; scheduled retirements of hosts are unknown", words)
	}

	// Slurm's word first, then our own tags, which are there before the node has registered.
	nodes := map[string]string{} // by instance
	for _, n := range p.view.Cluster.Nodes {
		nodes[n.InstanceID] = n.Name
	}

	for _, i := range p.view.Instances {
		nodes[i.ID] = i.Node()
	}

	for _, id := range slices.Sorted(maps.Keys(p.impaired.Value)) {
		if node := nodes[id]; node != "" {
			fix := fmt.Sprintf("`scontrol update nodename=%s state=drain reason=host`; when its jobs are over, "+
				"`scontrol update nodename=%[1]s state=power_down`: it gets another host", node)
			p.addProblem(capacity.HostImpaired, capacity.Subject{Node: node}, fix,
				"EC2 reports for instance %s of node %s: %s", id, node, p.impaired.Value[id])
		}
	}
}

// unreadable returns why slurmctld's hooks cannot read their settings.
func (p *pass) unreadable() []error {
	launches := func(of capacity.PartitionSettings) bool { return of.Provider.Launches() }
	if !slices.ContainsFunc(p.Settings.Partitions, launches) {
		return nil
	}

	return config.CheckHookAccess(p.view.Cluster.ConfPath, p.view.Cluster.SlurmUID)
}

// addSlurm adds Slurm's half of the snapshot, and reports what is wrong with it.
func (p *pass) addSlurm() {
	p.addConfig()
	p.addWalls()
	p.addPastFences()
	p.addPartitions()

	for _, at := range capacity.AllSlots(slices.Concat(p.view.Snap.Former, p.view.Snap.Partitions)) {
		p.addSlot(at)
	}

	for _, at := range capacity.AllSlots(p.view.Snap.Partitions) {
		p.sayGone(at)
		p.lacks(at)
	}
}

// addConfig adds slurmctld's settings, and judges what its hooks and we may read and write.
func (p *pass) addConfig() {
	p.view.Snap.TimeMinCollapses = p.view.Cluster.Version.TimeMinCollapses()
	p.view.Snap.NoRequeue = p.view.Cluster.NoRequeue
	p.view.Snap.SlurmCluster = p.view.Cluster.ClusterName
	p.view.Snap.KillWait.Duration = p.view.Cluster.KillWait

	if uid, err := p.State.OwnerUID(); err == nil && os.Geteuid() == 0 && uid != 0 && uid != p.view.Cluster.SlurmUID {
		p.addFailure(capacity.StateFile, fmt.Errorf(
			"%s belongs to user %d, who is neither root nor SlurmUser and can change what root writes there; "+
				"give it back with chown -R",
			p.State,
			uid,
		))
	}

	for _, err := range p.unreadable() {
		what, fix, _ := strings.Cut(err.Error(), "; ")
		p.addProblem(capacity.SettingsUnreadable, capacity.Subject{}, fix,
			"hooks started by slurmctld cannot launch nodes: %s", what)
	}

	cluster := p.view.Cluster
	over := capacity.MaxOverTime(cluster.Partitions, cluster.OurPartitions(p.view.Snap), cluster.OverTime)
	p.view.Snap.Timing.OverTime.Duration = over.Duration()
	if over.Unlimited {
		p.addProblem(capacity.NoLimitEnds, capacity.Subject{}, "set it to a number of minutes, or remove it",
			"OverTimeLimit=UNLIMITED: no time limit ends a job, so jobs run until EC2 takes their nodes")
	}
}

// addWalls adds the limits of accounting. If slurmdbd does not answer, the previous ones stay.
func (p *pass) addWalls() {
	err := p.view.Cluster.WallsErr
	if err == nil {
		p.view.Snap.Walls = p.view.Cluster.Walls
		return
	}

	p.addFailure(capacity.AccountingUnanswered, fmt.Errorf("%w; the previous ones are kept", err))
	p.view.Snap.Walls.Unknown = p.view.Snap.Walls.Unknown || p.view.Old == nil
}

// addPartitions adds Slurm's partitions to ours, and reports what of Slurm's cannot be read.
func (p *pass) addPartitions() {
	p.view.Snap.DefaultPartition = ""
	for _, sp := range p.view.Cluster.Partitions {
		if sp.Default {
			p.view.Snap.DefaultPartition = sp.Name
		}

		if sp.Unread != "" {
			p.addProblem(capacity.SlurmUnread, capacity.Subject{Partition: sp.Name}, "",
				"partition %s cannot be read: %s", sp.Name, sp.Unread)
		}
	}

	for _, r := range p.view.Cluster.Reservations {
		if r.Unread != "" {
			p.addProblem(capacity.SlurmUnread, capacity.Subject{}, "",
				"Slurm reservation %s cannot be read: %s", r.Name, r.Unread)
		}
	}

	for i := range p.view.Snap.Partitions {
		part := &p.view.Snap.Partitions[i]

		sp, there := p.view.Cluster.partition(part.Name)
		if !there {
			p.addProblem(capacity.NoPartition, capacity.Subject{Partition: part.Name},
				"add it, or remove it from the settings", "Slurm has no partition %s", part.Name)
			continue
		}

		part.MaxTime = sp.MaxTime
		part.QOS = sp.QOS

		if part.Spare.Name != "" {
			p.addSpare(part)
		}

		part.ResumeTimeout.Duration = cmp.Or(sp.ResumeTimeout, p.view.Cluster.ResumeTimeout)
	}
}

// addSpare adds Slurm's side of a spare partition.
func (p *pass) addSpare(part *capacity.Partition) {
	sp, there := p.view.Cluster.partition(part.Spare.Name)
	if !there {
		p.addProblem(capacity.NoPartition, capacity.Subject{Partition: part.Spare.Name},
			"add it, or remove `spare` from the settings", "Slurm has no partition %s", part.Spare.Name)
		return
	}

	part.Spare.MaxTime = sp.MaxTime
	part.Spare.QOS = sp.QOS
}

// addPastFences adds the fences that jobs may have crossed, and reports each.
func (p *pass) addPastFences() {
	p.view.Snap.FenceBypasses = map[string]time.Time{}
	past := capacity.FindFenceBypasses(p.view.Cluster.Reservations)
	for _, name := range slices.Sorted(maps.Keys(past)) {
		fence := past[name].ShiftTimes(p.view.Snap.ClockOffset.Duration)
		p.view.Snap.FenceBypasses[name] = fence.Start

		problem := capacity.FenceBypassProblem(name, fence)
		if at, ours := p.view.Snap.FindSlot(problem.About.Slot); ours {
			problem.About.Partition = at.Partition.Name
		}

		p.view.Snap.Add(problem)
	}
}

// sayGone reports nodes of a slot that a Slurm partition lists and Slurm does not show: no job gets them. After one
// pass it may be a restart of slurmctld, so it is a note at first.
func (p *pass) sayGone(at capacity.SlotRef) {
	partition := at.Partition.Name
	slot := at.Slot.Name

	gone := p.view.Cluster.gone(p.view.Cluster.SlotNodes(slot))
	if len(gone) == 0 {
		return
	}

	nodes := hostlist.Compress(gone)

	said := capacity.Problemf(capacity.NodesLost, capacity.Subject{Partition: partition, Slot: slot, Node: nodes},
		"restart slurmctld",
		"Slurm no longer shows nodes %s of partition %s, so no job gets them: they are in state FUTURE, which "+
			"`scontrol update state=FUTURE` sets, and Slurm before 25.05.7 and 25.11.3 by itself",
		nodes, partition)
	said.Severity = capacity.Note
	if slices.ContainsFunc(p.view.old().Problems,
		func(before capacity.Problem) bool { return before.Text() == said.Text() }) {
		said.Severity = capacity.Admin
	}

	p.view.Snap.Add(said)
}

// gone returns the nodes that Slurm does not show although it would.
func (c *Cluster) gone(names []string) []string {
	if !c.ShowsPoweredDown() {
		return nil
	}

	shown := c.byName()

	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { _, there := shown[name]; return there })
}

// lacks says what slurm.conf lacks for a slot that PCS does not write.
func (p *pass) lacks(at capacity.SlotRef) {
	provider := at.Partition.Provider
	g := at.Group
	slot := at.Slot

	named := fmt.Sprintf("%s-1, %[1]s-2, …", slot.Name)
	if _, settings, _, ok := p.Settings.FindNode(slot.Name + "-1"); !ok || settings.Name != g.Name {
		named = "that its settings list"
	}

	fix := "run `pcs-capacity hooks install` on its controller"
	if provider.IsGuest() {
		fix = "list the nodes that `sinfo -N` shows as nodes of the node group in the settings"
	}

	visible := p.view.Cluster.visibleNodes(p.view.Cluster.SlotNodes(slot.Name))
	switch {
	case provider.Configures():
	case slot.Nodes == "":
		p.addProblem(capacity.NoNodes, capacity.Subject{Slot: slot.Name}, fix,
			"Slurm has no nodes %s for node group %s", named, g.Name)
	case len(g.Slots) > 1 && slot.Feature == "" && len(visible) > 0:
		p.addProblem(capacity.FeatureMissing, capacity.Subject{Slot: slot.Name, Node: slot.Nodes}, "add it",
			"nodes %s lack Features=%s in slurm.conf, so jobs cannot be kept in the slot of their reservation",
			slot.Nodes, slot.Name)
	}
}

func (p *pass) addSlot(at capacity.SlotRef) {
	nodes := p.view.Cluster.SlotNodes(at.Slot.Name)
	at.Slot.Nodes = hostlist.Compress(nodes)
	at.Slot.Count = len(nodes)

	at.Slot.Feature = p.view.Cluster.feature(at.Slot.Name, nodes)
	at.Slot.Out = p.view.Cluster.nodesOut(nodes)
	p.view.addOpening(at)

	// A node of any slot of the group shows what all of them have.
	var all []string
	for _, slot := range at.Group.Slots {
		all = append(all, p.view.Cluster.SlotNodes(slot.Name)...)
	}

	at.Group.GPUs, at.Group.CPUs = p.view.Cluster.gpusAndCPUs(all)
}
