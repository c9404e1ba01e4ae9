package awssim

import (
	"maps"
	"slices"
	"strings"
)

// clusterQuota is how many node groups, and how many queues, a cluster can have: AWS PCS User Guide, "Service quotas".
// Neither can be raised.
const clusterQuota = 10

type createGroupInput struct {
	Cluster              string            `json:"clusterIdentifier"`
	Name                 string            `json:"computeNodeGroupName"`
	AMI                  string            `json:"amiId"`
	SubnetIDs            []string          `json:"subnetIds"`
	PurchaseOption       string            `json:"purchaseOption"`
	LaunchTemplate       pcsWireTemplate   `json:"customLaunchTemplate"`
	InstanceProfile      string            `json:"iamInstanceProfileArn"`
	Scaling              pcsWireScaling    `json:"scalingConfiguration"`
	Instances            []pcsWireInstance `json:"instanceConfigs"`
	SpotOptions          pcsSettings       `json:"spotOptions"`
	SlurmConfiguration   pcsSettings       `json:"slurmConfiguration"`
	NodeLifecycleActions pcsSettings       `json:"nodeLifecycleActions"`
	Tags                 map[string]string `json:"tags"`
}

type groupOutput struct {
	Group pcsWireGroup `json:"computeNodeGroup"`
}

func (s *Sim) createNodeGroup(c *call, in *createGroupInput) (*groupOutput, error) {
	cl, err := c.region.pcs.cluster(in.Cluster)
	if err != nil {
		return nil, err
	}
	if cl.Status != statusActive {
		return nil, pcsNotActive(kindCluster, cl.ID, cl.Status)
	}
	if other, err := cl.group(in.Name); err == nil {
		return nil, pcsConflict(kindGroup, other.ID, "cluster %s has a compute node group with the name %q", cl.Name, in.Name)
	}
	g := &pcsGroup{tags: copyTags(in.Tags), nodes: map[string]string{}, replace: map[string]bool{}}
	g.pcsWireGroup = pcsWireGroup{
		Name: in.Name, ClusterID: cl.ID, AMI: in.AMI, SubnetIDs: in.SubnetIDs, PurchaseOption: in.PurchaseOption,
		LaunchTemplate: in.LaunchTemplate, InstanceProfile: in.InstanceProfile, Scaling: in.Scaling,
		Instances: in.Instances, SpotOptions: in.SpotOptions, SlurmConfiguration: in.SlurmConfiguration,
		NodeLifecycleActions: in.NodeLifecycleActions, Status: statusCreating,
	}
	if g.PurchaseOption == "" {
		g.PurchaseOption = "ONDEMAND"
	}
	if err := checkGroup(cl, g, nil); err != nil {
		return nil, err
	}
	if len(cl.groups) >= clusterQuota {
		return nil, pcsQuota(kindGroup, cl.ID, "cluster %s has %d compute node groups, and the quota is %d", cl.Name, len(cl.groups), clusterQuota)
	}
	if err := cl.checkSize(g); err != nil {
		return nil, err
	}
	if err := s.addGroup(cl, g); err != nil {
		return nil, err
	}
	s.after(func() { s.settleGroup(g, "CREATE_FAILED") })
	return &groupOutput{g.pcsWireGroup}, nil
}

// addGroup completes a node group with PCS's own choices, makes its managed launch template and adds it to the
// cluster.
func (s *Sim) addGroup(cl *pcsCluster, g *pcsGroup) error {
	if g.ID == "" {
		g.ID = s.newPCSID()
	}
	g.ClusterID = cl.ID
	g.ARN = cl.ARN + "/computenodegroup/" + g.ID
	g.CreatedAt, g.ModifiedAt = s.pcsNow(), s.pcsNow()
	var err error
	if g.managed, err = s.makeManagedTemplate(cl, g); err != nil {
		return err
	}
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
		return pcsQuota(kindCluster, cl.ID, "the total of maxInstanceCount across all compute node groups of cluster %s would be %d, and a %s cluster has at most %d nodes",
			cl.Name, total, cl.Size, limit)
	}
	return nil
}

type groupInput struct {
	Cluster string `json:"clusterIdentifier"`
	Group   string `json:"computeNodeGroupIdentifier"`
}

func (p *pcsState) clusterAndGroup(cluster, group string) (*pcsCluster, *pcsGroup, error) {
	cl, err := p.cluster(cluster)
	if err != nil {
		return nil, nil, err
	}
	g, err := cl.group(group)
	return cl, g, err
}

func (s *Sim) getNodeGroup(c *call, in *groupInput) (*groupOutput, error) {
	_, g, err := c.region.pcs.clusterAndGroup(in.Cluster, in.Group)
	if err != nil {
		return nil, err
	}
	return &groupOutput{g.pcsWireGroup}, nil
}

type listGroupsOutput struct {
	Groups    []pcsWireSummary `json:"computeNodeGroups"`
	NextToken string           `json:"nextToken,omitempty"`
}

func (s *Sim) listNodeGroups(c *call, in *pcsListInput) (*listGroupsOutput, error) {
	cl, err := c.region.pcs.cluster(in.Cluster)
	if err != nil {
		return nil, err
	}
	var all []pcsWireSummary
	for _, g := range cl.groups {
		all = append(all, pcsWireSummary{Name: g.Name, ID: g.ID, ARN: g.ARN, ClusterID: g.ClusterID,
			CreatedAt: g.CreatedAt, ModifiedAt: g.ModifiedAt, Status: g.Status})
	}
	shown, next, err := pcsPage(all, in.MaxResults, in.NextToken)
	return &listGroupsOutput{shown, next}, err
}

