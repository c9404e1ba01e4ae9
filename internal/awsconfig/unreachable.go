package awsconfig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"syscall"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Unreachable is a call that had no answer of AWS, in a sentence with what to do. It wraps the
// SDK's error, whose text has each attempt, the URL and the port of this machine.
type Unreachable struct {
	words string
	err   error
}

func (u *Unreachable) Error() string { return u.words }

// Unwrap is the SDK's error.
func (u *Unreachable) Unwrap() error { return u.err }

// Unanswered is the Unreachable of an error of a call to a region; nil if there was an answer, or
// the call was not sent. Where the call went is taken from the error, else from endpoint.
func Unanswered(err error, region, endpoint string) *Unreachable {
	var gone *Unreachable
	var name *net.DNSError
	var unsent *smithyhttp.RequestSendError
	switch {
	case errors.As(err, &gone):
		return gone
	case errors.As(err, &name) && name.IsNotFound:
		return &Unreachable{fmt.Sprintf("AWS has no host %s; check the region (%s) and this machine's DNS", name.Name, region), err}
	case errors.As(err, &unsent) || errors.Is(err, context.DeadlineExceeded):
		return &Unreachable{fmt.Sprintf("AWS cannot be reached %s (%s)%s", place(err, region, endpoint), cause(err), remedy), err}
	}
	return nil
}

// place is where a call went, as far as that is known.
func place(err error, region, endpoint string) string {
	var call *url.Error
	if errors.As(err, &call) {
		endpoint = call.URL
	}
	if u, parseErr := url.Parse(endpoint); parseErr == nil && u.Host != "" {
		return "at " + u.Host
	}
	return "in " + region
}

// cause is why a connection failed. The error itself names the port of this machine, which
// is another one each time.
func cause(err error) string {
	var number syscall.Errno
	var timeout net.Error
	switch {
	case errors.As(err, &number):
		return number.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	}
	return "the connection broke"
}

// nameTrouble puts what every call would meet into words, in place of the SDK's chain.
func nameTrouble(stack *middleware.Stack) error {
	look := middleware.InitializeMiddlewareFunc("NameTrouble", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (
		middleware.InitializeOutput, middleware.Metadata, error) {
		out, metadata, err := next.HandleInitialize(ctx, in)
		var none *NoCredentials
		var silent *NoAnswer
		var unsent *smithyhttp.RequestSendError
		switch {
		case errors.As(err, &none): // it is the first that fails, so all around it is the SDK's
			err = none
		case errors.As(err, &silent) || errors.Is(err, context.Canceled):
		case errors.As(err, &unsent):
			err = Unanswered(err, awsmiddleware.GetRegion(ctx), "")
		}
		return out, metadata, err
	})
	return stack.Initialize.Add(look, middleware.After)
}

// unread is why the configuration of AWS cannot be read.
func unread(err error) error {
	var missing config.SharedConfigProfileNotExistError
	if errors.As(err, &missing) {
		return fmt.Errorf("there is no AWS profile %q in the AWS configuration of this user; give --profile or AWS_PROFILE one of `aws configure list-profiles`, or leave both out", missing.Profile)
	}
	return fmt.Errorf("reading the AWS configuration: %w; mend ~/.aws/config and ~/.aws/credentials, or what AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE name", err)
}
