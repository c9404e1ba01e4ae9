// Package permissions has the IAM policies for those who run pcs-capacity: administrators, sync and the hooks.
// `pcs-capacity iam-policy` prints them, and check compares them with what AWS allows. Tests hold that they allow what
// the programs call.
package permissions

import (
	"cmp"
	"embed"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

//go:embed policies/*.json
var policies embed.FS

// Roles have a policy each: who runs pcs-capacity, the service, and the controller of self-managed Slurm.
var Roles = []string{"admin", "sync", "hooks"}

// Policy returns the policy of a role as JSON, for a partition of AWS, and for what carries the mark of a cluster: ""
// for every one.
func Policy(role string, in capacity.AWSPartition, cluster string) string {
	text, err := policies.ReadFile("policies/" + role + ".json")
	if err != nil {
		panic(err) // a test reads them all
	}

	service := `"ec2.amazonaws.com"`
	passedTo := service
	if own := `"ec2.` + in.Domain + `"`; own != service {
		// In China calls pass roles to the one or the other.
		passedTo += ", " + own
	}

	return strings.NewReplacer("arn:aws:", "arn:"+in.Name+":", service, passedTo, "CLUSTER", cmp.Or(cluster, "*")).
		Replace(string(text))
}

// Allows reports whether the policy of a role has an action, such as ec2:RunInstances.
func Allows(role, action string) bool {
	return strings.Contains(Policy(role, capacity.AWSPartitionOf(""), ""), `"`+action+`"`)
}