type updateGroupInput struct {
	Cluster              string           `json:"clusterIdentifier"`
	Group                string           `json:"computeNodeGroupIdentifier"`
	AMI                  string           `json:"amiId"`
	SubnetIDs            []string         `json:"subnetIds"`
	PurchaseOption       string           `json:"purchaseOption"`
	LaunchTemplate       *pcsWireTemplate `json:"customLaunchTemplate"`
	InstanceProfile      string           `json:"iamInstanceProfileArn"`
	Scaling              *pcsWireScaling  `json:"scalingConfiguration"`
	SpotOptions          pcsSettings      `json:"spotOptions"`
	SlurmConfiguration   pcsSettings      `json:"slurmConfiguration"`
	NodeLifecycleActions pcsSettings      `json:"nodeLifecycleActions"`
}

// apply returns the group as it would be after the update.
func (in *updateGroupInput) apply(g pcsWireGroup) pcsWireGroup {
	if in.AMI != "" {
		g.AMI = in.AMI
	}
	if in.SubnetIDs != nil {
		g.SubnetIDs = in.SubnetIDs
	}
	if in.PurchaseOption != "" {
		g.PurchaseOption = in.PurchaseOption
	}
	if in.LaunchTemplate != nil {
		g.LaunchTemplate = *in.LaunchTemplate
	}
	if in.InstanceProfile != "" {
		g.InstanceProfile = in.InstanceProfile
	}
	if in.Scaling != nil {
		g.Scaling = *in.Scaling
	}
	if in.SpotOptions != nil {
		g.SpotOptions = in.SpotOptions
	}
	if in.NodeLifecycleActions != nil {
		g.NodeLifecycleActions = in.NodeLifecycleActions
	}
	if in.SlurmConfiguration != nil {
		g.SlurmConfiguration = g.SlurmConfiguration.merge(in.SlurmConfiguration)
		if idle, ok := g.SlurmConfiguration.number("scaleDownIdleTimeInSeconds"); ok && idle == -1 {
			delete(g.SlurmConfiguration, "scaleDownIdleTimeInSeconds") // -1 removes the override of the cluster's value
		}
	}
	return g
}

// replaces reports whether the update changes the nodes themselves: PCS then replaces running instances, each when it
// is idle. Other subnets and another scaling leave them alone.
func (in *updateGroupInput) replaces(g pcsWireGroup) bool {
	return in.AMI != "" && in.AMI != g.AMI ||
		in.PurchaseOption != "" && in.PurchaseOption != g.PurchaseOption ||
		in.LaunchTemplate != nil && *in.LaunchTemplate != g.LaunchTemplate ||
		in.InstanceProfile != "" && in.InstanceProfile != g.InstanceProfile ||
		in.NodeLifecycleActions != nil
}

func (s *Sim) updateNodeGroup(c *call, in *updateGroupInput) (*groupOutput, error) {
	cl, g, err := c.region.pcs.clusterAndGroup(in.Cluster, in.Group)
	if err != nil {
		return nil, err
	}
	switch {
	case cl.Status != statusActive:
		return nil, pcsNotActive(kindCluster, cl.ID, cl.Status)
	case g.Status != statusActive && g.Status != "UPDATE_FAILED":
		return nil, pcsNotActive(kindGroup, g.ID, g.Status)
	}
	updated := *g
	updated.pcsWireGroup = in.apply(g.pcsWireGroup)
	if err := checkGroup(cl, &updated, g); err != nil {
		return nil, err
	}
	if err := cl.checkSize(&updated); err != nil {
		return nil, err
	}
	replaces := in.replaces(g.pcsWireGroup)
	if err := s.updateManagedTemplate(cl, &updated); err != nil {
		return nil, err
	}
	*g = updated
	g.Status, g.ModifiedAt = statusUpdating, s.pcsNow()
	answer := &groupOutput{g.pcsWireGroup}
	s.after(func() {
		s.settleGroup(g, "UPDATE_FAILED")
		if replaces {
			for _, id := range g.nodes {
				g.replace[id] = true
			}
		}
	})
	return answer, nil
}

func (s *Sim) deleteNodeGroup(c *call, in *groupInput) (*pcsNothing, error) {
	cl, g, err := c.region.pcs.clusterAndGroup(in.Cluster, in.Group)
	if err != nil {
		return nil, err
	}
	if g.Status == statusCreating || g.Status == statusUpdating || g.Status == statusDeleting {
		return nil, pcsNotActive(kindGroup, g.ID, g.Status)
	}
	if queues := cl.queuesOf(g.ID); len(queues) > 0 {
		return nil, pcsConflict(kindGroup, g.ID, "compute node group %s is in the queue %s: take it out of the queue first",
			g.Name, strings.Join(queues, ", "))
	}
	g.Status, g.ModifiedAt = statusDeleting, s.pcsNow()
	s.after(func() {
		g.Status = statusDeleted
		cl.groups = slices.DeleteFunc(cl.groups, func(other *pcsGroup) bool { return other == g })
		s.terminateNodes(cl, g)
		s.deleteManagedTemplate(cl.region, g)
	})
	return &pcsNothing{}, nil
}

// terminateNodes ends every instance of a node group.
func (s *Sim) terminateNodes(cl *pcsCluster, g *pcsGroup) {
	ids := slices.Sorted(maps.Values(g.nodes))
	if len(ids) > 0 {
		// Instances that are gone are left alone, so there is no error to tell anybody.
		_ = s.terminateIDs(cl.region.name, ids, "Client.UserInitiatedShutdown")
	}
}
