package pcs

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/pcs"
	"github.com/aws/aws-sdk-go-v2/service/pcs/types"
)

// NotSettled says what keeps PCS from updating the cluster: it takes an update only while
// the cluster and all its node groups and queues are ACTIVE (AWS PCS User Guide, "Updating a
// cluster"). "" if nothing does.
func (i Inventory) NotSettled() string {
	var parts []string
	if c := i.Cluster; c.Status != Active && c.Status != UpdateFailed {
		parts = append(parts, fmt.Sprintf("cluster %s is %s", c.Name, c.Status))
	}
	for _, g := range i.Groups {
		if g.Status != Active {
			parts = append(parts, fmt.Sprintf("node group %s is %s", g.Name, g.Status))
		}
	}
	for _, q := range i.Queues {
		if q.Status != Active {
			parts = append(parts, fmt.Sprintf("queue %s is %s", q.Name, q.Status))
		}
	}
	return strings.Join(parts, ", ")
}

// ChangeClusterSettings sets custom settings of the cluster, and takes out those whose value
// is "". PCS takes the whole list only, so that it is read first: all others stay as they
// are. It returns when the cluster is ACTIVE again.
func (p Provisioner) ChangeClusterSettings(ctx context.Context, cluster string, change map[string]string) error {
	sent := false
	return p.until(ctx, WhatCluster, cluster, func() (done bool, err error) {
		c, err := p.settledCluster(ctx, cluster)
		if err != nil {
			return false, err
		}
		merged := ChangedSettings(c.SlurmSettings, change)
		switch {
		case maps.Equal(merged, c.SlurmSettings) && c.Status == Active:
			return true, nil
		case sent && c.Status != Active:
			return false, fmt.Errorf("PCS cluster %s is %s: %s", c.Name, c.Status, c.Failures)
		}
		p.tell(WhatCluster, c.Name, "update")
		_, err = p.PCS.api.UpdateCluster(ctx, &pcs.UpdateClusterInput{ClusterIdentifier: aws.String(c.ID),
			SlurmConfiguration: &types.UpdateClusterSlurmConfigurationRequest{SlurmCustomSettings: settingsList(merged)}})
		if err != nil {
			return false, fmt.Errorf("updating PCS cluster %s: %w", c.Name, err)
		}
		sent = true
		return false, nil
	})
}

// ChangedSettings are settings with a change: "" takes one out.
func ChangedSettings(settings, change map[string]string) map[string]string {
	merged := map[string]string{}
	maps.Copy(merged, settings)
	maps.Copy(merged, change)
	maps.DeleteFunc(merged, func(_, value string) bool { return value == "" })
	return merged
}

// WhatCluster is what Progress is told for a cluster.
const WhatCluster = "PCS cluster"

// settledCluster reads a cluster once PCS is not at work on it.
func (p Provisioner) settledCluster(ctx context.Context, cluster string) (Cluster, error) {
	for {
		c, err := p.PCS.Cluster(ctx, cluster)
		if err != nil || !c.Status.Changing() {
			return c, err
		}
		if err := p.wait(ctx, WhatCluster, c.Name, c.Status); err != nil {
			return c, err
		}
	}
}
