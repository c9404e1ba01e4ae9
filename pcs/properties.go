package pcs

import (
	"fmt"

	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
)

// NodeGroupProperties are the CloudFormation properties (AWS::PCS::ComputeNodeGroup) of the node
// group that EnsureNodeGroup would make, without the launch template.
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

func rename(p map[string]any, from, to string) {
	p[to] = p[from]
	delete(p, from)
}
