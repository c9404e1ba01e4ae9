package ec2

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
)

// This file decides, by EC2's code, what an error means for a call that makes something. The HTTP
// status is not enough: InsufficientInstanceCapacity is a refusal and comes with 500.

// noCapacity are refusals of EC2 that may come with a server error's status. Asking again at
// once gives the same answer: the caller decides when to try again.
var noCapacity = []string{"InsufficientInstanceCapacity", "InsufficientHostCapacity", "InsufficientReservedInstanceCapacity", "ReservationCapacityExceeded"}

// noHold are the codes with which EC2 refuses to hold capacity of one type in one zone where
// another type or zone may work: the codes of a launch, types that a zone does not offer, and
// quotas, which are for families of types.
var noHold = []string{"Unsupported", "VcpuLimitExceeded", "InstanceLimitExceeded"}

// unclear are codes of EC2 that say nothing about the effect, whatever status they come with.
var unclear = []string{"InternalError", "InternalFailure", "ServiceUnavailable", "Unavailable", "RequestTimeout"}

// Outcome reads the outcome of a call that makes something from its error. more are further codes
// for want of room.
func Outcome(err error, more ...string) capacity.Outcome {
	if err == nil {
		return capacity.Done
	}
	var dial *net.OpError
	var silent *awsconfig.NoAnswer
	var answer *awshttp.ResponseError
	code := Code(err)
	switch {
	case errors.Is(err, ErrNotSent),
		errors.As(err, &silent) && silent.NotAsked(),
		errors.As(err, &dial) && (dial.Op == "dial" || dial.Op == "proxyconnect"):
		return capacity.Refused // EC2 has not seen it
	case code == "" || slices.Contains(unclear, code):
		return capacity.Unknown
	case tokenUsed(err):
		return capacity.TokenUsed
	case noRoom(err) || slices.Contains(more, code):
		return capacity.NoRoom
	case throttled(err): // EC2 turns it away at the door: EC2 Developer Guide, "Request throttling"
		return capacity.Refused
	case errors.As(err, &answer) && answer.HTTPStatusCode() >= http.StatusBadRequest && answer.HTTPStatusCode() < http.StatusInternalServerError:
		return capacity.Refused
	}
	return capacity.Unknown
}

// Refused reports whether certainly nothing was made: EC2 refused, or never saw the call. Other
// server errors, a cut connection and a timeout leave the effect unknown.
func Refused(err error) bool { return Outcome(err).Nothing() }

// withOutcome adds the outcome to an error, for capacity.OutcomeOf; more is as in Outcome.
func withOutcome(err error, more ...string) error {
	switch Outcome(err, more...) {
	case capacity.TokenUsed:
		return fmt.Errorf("%w: %w", capacity.ErrTokenUsed, err)
	case capacity.NoRoom:
		return fmt.Errorf("%w: %w", capacity.ErrNoRoom, err)
	case capacity.Refused:
		return &refused{err}
	}
	return err
}

// refused is an error of EC2, in its own words, that is a capacity.ErrRefused.
type refused struct{ error }

func (r *refused) Unwrap() error        { return r.error }
func (r *refused) Is(target error) bool { return target == capacity.ErrRefused }

// tokenUsed reports whether EC2 refused a launch for its ClientToken alone.
func tokenUsed(err error) bool {
	code := Code(err)
	return code == tokenTerminated || code == tokenMismatch
}

// noRoom reports whether EC2 has no room for a launch in its reservation or subnet; another may
// have.
func noRoom(err error) bool {
	code := Code(err)
	switch code {
	case "UnfulfillableCapacity", "InsufficientFreeAddressesInSubnet":
		return true
	}
	return slices.Contains(noCapacity, code) || strings.HasPrefix(code, "InvalidCapacityReservationState") || strings.HasPrefix(code, badReservationID)
}
