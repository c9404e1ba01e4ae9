package awssim

import (
	"regexp"
	"slices"
	"strings"
)

// Name patterns and lengths are those of the service model: ClusterName, ComputeNodeGroupName, QueueName.
var pcsName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]+$`)

func checkPCSName(v *pcsValidation, field, name string, longest int) {
	switch {
	case len(name) < 3 || len(name) > longest:
		v.add(field, "%q has %d characters, a name has 3 to %d", name, len(name), longest)
	case strings.HasPrefix(name, "pcs_"):
		v.add(field, "%q starts with pcs_, which is for ids", name)
	case !pcsName.MatchString(name):
		v.add(field, "%q: a name has letters, digits and hyphens, and starts with a letter", name)
	}
}

// clusterVersions are the versions that CreateCluster takes.
var clusterVersions = []string{"24.11", "25.05", "25.11", "26.05"}

// sizeLimits are the nodes that a cluster size manages, as the sum of maxInstanceCount over its node groups.
var sizeLimits = map[string]int{"SMALL": 32, "MEDIUM": 512, "LARGE": 2048}

type createClusterInput struct {
	Name               string            `json:"clusterName"`
	Scheduler          pcsWireScheduler  `json:"scheduler"`
	Size               string            `json:"size"`
	Networking         pcsWireNetworking `json:"networking"`
	SlurmConfiguration pcsSettings       `json:"slurmConfiguration"`
	Tags               map[string]string `json:"tags"`
}

type clusterOutput struct {
	Cluster pcsWireCluster `json:"cluster"`
}

func (s *Sim) createCluster(c *call, in *createClusterInput) (*clusterOutput, error) {
	cl := &pcsCluster{region: c.region, tags: copyTags(in.Tags), pcsWireCluster: pcsWireCluster{
		Name: in.Name, Size: in.Size, Scheduler: in.Scheduler, Networking: in.Networking, Status: statusCreating,
	}}
	cl.SlurmConfiguration = in.SlurmConfiguration
	var v pcsValidation
	checkPCSName(&v, "clusterName", cl.Name, 40)
	if checkNewCluster(&v, cl); v.err() != nil {
		return nil, v.err()
	}
	for _, other := range c.region.pcs.clusters {
		switch {
		case other.Name == cl.Name:
			return nil, pcsConflict(kindCluster, other.ID, "a cluster with the name %q exists", cl.Name)
		case other.Status == statusCreating:
			return nil, pcsQuota(kindCluster, other.ID, "only 1 cluster at a time can be in status CREATING, and %q is", other.Name)
		}
	}
	s.addCluster(c.region, cl)
	s.after(func() { s.clusterActive(cl) })
	return &clusterOutput{cl.pcsWireCluster}, nil
}

func checkNewCluster(v *pcsValidation, cl *pcsCluster) {
	r := cl.region
	checkPCSTags(v, cl.tags)
	if !slices.Contains(clusterVersions, cl.Scheduler.Version) {
		v.add("scheduler.version", "%q is not one of %s", cl.Scheduler.Version, strings.Join(clusterVersions, ", "))
	}
	// API reference, Networking: "PCS currently supports only 1 subnet in this list".
	if n := len(cl.Networking.SubnetIDs); n != 1 {
		v.add("networking.subnetIds", "a cluster has 1 subnet, not %d", n)
	} else if r.subnet(cl.Networking.SubnetIDs[0]) == nil {
		v.add("networking.subnetIds", "the subnet %s does not exist", cl.Networking.SubnetIDs[0])
	}
	for _, id := range cl.Networking.SecurityGroupIDs {
		if r.group(id) == nil {
			v.add("networking.securityGroupIds", "the security group %s does not exist", id)
		}
	}
	checkSettings(v, cl.SlurmConfiguration, clusterParameters, cl)
}

// addCluster completes a cluster with PCS's own choices and adds it to the region.
func (s *Sim) addCluster(r *region, cl *pcsCluster) {
	if cl.ID == "" {
		cl.ID = s.newPCSID()
	}
	cl.ARN = s.arn("pcs", r.name, "cluster/"+cl.ID)
	cl.CreatedAt, cl.ModifiedAt = s.pcsNow(), s.pcsNow()
	cl.Networking.NetworkType = "IPV4"
	secret := s.arn("secretsmanager", r.name, "secret:pcs!slurm-secret-"+cl.ID+"-AbCdEf")
	defaults := pcsSettings{
		"scaleDownIdleTimeInSeconds": 600.0, // API reference, ClusterSlurmConfiguration
		"accounting":                 map[string]any{"mode": "NONE"},
		"slurmRest":                  map[string]any{"mode": "NONE"},
		"authKey":                    map[string]any{"secretArn": secret, "secretVersion": "1"},
	}
	cl.SlurmConfiguration = defaults.merge(cl.SlurmConfiguration)
	r.pcs.clusters = append(r.pcs.clusters, cl)
}

func (s *Sim) clusterActive(cl *pcsCluster) {
	cl.Status, cl.ModifiedAt = statusActive, s.pcsNow()
	cl.Endpoints = cl.endpoints()
}

// endpoints puts the controller on the tenth address of the cluster's subnet, at the ports that PCS uses.
func (cl *pcsCluster) endpoints() []pcsWireEndpoint {
	ip := cl.region.subnet(cl.Networking.SubnetIDs[0]).prefix.Addr()
	for range 10 {
		ip = ip.Next()
	}
	endpoints := []pcsWireEndpoint{{Type: "SLURMCTLD", PrivateIP: ip.String(), Port: "6817"}}
	if cl.SlurmConfiguration.mode("accounting") == "STANDARD" {
		endpoints = append(endpoints, pcsWireEndpoint{Type: "SLURMDBD", PrivateIP: ip.String(), Port: "6819"})
	}
	if cl.SlurmConfiguration.mode("slurmRest") == "STANDARD" {
		endpoints = append(endpoints, pcsWireEndpoint{Type: "SLURMRESTD", PrivateIP: ip.String(), Port: "6820"})
	}
	return endpoints
}

type clusterInput struct {
	Cluster string `json:"clusterIdentifier"`
}

func (s *Sim) getCluster(c *call, in *clusterInput) (*clusterOutput, error) {
	cl, err := c.region.pcs.cluster(in.Cluster)
	if err != nil {
		return nil, err
	}
	return &clusterOutput{cl.pcsWireCluster}, nil
}

type pcsListInput struct {
	Cluster    string `json:"clusterIdentifier"`
	MaxResults *int   `json:"maxResults"`
	NextToken  string `json:"nextToken"`
}

type listClustersOutput struct {
	Clusters  []pcsWireSummary `json:"clusters"`
	NextToken string           `json:"nextToken,omitempty"`
}

func (s *Sim) listClusters(c *call, in *pcsListInput) (*listClustersOutput, error) {
	var all []pcsWireSummary
	for _, cl := range c.region.pcs.clusters {
		all = append(all, pcsWireSummary{Name: cl.Name, ID: cl.ID, ARN: cl.ARN,
			CreatedAt: cl.CreatedAt, ModifiedAt: cl.ModifiedAt, Status: cl.Status})
	}
	shown, next, err := pcsPage(all, in.MaxResults, in.NextToken)
	return &listClustersOutput{shown, next}, err
}

type updateClusterInput struct {
	Cluster            string            `json:"clusterIdentifier"`
	Scheduler          *pcsWireScheduler `json:"scheduler"`
	SlurmConfiguration pcsSettings       `json:"slurmConfiguration"`
}

func (s *Sim) updateCluster(c *call, in *updateClusterInput) (*clusterOutput, error) {
	cl, err := c.region.pcs.cluster(in.Cluster)
	if err != nil {
		return nil, err
	}
	if err := cl.checkAllActive(); err != nil {
		return nil, err
	}
	var v pcsValidation
	if in.Scheduler != nil && slurmVersion(in.Scheduler.Version) <= slurmVersion(cl.Scheduler.Version) {
		v.add("scheduler.version", "%q is not newer than %s", in.Scheduler.Version, cl.Scheduler.Version)
	}
	checkSettings(&v, in.SlurmConfiguration, clusterParameters, cl)
	if err := v.err(); err != nil {
		return nil, err
	}
	if in.Scheduler != nil {
		cl.Scheduler.Version = in.Scheduler.Version
	}
	cl.SlurmConfiguration = cl.SlurmConfiguration.merge(in.SlurmConfiguration)
	cl.Status, cl.ModifiedAt = statusUpdating, s.pcsNow()
	answer := &clusterOutput{cl.pcsWireCluster}
	s.after(func() { s.clusterActive(cl) })
	return answer, nil
}

// checkAllActive refuses to update a cluster while it or any of its node groups and queues is being changed.
func (cl *pcsCluster) checkAllActive() error {
	if cl.Status != statusActive && cl.Status != "UPDATE_FAILED" && cl.Status != "SUSPENDED" {
		return pcsNotActive(kindCluster, cl.ID, cl.Status)
	}
	for _, g := range cl.groups {
		if g.Status != statusActive {
			return pcsNotActive(kindGroup, g.ID, g.Status)
		}
	}
	for _, q := range cl.queues {
		if q.Status != statusActive {
			return pcsNotActive(kindQueue, q.ID, q.Status)
		}
	}
	return nil
}

func (s *Sim) deleteCluster(c *call, in *clusterInput) (*pcsNothing, error) {
	cl, err := c.region.pcs.cluster(in.Cluster)
	if err != nil {
		return nil, err
	}
	if cl.Status == statusCreating || cl.Status == statusUpdating || cl.Status == statusDeleting {
		return nil, pcsNotActive(kindCluster, cl.ID, cl.Status)
	}
	if len(cl.queues)+len(cl.groups) > 0 {
		return nil, pcsConflict(kindCluster, cl.ID, "cluster %s still has %d queues and %d compute node groups: delete them first",
			cl.Name, len(cl.queues), len(cl.groups))
	}
	cl.Status, cl.ModifiedAt = statusDeleting, s.pcsNow()
	s.after(func() {
		cl.Status = statusDeleted
		pcs := &c.region.pcs
		pcs.clusters = slices.DeleteFunc(pcs.clusters, func(other *pcsCluster) bool { return other == cl })
	})
	return &pcsNothing{}, nil
}
