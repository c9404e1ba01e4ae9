package pcs

import (
	"fmt"

	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
)

// NodeGroupProperties are those with which CloudFormation makes the node group that
// EnsureNodeGroup would (AWS::PCS::ComputeNodeGroup), without the launch template.
func NodeGroupProperties(g NodeGroup) (map[string]any, error) {
	p, err := awsconfig.Properties(createGroupInput(g))
	if err != nil {
		return nil, fmt.Errorf("compute node group %s: %w", g.Name, err)
	}
	delete(p, "CustomLaunchTemplate")
	rename(p, "ClusterIdentifier", "ClusterId")
	rename(p, "ComputeNodeGroupName", "Name")
	return p, nil
}

// QueueProperties are those with which CloudFormation makes the queue that EnsureQueue
// would leave behind where now is there (AWS::PCS::Queue).
func QueueProperties(want, now Queue) (map[string]any, error) {
	if settings := now.withSettings(want.SlurmSettings); settings != nil {
		want.SlurmSettings = settings
	} else if now.ID != "" {
		want.SlurmSettings = now.SlurmSettings
	}
	p, err := awsconfig.Properties(createQueueInput(want))
	if err != nil {
		return nil, fmt.Errorf("queue %s: %w", want.Name, err)
	}
	rename(p, "ClusterIdentifier", "ClusterId")
	rename(p, "QueueName", "Name")
	return p, nil
}

func rename(p map[string]any, from, to string) {
	p[to] = p[from]
	delete(p, from)
}
