package awsconfig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Call is one call of AWS, with all its attempts. It has nothing of what was sent or
// answered but what is here: neither credentials nor signature nor user data.
type Call struct {
	Service   string // the SDK's name, such as EC2
	Operation string // the SDK's name, such as RunInstances
	Region    string
	Took      time.Duration
	Attempts  int    // how often it was sent, or could not be; 0 if it did not come to that
	Status    int    // the HTTP status of the last answer; 0 without one
	RequestID string // AWS's name of the last attempt, which AWS Support asks for; "" without an answer
	Code      string // AWS's error code, verbatim; "" if the call succeeded or had no answer
	Failure   string // why there was no answer; "" if there was one
}

// Attrs returns what a log shows of the call; durations in milliseconds.
func (c Call) Attrs() []slog.Attr {
	all := []slog.Attr{
		slog.String("service", c.Service),
		slog.String("operation", c.Operation),
		slog.String("region", c.Region),
		slog.Int64("ms", c.Took.Milliseconds()),
		slog.Int("attempts", c.Attempts),
	}
	if c.Status != 0 {
		all = append(all, slog.Int("status", c.Status))
	}

	for _, a := range []slog.Attr{
		slog.String("request_id", c.RequestID),
		slog.String("code", c.Code),
		slog.String("failure", c.Failure),
	} {
		if a.Value.String() != "" {
			all = append(all, a)
		}
	}

	return all
}

// logDebug logs a call, unless Options say otherwise.
func logDebug(c Call) {
	slog.LogAttrs(context.Background(), slog.LevelDebug, "AWS call", c.Attrs()...)
}

// reportCalls tells of every call when it has ended.
func reportCalls(tell func(Call)) func(*middleware.Stack) error {
	look := middleware.InitializeMiddlewareFunc("TellCalls",
		func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (
			middleware.InitializeOutput, middleware.Metadata, error,
		) {
			began := time.Now()

			out, metadata, err := next.HandleInitialize(ctx, in)
			c := Call{
				Service:   awsmiddleware.GetServiceID(ctx),
				Operation: awsmiddleware.GetOperationName(ctx),
				Region:    awsmiddleware.GetRegion(ctx),
				Took:      time.Since(began),
			}
			if attempts, ok := retry.GetAttemptResults(metadata); ok {
				c.Attempts = len(attempts.Results)
			}

			if answer, ok := awsmiddleware.GetRawResponse(metadata).(*smithyhttp.Response); ok && answer != nil &&
				answer.Response != nil {
				c.Status = answer.StatusCode
			}

			c.RequestID, _ = awsmiddleware.GetRequestIDMetadata(metadata)
			if err != nil {
				c.describe(err)
			}

			tell(c)

			return out, metadata, err
		})

	return func(stack *middleware.Stack) error { return stack.Initialize.Add(look, middleware.After) }
}

// describe takes from an error what the metadata of a failed call does not have.
func (c *Call) describe(err error) {
	var answer interface {
		HTTPStatusCode() int
		ServiceRequestID() string
	}
	if errors.As(err, &answer) {
		c.Status, c.RequestID = answer.HTTPStatusCode(), answer.ServiceRequestID()
	}

	c.Code = Code(err)
	if c.Code == "" {
		c.Failure = err.Error()
	}
}

// plainBody sends request bodies without their WriteTo method, so that a fast answer
// is not taken for a broken connection.
//
// The SDK closes the body as soon as the head of the answer is there. net/http may still look whether the body is
// longer than announced, and a closed body answers io.EOF to WriteTo, which net/http takes for a failed write: it cuts
// the connection in the middle of the answer. Read answers io.EOF too, where it means the end. The SDK retries such a
// call (aws-sdk-go-v2 issue 2737); a purchase, which is sent once, would end with an unknown outcome.
func plainBody(stack *middleware.Stack) error {
	hide := middleware.BuildMiddlewareFunc("PlainBody",
		func(ctx context.Context, in middleware.BuildInput, next middleware.BuildHandler) (
			middleware.BuildOutput, middleware.Metadata, error,
		) {
			request, ok := in.Request.(*smithyhttp.Request)
			if !ok {
				return next.HandleBuild(ctx, in)
			}

			if body, ok := request.GetStream().(io.ReadSeeker); ok {
				plain, err := request.SetStream(struct{ io.ReadSeeker }{body})
				if err != nil {
					return middleware.BuildOutput{}, middleware.Metadata{}, fmt.Errorf(
						"preparing the body of the request: %w",
						err,
					)
				}

				in.Request = plain
			}

			return next.HandleBuild(ctx, in)
		})

	return stack.Build.Add(hide, middleware.After)
}

// maxPages bounds a listing. A page has up to 1,000 items, and nobody has a million.
const maxPages = 1000

// paginator is one of the SDK's; O are the options of its client.
type paginator[P, O any] interface {
	HasMorePages() bool
	NextPage(ctx context.Context, options ...func(*O)) (*P, error)
}

// All reads all pages of a listing; doing begins the words of an error.
func All[P, O, T any](ctx context.Context, doing string, pages paginator[P, O], on func(*P) []T) (all []T, err error) {
	for n := 0; pages.HasMorePages(); n++ {
		var page *P

		page, err = pages.NextPage(ctx)
		if err == nil && n == maxPages {
			err = fmt.Errorf("AWS sent %d pages and says that there are more", n)
		}

		if err != nil {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}

		all = append(all, on(page)...)
	}

	return all, nil
}
