package capacity

import (
	"fmt"
	"slices"
	"strings"
)

// Types of things that setup creates in AWS.
const (
	MadeNodeGroup = "compute node group"
	MadeQueue     = "queue"
	MadeTemplate  = "launch template"
)

// Made is a thing in AWS with our tag for a cluster.
type Made struct {
	What string `json:"what"`
	Name string `json:"name"`
	ID   string `json:"id"`
	// Slot is the slot of a node group or launch template; "" if its name is not one of setup's.
	Slot string `json:"slot,omitempty"`
	// Queue is the Slurm partition that it was made for and Reservation its target, both by its tags; "" if the tags do
	// not say.
	Queue       string `json:"queue,omitempty"`
	Reservation string `json:"reservation,omitempty"`
}

// Leftover is a thing with our tag that no settings name: sync does not manage it, but a queue may still send it jobs.
type Leftover struct {
	Made
	// Remove is the command that removes it.
	Remove string `json:"remove"`
}

// Leftovers returns the things that the settings do not name. cluster is the id of the PCS cluster, "" for
// self-managed Slurm.
func Leftovers(made []Made, settings Settings, cluster string) []Leftover {
	keeps := map[string]bool{} // queues for which something in the settings was made
	for _, m := range made {
		if m.What != MadeQueue && settings.Names(m) {
			keeps[m.Queue] = true
		}
	}
	var left []Leftover
	for _, m := range made {
		if !settings.Names(m) {
			left = append(left, Leftover{m, settings.removal(m, cluster, keeps[m.Queue])})
		}
	}
	return left
}

// Names reports whether the settings name the thing.
func (s Settings) Names(m Made) bool {
	return slices.ContainsFunc(s.Partitions, func(p PartitionSettings) bool {
		if m.What == MadeQueue {
			return p.Provider == ProviderPCS && p.Name == m.Name
		}
		return slices.ContainsFunc(p.Groups, func(g GroupSettings) bool {
			if p.Provider == ProviderPCS {
				return slices.Contains(g.SlotNames(p.Provider), m.Slot)
			}
			template, _, _ := strings.Cut(g.LaunchTemplate, ":")
			return m.What == MadeTemplate && (template == m.Name || template == m.ID)
		})
	})
}

// removal is the teardown command if teardown finds the thing and removes nothing that the settings name; else the
// AWS command. keeps: the settings name something else that was made for the same queue.
func (s Settings) removal(m Made, cluster string, keeps bool) string {
	provider, base := ProviderEC2, m.Slot
	if cluster != "" {
		provider = ProviderPCS
		base = strings.TrimSuffix(strings.TrimSuffix(m.Slot, "-a"), "-b")
	}
	at := slices.IndexFunc(s.Partitions, func(p PartitionSettings) bool { return p.Name == m.Queue })
	named := slices.ContainsFunc(s.Partitions, func(p PartitionSettings) bool {
		return slices.ContainsFunc(p.Groups,
			func(g GroupSettings) bool { return g.Name == base || slices.Contains(g.SlotNames(p.Provider), base) })
	})
	isSlot := m.Slot != "" && (cluster == "" || base != m.Slot)
	switch {
	case m.Queue != "" && at < 0 && !keeps:
		return "pcs-capacity teardown --queue " + m.Queue
	case m.Queue != "" && isSlot && !named && (at < 0 || s.Partitions[at].Provider == provider):
		return fmt.Sprintf("pcs-capacity teardown --queue %s --node-group %s", m.Queue, base)
	case m.What == MadeTemplate:
		return "aws ec2 delete-launch-template --launch-template-id " + m.ID
	case m.What == MadeQueue:
		return fmt.Sprintf("aws pcs delete-queue --cluster-identifier %s --queue-identifier %s", cluster, m.ID)
	}
	return fmt.Sprintf("aws pcs delete-compute-node-group --cluster-identifier %s --compute-node-group-identifier %s",
		cluster, m.ID)
}

// OfLeftovers returns the problems of leftovers, one for all that the same command removes.
func OfLeftovers(left []Leftover) (all []Problem) {
	for i, l := range left {
		if slices.ContainsFunc(left[:i], func(before Leftover) bool { return before.Remove == l.Remove }) {
			continue
		}
		var names []string
		for _, other := range left[i:] {
			if other.Remove == l.Remove {
				names = append(names, other.String())
			}
		}
		has, them := "carries", "it"
		if len(names) > 1 {
			has, them = "carry", "them"
		}
		all = append(
			all,
			Problemf(LeftoverMade, Subject{},
				fmt.Sprintf("add %s to the settings again, or remove %[1]s with `%s`", them, l.Remove),
				"%s %s the tag of pcs-capacity, and the settings do not name %s, so sync does not manage %[3]s",
				strings.Join(names, " and "), has, them),
		)
	}
	return all
}

// String names a thing: "compute node group gpu-a (cr-…)".
func (m Made) String() string {
	if m.Reservation == "" {
		return m.What + " " + m.Name
	}
	return fmt.Sprintf("%s %s (%s)", m.What, m.Name, m.Reservation)
}
