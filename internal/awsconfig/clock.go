package awsconfig

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// clock knows how far the machine's clock is off AWS's.
type clock struct {
	mu  sync.Mutex
	off time.Duration
}

func (c *clock) offset() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.off
}

// middleware looks at every HTTP answer, those of failed and retried attempts too.
func (c *clock) middleware(stack *middleware.Stack) error {
	look := middleware.DeserializeMiddlewareFunc("ReadDate", func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (
		middleware.DeserializeOutput, middleware.Metadata, error) {
		sent := time.Now()
		out, metadata, err := next.HandleDeserialize(ctx, in)
		if answer, ok := out.RawResponse.(*smithyhttp.Response); ok && answer != nil && answer.Response != nil {
			c.learn(answer.Header, sent, time.Now())
		}
		return out, metadata, err
	})
	return stack.Deserialize.Add(look, middleware.After)
}

// learn takes AWS's time from a Date header, which has whole seconds: the true time
// was between it and one second later, at some moment between sent and received.
// The offset is the smallest that agrees with this, so a right clock stays as it is.
func (c *clock) learn(header http.Header, sent, received time.Time) {
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return
	}
	least, most := date.Sub(received), date.Add(time.Second).Sub(sent)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case least > 0:
		c.off = least
	case most < 0:
		c.off = most
	default:
		c.off = 0
	}
}
