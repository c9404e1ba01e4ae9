// Every error code of EC2 that decides something is in this file, or in outcome.go where it is
// of a call that makes something; what a person has to do about one is in remedies.go.

package ec2

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"
)

// ErrNotSent is an error of a purchase that EC2 has not seen.
var ErrNotSent = errors.New("not sent")

// ErrNotDescribed is the reason for an id that EC2 left out of its answer without an
// error of its own.
var ErrNotDescribed = errors.New("EC2 left it out of its answer")

// Code is EC2's error code, verbatim; "" if err holds no answer of AWS.
func Code(err error) string {
	var answer smithy.APIError
	if errors.As(err, &answer) {
		return answer.ErrorCode()
	}
	return ""
}

// Message is what EC2 said with its error code, without the SDK's words around it, or which
// action is not allowed, and what to do about it; the error's own text if err holds no answer of AWS.
func Message(err error) string {
	var answer smithy.APIError
	if !errors.As(err, &answer) {
		return err.Error()
	}
	if advice := Advice(err); advice != "" {
		return withoutStop(answer.ErrorMessage()) + "; " + advice
	}
	return answer.ErrorMessage()
}

// tried is the outcome of a call with DryRun, which never succeeds: EC2 says
// DryRunOperation where it would have done the call.
func tried(err error, what string) error {
	switch {
	case Code(err) == "DryRunOperation":
		return nil
	case err == nil:
		return fmt.Errorf("%s: EC2 answered as if it were no dry run", what)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// notAllowed reports whether EC2 refused the caller, or does not have the operation.
func notAllowed(err error) bool {
	switch Code(err) {
	case unauthorized, accessDenied, "UnsupportedOperation", "InvalidAction":
		return true
	}
	return false
}

// noTemplate reports whether EC2 says that a template or version does not exist. The
// codes differ between operations by a suffix.
func noTemplate(err error) bool {
	code := Code(err)
	return strings.HasPrefix(code, "InvalidLaunchTemplate") && strings.Contains(code, "NotFound")
}

// nameTaken reports whether there is a launch template of the name already.
func nameTaken(err error) bool {
	return Code(err) == "InvalidLaunchTemplateName.AlreadyExistsException"
}

// throttled reports whether EC2 turned the call away because of its request limits.
func throttled(err error) bool { return Code(err) == requestLimitExceeded }

const requestLimitExceeded = "RequestLimitExceeded"

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
		if says(err, noQuotaText) {
			why = ErrNoBlockQuota
		}
	case invalidValue:
		if says(err, notSoldText) {
			why = ErrNotSold
		}
	case unauthorized:
		if says(err, notApprovedText) {
			why = ErrNotApproved
		}
	}
	if why == nil {
		return err
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

const (
	tokenTerminated = "IdempotentInstanceTerminated"
	tokenMismatch   = "IdempotentParameterMismatch"
)

func noReservation(err error) bool { return Code(err) == badReservationID+".NotFound" }

func noInstance(err error) bool { return Code(err) == goneInstanceID }

// notYet reports whether EC2 may say so of a launch only because the reservation is new.
func notYet(err error) bool {
	code := Code(err)
	return noReservation(err) || code == "ReservationCapacityExceeded" || strings.HasPrefix(code, "InvalidCapacityReservationState")
}

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

// The beginnings of the codes that EC2 gives when it dislikes an id.
const (
	badReservationID = "InvalidCapacityReservationId" // .NotFound, .Malformed, .Unavailable
	goneInstanceID   = "InvalidInstanceID.NotFound"
)

// withoutBad calls EC2 with ids, each of which is sent once. EC2 refuses a whole call
// for one bad id, with a code that begins with codePrefix: then the bad one is set
// aside and the rest is sent again. Where EC2's message does not name it, they are
// sent one by one. It returns EC2's error for each bad id; an error of any other code
// ends it.
func withoutBad(ids []string, codePrefix string, call func(ids []string) error) (bad map[string]error, err error) {
	bad = map[string]error{}
	rest := unique(ids)
	for len(rest) > 0 {
		err := call(rest)
		if err == nil {
			return bad, nil
		}
		if !strings.HasPrefix(Code(err), codePrefix) {
			return bad, err
		}
		if len(rest) == 1 {
			bad[rest[0]] = err
			return bad, nil
		}
		named := namedIn(err.Error(), rest)
		if named == "" {
			return bad, oneByOne(rest, codePrefix, call, bad)
		}
		bad[named] = err
		rest = slices.DeleteFunc(rest, func(id string) bool { return id == named })
	}
	return bad, nil
}

func oneByOne(ids []string, codePrefix string, call func(ids []string) error, bad map[string]error) error {
	for _, id := range ids {
		err := call([]string{id})
		switch {
		case err == nil:
		case strings.HasPrefix(Code(err), codePrefix):
			bad[id] = err
		default:
			return err
		}
	}
	return nil
}

// namedIn is the id that a message names; the longest, since one id can be the
// beginning of another. This only saves calls: a wrong guess would be asked again.
func namedIn(message string, ids []string) string {
	longest := ""
	for _, id := range ids {
		if strings.Contains(message, id) && len(id) > len(longest) {
			longest = id
		}
	}
	return longest
}
