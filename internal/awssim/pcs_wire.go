package awssim

import "time"

// The structures of PCS on the wire. A cluster, node group or queue is also kept in this form.

type pcsWireCluster struct {
	Name               string            `json:"name"`
	ID                 string            `json:"id"`
	ARN                string            `json:"arn"`
	Status             string            `json:"status"`
	CreatedAt          time.Time         `json:"createdAt"`
	ModifiedAt         time.Time         `json:"modifiedAt"`
	Scheduler          pcsWireScheduler  `json:"scheduler"`
	Size               string            `json:"size"`
	Networking         pcsWireNetworking `json:"networking"`
	SlurmConfiguration pcsSettings       `json:"slurmConfiguration,omitempty"`
	Endpoints          []pcsWireEndpoint `json:"endpoints,omitempty"`
}

type pcsWireScheduler struct {
	Type    string `json:"type,omitempty"`
	Version string `json:"version"`
}

type pcsWireNetworking struct {
	SubnetIDs        []string `json:"subnetIds,omitempty"`
	SecurityGroupIDs []string `json:"securityGroupIds,omitempty"`
	NetworkType      string   `json:"networkType,omitempty"`
}

type pcsWireEndpoint struct {
	Type      string `json:"type"`
	PrivateIP string `json:"privateIpAddress"`
	Port      string `json:"port"`
}

type pcsWireGroup struct {
	Name                 string            `json:"name"`
	ID                   string            `json:"id"`
	ARN                  string            `json:"arn"`
	ClusterID            string            `json:"clusterId"`
	CreatedAt            time.Time         `json:"createdAt"`
	ModifiedAt           time.Time         `json:"modifiedAt"`
	Status               string            `json:"status"`
	AMI                  string            `json:"amiId,omitempty"`
	SubnetIDs            []string          `json:"subnetIds"`
	PurchaseOption       string            `json:"purchaseOption"`
	LaunchTemplate       pcsWireTemplate   `json:"customLaunchTemplate"`
	InstanceProfile      string            `json:"iamInstanceProfileArn"`
	Scaling              pcsWireScaling    `json:"scalingConfiguration"`
	Instances            []pcsWireInstance `json:"instanceConfigs"`
	ErrorInfo            []pcsWireError    `json:"errorInfo,omitempty"`
	SpotOptions          pcsSettings       `json:"spotOptions,omitempty"`
	SlurmConfiguration   pcsSettings       `json:"slurmConfiguration,omitempty"`
	NodeLifecycleActions pcsSettings       `json:"nodeLifecycleActions,omitempty"`
}

type pcsWireTemplate struct {
	ID      string `json:"id"`
	Version string `json:"version"`
}

type pcsWireScaling struct {
	Min int `json:"minInstanceCount"`
	Max int `json:"maxInstanceCount"`
}

type pcsWireInstance struct {
	Type string `json:"instanceType,omitempty"`
}

type pcsWireQueue struct {
	Name               string              `json:"name"`
	ID                 string              `json:"id"`
	ARN                string              `json:"arn"`
	ClusterID          string              `json:"clusterId"`
	CreatedAt          time.Time           `json:"createdAt"`
	ModifiedAt         time.Time           `json:"modifiedAt"`
	Status             string              `json:"status"`
	Groups             []pcsWireQueueGroup `json:"computeNodeGroupConfigurations"`
	SlurmConfiguration pcsSettings         `json:"slurmConfiguration,omitempty"`
}

type pcsWireQueueGroup struct {
	ID string `json:"computeNodeGroupId,omitempty"`
}

// pcsWireSummary is a cluster, node group or queue in the answer of a List operation.
type pcsWireSummary struct {
	Name       string    `json:"name"`
	ID         string    `json:"id"`
	ARN        string    `json:"arn"`
	ClusterID  string    `json:"clusterId,omitempty"`
	CreatedAt  time.Time `json:"createdAt"`
	ModifiedAt time.Time `json:"modifiedAt"`
	Status     string    `json:"status"`
}

func (q *pcsWireQueue) groupIDs() []string {
	ids := make([]string, len(q.Groups))
	for i, g := range q.Groups {
		ids[i] = g.ID
	}
	return ids
}

// pcsNothing is the result of an operation that only succeeds.
type pcsNothing struct{}
