package market

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// QueueQuestion asks what to buy so that the jobs of a queue get done. It buys nothing.
type QueueQuestion struct {
	EC2      *ec2.Client // in the region of the cluster
	Forecast Forecast
	MaxPrice capacity.Money // the highest price of an extension or a block; zero for no limit
	Progress Progress
	Time     func(time.Time) string // writes a time as the reader wants it
}

// QueueAnswer has what can be bought, and nothing, the best first.
type QueueAnswer struct {
	Choices []Choice
	NotSold []string // why something is not among the choices, a sentence each
}

// Ask packs the queue into what there is. If some jobs are not done then, it asks EC2 for extensions and for blocks that
// are long enough, and packs the queue again with each.
func (q QueueQuestion) Ask(ctx context.Context) QueueAnswer {
	nothing := q.Forecast.nothing()
	answer := QueueAnswer{Choices: []Choice{nothing}, NotSold: []string{}}
	if len(nothing.Undone) == 0 {
		return answer
	}

	var sold []Choice

	add := func(found []Choice, err error) {
		sold = append(sold, found...)
		if err != nil {
			answer.NotSold = append(answer.NotSold, err.Error())
		}
	}

	for _, e := range q.Forecast.extensions(nothing.Undone) {
		add(q.extension(ctx, e))
	}

	for _, b := range q.Forecast.blocks(nothing.Undone) {
		add(q.blocks(ctx, b))
	}

	answer.Choices = bestChoices(nothing, sold)

	return answer
}

// extension asks for an extension of a block.
func (q QueueQuestion) extension(ctx context.Context, e wantedExtension) ([]Choice, error) {
	history, err := q.EC2.Extensions(ctx, e.block.ID)
	if err != nil {
		return nil, err
	}

	preview := Preview{Extended: e.block, History: history, Now: q.Forecast.Queue.Now}
	if err := preview.checkExtendable(e.length, q.Time); err != nil {
		return nil, err
	}

	offers, err := q.EC2.ExtensionOfferings(ctx, e.block.ID, e.length)
	if err != nil {
		return nil, err
	}

	if len(offers) == 0 {
		return nil, fmt.Errorf(
			"EC2 has no extension of %s by %s for sale",
			e.block.ID,
			capacity.FormatDuration(e.length),
		)
	}

	offer := pickExtension(offers, e.length)
	if len(q.search().affordable([]capacity.Offering{offer})) == 0 {
		return nil, fmt.Errorf("an extension of %s by %s costs %s, and --max-price is %s", e.block.ID,
			capacity.FormatDuration(e.length), offer.Fee, q.MaxPrice)
	}

	return []Choice{q.Forecast.withExtension(e, q.search().offer(offer, 0))}, nil
}

// blocks asks for blocks of a size and a length.
func (q QueueQuestion) blocks(ctx context.Context, b ec2.OfferingQuery) (found []Choice, err error) {
	search := q.search()
	search.Query = b

	sale, err := search.Run(ctx)
	if err != nil {
		return nil, err
	}

	for _, o := range sale.Offers {
		found = append(found, q.Forecast.withBlock(o, b.Duration))
	}

	if len(found) == 0 {
		return nil, errors.New(strings.TrimSuffix(strings.Join(sale.WhyNone(q.Time), " "), "."))
	}

	return found, nil
}

func (q QueueQuestion) search() Search {
	return Search{EC2: q.EC2, Regions: []string{q.EC2.Region()}, MaxPrice: q.MaxPrice, Progress: q.Progress}
}
