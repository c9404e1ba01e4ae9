// Every error code of EC2 that decides something is in this file. remedies.go has the remedies for people.

package ec2

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
)

// ErrNotSent is an error of a purchase that EC2 has not seen.
var ErrNotSent = errors.New("not sent")

// ErrUndecided matches the error of a call that EC2 has not decided: it throttles, has failed, or gives no answer. The
// same call may succeed a moment later.
var ErrUndecided = awsconfig.ErrUndecided

// ErrNotDescribed stands for an id that EC2 silently left out of its answer.
var ErrNotDescribed = errors.New("EC2 left it out of its answer")

// Code returns EC2's error code, verbatim; "" if err holds no answer of AWS.
func Code(err error) string { return awsconfig.Code(err) }

// Message returns EC2's message without the SDK's words around it; for a denied call, the denied action
// and its remedy; the error's own text if err holds no answer of AWS.
func Message(err error) string {
	if advice := Advice(err); advice != "" {
		return rawMessage(err) + "; " + advice
	}

	var answer smithy.APIError
	if errors.As(err, &answer) {
		return answer.ErrorMessage()
	}

	return err.Error()
}

// rawMessage returns EC2's message alone; the error's own text if err holds no answer of AWS.
func rawMessage(err error) string {
	var answer smithy.APIError
	if !errors.As(err, &answer) {
		return err.Error()
	}

	return trimPeriod(answer.ErrorMessage())
}

// dryRunError returns the error of a call with DryRun. Such a call never succeeds: EC2 answers
// DryRunOperation where it would have done the call.
func dryRunError(err error, what string) error {
	switch {
	case Code(err) == "DryRunOperation":
		return nil
	case err == nil:
		return fmt.Errorf("%s: EC2 answered as if it were no dry run", what)
	}

	return fmt.Errorf("%s: %w", what, err)
}

// isDenied reports whether EC2 denied the call, or lacks the operation.
func isDenied(err error) bool {
	switch Code(err) {
	case unauthorized, accessDenied, "UnsupportedOperation", "InvalidAction":
		return true
	}

	return false
}

// isTemplateMissing reports whether EC2 says that a template or version does not exist, or leaves it out. The
// codes differ between operations by a suffix.
func isTemplateMissing(err error) bool {
	code := Code(err)
	return errors.Is(err, ErrNotDescribed) ||
		strings.HasPrefix(code, "InvalidLaunchTemplate") && strings.Contains(code, "NotFound")
}

// isNameTaken reports whether there is a launch template of the name already.
func isNameTaken(err error) bool {
	return Code(err) == "InvalidLaunchTemplateName.AlreadyExistsException"
}

// isThrottled reports whether EC2 turned the call away because of its request limits.
func isThrottled(err error) bool { return Code(err) == requestLimitExceeded }

const requestLimitExceeded = "RequestLimitExceeded"

// limitExceeded has two causes, told apart only by EC2's message: a quota of 0, and searches in too
// quick succession (seen in 2026-08). The SDK treats it as neither.
const limitExceeded = "CapacityBlockDescribeLimitExceeded"

// IsNotSold reports whether EC2 says that it sells no block of the type in the region; others may.
func IsNotSold(err error) bool {
	return Code(err) == invalidValue && strings.Contains(Message(err), notSoldText)
}

// isTooFast reports whether EC2 refused a search because earlier ones were too recent.
func isTooFast(err error) bool {
	return isThrottled(err) || Code(err) == limitExceeded && !strings.Contains(Message(err), noQuotaText)
}

const (
	tokenTerminated = "IdempotentInstanceTerminated"
	tokenMismatch   = "IdempotentParameterMismatch"
)

func isReservationMissing(err error) bool { return Code(err) == badReservationID+".NotFound" }

func isInstanceMissing(err error) bool { return Code(err) == goneInstanceID }

// isMaybeTooNew reports whether EC2 may refuse a launch so only because the reservation is new.
func isMaybeTooNew(err error) bool {
	code := Code(err)
	return isReservationMissing(err) || code == "ReservationCapacityExceeded" ||
		strings.HasPrefix(code, "InvalidCapacityReservationState")
}

// retryerExcept is the SDK's retryer, as configured by the environment, but it gives up at once on some codes.
type retryerExcept struct {
	aws.RetryerV2
	codes []string
}

func (r retryerExcept) IsErrorRetryable(err error) bool {
	return !slices.Contains(r.codes, Code(err)) && r.RetryerV2.IsErrorRetryable(err)
}

