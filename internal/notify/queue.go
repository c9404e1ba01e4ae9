package notify

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrUnderWay says that a message is in the queue, and nothing has gone wrong with it so far.
var ErrUnderWay = errors.New("the delivery is under way")

const (
	// mostWaiting is how many messages wait at most, and longestWait how long each.
	mostWaiting = 100
	longestWait = 10 * time.Minute
	// A delivery that failed is not begun again for firstRest, then twice as long each time,
	// up to longestRest.
	firstRest   = time.Minute
	longestRest = 15 * time.Minute
)

// Queue delivers messages, one after the other, while those who add them go on.
type Queue struct {
	ctx    context.Context
	cancel context.CancelFunc
	wake   chan struct{}
	done   chan struct{}
	rest   func(failures int) time.Duration

	mu      sync.Mutex
	waiting []item
	// known are the messages under way and those that have failed, by key.
	known map[string]*progress
	// pings are heartbeats: one at a time, with the last one's error.
	pings   sync.WaitGroup
	pinging bool
	pinged  error
}

type item struct {
	key       string
	added     time.Time
	to        Target
	message   any
	delivered func() error
}

// progress is how far the delivery of a message is.
type progress struct {
	underWay bool
	failures int
	err      error
	// again is when a failed one may be added again.
	again time.Time
}

// NewQueue is a queue that delivers until Close.
func NewQueue() *Queue {
	ctx, cancel := context.WithCancel(context.Background())
	q := &Queue{ctx: ctx, cancel: cancel, wake: make(chan struct{}, 1), done: make(chan struct{}), rest: rest, known: map[string]*progress{}}
	go q.run(ctx)
	return q
}

// Add has a message delivered, and never waits. A key names what it is about: one message for
// each is under way at a time. Once it has been delivered, delivered is called, beside the caller.
// The answer is never nil: ErrUnderWay, or why the last delivery has failed; a later Add tries again.
func (q *Queue) Add(to Target, key string, message any, delivered func() error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for other, p := range q.known { // what nobody adds any more
		if !p.underWay && now.Sub(p.again) > longestRest {
			delete(q.known, other)
		}
	}
	p := q.known[key]
	switch {
	case p == nil:
		p = &progress{err: ErrUnderWay}
	case p.underWay || now.Before(p.again):
		return p.err
	}
	if len(q.waiting) >= mostWaiting {
		return fmt.Errorf("%d messages wait to be delivered already", len(q.waiting))
	}
	p.underWay = true
	q.known[key] = p
	q.waiting = append(q.waiting, item{key, now, to, message, delivered})
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return p.err
}

// Close ends what is being delivered, and leaves what waits.
func (q *Queue) Close() {
	q.cancel()
	<-q.done
	q.pings.Wait()
}

func (q *Queue) run(ctx context.Context) {
	defer close(q.done)
	for ctx.Err() == nil {
		next, some := q.next()
		if !some {
			select {
			case <-ctx.Done():
			case <-q.wake:
			}
			continue
		}
		err := fmt.Errorf("it waited for %s behind others", longestWait)
		if time.Since(next.added) < longestWait {
			err = next.to.Deliver(ctx, next.message)
		}
		if err == nil {
			err = next.delivered()
		}
		q.ended(next.key, err)
	}
}

func (q *Queue) next() (item, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return item{}, false
	}
	first := q.waiting[0]
	q.waiting = q.waiting[1:]
	return first, true
}

func (q *Queue) ended(key string, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err == nil {
		delete(q.known, key)
		return
	}
	p := q.known[key]
	p.underWay, p.err = false, err
	p.failures++
	p.again = time.Now().Add(q.rest(p.failures))
}

// rest is how long a message rests that has failed so often.
func rest(failures int) time.Duration {
	return min(firstRest<<min(failures-1, 10), longestRest)
}
