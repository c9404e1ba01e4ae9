package main

import (
	"context"
	"fmt"
	"log/slog"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// keepAnswers is how long the answer to a search is good for another run: what is for
// sale changes, but EC2 allows one search in 6.7 s only.
const keepAnswers = time.Minute

// searcher asks what is for sale. Its answers are kept for a minute.
type searcher struct {
	progress *terminal.Slow
	cache    state.Cache
	scope    string
	kept     atomic.Bool // an answer came from the cache
}

func newSearcher(ctx context.Context, progress *terminal.Slow, aws *ec2.Client, noCache bool) *searcher {
	s := &searcher{progress: progress}
	aws.OnWait(s.tellWait)
	if noCache {
		return s
	}
	var err error
	if s.scope, err = aws.Scope(ctx); err == nil {
		s.cache = state.UserCache()
	}
	return s
}

// tellWait says that EC2 refused a search for now. Waits that this program makes of
// itself are announced as a whole.
func (s *searcher) tellWait(w ec2.Wait) {
	after := w.For.Round(time.Second)
	if w.Throttled != "" {
		s.progress.Say("EC2 throttles searches in %s (%s); asking again in %s.", w.Region, w.Throttled, after)
	} else {
		s.progress.Now(fmt.Sprintf("waiting %s for EC2's request limits in %s", after, w.Region))
	}
}

// announce says how long n more searches take, if that is long.
func (s *searcher) announce(aws *ec2.Client, n int) {
	if d := aws.SearchTime(n); d > time.Second {
		s.progress.Say("Searching on in %s can take %s: EC2 allows 10 searches, then one in 7 seconds.", aws.Region(), d.Round(time.Second))
	}
}

// question is what an answer is kept under.
type question struct {
	Scope, Region string
	Query         ec2.OfferingQuery
}

// offerings are the offerings in the client's region.
func (s *searcher) offerings(ctx context.Context, aws *ec2.Client, q ec2.OfferingQuery) ([]capacity.Offering, error) {
	asked, now := question{s.scope, aws.Region(), q}, time.Now()
	var found []capacity.Offering
	if _, ok := s.cache.Get(asked, now.Add(-keepAnswers), now, &found); ok {
		s.kept.Store(true)
		return found, nil
	}
	found, err := aws.Offerings(ctx, q)
	if err != nil {
		return nil, err
	}
	if err := s.cache.Put(asked, found, now.Add(-keepAnswers), time.Now()); err != nil {
		slog.Info("the answer is not kept", "error", err)
	}
	return found, nil
}

// done says what a reader must know of the answers.
func (s *searcher) done(t *terminal.Terminal) {
	if s.kept.Load() {
		t.Say("This uses answers that are less than a minute old; --no-cache asks EC2 again.")
	}
}

// alternative is a question that has an answer where the asked one has none.
type alternative struct {
	// Differs is count, duration or start.
	Differs string `json:"differs"`
	Region  string `json:"region"`
	Count   int    `json:"count"`
	// Seconds is the length to ask for.
	Seconds int `json:"duration_seconds"`
	// Offering is the earliest of the answer.
	Offering string    `json:"offering"`
	Start    time.Time `json:"start"`
	End      time.Time `json:"end"`
}

// alternatives looks for what is for sale in a region instead: the largest count, the
// nearest length and, where the question bounds it, the earliest start. wanted drops
// offerings that would not do. Binary searches keep the calls few; they are right as long
// as a smaller or shorter block is for sale wherever a larger or longer one is.
func (s *searcher) alternatives(ctx context.Context, aws *ec2.Client, q ec2.OfferingQuery, wanted func([]capacity.Offering) []capacity.Offering) ([]alternative, error) {
	var all []alternative
	var failure error
	try := func(differs string, q ec2.OfferingQuery) (alternative, bool) {
		if failure != nil {
			return alternative{}, false
		}
		var found []capacity.Offering
		if found, failure = s.offerings(ctx, aws, q); failure != nil {
			return alternative{}, false
		}
		if found = wanted(found); len(found) == 0 {
			return alternative{}, false
		}
		first := slices.MinFunc(found, func(a, b capacity.Offering) int { return a.Start.Compare(b.Start) })
		return alternative{differs, aws.Region(), q.Count, int(q.Duration.Seconds()), first.ID, first.Start, first.End}, true
	}
	keep := func(a alternative, ok bool) bool {
		if ok {
			all = append(all, a)
		}
		return ok
	}

	s.announce(aws, bits.Len(uint(q.Count-1)))
	keep(largest(q.Count-1, func(count int) (alternative, bool) {
		smaller := q
		smaller.Count = count
		return try("count", smaller)
	}))
	if !q.StartAfter.IsZero() || !q.EndBy.IsZero() {
		s.announce(aws, 1)
		unbound := q
		unbound.StartAfter, unbound.EndBy = time.Time{}, time.Time{}
		keep(try("start", unbound))
	}
	sold := ec2.Lengths()
	asked := slices.Index(sold, q.Duration)
	ofLength := func(i int) (alternative, bool) {
		if i < 0 || i >= len(sold) {
			return alternative{}, false
		}
		other := q
		other.Duration = sold[i]
		return try("duration", other)
	}
	s.announce(aws, 3)
	if !keep(ofLength(asked-1)) && !keep(ofLength(asked+1)) && asked > 1 {
		if shortest, ok := ofLength(0); ok {
			s.announce(aws, bits.Len(uint(asked-2)))
			longer, found := largest(asked-2, ofLength)
			if found {
				shortest = longer
			}
			keep(shortest, true)
		}
	}
	return all, failure
}

// largest is the answer for the largest number from 1 to most that has one, if smaller
// numbers than that have one too.
func largest(most int, try func(int) (alternative, bool)) (best alternative, ok bool) {
	for low, high := 0, most; low < high; {
		n := (low + high + 1) / 2
		if a, found := try(n); found {
			best, ok, low = a, true, n
		} else {
			high = n - 1
		}
	}
	return best, ok
}

// pickAlternatives keeps the best of each sort over all regions: the largest count, the
// length nearest to the asked one, the earliest start.
func pickAlternatives(all []alternative, asked time.Duration) []alternative {
	picked := []alternative{}
	for _, differs := range []string{"count", "duration", "start"} {
		best := -1
		for i, a := range all {
			if a.Differs == differs && (best < 0 || a.better(all[best], asked)) {
				best = i
			}
		}
		if best >= 0 {
			picked = append(picked, all[best])
		}
	}
	return picked
}

func (a alternative) better(b alternative, asked time.Duration) bool {
	switch {
	case a.Count != b.Count:
		return a.Count > b.Count
	case a.Seconds != b.Seconds:
		return (seconds(a.Seconds) - asked).Abs() < (seconds(b.Seconds) - asked).Abs()
	}
	return a.Start.Before(b.Start)
}

// say is the alternative in a sentence, with the flags that ask for it.
func (a alternative) say(t *terminal.Terminal, own string) {
	flag := map[string]string{
		"count":    fmt.Sprintf("--count %d", a.Count),
		"duration": "--duration " + lasts(seconds(a.Seconds)),
		"start":    "no --start-after and no --end-by",
	}[a.Differs]
	if a.Region != own {
		flag += " --regions " + a.Region
	}
	what := map[string]string{"count": "the largest count", "duration": "the nearest length", "start": "the earliest start"}[a.Differs]
	t.Say("  %s: %d for %s in %s from %s (%s)", what, a.Count, lasts(seconds(a.Seconds)), a.Region, t.Time(a.Start), flag)
}
