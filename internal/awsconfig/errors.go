package awsconfig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Denied is a call that AWS refused because its caller may not do it. It wraps AWS's error.
type Denied struct {
	// Action names the action that a policy has to allow, such as ec2:DescribeSubnets. One call can need
	// several: RunInstances needs iam:PassRole where it gives instances a role.
	Action string
	orMore bool // AWS did not say which, and the operation needs more than its own
	// Caller and Resource are as AWS names them; "" if it does not.
	Caller, Resource string
	Reason           string // "" if no policy allows the action, else why it is refused though one may

	answer smithy.APIError
	err    error
}

var _ smithy.APIError = (*Denied)(nil)

// denials are the codes of such errors: those of EC2, of services with AWS JSON or XML, and
// of Resource Groups. "UnauthorizedOperation" has one more meaning, for a caller who may do all that IAM
// knows of: see notApprovedText of package ec2.
var denials = []string{"UnauthorizedOperation", "AccessDeniedException", "AccessDenied", "ForbiddenException"}

// denial reads AWS's message, in the words of "Troubleshoot access denied error messages",
// IAM User Guide. Older ones have none of them.
var denial = regexp.MustCompile(
	`(?:User: (\S+) is )?not authorized to perform: ([a-z0-9-]+:[A-Za-z]+)(?: on resource: (.+?))?( because no .+?| with an explicit deny.*?)?(?:\. |\.?$)`,
)

func asDenied(service, operation string, err error) error {
	var answer smithy.APIError
	if !errors.As(err, &answer) || strings.Contains(answer.ErrorMessage(), "not authorized to call") {
		return err
	}

	for _, code := range denials {
		if answer.ErrorCode() != code {
			continue
		}

		d := &Denied{
			Action: strings.ToLower(strings.ReplaceAll(service, " ", "-")) + ":" + operation,
			answer: answer,
			err:    err,
		}
		m := denial.FindStringSubmatch(answer.ErrorMessage())
		named := m != nil
		if named {
			d.Caller = m[1]
			d.Action = m[2]
			d.Resource = m[3]

			d.Reason = m[4]
			if strings.HasPrefix(d.Reason, " because no identity-based policy") {
				d.Reason = ""
			}
		}

		d.orMore = !isRead(operation) && !named

		return d
	}

	return err
}

// Error returns the message with AWS's error code.
func (d *Denied) Error() string { return d.text(" (" + d.ErrorCode() + ")") }

// ErrorCode returns AWS's error code, verbatim.
func (d *Denied) ErrorCode() string { return d.answer.ErrorCode() }

// ErrorMessage names the action.
func (d *Denied) ErrorMessage() string { return d.text("") }

// ErrorFault returns AWS's answer to whose fault it is.
func (d *Denied) ErrorFault() smithy.ErrorFault { return d.answer.ErrorFault() }

