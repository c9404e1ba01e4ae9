// Every error code of EC2 that decides something is in this file, or in outcome.go for calls that
// make something. remedies.go has the remedies for people.

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

// ErrNotDescribed stands for an id that EC2 silently left out of its answer.
var ErrNotDescribed = errors.New("EC2 left it out of its answer")

// Code is EC2's error code, verbatim; "" if err holds no answer of AWS.
func Code(err error) string {
	var answer smithy.APIError
	if errors.As(err, &answer) {
		return answer.ErrorCode()
	}
	return ""
}

// Message is EC2's message without the SDK's words around it; for a denied call, the denied action
// and its remedy; the error's own text if err holds no answer of AWS.
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

// said is EC2's message alone; the error's own text if err holds no answer of AWS.
func said(err error) string {
	var answer smithy.APIError
	if !errors.As(err, &answer) {
		return err.Error()
	}
	return withoutStop(answer.ErrorMessage())
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

// notAllowed reports whether EC2 denied the call, or lacks the operation.
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

// Reasons why EC2 answers no search for Capacity Blocks. Each wraps EC2's own error, for Code.
// Other regions may still answer.
var (
	// ErrNoBlockQuota: the account may have no block in the region.
	ErrNoBlockQuota = errors.New("the account's quota for Capacity Blocks is 0")
	// ErrNotSold: EC2 sells no block of the type in the region.
	ErrNotSold = errors.New("EC2 does not sell this type as a Capacity Block there")
	// ErrNotApproved: AWS has to approve the account before it may ask for UltraServers.
	ErrNotApproved = errors.New("the account is not approved for UltraServers")
)

// limitExceeded has two causes, told apart only by EC2's message: a quota of 0, and searches in too
// quick succession (seen in 2026-08). The SDK treats it as neither.
const limitExceeded = "CapacityBlockDescribeLimitExceeded"

func says(err error, text string) bool { return strings.Contains(Message(err), text) }

// searchError adds one of the reasons above to EC2's error for a search, where it applies. The
// texts were seen from live accounts.
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

// tooFast reports whether EC2 refused a search because earlier ones were too recent.
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

// notYet reports whether EC2 may refuse a launch so only because the reservation is new.
func notYet(err error) bool {
	code := Code(err)
	return noReservation(err) || code == "ReservationCapacityExceeded" || strings.HasPrefix(code, "InvalidCapacityReservationState")
}

// retryerExcept is the SDK's retryer, as configured by the environment, but it gives up at once on
// some codes.
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

// Prefixes of EC2's codes for a bad id.
const (
	badReservationID = "InvalidCapacityReservationId" // .NotFound, .Malformed, .Unavailable
	goneInstanceID   = "InvalidInstanceID.NotFound"
)

// withoutBad calls EC2 with ids, each sent once. EC2 refuses a whole call for one bad id, with a
// code that begins with codePrefix, and the SDK reads an answer whole or not at all. withoutBad then
// drops the bad id and sends the rest again; if EC2 does not name it, it sends the ids one by
// one. It returns the error for each bad id, and stops at any other error: also when none can be read.
func withoutBad(ids []string, codePrefix string, call func(ids []string) error) (bad map[string]error, err error) {
	bad = map[string]error{}
	rest := unique(ids)
	for len(rest) > 0 {
		err := call(rest)
		if err == nil {
			return bad, nil
		}
		if !strings.HasPrefix(Code(err), codePrefix) && (!unreadable(err) || len(unique(ids)) == 1) {
			return bad, err
		}
		if len(rest) == 1 {
			bad[rest[0]] = err
			return bad, nil
		}
		named := namedIn(err.Error(), rest)
		if named == "" || unreadable(err) {
			return bad, oneByOne(rest, codePrefix, call, bad)
		}
		bad[named] = err
		rest = slices.DeleteFunc(rest, func(id string) bool { return id == named })
	}
	return bad, nil
}

func oneByOne(ids []string, codePrefix string, call func(ids []string) error, bad map[string]error) error {
	unread := 0
	for _, id := range ids {
		err := call([]string{id})
		switch {
		case err == nil:
		case strings.HasPrefix(Code(err), codePrefix):
			bad[id] = err
		case unreadable(err):
			bad[id] = err
			if unread++; unread == len(ids) {
				return err
			}
		default:
			return err
		}
	}
	return nil
}

// unreadable reports whether AWS has answered what the SDK cannot read.
func unreadable(err error) bool { return errors.As(err, new(*smithy.DeserializationError)) }

// namedIn is the id that a message names; the longest, since one id can be a prefix of another. It
// only saves calls: a wrong guess would be asked again.
func namedIn(message string, ids []string) string {
	longest := ""
	for _, id := range ids {
		if strings.Contains(message, id) && len(id) > len(longest) {
			longest = id
		}
	}
	return longest
}
