package ec2

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"

	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
)

// Advice returns the remedy for an error of EC2, in one sentence without a full stop; "" where EC2's message suffices.
func Advice(err error) string { return awsconfig.Advice(err) }

// The calls for which a code has a meaning of its own.
var (
	searchCalls   = []string{"DescribeCapacityBlockOfferings"}
	purchaseCalls = []string{"PurchaseCapacityBlock", "PurchaseCapacityBlockExtension"}
	extendCalls   = []string{"DescribeCapacityBlockExtensionOfferings", "PurchaseCapacityBlockExtension"}
	describeCalls = []string{"DescribeCapacityReservations"}
	launchCalls   = []string{"RunInstances"}
	holdCalls     = []string{"CreateCapacityReservation"}
)

// Remedies are EC2's codes that our calls can meet and that need a person;
// `pcs-capacity explain CODE` shows them. The first match counts.
//
// The codes are those of EC2's page of error codes and those that live accounts were seen to
// answer; the texts in Says are those of live accounts.
var Remedies = slices.Concat(
	// Searching and buying
	[]awsconfig.Remedy{
		{
			Code:  limitExceeded,
			Calls: searchCalls,
			Says:  noQuotaText,
			Means: "the account's quota for Capacity Blocks is 0 in this region",
			Do: `raise the quota "Concurrent Capacity Blocks" (L-64569A79) of this region in Service Quotas: ` +
				"aws service-quotas request-service-quota-increase --service-code ec2 --quota-code L-64569A79 " +
				"--desired-value 1",
		},
		{
			Code:  limitExceeded,
			Calls: searchCalls,
			Means: "searches follow each other too fast",
			Do:    "others search with this account too; try again in a minute",
		},
		{
			Code:  invalidValue,
			Calls: searchCalls,
			Says:  notSoldText,
			Means: "EC2 does not sell this type as a Capacity Block there",
			Do:    "ask other regions: `pcs-capacity offerings --regions all`",
		},
		{
			Code:  invalidValue,
			Calls: searchCalls,
			Says:  "start date",
			Means: "the requested times are past, or in the wrong order",
			Do:    "give a later --start-after or --end-by",
		},
		{
			Code:  unauthorized,
			Calls: searchCalls,
			Says:  notApprovedText,
			Means: "AWS has not approved the account for UltraServers",
			Do:    "ask your AWS account team to approve the account for UltraServers",
		},
	},
	awsconfig.Remedies(purchaseCalls[:1], "the offering is gone; somebody else may have it",
		"run `pcs-capacity offerings` again", "InvalidCapacityBlockOfferingIdExpired",
		"InvalidCapacityBlockOfferingIdNotFound"),
	awsconfig.Remedies(purchaseCalls[:1], "the id is not one of an offering", "copy it from `pcs-capacity offerings`",
		"InvalidCapacityBlockOfferingIdMalformed"),
	awsconfig.Remedies(purchaseCalls[1:],
		"the extension is not for sale any more", "run this again for a new offering",
		"InvalidCapacityBlockExtensionOfferingIdExpired",
		"InvalidCapacityBlockExtensionOfferingIdNotFound"),
	[]awsconfig.Remedy{
		{
			Code:  "InvalidCapacityReservationState",
			Calls: extendCalls,
			Means: "the block cannot be extended now",
			Do: "extend it while it is scheduled or active, from 56 days to 1 hour before its end, when no other " +
				"extension is being paid",
		},
		{
			Code:  requestLimitExceeded,
			Calls: purchaseCalls,
			Means: "too many purchases in a short time",
			Do:    "EC2 allows 10 purchases, then one in 7 seconds: run this again in a minute",
		},
	},
	// Reservations
	awsconfig.Remedies(describeCalls, "this account has no such reservation in this region", checkReservation,
		badReservationID+".NotFound", badReservationID+".Malformed", badReservationID+".Unavailable"),
	awsconfig.Remedies(
		describeCalls, "EC2 has no Capacity Reservations in this region", "check the region", "UnsupportedException"),
	// Launching: the codes are in the Reason of the node
	awsconfig.Remedies(
		launchCalls,
		"there is no free instance where the launch was sent",
		"wait: Slurm tries again, at longer and longer intervals",
		noCapacityCodes...),
	awsconfig.Remedies(launchCalls, "EC2 cannot fill the launch",
		"wait: Slurm tries again, at longer and longer intervals", "UnfulfillableCapacity"),
	awsconfig.Remedies(launchCalls, "the block is not open yet", "wait until it opens",
		"InvalidCapacityReservationState.PendingActivation"),
	awsconfig.Remedies(launchCalls, "the reservation is not active", "see its state with `pcs-capacity list`",
		"InvalidCapacityReservationState", "InvalidCapacityReservationState.Unavailable"),
	awsconfig.Remedies(launchCalls, "the reservation cannot be used by this account, or is gone", checkReservation,
		badReservationID+".NotFound", badReservationID+".Malformed", badReservationID+".Unavailable"),
	awsconfig.Remedies(launchCalls, "the account's quota is used up; Capacity Blocks do not count",
		"raise the quota of this type in Service Quotas, or terminate other instances", "VcpuLimitExceeded",
		"InstanceLimitExceeded"),
	awsconfig.Remedies(
		launchCalls,
		"the subnet has no free address",
		"name another subnet of the zone in subnet_ids, or take a template with fewer addresses a node (`setup --efa "+
			"efa-only`)",
		"InsufficientFreeAddressesInSubnet",
	),
	awsconfig.Remedies(launchCalls, "EC2 does not offer this type with these options in this zone",
		"compare the launch template with the instance type and the zone", "Unsupported"),
	[]awsconfig.Remedy{
		{
			Code:  invalidValue,
			Calls: launchCalls,
			Says:  "market type",
			Means: "the purchase option is not that of the reservation",
			Do:    "set purchase_option of the node_group to the kind that `pcs-capacity list` shows",
		},
	},
	awsconfig.Remedies(launchCalls, "something in the launch template or the node_group conflicts with the launch",
		"fix what EC2 names in the launch template or the node_group", invalidValue, "InvalidParameterCombination",
		"InvalidParameter", "AttachmentLimitExceeded"),
	awsconfig.Remedies(launchCalls, "the launch template has CPU credits, which this type does not have",
		"remove CreditSpecification from the launch template", "InstanceCreditSpecification.NotSupported"),
	awsconfig.Remedies(launchCalls, "the launch template names something that does not exist in this region",
		"fix the launch template, or create what it names", "InvalidKeyPair.NotFound", "InvalidPlacementGroup.Unknown",
		"InvalidGroup.NotFound", "InvalidGroupId.Malformed", "InvalidAMIID.NotFound", "InvalidAMIID.Malformed"),
	awsconfig.Remedies(launchCalls, "the subnet does not exist in this region", "fix subnet_ids of the node_group",
		"InvalidSubnetID.NotFound"),
	awsconfig.Remedies(launchCalls, "EC2 has bound the client token to another launch each time",
		"power the nodes up again in a minute", tokenTerminated, tokenMismatch),
	awsconfig.Remedies(
		[]string{"RunInstances", "DescribeLaunchTemplateVersions"},
		"the launch template, or its version, is gone",
		"fix launch_template of the node_group, or run `pcs-capacity setup` again",
		"InvalidLaunchTemplateId.NotFound",
		"InvalidLaunchTemplateId.VersionNotFound",
		"InvalidLaunchTemplateName.NotFoundException",
		"InvalidLaunchTemplateId.Malformed",
	),
	// Holding
	awsconfig.Remedies(
		holdCalls,
		"there is no room for all of it in the zone",
		"wait, or add subnets of other zones, or other_instance_types",
		noCapacityCodes...),
	awsconfig.Remedies(holdCalls, "the account's quota is used up: held capacity counts like running instances",
		"raise the quota of this type in Service Quotas, or terminate other instances", "VcpuLimitExceeded",
		"InstanceLimitExceeded"),
	awsconfig.Remedies(holdCalls, "EC2 does not have this type, or no reservations of it, in the zone",
		"name another type, or subnets of other zones", "Unsupported"),
	awsconfig.Remedies(holdCalls, "EC2 does not accept the request",
		"compare the type and the platform with what `aws ec2 describe-instance-types` shows", invalidValue),
	// Any call
	awsconfig.Remedies(nil, "too many calls in a short time",
		"others use this account's API calls too; try again in a minute", requestLimitExceeded),
	awsconfig.Remedies(nil,
		"the caller's policy does not allow the call", awsconfig.Allow, unauthorized, accessDenied),
)

