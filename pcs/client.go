// Package pcs talks to AWS Parallel Computing Service: clusters, compute node groups and queues. Its API uses the types
// of package capacity; no type of the AWS SDK leaves it. Callers decide what to make, and from what.
//
// A base name such as gpu stands for two compute node groups, the slots gpu-a and gpu-b: a node group has one
// reservation at a time, and an update replaces its instances, so the next block gets the free slot.
//
// Client reads, Provisioner changes. Only what carries our tag is changed (R9).
package pcs

import (
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/pcs"
	"github.com/aws/aws-sdk-go-v2/service/pcs/types"

	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
)

// Client talks to PCS in one region.
type Client struct {
	api    *pcs.Client
	region string
}

// From makes a client that shares credentials and deadlines with the clients of other services.
func From(shared *awsconfig.Shared) *Client {
	api := pcs.NewFromConfig(shared.Config,
		func(o *pcs.Options) { o.APIOptions = append(o.APIOptions, awsconfig.Advise(Remedies)) })

	return &Client{api: api, region: shared.Config.Region}
}

// Region returns the region that the client works in.
func (c *Client) Region() string { return c.region }

var str = aws.ToString

// ErrNotDescribed is an answer without the thing asked for; perhaps it does not come from PCS.
var ErrNotDescribed = errors.New("PCS left it out of its answer")

// ErrInUse is returned when a node group has instances: an update would replace
// them, and the jobs on them would lose minutes of a paid block.
var ErrInUse = errors.New("the node group has instances")

// ErrAtWork is returned, with NoWait, while PCS is changing a thing or its cluster. The change goes
// on, and the same call made later continues from there.
var ErrAtWork = errors.New("PCS is at work on it")

// ErrNotOurs is returned for things without our tag.
var ErrNotOurs = errors.New("it does not carry our tag")

// Code returns the name of AWS's exception, verbatim ("ConflictException"); "" if err holds no answer of AWS.
func Code(err error) string { return awsconfig.Code(err) }

// IsNotFound reports whether PCS does not know the thing.
func IsNotFound(err error) bool {
	var absent *types.ResourceNotFoundException
	return errors.As(err, &absent)
}

// isConflict reports whether PCS is changing the thing, or has one of that name.
func isConflict(err error) bool {
	var conflict *types.ConflictException
	return errors.As(err, &conflict)
}

// Calls that PCS can refuse because of a quota or of their parameters.
var changeCalls = []string{
	"CreateComputeNodeGroup",
	"UpdateComputeNodeGroup",
	"CreateQueue",
	"UpdateQueue",
	"UpdateCluster",
}

// Remedies are PCS's exceptions that our calls can meet and that need a person; `pcs-capacity explain CODE` shows them.
// If PCS fails after it has accepted a call, the reason is in the thing's errorInfo instead.
var Remedies = []awsconfig.Remedy{
	{
		Code:  "ValidationException",
		Calls: changeCalls,
		Means: "PCS does not take the request",
		Do:    "change what the message names",
	},
	{
		Code:  "ServiceQuotaExceededException",
		Calls: changeCalls,
		Means: "the cluster is full: 10 node groups, 10 queues, and as many nodes as its size allows",
		Do:    "remove a queue that is not used with `pcs-capacity teardown`, or set a lower --max-nodes",
	},
	{
		Code:  "ConflictException",
		Calls: append([]string{"DeleteComputeNodeGroup", "DeleteQueue"}, changeCalls...),
		Means: "the cluster, node group or queue keeps changing; the program has waited 5 minutes",
		Do:    "see in PCS who changes it, and run this again",
	},
	{
		Code:  "ResourceNotFoundException",
		Calls: []string{"GetCluster"},
		Means: "the account has no such cluster in this region",
		Do:    "check cluster in the settings, and the region",
	},
	{Code: "AccessDeniedException", Means: "the caller's policy does not allow the call", Do: awsconfig.Allow},
	{
		Code:  "ThrottlingException",
		Means: "too many calls in a short time",
		Do:    "others use this account's API calls too; try again in a minute",
	},
	{
		Code:  "InternalServerException",
		Means: "PCS failed",
		Do:    "run this again; if it stays so, open a case with AWS Support",
	},
}
