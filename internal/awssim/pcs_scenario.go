package awssim

import (
	"cmp"
	"fmt"
)

// buildPCS makes the clusters of the scenario. Called with mu held, after the rest of the region.
func (s *Sim) buildPCS(r *region, sc RegionScenario) error {
	r.pcs = pcsState{tokens: map[tokenKey]pcsAnswer{}}
	for _, c := range sc.Clusters {
		if err := s.buildCluster(r, c); err != nil {
			return fmt.Errorf("cluster %s: %w", c.Name, err)
		}
	}
	return nil
}

func (s *Sim) buildCluster(r *region, c ClusterScenario) error {
	version := cmp.Or(c.SlurmVersion, "25.05")
	cl := &pcsCluster{region: r, pcsThing: pcsThing{ID: c.ID, Name: c.Name, tags: copyTags(c.Tags)}, Size: cmp.Or(c.Size, "SMALL"),
		Scheduler:  pcsScheduler{Type: "SLURM", Version: clusterVersions[0]},
		Networking: pcsNetworking{SubnetIDs: c.Subnets, SecurityGroupIDs: c.SecurityGroups}}
	if slurmVersion(version) == 0 {
		return fmt.Errorf("slurm_version %q: want one like 25.05", version)
	}
	if sizeLimits[cl.Size] == 0 {
		return fmt.Errorf("size %q: want SMALL, MEDIUM or LARGE", cl.Size)
	}
	var v pcsValidation
	if checkNewCluster(&v, cl); v.err() != nil {
		return v.err()
	}
	// A scenario may have a version that is too old for a new cluster, to show what PCS says then, and a name that is
	// too short.
	cl.Scheduler.Version = version
	s.addCluster(r, cl)
	cl.putEndpoints()
	for _, g := range c.NodeGroups {
		made := &pcsGroup{pcsThing: pcsThing{ID: g.ID, Name: g.Name, tags: copyTags(g.Tags), Status: statusActive},
			AMI: g.Image, SubnetIDs: g.Subnets, PurchaseOption: g.PurchaseOption, InstanceProfile: g.InstanceProfile,
			LaunchTemplate: pcsTemplate{ID: g.LaunchTemplate, Version: cmp.Or(g.Version, "1")},
			Scaling:        pcsScaling{Min: g.Min, Max: g.Max}, Instances: []pcsInstance{{Type: g.Type}}}
		if err := s.addGroup(cl, made); err != nil {
			return fmt.Errorf("node group %s: %w", g.Name, err)
		}
	}
	for _, sc := range c.Queues {
		q := &pcsQueue{pcsThing: pcsThing{ID: sc.ID, Name: sc.Name, tags: copyTags(sc.Tags), Status: statusActive}}
		for _, name := range sc.NodeGroups {
			g, err := pcsFind(cl.groups, kindGroup, name)
			if err != nil {
				return fmt.Errorf("queue %s: %w", sc.Name, err)
			}
			q.Groups = append(q.Groups, pcsMember{g.ID})
		}
		s.addQueue(cl, q)
	}
	cl.Status = cmp.Or(c.Status, statusActive)
	return nil
}
