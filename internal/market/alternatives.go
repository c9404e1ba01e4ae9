package market

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// Alternative is a similar question with an answer, where the original one has none.
type Alternative struct {
	// Differs names the difference: OtherCount, OtherDuration or OtherStart.
	Differs string `json:"differs"`
	Region  string `json:"region"`
	Count   int    `json:"count"`
	// Seconds is the length of the blocks.
	Seconds int `json:"duration_seconds"`
	// Offering is the earliest offering of the answer.
	Offering string    `json:"offering"`
	Start    time.Time `json:"start"`
	End      time.Time `json:"end"`
}

// The differences of alternatives.
const (
	OtherCount    = "count"
	OtherDuration = "duration"
	OtherStart    = "start"
)

// Duration is the length of the blocks.
func (a Alternative) Duration() time.Duration { return time.Duration(a.Seconds) * time.Second }

// Alternatives asks the regions that sell the type for alternatives, and returns the best of each
// kind over all regions. After an error it returns those found so far.
func (f *Found) Alternatives(ctx context.Context) ([]Alternative, error) {
	var regions []string
	for _, a := range f.answers {
		if a.region != "" && a.unsold == "" {
			regions = append(regions, a.region)
		}
	}
	if len(regions) == 0 {
		return nil, nil
	}
	found, _, err := AskRegions(ctx, f.search.Progress, f.search.EC2, regions, f.alternativesIn)
	return bestOfEach(slices.Concat(found...), f.search.Query.Duration), err
}

// alternativesIn looks for alternatives in the client's region: the largest count, the nearest
// length and, where the question bounds it, the earliest start. Binary searches keep the calls few;
// they assume that a smaller or shorter block is for sale wherever a larger or longer one is.
func (f *Found) alternativesIn(ctx context.Context, aws *ec2.Client) ([]Alternative, error) {
	t := trial{ctx: ctx, aws: aws, found: f}
	q := f.search.Query
	keep := func(a Alternative, ok bool) bool {
		if ok {
			t.all = append(t.all, a)
		}
		return ok
	}

	bounded := !q.StartAfter.IsZero() || !q.EndBy.IsZero()
	searches := bits.Len(uint(q.Count-1)) + 3
	if bounded {
		searches++
	}
	f.asked.announce(aws, searches)
	keep(largest(q.Count-1, func(count int) (Alternative, bool) {
		smaller := q
		smaller.Count = count
		return t.ask(OtherCount, smaller)
	}))
	if bounded {
		unbound := q
		unbound.StartAfter, unbound.EndBy = time.Time{}, time.Time{}
		keep(t.ask(OtherStart, unbound))
	}
	sold := ec2.Lengths()
	asked := slices.Index(sold, q.Duration)
	ofLength := func(i int) (Alternative, bool) {
		if i < 0 || i >= len(sold) {
			return Alternative{}, false
		}
		other := q
		other.Duration = sold[i]
		return t.ask(OtherDuration, other)
	}
	if !keep(ofLength(asked-1)) && !keep(ofLength(asked+1)) && asked > 1 {
		if shortest, ok := ofLength(0); ok {
			f.asked.announce(aws, bits.Len(uint(asked-2)))
			longer, found := largest(asked-2, ofLength)
			if found {
				shortest = longer
			}
			keep(shortest, true)
		}
	}
	return t.all, t.err
}

// trial asks other questions in one region; after an error it asks no more.
type trial struct {
	ctx   context.Context
	aws   *ec2.Client
	found *Found
	all   []Alternative
	err   error
}

// ask returns the alternative of a question, if it has an answer within the price.
func (t *trial) ask(differs string, q ec2.OfferingQuery) (Alternative, bool) {
	if t.err != nil {
		return Alternative{}, false
	}
	var offerings []capacity.Offering
	if offerings, t.err = t.found.asked.ask(t.ctx, t.aws, q); t.err != nil {
		return Alternative{}, false
	}
	if offerings = t.found.search.affordable(offerings); len(offerings) == 0 {
		return Alternative{}, false
	}
	first := slices.MinFunc(offerings, func(a, b capacity.Offering) int { return a.Start.Compare(b.Start) })
	return Alternative{differs, t.aws.Region(), q.Count, int(q.Duration.Seconds()), first.ID, first.Start, first.End}, true
}

// largest returns the answer for the largest number from 1 to most that has one, assuming that all
// smaller numbers have one, too.
func largest(most int, try func(int) (Alternative, bool)) (best Alternative, ok bool) {
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

// bestOfEach keeps the best of each kind: the largest count, the length nearest to the requested
// one, the earliest start.
func bestOfEach(all []Alternative, asked time.Duration) []Alternative {
	var picked []Alternative
	for _, differs := range []string{OtherCount, OtherDuration, OtherStart} {
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

func (a Alternative) better(b Alternative, asked time.Duration) bool {
	far := func(a Alternative) time.Duration { return (a.Duration() - asked).Abs() }
	return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(far(a), far(b)), a.Start.Compare(b.Start)) < 0
}
