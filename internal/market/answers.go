package market

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// keepAnswers is how long another run may use the answer to a search: offers change, but EC2 allows
// only one search in 6.7 s.
const keepAnswers = time.Minute

// offeringAnswers asks EC2 for offerings. Its answers are kept for a minute.
type offeringAnswers struct {
	progress Progress
	cache    Cache
	// scope keeps the answers of other credentials apart.
	scope string
	kept  atomic.Bool // an answer came from the cache
}

// newOfferingAnswers keeps nothing if the cache is "".
func newOfferingAnswers(ctx context.Context, progress Progress, aws *ec2.Client, cache Cache) *offeringAnswers {
	a := &offeringAnswers{progress: progress}
	aws.OnWait(a.tellWait)
	if cache == "" {
		return a
	}
	var err error
	if a.scope, err = aws.Scope(ctx); err == nil {
		a.cache = cache
	}
	return a
}

// tellWait reports a wait after EC2 has refused a search. announce reports this program's own
// waits, as a sum.
func (a *offeringAnswers) tellWait(w ec2.Wait) {
	after := capacity.FormatDuration(w.For)
	if w.Throttled != "" {
		a.progress.Say("EC2 throttles searches in %s (%s); asking again in %s.", w.Region, w.Throttled, after)
	} else {
		a.progress.Now(fmt.Sprintf("waiting %s for EC2's request limits in %s", after, w.Region))
	}
}

// announce reports how long n more searches take, if that is long.
func (a *offeringAnswers) announce(aws *ec2.Client, n int) {
	if d := aws.SearchTime(n); d > time.Second {
		a.progress.Say("Searching on in %s can take %s: EC2 allows 10 searches, then one in 7 seconds.", aws.Region(),
			capacity.FormatDuration(d))
	}
}

// cachedQuestion is the key of a kept answer.
type cachedQuestion struct {
	Scope, Region string
	Query         ec2.OfferingQuery
}

// ask returns the offerings in the client's region.
func (a *offeringAnswers) ask(ctx context.Context, aws *ec2.Client, q ec2.OfferingQuery) ([]capacity.Offering, error) {
	asked, now := cachedQuestion{a.scope, aws.Region(), q}, time.Now()
	var found []capacity.Offering
	if _, ok := a.cache.Get(asked, now.Add(-keepAnswers), now, &found); ok {
		a.kept.Store(true)
		return found, nil
	}
	found, err := aws.Offerings(ctx, q)
	if err != nil {
		return nil, err
	}
	if err := a.cache.Put(asked, found, now.Add(-keepAnswers), time.Now()); err != nil {
		slog.Info("the answer is not kept", "error", err)
	}
	return found, nil
}
