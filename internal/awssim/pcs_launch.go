package awssim

import (
	"fmt"
	"strconv"
	"strings"
)

// Tags that PCS puts on the instances and the launch template of a node group.
const (
	tagClusterID = "aws:pcs:cluster-id"
	tagGroupID   = "aws:pcs:compute-node-group-id"
)

// LaunchForNodeGroup launches the instance behind one Slurm node, such as gpu-3, as PCS does it: from the launch
// template of the node group, into the reservation that this targets, in a subnet of the reservation's zone. Cluster
// and group are names or ids. An error from EC2 is an *APIError; PCS shows its code as the node's reason: "Failed to
// launch backing instance (Error Code: ReservationCapacityExceeded)".
func (s *Sim) LaunchForNodeGroup(cluster, group, node string) (launched Instance, err error) {
	s.do(func() {
		var cl *pcsCluster
		var g *pcsGroup
		if cl, g, err = s.findNodeGroup(cluster, group); err == nil {
			launched, err = s.launchNode(cl, g, node)
		}
	})
	return launched, err
}

// TerminateNode ends the instance behind a Slurm node. A node without one is left alone.
func (s *Sim) TerminateNode(cluster, group, node string) (err error) {
	s.do(func() {
		var cl *pcsCluster
		var g *pcsGroup
		if cl, g, err = s.findNodeGroup(cluster, group); err != nil {
			return
		}
		if id, ok := g.nodes[node]; ok {
			if err = cl.region.instances[id].protected(); err != nil {
				return
			}
			s.terminate(cl.region, cl.region.instances[id], userShutdown)
		}
	})
	return err
}

// findNodeGroup looks in every region: the lab has one cluster, and names it without its region.
func (s *Sim) findNodeGroup(cluster, group string) (*pcsCluster, *pcsGroup, error) {
	for _, name := range s.order {
		in := pcsRequest{ClusterID: cluster, GroupID: group}
		if in.find(&s.regions[name].pcs) == nil && in.group != nil {
			return in.cluster, in.group, nil
		}
	}
	return nil, nil, fmt.Errorf("no PCS cluster %q has a compute node group %q", cluster, group)
}

func (s *Sim) launchNode(cl *pcsCluster, g *pcsGroup, node string) (Instance, error) {
	if err := g.checkNode(node); err != nil {
		return Instance{}, err
	}
	if g.Status != statusActive && g.Status != statusUpdating {
		return Instance{}, fmt.Errorf("launching %s: the node group is in status %s", node, g.Status)
	}
	target := g.target(cl.region)
	var lastErr error
	for _, id := range g.SubnetIDs {
		sn := cl.region.subnet(id)
		if target != nil && sn.zone != target.zone {
			continue
		}
		for _, config := range g.Instances {
			launched, err := s.launch(LaunchRequest{
				Region: cl.region.name, MinCount: 1, MaxCount: 1,
				LaunchTemplateID: g.managed, LaunchTemplateVersion: "$Latest", InstanceType: config.Type, SubnetID: id,
				Tags: map[string]string{tagClusterID: cl.ID, tagGroupID: g.ID},
			})
			if err == nil {
				g.nodes[node] = launched[0].ID
				return launched[0].view(), nil
			}
			lastErr = err
		}
	}
	if lastErr == nil {
		return Instance{}, fmt.Errorf("launching %s: no subnet of %s is in zone %s of %s", node, g.Name, target.zone.id, target.ID)
	}
	return Instance{}, lastErr
}

// checkNode wants one of the names that PCS gives to the group's nodes, without an instance behind it.
func (g *pcsGroup) checkNode(node string) error {
	number, ok := strings.CutPrefix(node, g.Name+"-")
	if n, err := strconv.Atoi(number); !ok || err != nil || n < 1 || n > g.Scaling.Max {
		return fmt.Errorf("launching %s: the nodes of the group are %s-1 to %s-%d", node, g.Name, g.Name, g.Scaling.Max)
	}
	if id, ok := g.nodes[node]; ok {
		return fmt.Errorf("launching %s: instance %s is behind it already", node, id)
	}
	return nil
}

// forgetInstance takes a terminated instance away from its node. It is one of Sim.instanceHooks.
func (s *Sim) forgetInstance(ev InstanceEvent) {
	if ev.Kind != Terminated || ev.Instance.Tags[tagGroupID] == "" {
		return
	}
	cl, g, err := s.findNodeGroup(ev.Instance.Tags[tagClusterID], ev.Instance.Tags[tagGroupID])
	if err != nil || cl.region.name != ev.Instance.Region {
		return
	}
	delete(g.replace, ev.Instance.ID)
	for node, id := range g.nodes {
		if id == ev.Instance.ID {
			delete(g.nodes, node)
		}
	}
}
