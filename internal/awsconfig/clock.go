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
	// read reads the machine's clock; nil for readMachine.
	read func() reading

	mu  sync.Mutex
	off time.Duration
	at  reading // when off was learned
	// doubt is an offset that is not believed yet, if doubted.
	doubt   time.Duration
	doubted bool
}

// plausible is how far an answer may be from the time that is known. One that is further off is mostly wrong, as EC2 refuses
// requests that are signed at a time more than 5 minutes off, S3 those of more than 15; the next one tells.
const plausible = 15 * time.Minute

// reading is the machine's time, and how long this program runs: that goes on evenly when the machine's clock is set.
type reading struct {
	wall time.Time
	runs time.Duration
}

var started = time.Now()

func readMachine() reading {
	now := time.Now()
	return reading{now.Round(0), now.Sub(started)}
}

func (c *clock) now() reading {
	if c.read == nil {
		return readMachine()
	}
	return c.read()
}

// leapt is by how much the machine's clock was set between two readings. A second and less is
// none: clocks that are kept right are moved by as much.
func leapt(from, to reading) time.Duration {
	by := to.wall.Sub(from.wall) - (to.runs - from.runs)
	if by.Abs() <= time.Second {
		return 0
	}
	return by
}

// offset holds also when the machine's clock was set after the newest answer.
func (c *clock) offset() time.Duration {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == (reading{}) {
		return c.doubt
	}
	return c.off - leapt(c.at, now)
}

// middleware looks at every HTTP answer, those of failed and retried attempts too.
func (c *clock) middleware(stack *middleware.Stack) error {
	look := middleware.DeserializeMiddlewareFunc("ReadDate", func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (
		middleware.DeserializeOutput, middleware.Metadata, error) {
		sent := c.now()
		out, metadata, err := next.HandleDeserialize(ctx, in)
		if answer, ok := out.RawResponse.(*smithyhttp.Response); ok && answer != nil && answer.Response != nil {
			c.learn(answer.Header, sent, c.now())
		}
		return out, metadata, err
	})
	return stack.Deserialize.Add(look, middleware.After)
}

// learn takes AWS's time from a Date header, which has whole seconds: the true time was between it and
// one second later, at some moment between sent and received. A clock that agrees with this stays as it
// is. Any other is set to the header's time, whichever way it is off, so that it is never ahead of AWS's:
// what begins at a StartDate begins when EC2 says so too. A time that is not plausible beside the last one, at first beside
// the machine's, counts when a second answer agrees; until the second answer comes, the first one is all that is known.
func (c *clock) learn(header http.Header, sent, received reading) {
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return
	}
	// By the clock as it is now: it may have been set while the answer was under way.
	least, most := date.Sub(received.wall), date.Add(time.Second).Sub(sent.wall.Add(leapt(sent, received)))
	c.mu.Lock()
	defer c.mu.Unlock()
	off := time.Duration(0)
	if least > 0 || most < 0 {
		off = least
	}
	known := time.Duration(0)
	if c.at != (reading{}) {
		known = c.off - leapt(c.at, received)
	}
	if (off-known).Abs() > plausible && (!c.doubted || (off-c.doubt).Abs() > plausible) {
		c.doubt, c.doubted = off, true
		return
	}
	c.at, c.off, c.doubt, c.doubted = received, off, 0, false
}
