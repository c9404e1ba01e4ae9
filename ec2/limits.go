package ec2

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"golang.org/x/time/rate"
)

// EC2 holds each of the four operations around offerings to 10 calls at once and then
// one in 6.7 s, for each account and region: EC2 API Reference, "Request throttling".
const (
	scarceBurst  = 10
	scarceRefill = 20 * time.Second / 3 // 0.15 a second
)

// mostThrottled is how often a search is throttled before it gives up: somebody else then uses up
// the account's calls.
const mostThrottled = 10

// scarce holds the calls of one region to what EC2 allows.
type scarce struct {
	offerings, extensionOfferings, purchases, extensions *rate.Limiter
}

func newScarce(refill time.Duration) scarce {
	bucket := func() *rate.Limiter { return rate.NewLimiter(rate.Every(refill), scarceBurst) }
	return scarce{bucket(), bucket(), bucket(), bucket()}
}

// Wait describes a call that waits for EC2's request limits.
type Wait struct {
	Region string
	For    time.Duration
	// Throttled is EC2's code if EC2 refused the call: others use the account's calls too.
	Throttled string
}

// OnWait sets the function that is called, from any goroutine, before a call in any region waits
// for EC2's request limits. Set it before the first call.
func (c *Client) OnWait(tell func(Wait)) { c.shared.tellWait = tell }

// allowed waits until this process may make one more scarce call.
func (c *Client) allowed(ctx context.Context, l *rate.Limiter) error {
	turn := l.Reserve()
	if d := turn.Delay(); d > 0 {
		if err := c.sleep(ctx, Wait{Region: c.region, For: d}); err != nil {
			turn.Cancel()
			return err
		}
	}
	return nil
}

func (c *Client) sleep(ctx context.Context, w Wait) error {
	if tell := c.shared.tellWait; tell != nil {
		tell(w)
	}
	select {
	case <-time.After(w.For):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for EC2's request limits in %s: %w", w.Region, ctx.Err())
	}
}

// search makes a scarce call that changes nothing. If EC2 still throttles it, search waits for the
// next allowed call and asks again.
func (c *Client) search(ctx context.Context, l *rate.Limiter, call func(option func(*ec2.Options)) error) error {
	// The SDK would retry within a second or so, when the next call is allowed after 6.7 s.
	option := noRetryAfter(requestLimitExceeded)
	for refused := 0; ; {
		if err := c.allowed(ctx, l); err != nil {
			return err
		}
		err := call(option)
		if !tooFast(err) {
			return searchError(err)
		}
		if refused++; refused == mostThrottled {
			return err
		}
		if err := c.sleep(ctx, Wait{Region: c.region, For: c.shared.refill, Throttled: Code(err)}); err != nil {
			return err
		}
	}
}

// mostEmpty is how many empty pages in a row a search reads. Each costs 6.7 s, and EC2 was seen to send 72.
const mostEmpty = 5

// searchPages yields the pages of a search, or an error as the last one; size counts the items of a page. After mostEmpty
// empty pages in a row it stops, and says so.
func searchPages[P any](ctx context.Context, c *Client, l *rate.Limiter, what string, pages interface {
	HasMorePages() bool
	NextPage(context.Context, ...func(*ec2.Options)) (*P, error)
}, size func(*P) int) iter.Seq2[*P, error] {
	return func(yield func(*P, error) bool) {
		for empty := 0; pages.HasMorePages(); {
			var page *P
			err := c.search(ctx, l, func(option func(*ec2.Options)) (err error) {
				page, err = pages.NextPage(ctx, option)
				return err
			})
			if err != nil {
				yield(nil, fmt.Errorf("searching %s: %w", what, err))
				return
			}
			if empty++; size(page) > 0 {
				empty = 0
			}
			if !yield(page, nil) {
				return
			}
			if empty == mostEmpty && pages.HasMorePages() {
				c.without(fmt.Errorf("EC2 sent %d pages with nothing on them and says that there are more; try again later", empty), "there may be more "+what)
				return
			}
		}
	}
}
