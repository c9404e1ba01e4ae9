package awssim

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim/iam"
)

// groupNeeds are the permissions that PCS demands of a caller who makes or changes a node group, beyond the action
// itself (AWS PCS User Guide, "Minimum permissions for AWS PCS"). On which things is not documented; the guide's
// policy grants them on all.
var groupNeeds = []string{
	"ec2:DescribeVpcs", "ec2:DescribeSubnets", "ec2:DescribeSecurityGroups", "ec2:DescribeLaunchTemplates",
	"ec2:DescribeLaunchTemplateVersions", "ec2:DescribeInstanceTypes", "ec2:DescribeInstanceTypeOfferings",
	"ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateTags",
}

// blockNeeds come in addition if the group is on a block.
var blockNeeds = []string{"ec2:DescribeCapacityReservations", "ec2:DescribeCapacityBlocks", "ec2:DescribeCapacityBlockStatus"}

// pcsResources are the parameters that name the resource of an operation.
type pcsResources struct {
	Cluster        string            `json:"clusterIdentifier"`
	Group          string            `json:"computeNodeGroupIdentifier"`
	Queue          string            `json:"queueIdentifier"`
	ARN            string            `json:"resourceArn"`
	Profile        string            `json:"iamInstanceProfileArn"`
	PurchaseOption string            `json:"purchaseOption"`
	Tags           map[string]string `json:"tags"`
	TagKeys        []string          `json:"tagKeys"`
}

// pcsNeeds lists what a call of PCS needs: the action on the cluster, and on the node group or queue in it (Service
// Authorization Reference, "Actions, resources, and condition keys for AWS Parallel Computing Service").
func (s *Sim) pcsNeeds(c *call) []iam.Request {
	var in pcsResources
	_ = json.Unmarshal(c.Body, &in) // the operation refuses a malformed body
	state := &c.region.pcs
	var needs []iam.Request
	ask := func(action, arn string) {
		tags, _ := state.tagged(arn) // nil if it does not exist
		n := need(action, arn, in.Tags, tags)
		if len(in.TagKeys) > 0 {
			n.Keys.Set(keyTagKeys, in.TagKeys...)
		}
		needs = append(needs, n)
	}
	action := "pcs:" + c.Operation
	cluster, arn, group := s.pcsARNs(c, in)
	switch {
	case in.ARN != "":
		ask(action, in.ARN)
	case in.Cluster == "": // ListClusters, CreateCluster
		ask(action, "*")
	default:
		ask(action, cluster)
	}
	if arn != "" {
		ask(action, arn)
	}
	if strings.HasPrefix(c.Operation, "Create") && len(in.Tags) > 0 {
		ask("pcs:TagResource", cluster+map[string]string{"CreateComputeNodeGroup": "/computenodegroup/*", "CreateQueue": "/queue/*"}[c.Operation])
	}
	if c.Operation != "CreateComputeNodeGroup" && c.Operation != "UpdateComputeNodeGroup" {
		return needs
	}
	if group != nil {
		in.PurchaseOption = group.PurchaseOption
		if in.Profile == "" {
			in.Profile = group.InstanceProfile
		}
	}
	actions := groupNeeds
	if in.PurchaseOption == "CAPACITY_BLOCK" {
		actions = slices.Concat(actions, blockNeeds)
	}
	for _, a := range actions {
		needs = append(needs, need(a, "*", nil, nil))
	}
	return append(needs, need("iam:GetInstanceProfile", in.Profile, nil, nil), s.passRole(in.Profile))
}

// pcsARNs names the cluster of a request, and the node group or queue if it is about one. What there is not goes by the
// name that the request gives it.
func (s *Sim) pcsARNs(c *call, in pcsResources) (cluster, inIt string, group *pcsGroup) {
	cluster = s.arn("pcs", c.Region, "cluster/"+in.Cluster)
	if in.Cluster == "" {
		cluster = s.arn("pcs", c.Region, "cluster/*")
	}
	cl, err := c.region.pcs.cluster(in.Cluster)
	if err != nil {
		cl = &pcsCluster{}
	} else {
		cluster = cl.ARN
	}
	switch {
	case in.Group != "":
		if g, err := cl.group(in.Group); err == nil {
			return cluster, g.ARN, g
		}
		inIt = cluster + "/computenodegroup/" + in.Group
	case in.Queue != "":
		if q, err := cl.queue(in.Queue); err == nil {
			return cluster, q.ARN, nil
		}
		inIt = cluster + "/queue/" + in.Queue
	}
	return cluster, inIt, nil
}
