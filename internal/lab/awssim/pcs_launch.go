package awssim

import (
	"bytes"
	"fmt"
	"maps"
	"mime"
	"net/mail"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Tags that PCS puts on the instances and the launch template of a node group.
const (
	tagClusterID = "aws:pcs:cluster-id"
	tagGroupID   = "aws:pcs:compute-node-group-id"
)

// LaunchForNodeGroup launches the instance behind one Slurm node, such as gpu-3, as PCS does it: from the launch
// template of the node group, into the reservation that this targets, in a subnet of the reservation's zone. It returns
// the one that is behind the node already. Cluster and group are names or ids. An error from EC2 is an *APIError; PCS
// shows its code as the node's reason: "Failed to launch backing instance (Error Code: ReservationCapacityExceeded)".
func (s *Sim) LaunchForNodeGroup(cluster, group, node string) (launched Instance, err error) {
	s.do(func() {
		var (
			cl *pcsCluster
			g  *pcsGroup
		)

		cl, g, err = s.findNodeGroup(cluster, group)
		if err == nil {
			launched, err = s.launchNode(cl, g, node)
		}
	})

	return launched, err
}

// TerminateNode ends the instance behind a Slurm node. A node without one is left alone.
func (s *Sim) TerminateNode(cluster, group, node string) (err error) {
	s.do(func() {
		var (
			cl *pcsCluster
			g  *pcsGroup
		)

		cl, g, err = s.findNodeGroup(cluster, group)
		if err != nil {
			return
		}

		if id, ok := g.nodes[node]; ok {
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
	number, ok := strings.CutPrefix(node, g.Name+"-")
	if n, err := strconv.Atoi(number); !ok || err != nil || n < 1 || n > g.Scaling.Max {
		return Instance{}, fmt.Errorf(
			"launching %s: the nodes of the group are %s-1 to %s-%d",
			node,
			g.Name,
			g.Name,
			g.Scaling.Max,
		)
	}

	if id, ok := g.nodes[node]; ok {
		return cl.region.instances[id].view(), nil
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
			launched, err := s.launchInto(cl, g, sn, config.Type)
			if err == nil {
				g.nodes[node] = launched[0].ID
				return launched[0].view(), nil
			}

			lastErr = err
		}
	}

	if lastErr == nil {
		return Instance{}, fmt.Errorf(
			"launching %s: no subnet of %s is in zone %s of %s",
			node,
			g.Name,
			target.zone.id,
			target.ID,
		)
	}

	return Instance{}, lastErr
}

// launchInto launches an instance as CreateFleet does, whose subnet applies to the network interfaces of the template.
func (s *Sim) launchInto(cl *pcsCluster, g *pcsGroup, sn *subnet, instanceType string) ([]*instance, error) {
	order := launchOrder{
		min:    1,
		max:    1,
		subnet: sn.id,
		launchData: launchData{
			InstanceType:       instanceType,
			ImageId:            g.AMI,
			IamInstanceProfile: &instanceProfile{Arn: g.InstanceProfile},
		},
		tags: map[string]string{tagClusterID: cl.ID, tagGroupID: g.ID},
	}
	if err := order.template(cl.region, templateReference{
		LaunchTemplateId: g.LaunchTemplate.ID,
		Version:          g.LaunchTemplate.Version,
	}); err != nil {
		return nil, err
	}

	for i := range order.NetworkInterfaces {
		order.NetworkInterfaces[i].SubnetId = sn.id
		order.subnet = ""
	}

	return s.run(cl.region, order)
}

// forgetInstance takes a terminated instance away from its node.
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

// Things that PCS reads and makes in EC2.

// templateOf returns what PCS reads of a node group's launch template, and the number of its version.
func (r *region) templateOf(g *pcsGroup) (data launchData, version string, err error) {
	t, err := r.template(g.LaunchTemplate.ID, "")
	if err != nil {
		return data, "", err
	}

	v, err := t.version(g.LaunchTemplate.Version)
	if err != nil {
		return data, "", err
	}

	return v.data.read().launchData, strconv.FormatInt(v.number, 10), nil
}

// target returns the reservation into which a node group launches, or nil.
func (g *pcsGroup) target(r *region) *reservation {
	data, _, _ := r.templateOf(g)
	return r.reservations[data.target().CapacityReservationId]
}

// isMultipart reports whether user data is a MIME multi-part archive.
func isMultipart(data []byte) bool {
	message, err := mail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		return false
	}

	kind, _, err := mime.ParseMediaType(message.Header.Get("Content-Type"))

	return err == nil && strings.HasPrefix(kind, "multipart/")
}

// PCSCluster is a copy of a cluster: enough to write its slurm.conf.
type PCSCluster struct {
	Region, Name string
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

	// What the launch template targets; empty without a reservation.
	ReservationID, ReservationState string
	ReservationGroup                string // the ARN of a group of reservations that it targets; empty without one

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
		Region:   cl.region.name,
		Name:     cl.Name,
		Settings: cl.SlurmConfiguration.custom(),
		IdleTime: cl.SlurmConfiguration.idleTime(),
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
		ID:             g.ID,
		Name:           g.Name,
		Status:         g.Status,
		InstanceType:   g.Instances[0].Type,
		Min:            g.Scaling.Min,
		Max:            g.Scaling.Max,
		PurchaseOption: g.PurchaseOption,
		Settings:       g.SlurmConfiguration.custom(),
		Instances:      maps.Clone(g.nodes),
	}
	if t := r.types[view.InstanceType]; t != nil {
		view.VCPUs = t.VCPUs
		view.GPUs = t.GPUs
		view.MemoryMiB = t.MemoryMiB
	}

	data, _, _ := r.templateOf(g)
	view.ReservationGroup = data.target().CapacityReservationResourceGroupArn

	if target := g.target(r); target != nil {
		view.ReservationID = target.ID
		view.ReservationState = target.state
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
