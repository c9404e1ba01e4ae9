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

// Leftovers says which things no settings name, those together that the same command removes: sync does not manage them,
// but a queue may still send them jobs. cluster is the id of the PCS cluster, "" for self-managed Slurm.
func Leftovers(made []Made, settings Settings, cluster string) (all []Problem) {
	keeps := map[string]bool{} // queues for which something in the settings was made
	for _, m := range made {
		keeps[m.Queue] = keeps[m.Queue] || m.What != MadeQueue && settings.names(m)
	}
	var commands []string
	removes := map[string][]string{}
	for _, m := range made {
		if settings.names(m) {
			continue
		}
		command := settings.removal(m, cluster, keeps[m.Queue])
		if removes[command] == nil {
			commands = append(commands, command)
		}
		removes[command] = append(removes[command], m.String())
	}
	for _, command := range commands {
		has, them := "carries", "it"
		if len(removes[command]) > 1 {
			has, them = "carry", "them"
		}
		all = append(all, Problemf("leftover", Subject{}, fmt.Sprintf("add %s to the settings again, or remove %[1]s with `%s`", them, command),
			"%s %s the tag of pcs-capacity, and the settings do not name %s, so sync does not manage %[3]s", strings.Join(removes[command], " and "), has, them))
	}
	return all
}

// names reports whether the settings name the thing.
func (s Settings) names(m Made) bool {
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

// String names a thing: "compute node group gpu-a (cr-…)".
func (m Made) String() string {
	if m.Reservation == "" {
		return m.What + " " + m.Name
	}
	return fmt.Sprintf("%s %s (%s)", m.What, m.Name, m.Reservation)
}
