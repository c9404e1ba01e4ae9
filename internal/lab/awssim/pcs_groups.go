package awssim

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// clusterQuota bounds the node groups, and the queues, of a cluster: AWS PCS User Guide, "Service quotas".
// Neither can be raised.
const clusterQuota = 10

// pcsGroup is a compute node group.
type pcsGroup struct {
	pcsResource
	AMI                  string        `json:"amiId,omitempty"`
	SubnetIDs            []string      `json:"subnetIds"`
	PurchaseOption       string        `json:"purchaseOption"`
	LaunchTemplate       pcsTemplate   `json:"customLaunchTemplate"`
	InstanceProfile      string        `json:"iamInstanceProfileArn"`
	Scaling              pcsScaling    `json:"scalingConfiguration"`
	Instances            []pcsInstance `json:"instanceConfigs"`
	SlurmConfiguration   pcsSettings   `json:"slurmConfiguration,omitempty"`
	NodeLifecycleActions pcsSettings   `json:"nodeLifecycleActions,omitempty"`

	nodes   map[string]string // Slurm node name to id of the instance behind it
	replace map[string]bool   // ids of instances from before an update: PCS replaces each when it is idle
}

type pcsTemplate struct {
	ID      string `json:"id"`
	Version string `json:"version"`
}

type pcsScaling struct {
	Min int `json:"minInstanceCount"`
	Max int `json:"maxInstanceCount"`
}

type pcsInstance struct {
	Type string `json:"instanceType,omitempty"`
}

func (s *Sim) createNodeGroup(c *call, in *pcsRequest) (any, error) {
	cl := in.cluster
	if err := cl.must(statusActive); err != nil {
		return nil, err
	}

	if other, err := pcsFind(cl.groups, kindGroup, in.GroupName); err == nil {
		return nil, pcsConflict(
			&other.pcsResource,
			"cluster %s has a compute node group with the name %q",
			cl.Name,
			in.GroupName,
		)
	}

	g := &pcsGroup{}
	if err := json.Unmarshal(c.Body, g); err != nil {
		return nil, err
	}

	g.Name, g.tags = in.GroupName, copyTags(in.Tags)
	if len(cl.groups) >= clusterQuota {
		return nil, pcsQuota(
			&cl.pcsResource,
			"cluster %s has %d compute node groups, and the quota is %d",
			cl.Name,
			len(cl.groups),
			clusterQuota,
		)
	}

	if err := s.addGroup(cl, g); err != nil {
		return nil, err
	}

	s.change(c, &g.pcsResource, statusCreating, func() {})

	return object{"computeNodeGroup": g}, nil
}

// addGroup checks a node group, completes it with PCS's own choices, and adds it to the cluster.
func (s *Sim) addGroup(cl *pcsCluster, g *pcsGroup) error {
	g.PurchaseOption = cmp.Or(g.PurchaseOption, "ONDEMAND")
	if err := cmp.Or(checkGroup(cl, g, nil), cl.checkSize(g)); err != nil {
		return err
	}

	g.nodes = map[string]string{}
	g.replace = map[string]bool{}
	s.complete(&g.pcsResource, kindGroup, cl.ARN+"/computenodegroup/")
	g.ClusterID = cl.ID
	cl.groups = append(cl.groups, g)

	return nil
}

// checkSize refuses a node group with which the cluster would be larger than its size allows.
func (cl *pcsCluster) checkSize(g *pcsGroup) error {
	total := g.Scaling.Max
	for _, other := range cl.groups {
		if other.ID != g.ID {
			total += other.Scaling.Max
		}
	}

	if limit := sizeLimits[cl.Size]; total > limit {
		return pcsQuota(
			&cl.pcsResource,
			"the total of maxInstanceCount across all compute node groups of cluster %s would be %d, and a %s cluster "+
				"has at most %d nodes",
			cl.Name,
			total,
			cl.Size,
			limit,
		)
	}

	return nil
}

// updateNodeGroup replaces what the request gives; the settings of Slurm are merged. Where the nodes themselves change,
// PCS then replaces running instances, each when it is idle; other subnets and another scaling leave them alone.
func (s *Sim) updateNodeGroup(c *call, in *pcsRequest) (any, error) {
	cl := in.cluster
	g := in.group
	if err := cmp.Or(cl.must(statusActive), g.must(statusActive, statusUpdateFailed)); err != nil {
		return nil, err
	}

	updated := *g

	updated.SubnetIDs = nil
	updated.SlurmConfiguration = nil
	updated.NodeLifecycleActions = nil
	if err := json.Unmarshal(c.Body, &updated); err != nil {
		return nil, err
	}

	replaces := updated.AMI != g.AMI || updated.PurchaseOption != g.PurchaseOption ||
		updated.LaunchTemplate != g.LaunchTemplate ||
		updated.InstanceProfile != g.InstanceProfile ||
		updated.NodeLifecycleActions != nil
	updated.SlurmConfiguration = g.SlurmConfiguration.merge(updated.SlurmConfiguration)
	if idle, ok := updated.SlurmConfiguration.number("scaleDownIdleTimeInSeconds"); ok && idle == -1 {
		delete(
			updated.SlurmConfiguration,
			"scaleDownIdleTimeInSeconds",
		) // -1 removes the override of the cluster's value
	}

	if updated.SubnetIDs == nil {
		updated.SubnetIDs = g.SubnetIDs
	}

	if updated.NodeLifecycleActions == nil {
		updated.NodeLifecycleActions = g.NodeLifecycleActions
	}

	if err := cmp.Or(checkGroup(cl, &updated, g), cl.checkSize(&updated)); err != nil {
		return nil, err
	}

	*g = updated
	s.change(c, &g.pcsResource, statusUpdating, func() {
		for _, id := range g.nodes {
			g.replace[id] = g.replace[id] || replaces
		}
	})

	return object{"computeNodeGroup": g}, nil
}

