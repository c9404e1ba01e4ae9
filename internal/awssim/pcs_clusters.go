package awssim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// pcsCluster is a cluster with all that belongs to it.
type pcsCluster struct {
	pcsThing
	Scheduler          pcsScheduler  `json:"scheduler"`
	Size               string        `json:"size"`
	Networking         pcsNetworking `json:"networking"`
	SlurmConfiguration pcsSettings   `json:"slurmConfiguration,omitempty"`
	Endpoints          []pcsEndpoint `json:"endpoints,omitempty"`

	region *region
	groups []*pcsGroup
	queues []*pcsQueue
}

type pcsScheduler struct {
	Type    string `json:"type,omitempty"`
	Version string `json:"version"`
}

type pcsNetworking struct {
	SubnetIDs        []string `json:"subnetIds,omitempty"`
	SecurityGroupIDs []string `json:"securityGroupIds,omitempty"`
	NetworkType      string   `json:"networkType,omitempty"`
}

type pcsEndpoint struct {
	Type      string `json:"type"`
	PrivateIP string `json:"privateIpAddress"`
	Port      string `json:"port"`
}

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

func (s *Sim) createCluster(c *call, in *pcsRequest) (any, error) {
	cl := &pcsCluster{region: c.region}
	if err := json.Unmarshal(c.Body, cl); err != nil {
		return nil, err
	}
	cl.Name, cl.tags = in.ClusterName, copyTags(in.Tags)
	var v pcsValidation
	checkPCSName(&v, "clusterName", cl.Name, 40)
	if checkNewCluster(&v, cl); v.err() != nil {
		return nil, v.err()
	}
	for _, other := range c.region.pcs.clusters {
		switch {
		case other.Name == cl.Name:
			return nil, pcsConflict(&other.pcsThing, "a cluster with the name %q exists", cl.Name)
		case other.Status == statusCreating:
			return nil, pcsQuota(&other.pcsThing, "only 1 cluster at a time can be in status CREATING, and %q is", other.Name)
		}
	}
	s.addCluster(c.region, cl)
	s.change(&cl.pcsThing, statusCreating, cl.putEndpoints)
	return object{"cluster": cl}, nil
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
	s.complete(&cl.pcsThing, kindCluster, s.arn("pcs", r.name, "cluster/"))
	cl.Networking.NetworkType = "IPV4"
	secret := s.arn("secretsmanager", r.name, "secret:pcs!slurm-secret-"+cl.ID+"-AbCdEf")
	defaults := pcsSettings{"scaleDownIdleTimeInSeconds": 600.0, // API reference, ClusterSlurmConfiguration
		"accounting": map[string]any{"mode": "NONE"}, "slurmRest": map[string]any{"mode": "NONE"},
		"authKey": map[string]any{"secretArn": secret, "secretVersion": "1"}}
	cl.SlurmConfiguration = defaults.merge(cl.SlurmConfiguration)
	r.pcs.clusters = append(r.pcs.clusters, cl)
}

// putEndpoints puts the controller on the tenth address of the cluster's subnet, at the ports that PCS uses.
func (cl *pcsCluster) putEndpoints() {
	ip := cl.region.subnet(cl.Networking.SubnetIDs[0]).prefix.Addr()
	for range 10 {
		ip = ip.Next()
	}
	cl.Endpoints = []pcsEndpoint{{"SLURMCTLD", ip.String(), "6817"}}
	if cl.SlurmConfiguration.mode("accounting") == "STANDARD" {
		cl.Endpoints = append(cl.Endpoints, pcsEndpoint{"SLURMDBD", ip.String(), "6819"})
	}
	if cl.SlurmConfiguration.mode("slurmRest") == "STANDARD" {
		cl.Endpoints = append(cl.Endpoints, pcsEndpoint{"SLURMRESTD", ip.String(), "6820"})
	}
}

// updateCluster is refused while the cluster or any of its node groups and queues is being changed.
func (s *Sim) updateCluster(c *call, in *pcsRequest) (any, error) {
	cl := in.cluster
	err := cl.must(statusActive, statusUpdateFailed, statusSuspended)
	for _, g := range cl.groups {
		err = cmp.Or(err, g.must(statusActive))
	}
	for _, q := range cl.queues {
		err = cmp.Or(err, q.must(statusActive))
	}
	if err != nil {
		return nil, err
	}
	var change struct {
		Scheduler          pcsScheduler `json:"scheduler"`
		SlurmConfiguration pcsSettings  `json:"slurmConfiguration"`
	}
	if err := json.Unmarshal(c.Body, &change); err != nil {
		return nil, err
	}
	var v pcsValidation
	version := change.Scheduler.Version
	if version != "" && slurmVersion(version) <= slurmVersion(cl.Scheduler.Version) {
		v.add("scheduler.version", "%q is not newer than %s", version, cl.Scheduler.Version)
	}
	if checkSettings(&v, change.SlurmConfiguration, clusterParameters, cl); v.err() != nil {
		return nil, v.err()
	}
	if version != "" {
		cl.Scheduler.Version = version
	}
	cl.SlurmConfiguration = cl.SlurmConfiguration.merge(change.SlurmConfiguration)
	s.change(&cl.pcsThing, statusUpdating, cl.putEndpoints)
	return object{"cluster": cl}, nil
}

func (s *Sim) deleteCluster(c *call, in *pcsRequest) (any, error) {
	cl := in.cluster
	if err := cl.deletable(); err != nil {
		return nil, err
	}
	if len(cl.queues)+len(cl.groups) > 0 {
		return nil, pcsConflict(&cl.pcsThing, "cluster %s still has %d queues and %d compute node groups: delete them first",
			cl.Name, len(cl.queues), len(cl.groups))
	}
	s.change(&cl.pcsThing, statusDeleting, func() { remove(&c.region.pcs.clusters, cl) })
	return object{}, nil
}

func remove[T comparable](from *[]T, one T) {
	*from = slices.DeleteFunc(*from, func(other T) bool { return other == one })
}

// slurmVersion turns "25.05" into 2505, and anything else into 0.
func slurmVersion(text string) int {
	var year, month int
	if n, _ := fmt.Sscanf(text, "%2d.%2d", &year, &month); n != 2 || len(text) != 5 {
		return 0
	}
	return year*100 + month
}

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
