package ec2

import "errors"

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
