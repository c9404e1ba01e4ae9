package pcs

import (
	"fmt"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Status is PCS's status of a cluster, node group or queue, verbatim.
type Status string

// The statuses that a decision depends on.
const (
	Active       Status = "ACTIVE"
	Creating     Status = "CREATING"
	Updating     Status = "UPDATING"
	Deleting     Status = "DELETING"
	Deleted      Status = "DELETED"
	CreateFailed Status = "CREATE_FAILED"
	UpdateFailed Status = "UPDATE_FAILED"
	DeleteFailed Status = "DELETE_FAILED"
)

// Changing reports whether PCS is at work on the thing and will stop by itself.
func (s Status) Changing() bool { return s == Creating || s == Updating || s == Deleting }

// Failure is one ErrorInfo of PCS, verbatim.
type Failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Failures are why PCS could not create or update something.
type Failures []Failure

func (fs Failures) String() string {
	var parts []string
	for _, f := range fs {
		parts = append(parts, fmt.Sprintf("%s: %s", f.Code, f.Message))
	}
	if len(parts) == 0 {
		return "PCS gives no reason"
	}
	return strings.Join(parts, "; ")
}

// Cluster is a PCS cluster.
type Cluster struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	ARN    string `json:"arn"`
	Status Status `json:"status"`
	// Size is SMALL, MEDIUM or LARGE.
	Size             string   `json:"size"`
	SlurmVersion     string   `json:"slurm_version"`
	SubnetIDs        []string `json:"subnet_ids,omitempty"`
	SecurityGroupIDs []string `json:"security_group_ids,omitempty"`
	Failures         Failures `json:"failures,omitempty"`
}

// NodeGroup is a PCS compute node group.
type NodeGroup struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	ARN       string    `json:"arn"`
	ClusterID string    `json:"cluster_id"`
	Status    Status    `json:"status"`
	Modified  time.Time `json:"modified"`

	// PurchaseOption is a Kind where we have one, else PCS's word ("SPOT").
	PurchaseOption capacity.Kind `json:"purchase_option"`
	InstanceTypes  []string      `json:"instance_types"`
	SubnetIDs      []string      `json:"subnet_ids"`
	// AMI is "" when the launch template says it.
	AMI             string `json:"ami,omitempty"`
	InstanceProfile string `json:"instance_profile"`
	// TemplateID and TemplateVersion pin the launch template.
	TemplateID      string `json:"template_id"`
	TemplateVersion string `json:"template_version"`
	Min             int    `json:"min"`
	Max             int    `json:"max"`

	Failures Failures          `json:"failures,omitempty"`
	Tags     map[string]string `json:"tags,omitempty"`
}

// Queue is a PCS queue, which is a Slurm partition.
type Queue struct {
	ID       string            `json:"id"`
	Name     string            `json:"name"`
	ARN      string            `json:"arn"`
	Status   Status            `json:"status"`
	Modified time.Time         `json:"modified"`
	GroupIDs []string          `json:"group_ids"`
	Failures Failures          `json:"failures,omitempty"`
	Tags     map[string]string `json:"tags,omitempty"`
}

// Inventory is a cluster with everything in it.
type Inventory struct {
	Cluster Cluster     `json:"cluster"`
	Groups  []NodeGroup `json:"node_groups"`
	Queues  []Queue     `json:"queues"`
}

// Slot is one of the two node groups behind a base name.
type Slot struct {
	// Name is that of the node group, and of the Slurm feature of its nodes.
	Name string `json:"name"`
	// Group is nil while the slot has no node group.
	Group *NodeGroup `json:"node_group,omitempty"`
	// ReservationID is what our tag says; "" if there is none.
	ReservationID string `json:"reservation_id,omitempty"`
	// Target is the reservation that the launch template sends instances to. It
	// differs from ReservationID only while a change is not finished.
	Target string `json:"target,omitempty"`
	// Queues are the names of the queues that the group belongs to.
	Queues []string `json:"queues,omitempty"`
}
