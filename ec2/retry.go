package ec2

import (
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// noCapacity are codes that EC2 answers with a server error's status, though asking
// again at once gives the same answer: the caller decides when to try again.
var noCapacity = []string{"InsufficientInstanceCapacity", "InsufficientReservedInstanceCapacity", "ReservationCapacityExceeded"}

const requestLimitExceeded = "RequestLimitExceeded"

// retryerExcept is the SDK's retryer, as the environment configures it, which gives up
// at once after some codes.
type retryerExcept struct {
	aws.RetryerV2
	codes []string
}

func (r retryerExcept) IsErrorRetryable(err error) bool {
	return !slices.Contains(r.codes, Code(err)) && r.RetryerV2.IsErrorRetryable(err)
}

// noRetryAfter is an option of a client or a call: errors of these codes are final.
func noRetryAfter(codes ...string) func(*ec2.Options) {
	return func(o *ec2.Options) {
		if r, ok := o.Retryer.(aws.RetryerV2); ok {
			o.Retryer = retryerExcept{r, codes}
		}
	}
}
