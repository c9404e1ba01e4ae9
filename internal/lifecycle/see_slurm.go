package lifecycle

import (
	"fmt"
	"os"
	"slices"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// addSlurm copies Slurm's facts into the snapshot.
func (p *pass) addSlurm() {
	p.seen.Snap.TimeMinCollapses, p.seen.Snap.NoRequeue = p.seen.Cluster.Version.TimeMinCollapses(), p.seen.Cluster.NoRequeue
	p.seen.Snap.SlurmCluster = p.seen.Cluster.ClusterName
	p.seen.Snap.KillWait.Duration = p.seen.Cluster.KillWait
	if uid, err := p.State.OwnerUID(); err == nil && os.Geteuid() == 0 && uid != 0 && uid != p.seen.Cluster.SlurmUID {
		p.problem(capacity.StateFile, fmt.Errorf("%s belongs to user %d, neither root nor SlurmUser, who can change what root writes there: chown -R it back", p.State, uid))
	}
	over := capacity.OverTime(p.seen.Cluster.Partitions, p.seen.Cluster.Ours(p.seen.Snap), p.seen.Cluster.OverTime)
	if p.seen.Snap.Timing.OverTime.Duration = over.Duration(); over.Unlimited {
		p.say(capacity.NoLimitEnds, capacity.Subject{}, "set it to a number of minutes, or take it out",
			"OverTimeLimit=UNLIMITED: no time limit ends a job, so that jobs run on until EC2 takes their nodes")
	}
	p.seen.Snap.Walls = p.seen.Cluster.Walls
	if err := p.seen.Cluster.WallsErr; err != nil {
		p.problem(capacity.AccountingUnanswered, fmt.Errorf("%w; those of before are kept", err))
		p.seen.Snap.Walls = capacity.Walls{Unknown: true}
		if p.seen.Old != nil {
			p.seen.Snap.Walls = p.seen.Old.Walls
		}
	}
	for _, sp := range p.seen.Cluster.Partitions {
		if sp.Default {
			p.seen.Snap.DefaultPartition = sp.Name
		}
		if sp.Unread != "" {
			p.say(capacity.SlurmUnread, capacity.Subject{Partition: sp.Name}, "", "partition %s cannot be read: %s", sp.Name, sp.Unread)
		}
	}
	for _, r := range p.seen.Cluster.Reservations {
		if r.Unread != "" {
			p.say(capacity.SlurmUnread, capacity.Subject{}, "", "Slurm reservation %s cannot be read: %s", r.Name, r.Unread)
		}
	}
	for i := range p.seen.Snap.Former {
		p.addSlots(&p.seen.Snap.Former[i])
	}
	for i := range p.seen.Snap.Partitions {
		part := &p.seen.Snap.Partitions[i]
		found := false
		for _, sp := range p.seen.Cluster.Partitions {
			if sp.Name == part.Name {
				part.MaxTime, part.QOS = sp.MaxTime, sp.QOS
				found = true
			}
		}
		if !found {
			p.say(capacity.NoPartition, capacity.Subject{Partition: part.Name},
				"add it, or take it out of the settings", "Slurm has no partition %s", part.Name)
		}
		p.addSlots(part)
		for _, g := range part.Groups {
			for _, slot := range g.Slots {
				p.sayGone(part.Name, slot.Name)
				if !part.Provider.Configures() {
					p.lacks(part.Provider, g, slot)
				}
			}
		}
	}
}

// sayGone reports nodes of a slot that a Slurm partition lists and Slurm does not show: no job gets them. After one
// pass it may be a restart of slurmctld, so it is a note at first.
func (p *pass) sayGone(partition, slot string) {
	gone := p.seen.Cluster.gone(p.seen.Cluster.SlotNodes(slot))
	if len(gone) == 0 {
		return
	}
	nodes := hostlist.Compress(gone)
	said := capacity.Problemf(capacity.NodesLost, capacity.Subject{Partition: partition, Slot: slot, Node: nodes},
		"restart slurmctld",
		"Slurm no longer shows nodes %s of partition %s, so that no job gets them: they are FUTURE, as `scontrol update state=FUTURE` sets them, and Slurm before 25.05.7 and 25.11.3 by itself",
		nodes, partition)
	said.Severity = capacity.Note
	if p.seen.Old != nil &&
		slices.ContainsFunc(p.seen.Old.All(), func(before capacity.Problem) bool { return before.Text() == said.Text() }) {
		said.Severity = capacity.Admin
	}
	p.seen.Snap.Add(said)
}

// gone returns the nodes that Slurm does not show although it would.
func (c *Cluster) gone(names []string) []string {
	if !c.ShowsPoweredDown() {
		return nil
	}
	shown := c.byName()
	var gone []string
	for _, name := range names {
		if _, there := shown[name]; !there {
			gone = append(gone, name)
		}
	}
	return gone
}

// lacks says what slurm.conf lacks for a slot that PCS does not write.
func (p *pass) lacks(provider capacity.Provider, g capacity.NodeGroup, slot capacity.Slot) {
	named := fmt.Sprintf("%s-1, %[1]s-2, …", slot.Name)
	if _, settings, _, ok := p.Settings.PlaceOf(slot.Name + "-1"); !ok || settings.Name != g.Name {
		named = "that its settings list"
	}
	fix := "run `pcs-capacity hooks install` on its controller"
	if provider.Guest() {
		fix = "list the nodes that `sinfo -N` shows as nodes of the node group in the settings"
	}
	switch {
	case slot.Nodes == "":
		p.say(capacity.NoNodes, capacity.Subject{Slot: slot.Name}, fix, "Slurm has no nodes %s for node group %s",
			named, g.Name)
	case len(g.Slots) > 1 && slot.Feature == "" && len(p.seen.Cluster.shown(p.seen.Cluster.SlotNodes(slot.Name))) > 0:
		p.say(capacity.FeatureMissing, capacity.Subject{Slot: slot.Name, Node: slot.Nodes}, "add it",
			"nodes %s lack Features=%s in slurm.conf, so that jobs cannot be kept in the slot of their reservation",
			slot.Nodes, slot.Name)
	}
}

// addSlots copies Slurm's facts about a partition's slots.
func (p *pass) addSlots(part *capacity.Partition) {
	for g := range part.Groups {
		for s := range part.Groups[g].Slots {
			slot := &part.Groups[g].Slots[s]
			nodes := p.seen.Cluster.SlotNodes(slot.Name)
			slot.Nodes = hostlist.Compress(nodes)
			slot.Feature = p.seen.Cluster.feature(slot.Name, nodes)
			slot.Count = len(nodes)
			slot.Out = p.seen.Cluster.out(nodes)
			gpus, cpus := p.seen.Cluster.parts(nodes)
			part.Groups[g].GPUs, part.Groups[g].CPUs = max(part.Groups[g].GPUs, gpus), max(part.Groups[g].CPUs, cpus)
		}
	}
}

// keepSlurm copies Slurm's facts from the old snapshot into one for which Slurm did not answer.
func keepSlurm(snap, old *capacity.Snapshot) {
	if old == nil {
		return
	}
	snap.DefaultPartition, snap.TimeMinCollapses, snap.Walls, snap.KillWait, snap.NoRequeue = old.DefaultPartition, old.TimeMinCollapses, old.Walls, old.KillWait, old.NoRequeue
	snap.SlurmCluster = old.SlurmCluster
	snap.Timing.OverTime = old.Timing.OverTime
	slots, groups := map[string]capacity.Slot{}, map[string]capacity.NodeGroup{}
	for _, p := range old.Partitions {
		for _, g := range p.Groups {
			groups[g.Name] = g
			for _, s := range g.Slots {
				slots[s.Name] = s
			}
		}
	}
	for i := range snap.Partitions {
		p := &snap.Partitions[i]
		if before, ok := old.Partition(p.Name); ok {
			p.MaxTime, p.QOS = before.MaxTime, before.QOS
		}
		for g := range p.Groups {
			was := groups[p.Groups[g].Name]
			p.Groups[g].GPUs, p.Groups[g].CPUs = was.GPUs, was.CPUs
			for s := range p.Groups[g].Slots {
				slot := &p.Groups[g].Slots[s]
				before := slots[slot.Name]
				slot.Nodes, slot.Count, slot.Feature, slot.Out = before.Nodes, before.Count, before.Feature, before.Out
			}
		}
	}
}