func (d *Denied) text(code string) string {
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

// Allow says what to do about a Denied.
const Allow = "`pcs-capacity iam-policy` prints what to allow"

// wrapDenied makes calls return a Denied where AWS denies them: after all attempts, and before Advise adds what to do.
func wrapDenied(stack *middleware.Stack) error {
	return stack.Serialize.Add(
		middleware.SerializeMiddlewareFunc("NameDenied",
			func(ctx context.Context, in middleware.SerializeInput, next middleware.SerializeHandler) (
				middleware.SerializeOutput, middleware.Metadata, error,
			) {
				out, metadata, err := next.HandleSerialize(ctx, in)
				if err != nil {
					err = asDenied(awsmiddleware.GetServiceID(ctx), awsmiddleware.GetOperationName(ctx), err)
				}

				return out, metadata, err
			}),
		middleware.Before,
	)
}

// Unreachable is a call that had no answer of AWS, in a sentence with what to do. It wraps the
// SDK's error, whose text has each attempt, the URL and the port of this machine.
type Unreachable struct {
	words string
	err   error
}

func (u *Unreachable) Error() string { return u.words }

// Unwrap returns the SDK's error.
func (u *Unreachable) Unwrap() error { return u.err }

// AsUnreachable returns the Unreachable of an error of a call to a region; nil if there was an answer, or
// the call was not sent. Where the call went is taken from the error, else from endpoint.
func AsUnreachable(err error, region, endpoint string) *Unreachable {
	var (
		gone   *Unreachable
		name   *net.DNSError
		unsent *smithyhttp.RequestSendError
	)
	switch {
	case errors.As(err, &gone):
		return gone
	case errors.As(err, &name) && name.IsNotFound:
		return &Unreachable{
			fmt.Sprintf("AWS has no host %s; check the region (%s) and this machine's DNS", name.Name, region),
			err,
		}
	case errors.As(err, &unsent) || errors.Is(err, context.DeadlineExceeded):
		return &Unreachable{
			fmt.Sprintf("AWS cannot be reached %s (%s)%s", describeTarget(err, region, endpoint), cause(err), remedy),
			err,
		}
	}

	return nil
}

// describeTarget names the region or the endpoint of a call, as far as it is known.
func describeTarget(err error, region, endpoint string) string {
	var call *url.Error
	if errors.As(err, &call) {
		endpoint = call.URL
	}

	if u, parseErr := url.Parse(endpoint); parseErr == nil && u.Host != "" {
		return "at " + u.Host
	}

	return "in " + region
}

// cause says why a connection failed. The error itself names the port of this machine, which differs each time.
func cause(err error) string {
	var (
		number  syscall.Errno
		timeout net.Error
	)
	switch {
	case errors.As(err, &number):
		return number.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	}

	return "the connection broke"
}

// wrapUnreachable puts what every call would meet into words, in place of the SDK's chain.
var wrapUnreachable = mapErrors("NameTrouble", func(ctx context.Context, err error) error {
	var (
		none   *NoCredentials
		silent *NoAnswer
		unsent *smithyhttp.RequestSendError
	)
	switch {
	case errors.As(err, &none): // it is the first that fails, so all around it is the SDK's
		return none
	case errors.As(err, &silent) || errors.Is(err, context.Canceled):
	case errors.As(err, &unsent):
		return AsUnreachable(err, awsmiddleware.GetRegion(ctx), "")
	}

	return err
})

// ErrUndecided matches the error of a call that AWS has not decided: it throttles, has failed, or gives no answer. The
// same call may succeed a moment later.
var ErrUndecided = errors.New("AWS has not decided the call")

// undecidedError is an error of AWS, in AWS's words, that matches ErrUndecided.
type undecidedError struct{ error }

func (n *undecidedError) Unwrap() error        { return n.error }
func (n *undecidedError) Is(target error) bool { return target == ErrUndecided }

// retryable recognizes the errors after which the SDK itself would repeat a call.
var retryable = retry.IsErrorRetryables(retry.DefaultRetryables)

// WrapUndecided makes calls return ErrUndecided where AWS has decided nothing. The answers with a final code are
// decisions, whatever status they come with.
func WrapUndecided(final ...string) func(*middleware.Stack) error {
	return mapErrors("NameNotNow", func(_ context.Context, err error) error {
		var silent *NoAnswer

		isUndecided := errors.As(err, &silent) || retryable.IsErrorRetryable(err) == aws.TrueTernary
		if !isUndecided || slices.Contains(final, Code(err)) {
			return err
		}

		return &undecidedError{err}
	})
}

// configError says why the configuration of AWS cannot be read.
func configError(err error) error {
	var missing config.SharedConfigProfileNotExistError
	if errors.As(err, &missing) {
		return fmt.Errorf(
			"there is no AWS profile %q in the AWS configuration of this user; set --profile or AWS_PROFILE to one of "+
				"`aws configure list-profiles`, or leave both out",
			missing.Profile,
		)
	}

	return fmt.Errorf(
		"reading the AWS configuration: %w; fix ~/.aws/config and ~/.aws/credentials, or what AWS_CONFIG_FILE and "+
			"AWS_SHARED_CREDENTIALS_FILE name",
		err,
	)
}

// Remedy explains an error code of AWS, and what to do about it.
type Remedy struct {
	Code  string   // AWS's, verbatim
	Calls []string // the operations that answer the code in this meaning; none: every one
	Says  string   // a part of AWS's message, where the code alone has several meanings
	// Means and Do are a sentence each, without a capital letter and a full stop.
	Means, Do string
}

// General are the codes that every call would meet, whatever it asks, at EC2 as at PCS.
var General = slices.Concat(Remedies(nil, "the AWS credentials have expired",
	"renew them, for example with `aws sso login`", "ExpiredToken", "ExpiredTokenException"), Remedies(
	nil,
	"the AWS credentials have expired, or the clock of this machine is wrong",
	"renew the credentials or correct the clock",
	"RequestExpired",
), Remedies(nil, "AWS does not accept the credentials",
	"check them with `aws sts get-caller-identity`, and that the account has enabled the region", "AuthFailure",
	"InvalidClientTokenId", "UnrecognizedClientException", "SignatureDoesNotMatch", "InvalidSignatureException",
	"MissingAuthenticationToken"), Remedies(nil, "the account has not enabled the region",
	"check the region, or enable it in the AWS console", "OptInRequired"))

// Remedies makes the same Remedy for each of codes, in answers to calls; nil stands for every call.
func Remedies(calls []string, means, do string, codes ...string) []Remedy {
	var all []Remedy
	for _, code := range codes {
		all = append(all, Remedy{Code: code, Calls: calls, Means: means, Do: do})
	}

	return all
}

// FindRemedy returns the first remedy for an error of AWS that an operation answered.
func FindRemedy(table []Remedy, operation string, err error) (Remedy, bool) {
	var answer smithy.APIError
	if !errors.As(err, &answer) {
		return Remedy{}, false
	}

	i := slices.IndexFunc(table, func(r Remedy) bool {
		return r.Code == answer.ErrorCode() && (len(r.Calls) == 0 || slices.Contains(r.Calls, operation)) &&
			strings.Contains(answer.ErrorMessage(), r.Says)
	})
	if i < 0 {
		return Remedy{}, false
	}

	return table[i], true
}

// Advised is an error of AWS with what to do about it.
type Advised struct {
	err    error
	advice string
}

func (a *Advised) Error() string { return strings.TrimSuffix(a.err.Error(), ".") + "; " + a.advice }

// Unwrap returns AWS's error.
func (a *Advised) Unwrap() error { return a.err }

// Code returns AWS's error code, verbatim; "" if err holds no answer of AWS.
func Code(err error) string {
	var answer interface{ ErrorCode() string } // smithy.APIError has it, and the errors of the model
	if errors.As(err, &answer) {
		return answer.ErrorCode()
	}

	return ""
}

// Advice says what to do about an error of AWS; "" where AWS's message says it all.
func Advice(err error) string {
	var advised *Advised
	if errors.As(err, &advised) {
		return advised.advice
	}

	return ""
}

// Advise adds to the errors that a client returns what to do about them, by its service's table and General.
func Advise(table []Remedy) func(*middleware.Stack) error {
	table = slices.Concat(table, General)

	return mapErrors("Advise", func(ctx context.Context, err error) error {
		if r, found := FindRemedy(table, awsmiddleware.GetOperationName(ctx), err); found {
			return &Advised{err, r.Do}
		}
		return err
	})
}

// mapErrors puts what all attempts of a call ended with in other words.
func mapErrors(name string, change func(context.Context, error) error) func(*middleware.Stack) error {
	look := middleware.InitializeMiddlewareFunc(name,
		func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (
			out middleware.InitializeOutput, metadata middleware.Metadata, err error,
		) {
			out, metadata, err = next.HandleInitialize(ctx, in)
			if err != nil {
				err = change(ctx, err)
			}

			return out, metadata, err
		})

	return func(stack *middleware.Stack) error { return stack.Initialize.Add(look, middleware.After) }
}