// deletable are the statuses in which PCS deletes something.
var deletable = []string{statusActive, statusCreateFailed, statusUpdateFailed, statusDeleteFailed}

func (s *Sim) deleteNodeGroup(c *call, in *pcsRequest) (any, error) {
	cl := in.cluster

	g := in.group
	if err := g.must(deletable...); err != nil {
		return nil, err
	}

	if queues := cl.queuesOf(g.ID); len(queues) > 0 {
		return nil, pcsConflict(&g.pcsResource, "compute node group %s is in the queue %s: remove it from the queue "+
			"first",
			g.Name, strings.Join(queues, ", "))
	}

	s.change(c, &g.pcsResource, statusDeleting, func() {
		remove(&cl.groups, g)
		s.terminateNodes(cl, g)
	})

	return object{}, nil
}

// terminateNodes ends every instance of a node group.
func (s *Sim) terminateNodes(cl *pcsCluster, g *pcsGroup) {
	for _, id := range slices.Sorted(maps.Values(g.nodes)) {
		s.terminate(cl.region, cl.region.instances[id], userShutdown)
	}
}

// pcsQueue is a queue.
type pcsQueue struct {
	pcsResource
	Groups             []pcsMember `json:"computeNodeGroupConfigurations"`
	SlurmConfiguration pcsSettings `json:"slurmConfiguration,omitempty"`
}

type pcsMember struct {
	ID string `json:"computeNodeGroupId,omitempty"`
}

func (q *pcsQueue) has(group string) bool { return slices.Contains(q.Groups, pcsMember{group}) }

// queuesOf names the queues that use a node group.
func (cl *pcsCluster) queuesOf(group string) (names []string) {
	for _, q := range cl.queues {
		if q.has(group) {
			names = append(names, q.Name)
		}
	}

	return names
}

func (s *Sim) createQueue(c *call, in *pcsRequest) (any, error) {
	cl := in.cluster
	q := &pcsQueue{}
	if err := cmp.Or(cl.must(statusActive), json.Unmarshal(c.Body, q)); err != nil {
		return nil, err
	}

	q.Name, q.tags = in.QueueName, copyTags(in.Tags)
	if other, err := pcsFind(cl.queues, kindQueue, q.Name); err == nil {
		return nil, pcsConflict(&other.pcsResource, "cluster %s has a queue with the name %q", cl.Name, q.Name)
	}

	var v pcsValidation
	checkPCSName(&v, "queueName", q.Name, 25)
	checkPCSTags(&v, in.Tags)
	checkSettings(&v, q.SlurmConfiguration, queueParameters)

	if err := cmp.Or(v.err(), cl.checkMembers(q.Groups, &pcsQueue{})); err != nil {
		return nil, err
	}

	if len(cl.queues) >= clusterQuota {
		return nil, pcsQuota(
			&cl.pcsResource,
			"cluster %s has %d queues, and the quota is %d",
			cl.Name,
			len(cl.queues),
			clusterQuota,
		)
	}

	s.addQueue(cl, q)
	s.change(c, &q.pcsResource, statusCreating, func() {})

	return object{"queue": q}, nil
}

// addQueue completes a queue with PCS's own choices and adds it to the cluster.
func (s *Sim) addQueue(cl *pcsCluster, q *pcsQueue) {
	if q.Groups == nil {
		q.Groups = []pcsMember{} // a required member, so an empty list and not null
	}

	s.complete(&q.pcsResource, kindQueue, cl.ARN+"/queue/")
	q.ClusterID = cl.ID
	cl.queues = append(cl.queues, q)
}

// checkMembers refuses groups that do not exist and those that join a queue without being ACTIVE. Members stay,
// whatever their status.
func (cl *pcsCluster) checkMembers(groups []pcsMember, before *pcsQueue) error {
	for _, member := range groups {
		g, err := pcsFind(cl.groups, kindGroup, member.ID)
		if err != nil {
			return err
		}

		if err := g.must(statusActive); err != nil && !before.has(member.ID) {
			return err
		}
	}

	return nil
}

// updateQueue replaces the whole list of groups if the request has one, and merges the settings of Slurm.
func (s *Sim) updateQueue(c *call, in *pcsRequest) (any, error) {
	cl := in.cluster
	q := in.queue
	if err := cmp.Or(cl.must(statusActive), q.must(statusActive, statusUpdateFailed)); err != nil {
		return nil, err
	}

	var change pcsQueue
	if err := json.Unmarshal(c.Body, &change); err != nil {
		return nil, err
	}

	var v pcsValidation
	checkSettings(&v, change.SlurmConfiguration, queueParameters)

	if err := cmp.Or(v.err(), cl.checkMembers(change.Groups, q)); err != nil {
		return nil, err
	}

	if change.Groups != nil {
		q.Groups = change.Groups
	}

	q.SlurmConfiguration = q.SlurmConfiguration.merge(change.SlurmConfiguration)
	s.change(c, &q.pcsResource, statusUpdating, func() {})

	return object{"queue": q}, nil
}

func (s *Sim) deleteQueue(c *call, in *pcsRequest) (any, error) {
	cl := in.cluster

	q := in.queue
	if err := q.must(deletable...); err != nil {
		return nil, err
	}

	s.change(c, &q.pcsResource, statusDeleting, func() {
		remove(&cl.queues, q)
		// API reference, DeleteQueue: nodes of a group that is in no other queue are terminated.
		for _, g := range cl.groups {
			if q.has(g.ID) && len(cl.queuesOf(g.ID)) == 0 {
				s.terminateNodes(cl, g)
			}
		}
	})

	return object{}, nil
}
