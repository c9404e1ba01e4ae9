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
	cl := &pcsCluster{region: r, tags: copyTags(c.Tags), pcsWireCluster: pcsWireCluster{
		ID: c.ID, Name: c.Name, Size: cmp.Or(c.Size, "SMALL"), Status: statusCreating,
		Scheduler:  pcsWireScheduler{Type: "SLURM", Version: cmp.Or(c.SlurmVersion, "25.05")},
		Networking: pcsWireNetworking{SubnetIDs: c.Subnets, SecurityGroupIDs: c.SecurityGroups},
	}}
	version := cl.Scheduler.Version
	if slurmVersion(version) == 0 {
		return fmt.Errorf("slurm_version %q: want one like 25.05", version)
	}
	if sizeLimits[cl.Size] == 0 {
		return fmt.Errorf("size %q: want SMALL, MEDIUM or LARGE", cl.Size)
	}
	// A scenario may have a version that is too old for a new cluster, to show what PCS says then, and a name that is
	// too short.
	cl.Scheduler.Version = clusterVersions[0]
	var v pcsValidation
	if checkNewCluster(&v, cl); v.err() != nil {
		return v.err()
	}
	cl.Scheduler.Version = version
	s.addCluster(r, cl)
	s.clusterActive(cl)
	for _, g := range c.NodeGroups {
		if err := s.buildNodeGroup(cl, g); err != nil {
			return fmt.Errorf("node group %s: %w", g.Name, err)
		}
	}
	for _, q := range c.Queues {
		if err := s.buildQueue(cl, q); err != nil {
			return fmt.Errorf("queue %s: %w", q.Name, err)
		}
	}
	cl.Status = cmp.Or(c.Status, statusActive)
	return nil
}

func (s *Sim) buildNodeGroup(cl *pcsCluster, sc NodeGroupScenario) error {
	g := &pcsGroup{tags: copyTags(sc.Tags), nodes: map[string]string{}, replace: map[string]bool{}, pcsWireGroup: pcsWireGroup{
		ID: sc.ID, Name: sc.Name, AMI: sc.Image, SubnetIDs: sc.Subnets, Status: statusActive,
		PurchaseOption: cmp.Or(sc.PurchaseOption, "ONDEMAND"), InstanceProfile: sc.InstanceProfile,
		LaunchTemplate: pcsWireTemplate{ID: sc.LaunchTemplate, Version: cmp.Or(sc.Version, "1")},
		Scaling:        pcsWireScaling{Min: sc.Min, Max: sc.Max}, Instances: []pcsWireInstance{{Type: sc.Type}},
	}}
	if err := checkGroup(cl, g, nil); err != nil {
		return err
	}
	if err := cl.checkSize(g); err != nil {
		return err
	}
	return s.addGroup(cl, g)
}

func (s *Sim) buildQueue(cl *pcsCluster, sc QueueScenario) error {
	q := &pcsQueue{tags: copyTags(sc.Tags), pcsWireQueue: pcsWireQueue{ID: sc.ID, Name: sc.Name, Status: statusActive}}
	for _, name := range sc.NodeGroups {
		g, err := cl.group(name)
		if err != nil {
			return err
		}
		q.Groups = append(q.Groups, pcsWireQueueGroup{ID: g.ID})
	}
	s.addQueue(cl, q)
	return nil
}
