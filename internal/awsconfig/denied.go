package awsconfig

import (
	"context"
	"errors"
	"regexp"
	"strings"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
)

// Denied is a call that AWS refused because its caller may not do it. It wraps AWS's error.
type Denied struct {
	// Action is what a policy has to allow, such as ec2:DescribeSubnets. One call can need
	// several: RunInstances needs iam:PassRole where it gives instances a role.
	Action string
	// orMore: AWS did not say which, and the operation needs more than its own.
	orMore bool
	// Caller and Resource are as AWS names them; "" if it does not.
	Caller, Resource string
	// Reason is "" if no policy allows the action, else why it is refused though one may.
	Reason string

	answer smithy.APIError
	err    error
}

var _ smithy.APIError = (*Denied)(nil)

// denials are the codes of such errors: those of EC2, of services with AWS JSON or XML, and
// of Resource Groups. "UnauthorizedOperation" has one more meaning, for a caller who may do all that IAM
// knows of: see ErrNotApproved of package ec2.
var denials = []string{"UnauthorizedOperation", "AccessDeniedException", "AccessDenied", "ForbiddenException"}

// denial reads AWS's message, in the words of "Troubleshoot access denied error messages",
// IAM User Guide. Older ones have none of them.
var denial = regexp.MustCompile(`(?:User: (\S+) is )?not authorized to perform: ([a-z0-9-]+:[A-Za-z]+)(?: on resource: (.+?))?( because no .+?| with an explicit deny.*?)?(?:\. |\.?$)`)

func denied(service, operation string, err error) error {
	var answer smithy.APIError
	if !errors.As(err, &answer) || strings.Contains(answer.ErrorMessage(), "not authorized to call") {
		return err
	}
	for _, code := range denials {
		if answer.ErrorCode() != code {
			continue
		}
		d := &Denied{Action: strings.ToLower(strings.ReplaceAll(service, " ", "-")) + ":" + operation, answer: answer, err: err}
		m := denial.FindStringSubmatch(answer.ErrorMessage())
		named := m != nil
		if named {
			d.Caller, d.Action, d.Resource, d.Reason = m[1], m[2], m[3], m[4]
			if strings.HasPrefix(d.Reason, " because no identity-based policy") {
				d.Reason = ""
			}
		}
		d.orMore = !isRead(operation) && !named
		return d
	}
	return err
}

// Error is the message with AWS's error code.
func (d *Denied) Error() string { return d.words(" (" + d.ErrorCode() + ")") }

// ErrorCode is AWS's, verbatim.
func (d *Denied) ErrorCode() string { return d.answer.ErrorCode() }

// ErrorMessage names the action.
func (d *Denied) ErrorMessage() string { return d.words("") }

// ErrorFault is AWS's.
func (d *Denied) ErrorFault() smithy.ErrorFault { return d.answer.ErrorFault() }

func (d *Denied) words(code string) string {
	text := d.Action + " is not allowed"
	if d.orMore {
		text = d.Action + ", or what else it needs, is not allowed"
	}
	if d.Caller != "" {
		text += " for " + d.Caller
	}
	if d.Resource != "" && d.Resource != "*" {
		text += " on " + d.Resource
	}
	return text + d.Reason + code
}

func (d *Denied) Unwrap() error { return d.err }

// Allow is what to do about a Denied.
const Allow = "`pcs-capacity iam-policy` prints what to allow"

// nameDenied has calls return a Denied where AWS denies them: after all attempts, and
// before Advise adds what to do.
func nameDenied(stack *middleware.Stack) error {
	return stack.Serialize.Add(middleware.SerializeMiddlewareFunc("NameDenied", func(ctx context.Context, in middleware.SerializeInput, next middleware.SerializeHandler) (
		middleware.SerializeOutput, middleware.Metadata, error) {
		out, metadata, err := next.HandleSerialize(ctx, in)
		if err != nil {
			err = denied(awsmiddleware.GetServiceID(ctx), awsmiddleware.GetOperationName(ctx), err)
		}
		return out, metadata, err
	}), middleware.Before)
}
