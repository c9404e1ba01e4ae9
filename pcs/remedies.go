package pcs

import (
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
)

// Calls that PCS can refuse because of a quota or of their parameters.
var changing = []string{"CreateComputeNodeGroup", "UpdateComputeNodeGroup", "CreateQueue", "UpdateQueue", "UpdateCluster"}

// Remedies are PCS's exceptions that our calls can meet and that need a person;
// `pcs-capacity explain CODE` shows them. If PCS fails after it has accepted a call, the reason is in the thing's errorInfo
// instead.
var Remedies = []awsconfig.Remedy{
	{Code: "ValidationException", Calls: changing, Means: "PCS does not take the request", Do: "change what the message names"},
	{Code: "ServiceQuotaExceededException", Calls: changing, Means: "the cluster is full: 10 node groups, 10 queues, and as many nodes as its size allows",
		Do: "remove a queue that is not used with `pcs-capacity teardown`, or set a lower --max-nodes"},
	{Code: "ConflictException", Calls: append([]string{"DeleteComputeNodeGroup", "DeleteQueue"}, changing...), Means: "the cluster, node group or queue is being changed all the time; the first 5 minutes are waited for",
		Do: "see in PCS who changes it, and run this again"},
	{Code: "ResourceNotFoundException", Calls: []string{"GetCluster"}, Means: "the account has no such cluster in this region", Do: "check cluster in the settings, and the region"},
	{Code: "AccessDeniedException", Means: "the caller's policy does not allow the call", Do: awsconfig.Allow},
	{Code: "ThrottlingException", Means: "too many calls in a short time", Do: "others use this account's API calls too; try again in a minute"},
	{Code: "InternalServerException", Means: "PCS failed", Do: "run this again; if it stays so, open a case with AWS Support"},
}
