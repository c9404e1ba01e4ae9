package ec2

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// answered is an error as the SDK makes it from an answer.
func answered(status int, code string) error {
	return fmt.Errorf("operation error EC2: %w", &awshttp.ResponseError{RequestID: "r-1", ResponseError: &smithyhttp.ResponseError{
		Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status}}, Err: &smithy.GenericAPIError{Code: code, Message: "no"}}})
}

// EC2's code decides; the status only where the code says nothing.
func TestOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want capacity.Outcome
		more []string
	}{
		"no error":                       {err: nil, want: capacity.Done},
		"no instance, a server error":    {err: answered(500, "InsufficientInstanceCapacity"), want: capacity.NoRoom},
		"no instance, a client error":    {err: answered(400, "InsufficientInstanceCapacity"), want: capacity.NoRoom},
		"no host":                        {err: answered(500, "InsufficientHostCapacity"), want: capacity.NoRoom},
		"no reserved instance":           {err: answered(500, "InsufficientReservedInstanceCapacity"), want: capacity.NoRoom},
		"a full reservation":             {err: answered(400, "ReservationCapacityExceeded"), want: capacity.NoRoom},
		"a full reservation, 500":        {err: answered(500, "ReservationCapacityExceeded"), want: capacity.NoRoom},
		"a full subnet":                  {err: answered(400, "InsufficientFreeAddressesInSubnet"), want: capacity.NoRoom},
		"a block before its time":        {err: answered(400, "InvalidCapacityReservationState.PendingActivation"), want: capacity.NoRoom},
		"no such reservation":            {err: answered(400, "InvalidCapacityReservationId.NotFound"), want: capacity.NoRoom},
		"a quota":                        {err: answered(400, "VcpuLimitExceeded"), want: capacity.Refused},
		"a quota, of a hold":             {err: answered(400, "VcpuLimitExceeded"), want: capacity.NoRoom, more: noHold},
		"a token":                        {err: answered(400, "IdempotentParameterMismatch"), want: capacity.TokenUsed},
		"throttled":                      {err: answered(503, "RequestLimitExceeded"), want: capacity.Refused},
		"not allowed":                    {err: answered(403, "UnauthorizedOperation"), want: capacity.Refused},
		"an error of EC2's":              {err: answered(500, "InternalError"), want: capacity.Unknown},
		"an error of EC2's, status 400":  {err: answered(400, "InternalError"), want: capacity.Unknown},
		"not available":                  {err: answered(503, "Unavailable"), want: capacity.Unknown},
		"a code that nobody knows":       {err: answered(500, "SomethingElse"), want: capacity.Unknown},
		"a code that nobody knows, 400":  {err: answered(400, "SomethingElse"), want: capacity.Refused},
		"an answer without a code":       {err: answered(400, ""), want: capacity.Unknown},
		"a timeout":                      {err: context.DeadlineExceeded, want: capacity.Unknown},
		"a cut connection":               {err: &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}, want: capacity.Unknown},
		"a connection that is not there": {err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}, want: capacity.Refused},
		"never sent":                     {err: fmt.Errorf("%w: no token", ErrNotSent), want: capacity.Refused},
		"an answer that has nothing":     {err: ErrNotDescribed, want: capacity.Unknown},
	} {
		got := Outcome(c.err, c.more...)
		told := capacity.OutcomeOf(withOutcome(c.err, c.more...))
		if got != c.want || told != c.want {
			t.Errorf("%s: %d, and %d as told, want %d", name, got, told, c.want)
		}
		if c.more == nil && Refused(c.err) != c.want.Nothing() {
			t.Errorf("%s: refused %t", name, Refused(c.err))
		}
		if c.err != nil && Code(withOutcome(c.err)) != Code(c.err) {
			t.Errorf("%s: the code is lost", name)
		}
	}
}