const (
	invalidValue = "InvalidParameterValue"
	unauthorized = "UnauthorizedOperation"
	accessDenied = "AccessDenied"

	noQuotaText     = "not sufficient"
	notSoldText     = "not supported for Capacity Blocks"
	notApprovedText = "not authorized to call" // that of IAM says "to perform"

	checkReservation = "check the id and the region; `pcs-capacity list` shows what there is"
)

// Explain puts an error of EC2, or of another AWS service, into words that stay the same when it repeats: without the
// request's id. An error that every call would meet is general; its words are one sentence with the remedy.
func (c *Client) Explain(err error) (words string, general bool) {
	if words := c.generalProblem(err); words != "" {
		return words, true
	}
	return stableText(err), false
}

// stableText returns the text of an error without the parts that differ each time.
func stableText(err error) string {
	text := err.Error()

	var answer *awshttp.ResponseError
	if errors.As(err, &answer) {
		short := fmt.Sprintf("HTTP status %d", answer.HTTPStatusCode())
		if code := Code(answer); code != "" {
			short = code + ": " + Message(answer)
		}

		text = strings.Replace(text, trimPeriod(answer.Error()), trimPeriod(short), 1)
	}

	return text
}

func trimPeriod(sentence string) string { return strings.TrimSuffix(sentence, ".") }

// generalProblem returns the sentence for an error that every call would meet, else "".
func (c *Client) generalProblem(err error) string {
	var none *awsconfig.NoCredentials
	if errors.As(err, &none) {
		return none.Text(stableText)
	}

	if r, found := awsconfig.FindRemedy(awsconfig.General, "", err); found {
		return fmt.Sprintf("%s (%s in %s); %s", r.Means, r.Code, c.region, r.Do)
	}

	if Code(err) != "" {
		return ""
	}

	var silent *awsconfig.NoAnswer
	if errors.As(err, &silent) {
		return "AWS cannot be reached: " + silent.Error()
	}

	if gone := awsconfig.AsUnreachable(err, c.region, aws.ToString(c.shared.Config.BaseEndpoint)); gone != nil {
		return gone.Error()
	}

	return ""
}
