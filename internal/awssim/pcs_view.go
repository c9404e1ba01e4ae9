package awssim

import (
	"maps"
	"slices"
	"time"
)

// PCSCluster is a copy of a cluster: enough to write its slurm.conf.
type PCSCluster struct {
	Region       string
	ID, Name     string
	Status       string // as in the API
	Size         string // SMALL, MEDIUM, LARGE
	SlurmVersion string
	Settings     map[string]string // slurmCustomSettings
	IdleTime     time.Duration     // scaleDownIdleTimeInSeconds
	NodeGroups   []PCSNodeGroup    // in the order of creation
	Queues       []PCSQueue        // in the order of creation
}

// PCSNodeGroup is a copy of a compute node group. Its Slurm nodes are Name-1 to Name-Max.
type PCSNodeGroup struct {
	ID, Name       string
	Status         string
	InstanceType   string // the first of the group
	VCPUs, GPUs    int    // of the instance type
	MemoryMiB      int64
	Min, Max       int
	PurchaseOption string
	Settings       map[string]string
	IdleTime       time.Duration // 0: the cluster's

	// What the launch template targets; empty without a reservation. Start and End are the reservation's own; End is zero
	// for one without an end.
	ReservationID    string
	ReservationState string
	Start, End       time.Time

	Instances map[string]string // Slurm node name to instance id
	Replace   []string          // node names whose instance is from before an update: to be replaced when idle
}

// PCSQueue is a copy of a queue.
type PCSQueue struct {
	ID, Name   string
	Status     string
	Settings   map[string]string
	NodeGroups []string // names
}

// PCSClusters lists the clusters of every region as they are now.
func (s *Sim) PCSClusters() (clusters []PCSCluster) {
	s.do(func() {
		for _, name := range s.order {
			for _, cl := range s.regions[name].pcs.clusters {
				clusters = append(clusters, cl.view())
			}
		}
	})
	return clusters
}

func (cl *pcsCluster) view() PCSCluster {
	view := PCSCluster{
		Region: cl.region.name, ID: cl.ID, Name: cl.Name, Status: cl.Status, Size: cl.Size,
		SlurmVersion: cl.Scheduler.Version, Settings: cl.SlurmConfiguration.custom(), IdleTime: cl.SlurmConfiguration.idleTime(),
	}
	names := map[string]string{}
	for _, g := range cl.groups {
		names[g.ID] = g.Name
		view.NodeGroups = append(view.NodeGroups, g.view(cl.region))
	}
	for _, q := range cl.queues {
		queue := PCSQueue{ID: q.ID, Name: q.Name, Status: q.Status, Settings: q.SlurmConfiguration.custom()}
		for _, g := range q.Groups {
			queue.NodeGroups = append(queue.NodeGroups, names[g.ID])
		}
		view.Queues = append(view.Queues, queue)
	}
	return view
}

func (g *pcsGroup) view(r *region) PCSNodeGroup {
	view := PCSNodeGroup{
		ID: g.ID, Name: g.Name, Status: g.Status, InstanceType: g.Instances[0].Type, Min: g.Scaling.Min, Max: g.Scaling.Max,
		PurchaseOption: g.PurchaseOption, Settings: g.SlurmConfiguration.custom(), IdleTime: g.SlurmConfiguration.idleTime(),
		Instances: maps.Clone(g.nodes),
	}
	if t := r.types[view.InstanceType]; t != nil {
		view.VCPUs, view.GPUs, view.MemoryMiB = t.VCPUs, t.GPUs, t.MemoryMiB
	}
	if target := g.target(r); target != nil {
		view.ReservationID, view.ReservationState = target.ID, target.state
		view.Start, view.End = target.start, target.end
	}
	for _, node := range slices.Sorted(maps.Keys(g.nodes)) {
		if g.replace[g.nodes[node]] {
			view.Replace = append(view.Replace, node)
		}
	}
	return view
}

func (s pcsSettings) idleTime() time.Duration {
	seconds, _ := s.number("scaleDownIdleTimeInSeconds")
	return time.Duration(seconds) * time.Second
}
