package ec2

import (
	"errors"
	"fmt"
	"strings"
)

// Why EC2 answers no search for Capacity Blocks. Each comes with EC2's own error, so that
// Code still tells that. Other regions may answer all the same.
var (
	// ErrNoBlockQuota: the account may have no block in the region.
	ErrNoBlockQuota = errors.New("the account's quota for Capacity Blocks is 0")
	// ErrNotSold: EC2 sells no block of the type in the region.
	ErrNotSold = errors.New("EC2 does not sell this type as a Capacity Block there")
	// ErrNotApproved: AWS has to approve the account before it may ask for UltraServers.
	ErrNotApproved = errors.New("the account is not approved for UltraServers")
)

// limitExceeded has two causes, which only EC2's message tells apart: a quota of 0, and
// searches that follow each other too fast (seen in 2026-08). The SDK knows it for
// neither.
const limitExceeded = "CapacityBlockDescribeLimitExceeded"

func says(err error, text string) bool { return strings.Contains(Message(err), text) }

// searchError adds to EC2's error for a search why that is, if it is one of the reasons
// above. live accounts were seen to answer these texts.
func searchError(err error) error {
	why := error(nil)
	switch Code(err) {
	case limitExceeded:
		if says(err, "not sufficient") {
			why = ErrNoBlockQuota
		}
	case "InvalidParameterValue":
		if says(err, "not supported for Capacity Blocks") {
			why = ErrNotSold
		}
	case "UnauthorizedOperation": // that of IAM says "to perform"
		if says(err, "not authorized to call") {
			why = ErrNotApproved
		}
	}
	if why == nil {
		return err
	}
	if advice := Advice(why); advice != "" {
		return fmt.Errorf("%w; %s: %w", why, advice, err)
	}
	return fmt.Errorf("%w: %w", why, err)
}

// tooFast reports whether EC2 refused a search because of the ones before it.
func tooFast(err error) bool {
	switch Code(err) {
	case requestLimitExceeded:
		return true
	case limitExceeded:
		return !errors.Is(searchError(err), ErrNoBlockQuota)
	}
	return false
}

// Advice is what to do about an error of EC2's, in one sentence without a full stop; ""
// where EC2's message says it all.
func Advice(err error) string {
	switch {
	case errors.Is(err, ErrNoBlockQuota):
		return `raise the quota "Concurrent Capacity Blocks" (L-64569A79) of this region in Service Quotas: ` +
			"aws service-quotas request-service-quota-increase --service-code ec2 --quota-code L-64569A79 --desired-value 1"
	case errors.Is(err, ErrNotApproved):
		return "ask your AWS account team to approve the account for UltraServers"
	}
	switch Code(err) {
	case limitExceeded:
		return "others search with this account too; try again in a minute"
	case requestLimitExceeded:
		return "others use this account's API calls too; try again in a minute"
	}
	return ""
}
