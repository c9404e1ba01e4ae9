package awsconfig

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// How long AWS may take to answer. The largest pages of Describe calls take a few seconds, launches and changes of PCS
// up to half a minute. A purchase has no limit here: its caller gives it one.
const (
	readTime   = 15 * time.Second
	changeTime = time.Minute
	// silentTime must pass before a host that has not answered in time is asked again, so that
	// a command, or a pass of sync, waits for it once and not once for each of its questions.
	silentTime = 30 * time.Second
)

// limits bound every attempt of every call.
type limits struct {
	read, change, silent time.Duration

	mu    sync.Mutex
	until map[string]time.Time // when to ask again a host that has not answered
}

// NoAnswer is an attempt that a host of AWS did not answer in time.
type NoAnswer struct {
	Host  string
	After time.Duration // how long the host had; 0 if it was not asked, having been silent before
}

// WasNotSent reports whether the call was not sent at all.
func (n *NoAnswer) WasNotSent() bool { return n.After == 0 }

func (n *NoAnswer) Error() string {
	if n.WasNotSent() {
		return n.Host + " has not answered lately, and was not asked again" + remedy
	}
	return fmt.Sprintf("%s has not answered within %s%s", n.Host, n.After, remedy)
}

const remedy = "; check the network, VPC endpoints and AWS_ENDPOINT_URL"

// Is makes it a context.DeadlineExceeded.
func (n *NoAnswer) Is(target error) bool { return target == context.DeadlineExceeded }

// RetryableError tells the SDK to give up: who waits has waited long enough.
func (n *NoAnswer) RetryableError() bool { return false }

// middleware comes before all others that deal with an answer, so that the deadline holds until the answer is read.
func (l *limits) middleware(stack *middleware.Stack) error {
	bound := middleware.DeserializeMiddlewareFunc("BoundAttempt",
		func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (
			middleware.DeserializeOutput, middleware.Metadata, error,
		) {
			operation, host := awsmiddleware.GetOperationName(ctx), hostOf(in)
			if l.isSilent(host) {
				return middleware.DeserializeOutput{}, middleware.Metadata{}, &NoAnswer{Host: host}
			}

			limit := l.limit(operation)
			if limit == 0 {
				return next.HandleDeserialize(ctx, in)
			}

			attempt, cancel := context.WithTimeout(ctx, limit)
			defer cancel()

			out, metadata, err := next.HandleDeserialize(attempt, in)
			if err != nil && errors.Is(attempt.Err(), context.DeadlineExceeded) && ctx.Err() == nil {
				l.noteSilence(host)
				err = &NoAnswer{host, limit}
			}

			return out, metadata, err
		})

	return stack.Deserialize.Add(bound, middleware.Before)
}

func (l *limits) limit(operation string) time.Duration {
	if isRead(operation) {
		return l.read
	}

	if strings.HasPrefix(operation, "Purchase") {
		return 0
	}

	return l.change
}

// isRead reports whether an operation changes nothing.
func isRead(operation string) bool {
	return strings.HasPrefix(operation, "Describe") || strings.HasPrefix(operation, "Get") ||
		strings.HasPrefix(operation, "List")
}

func (l *limits) isSilent(host string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.until[host])
}

func (l *limits) noteSilence(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.until[host] = time.Now().Add(l.silent)
}

func hostOf(in middleware.DeserializeInput) string {
	if request, ok := in.Request.(*smithyhttp.Request); ok && request.Request != nil && request.URL != nil {
		return request.URL.Host
	}
	return ""
}

// clock knows how far the machine's clock is off AWS's.
type clock struct {
	mu    sync.Mutex
	known capacity.Clock
}

func (c *clock) offset() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known.Offset()
}

// middleware looks at every HTTP answer, those of failed and retried attempts too.
func (c *clock) middleware(stack *middleware.Stack) error {
	look := middleware.DeserializeMiddlewareFunc("ReadDate",
		func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (
			middleware.DeserializeOutput, middleware.Metadata, error,
		) {
			sent := time.Now().Round(0) // by the wall clock
			out, metadata, err := next.HandleDeserialize(ctx, in)
			if answer, ok := out.RawResponse.(*smithyhttp.Response); ok && answer != nil && answer.Response != nil {
				c.update(answer.Header, sent, time.Now().Round(0))
			}

			return out, metadata, err
		})

	return stack.Deserialize.Add(look, middleware.After)
}

// update takes AWS's time from a Date header, which has whole seconds: the true time was between it and one second
// later, at some moment between sent and received. A clock that agrees with this stays as it is. Any other is set to
// the header's time, whichever way it is off, so that it is never ahead of AWS's: what begins at a StartDate begins
// when EC2 says so too.
func (c *clock) update(header http.Header, sent, received time.Time) {
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return
	}

	off := time.Duration(0)
	if date.After(received) || date.Add(time.Second).Before(sent) {
		off = date.Sub(received)
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	c.known.Observe(off)
}