// withoutRetry makes errors with these codes final, for a client or a call.
func withoutRetry(codes ...string) func(*ec2.Options) {
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

// skipBadIDs calls EC2 with ids, each until EC2 takes it. EC2 refuses a whole call for one bad id, with a code that
// begins with codePrefix, and the SDK reads an answer whole or not at all. skipBadIDs then asks for the id that EC2
// names, or else for one half, and for the others. It returns the error for each bad id, and stops at any other
// error: also when none can be read.
func skipBadIDs(ids []string, codePrefix string, call func(ids []string) error) (bad map[string]error, err error) {
	bad = map[string]error{}
	readable := false

	var ask func(ids []string) error

	ask = func(ids []string) error {
		if len(ids) == 0 {
			return nil
		}

		err := call(ids)
		switch refused := strings.HasPrefix(Code(err), codePrefix); {
		case err != nil && !refused && !isUnreadable(err):
			return err
		case err == nil || len(ids) == 1 && refused:
			readable = true
		}

		switch {
		case err == nil:
			return nil
		case len(ids) == 1:
			bad[ids[0]] = err
			return nil
		}

		first, rest := ids[:len(ids)/2], ids[len(ids)/2:]
		if i := slices.IndexFunc(ids, func(id string) bool { return strings.Contains(err.Error(), id) }); i >= 0 {
			first, rest = ids[i:i+1], slices.Concat(ids[:i], ids[i+1:])
		}

		if err := ask(first); err != nil {
			return err
		}

		return ask(rest)
	}

	err = ask(unique(ids))
	for _, one := range bad {
		if err == nil && !readable {
			err = one
		}
	}

	return bad, err
}

// isUnreadable reports whether AWS has answered what the SDK cannot read.
func isUnreadable(err error) bool { return errors.As(err, new(*smithy.DeserializationError)) }

// This file decides, by EC2's code, what an error means for a call that makes something. The HTTP
// status is not enough: InsufficientInstanceCapacity is a refusal and comes with 500.

// noCapacityCodes are refusals of EC2 that may come with a server error's status. Asking again at
// once gives the same answer: the caller decides when to try again.
var noCapacityCodes = []string{
	"InsufficientInstanceCapacity",
	"InsufficientHostCapacity",
	"InsufficientReservedInstanceCapacity",
	"ReservationCapacityExceeded",
}

// elsewhereCodes are the codes with which EC2 refuses to launch, or to hold capacity for, one type in one zone where
// another type or zone, or fewer instances, may work: types that a zone does not offer, and quotas, which are for
// families of types.
var elsewhereCodes = []string{"Unsupported", "VcpuLimitExceeded", "InstanceLimitExceeded"}

// unclearCodes are codes of EC2 that say nothing about the effect, whatever status they come with.
var unclearCodes = []string{"InternalError", "InternalFailure", "ServiceUnavailable", "Unavailable", "RequestTimeout"}

// errUnclear: whether something was made is not known.
var errUnclear = errors.New("unclear")

// Outcome reads from the error of a call that makes something what came of it: nil, capacity.ErrNoRoom, ErrTokenUsed or
// ErrRefused, or errUnclear. more are further codes for want of room.
func Outcome(err error, more ...string) error {
	if err == nil {
		return nil
	}

	var (
		dial   *net.OpError
		silent *awsconfig.NoAnswer
		answer *awshttp.ResponseError
	)

	code := Code(err)
	switch {
	case errors.Is(err, ErrNotSent),
		errors.As(err, &silent) && silent.WasNotSent(),
		errors.As(err, &dial) && (dial.Op == "dial" || dial.Op == "proxyconnect"):
		return capacity.ErrRefused // EC2 has not seen it
	case code == "" || slices.Contains(unclearCodes, code):
		return errUnclear
	case isTokenUsed(err):
		return capacity.ErrTokenUsed
	case isNoRoom(err) || slices.Contains(more, code):
		return capacity.ErrNoRoom
	case isThrottled(err): // EC2 turns it away at the door: EC2 Developer Guide, "Request throttling"
		return capacity.ErrRefused
	case errors.As(err, &answer) && answer.HTTPStatusCode() >= http.StatusBadRequest &&
		answer.HTTPStatusCode() < http.StatusInternalServerError:
		return capacity.ErrRefused
	}

	return errUnclear
}

// IsRefused reports whether certainly nothing was made: EC2 refused, or never saw the call. Other
// server errors, a cut connection and a timeout leave the effect unknown.
func IsRefused(err error) bool { return capacity.CreatedNothing(Outcome(err)) }

// withOutcome adds the outcome to an error; more is as in Outcome.
func withOutcome(err error, more ...string) error {
	switch outcome := Outcome(err, more...); outcome {
	case capacity.ErrTokenUsed, capacity.ErrNoRoom:
		return fmt.Errorf("%w: %w", outcome, err)
	case capacity.ErrRefused:
		return &refused{err}
	}

	return err
}

// refused is an error of EC2, in its own words, that is a capacity.ErrRefused.
type refused struct{ error }

func (r *refused) Unwrap() error        { return r.error }
func (r *refused) Is(target error) bool { return target == capacity.ErrRefused }

// isTokenUsed reports whether EC2 refused a launch for its ClientToken alone.
func isTokenUsed(err error) bool {
	code := Code(err)
	return code == tokenTerminated || code == tokenMismatch
}

// isNoRoom reports whether EC2 has no room for a launch in its reservation or subnet; another may have.
func isNoRoom(err error) bool {
	code := Code(err)
	switch code {
	case "UnfulfillableCapacity", "InsufficientFreeAddressesInSubnet":
		return true
	}

	return slices.Contains(noCapacityCodes, code) || strings.HasPrefix(code, "InvalidCapacityReservationState") ||
		strings.HasPrefix(code, badReservationID)
}
