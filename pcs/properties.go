package pcs

import (
	"encoding/json"
	"fmt"
	"strings"

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
	if g.Actions != nil {
		var actions any
		if err := json.Unmarshal(g.Actions, &actions); err != nil {
			return nil, fmt.Errorf("the lifecycle actions of compute node group %s: %w", g.Name, err)
		}
		p["NodeLifecycleActions"] = capitalized(actions)
	}
	return p, nil
}

// capitalized begins the names of members with a capital letter, as CloudFormation has them.
func capitalized(tree any) any {
	switch v := tree.(type) {
	case map[string]any:
		all := map[string]any{}
		for name, value := range v {
			all[strings.ToUpper(name[:min(1, len(name))])+name[min(1, len(name)):]] = capitalized(value)
		}
		return all
	case []any:
		for i := range v {
			v[i] = capitalized(v[i])
		}
	}
	return tree
}

func rename(p map[string]any, from, to string) {
	p[to] = p[from]
	delete(p, from)
}
