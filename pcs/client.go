// Package pcs talks to AWS Parallel Computing Service: clusters, compute node groups and queues.
// Its API uses the types of package capacity; no type of the AWS SDK leaves it. Callers decide what
// to make, and from what.
//
// A base name such as gpu stands for two compute node groups, the slots gpu-a and gpu-b: a node
// group has one reservation at a time, and an update replaces its instances, so the next block gets
// the free slot.
//
// Client reads, Provisioner changes. Only what carries our tag is changed (R9).
package pcs

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/pcs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
)

// Client talks to PCS in one region.
type Client struct {
	api *pcs.Client
	// Functions, not *iam.Client and *ssm.Client: the linker keeps each method of a type that is reached
	// through an interface.
	getInstanceProfile      func(context.Context, *iam.GetInstanceProfileInput, ...func(*iam.Options)) (*iam.GetInstanceProfileOutput, error)
	simulatePrincipalPolicy func(context.Context, *iam.SimulatePrincipalPolicyInput, ...func(*iam.Options)) (*iam.SimulatePrincipalPolicyOutput, error)
	getParameter            func(context.Context, *ssm.GetParameterInput, ...func(*ssm.Options)) (*ssm.GetParameterOutput, error)
	region                  string
}

// From makes a client that shares credentials and deadlines with the clients of other services.
func From(shared *awsconfig.Shared) *Client {
	api := pcs.NewFromConfig(shared.Config, func(o *pcs.Options) { o.APIOptions = append(o.APIOptions, awsconfig.Advise(Remedies)) })
	roles := iam.NewFromConfig(shared.Config)
	parameters := ssm.NewFromConfig(shared.Config)
	return &Client{api: api, getInstanceProfile: roles.GetInstanceProfile, simulatePrincipalPolicy: roles.SimulatePrincipalPolicy,
		getParameter: parameters.GetParameter, region: shared.Config.Region}
}

// Region is the region that the client works in.
func (c *Client) Region() string { return c.region }

var str = aws.ToString
