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
	pcsResource
	Scheduler          pcsScheduler  `json:"scheduler"`
	Size               string        `json:"size"`
	Networking         pcsNetworking `json:"networking"`
	SlurmConfiguration pcsSettings   `json:"slurmConfiguration,omitempty"`

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

// sizeLimits are the nodes that a cluster size manages, as the sum of maxInstanceCount over its node groups.
var sizeLimits = map[string]int{"SMALL": 32, "MEDIUM": 512, "LARGE": 2048}

// updateCluster fails while the cluster or any of its node groups and queues is being changed.
func (s *Sim) updateCluster(c *call, in *pcsRequest) (any, error) {
	cl := in.cluster
	err := cl.must(statusActive, statusUpdateFailed)
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
		SlurmConfiguration pcsSettings `json:"slurmConfiguration"`
	}
	if err := json.Unmarshal(c.Body, &change); err != nil {
		return nil, err
	}

	var v pcsValidation
	if checkSettings(&v, change.SlurmConfiguration, clusterParameters); v.err() != nil {
		return nil, v.err()
	}

	cl.SlurmConfiguration = cl.SlurmConfiguration.merge(change.SlurmConfiguration)
	s.change(c, &cl.pcsResource, statusUpdating, func() {})

	return object{"cluster": cl}, nil
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
	cl := &pcsCluster{
		region:      r,
		pcsResource: pcsResource{ID: c.ID, Name: c.Name, tags: copyTags(c.Tags)},
		Size:        cmp.Or(c.Size, "SMALL"),
		Scheduler:   pcsScheduler{Type: "SLURM", Version: cmp.Or(c.SlurmVersion, "25.05")},
		Networking:  pcsNetworking{SubnetIDs: c.Subnets, SecurityGroupIDs: c.SecurityGroups},
		SlurmConfiguration: pcsSettings{
			"scaleDownIdleTimeInSeconds": 600.0,
		},
	} // API reference, ClusterSlurmConfiguration
	if len(c.Subnets) != 1 || r.subnet(c.Subnets[0]) == nil || sizeLimits[cl.Size] == 0 {
		return fmt.Errorf("it needs a subnet of the region, and size SMALL, MEDIUM or LARGE")
	}

	s.complete(&cl.pcsResource, kindCluster, s.arn("pcs", r.name, "cluster/"))

	r.pcs.clusters = append(r.pcs.clusters, cl)
	for _, g := range c.NodeGroups {
		made := &pcsGroup{
			pcsResource:     pcsResource{ID: g.ID, Name: g.Name, tags: copyTags(g.Tags), Status: statusActive},
			AMI:             g.Image,
			SubnetIDs:       g.Subnets,
			PurchaseOption:  g.PurchaseOption,
			InstanceProfile: g.InstanceProfile,
			LaunchTemplate:  pcsTemplate{ID: g.LaunchTemplate, Version: cmp.Or(g.Version, "1")},
			Scaling:         pcsScaling{Min: g.Min, Max: g.Max},
			Instances:       []pcsInstance{{Type: g.Type}},
		}
		if err := s.addGroup(cl, made); err != nil {
			return fmt.Errorf("node group %s: %w", g.Name, err)
		}
	}

	for _, sc := range c.Queues {
		q := &pcsQueue{
			pcsResource: pcsResource{ID: sc.ID, Name: sc.Name, tags: copyTags(sc.Tags), Status: statusActive},
		}
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
