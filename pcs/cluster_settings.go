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

// NotSettled returns the reason why PCS cannot update the cluster now, and its fix: PCS takes an
// update only while the cluster and all its node groups and queues are ACTIVE (AWS PCS User Guide,
// "Updating a cluster"). Both are "" if it can.
func (i Inventory) NotSettled() (what, fix string) {
	var parts, fixes []string
	switch not, fix := i.Cluster.NotActive(); i.Cluster.Status {
	case Active, UpdateFailed:
	case CreateFailed, Deleting, Deleted, DeleteFailed:
		return not, fix
	case Suspending, Suspended:
		parts, fixes = append(parts, not), append(fixes, fix)
	default:
		parts = append(parts, not)
	}
	note := func(thing string, s Status, why Failures) {
		if s == Active {
			return
		}
		part := fmt.Sprintf("%s is %s", thing, s)
		if len(why) > 0 {
			part += " (" + why.String() + ")"
		}
		parts = append(parts, part)
		switch s {
		case UpdateFailed:
			fixes = append(fixes, fmt.Sprintf("mend what the update of %s failed on and update it, or delete it", thing))
		case CreateFailed, DeleteFailed:
			fixes = append(fixes, fmt.Sprintf("delete %s", thing))
		}
	}
	for _, g := range i.Groups {
		note("node group "+g.Name, g.Status, g.Failures)
	}
	for _, q := range i.Queues {
		note("queue "+q.Name, q.Status, q.Failures)
	}
	switch {
	case len(parts) == 0:
		return "", ""
	case len(fixes) == 0:
		return strings.Join(parts, ", "), "run this again then"
	}
	return strings.Join(parts, ", "), strings.Join(fixes, "; ") + "; then run this again"
}

// ChangeClusterSettings sets custom settings of the cluster, and removes settings whose value is
// "". PCS only takes the whole list, so ChangeClusterSettings reads it first and keeps all others.
// It returns when the cluster is ACTIVE again.
func (p Provisioner) ChangeClusterSettings(ctx context.Context, cluster string, change map[string]string) error {
	sent := false
	return p.until(ctx, WhatCluster, cluster, func(to *Pace) (done bool, err error) {
		c, err := p.settledCluster(ctx, to, cluster)
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

// ChangedSettings are settings with a change: "" removes one.
func ChangedSettings(settings, change map[string]string) map[string]string {
	merged := map[string]string{}
	maps.Copy(merged, settings)
	maps.Copy(merged, change)
	maps.DeleteFunc(merged, func(_, value string) bool { return value == "" })
	return merged
}

// WhatCluster is the kind that Progress gets for a cluster.
const WhatCluster = "PCS cluster"

// settledCluster waits until PCS has finished with a cluster, and reads it.
func (p Provisioner) settledCluster(ctx context.Context, to *Pace, cluster string) (Cluster, error) {
	for {
		c, err := p.PCS.Cluster(ctx, cluster)
		if err != nil || !c.Status.Changing() {
			return c, err
		}
		if err := p.wait(ctx, to, WhatCluster, c.Name, c.Status); err != nil {
			return c, err
		}
	}
}
