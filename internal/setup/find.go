package setup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// NodeGroupOf is the node group of a queue where nobody names one: the one that the settings have,
// else one of the queue's name. c may be nil.
func NodeGroupOf(c *config.Config, queue string) (string, error) {
	if c == nil {
		return queue, nil
	}
	var names []string
	p, _ := c.Partition(queue)
	for _, g := range p.Groups {
		names = append(names, g.Name)
	}
	switch {
	case len(names) == 0 || slices.Contains(names, queue):
		return queue, nil
	case len(names) == 1:
		return names[0], nil
	}
	return "", fmt.Errorf("queue %s has several node groups; add --node-group with one of %s", queue, strings.Join(names, ", "))
}

// hostTime bounds the questions to Slurm and EC2 of which cluster this host is.
const hostTime = 5 * time.Second

// FindCluster finds the PCS cluster that is meant where nobody names one: the only one of the
// region, or of several the one of this host. from says how. The problem is for none.
func (s Setup) FindCluster(ctx context.Context) (name, from string, problem *capacity.Problem, err error) {
	clusters, err := s.PCS.Clusters(ctx)
	if err != nil && !denied(err) {
		return "", "", nil, err
	}
	if len(clusters) > 1 {
		slurmName, id := s.askHost(ctx)
		name, from = clusterOfHost(clusters, slurmName, id)
	} else if len(clusters) == 1 {
		name, from = clusters[0].Name, "the only PCS cluster in "+s.PCS.Region()
	}
	if name != "" {
		return name, from, nil, nil
	}
	missing := missingCluster("", s.PCS.Region(), "", clusters, err)
	return "", "", &missing, nil
}

// askHost asks Slurm for its ClusterName, and EC2 for the PCS cluster of this instance; "" is not
// known.
func (s Setup) askHost(ctx context.Context) (slurmName, clusterID string) {
	ctx, cancel := context.WithTimeout(ctx, hostTime)
	defer cancel()
	var both errgroup.Group
	both.Go(func() error {
		running, err := slurm.New("").Config(ctx)
		slurmName = running.ClusterName
		return err
	})
	both.Go(func() error {
		instance, err := s.EC2.OwnInstance(ctx)
		clusterID = instance.Tags[pcs.TagClusterID]
		return err
	})
	_ = both.Wait() // what does not answer is not known
	return slurmName, clusterID
}

// clusterOfHost is the cluster that a host is in, by the tag that PCS gives instances, else by
// ClusterName; "" if neither tells.
func clusterOfHost(clusters []pcs.Cluster, slurmName, clusterID string) (name, from string) {
	for _, c := range clusters {
		if clusterID != "" && c.ID == clusterID {
			return c.Name, "tag " + pcs.TagClusterID + " of this instance"
		}
	}
	for _, c := range clusters {
		if slurmName != "" && (strings.EqualFold(c.Name, slurmName) || strings.EqualFold(c.ID, slurmName)) {
			return c.Name, "ClusterName of this host's Slurm"
		}
	}
	return "", ""
}
