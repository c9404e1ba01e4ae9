package market

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Offer is a block for sale.
type Offer struct {
	capacity.Offering
	Seconds    int             `json:"duration_seconds"`
	Fee        capacity.Amount `json:"fee"`
	PerHour    capacity.Amount `json:"fee_per_instance_hour"`
	PerGPUHour capacity.Amount `json:"fee_per_gpu_hour,omitzero"`
	Currency   string          `json:"currency"`                    // of these three
	GPUs       int             `json:"gpus_per_instance,omitempty"` // or Neuron devices; 0 for none or unknown
	ZoneUse
	longer time.Duration // than the search asked for
}

func (s Search) offer(o capacity.Offering, gpus int) Offer {
	return Offer{
		Offering:   o,
		Seconds:    int(o.Duration().Seconds()),
		Fee:        capacity.Amount{Money: o.Fee},
		PerHour:    capacity.Amount{Money: o.Fee.PerHour(o.Count, o.Duration())},
		PerGPUHour: capacity.Amount{Money: o.Fee.PerHour(o.Count*gpus, o.Duration())},
		Currency:   o.Fee.Currency(),
		GPUs:       gpus,
		longer:     o.Duration() - s.Query.Duration,
	}
}

// Lasts returns the length of the block.
func (o Offer) Lasts() string { return capacity.FormatDuration(o.Duration()) }

// Marks lists the UltraServers and the difference to the requested length.
func (o Offer) Marks() string {
	var marks []string
	if o.UltraServerType != "" {
		marks = append(marks, fmt.Sprintf("%d x %s", o.UltraServerCount, o.UltraServerType))
	}

	switch {
	case o.longer < 0:
		marks = append(marks, capacity.FormatDuration(-o.longer)+" less than asked")
	case o.longer > 0:
		marks = append(marks, capacity.FormatDuration(o.longer)+" more than asked")
	}

	return strings.Join(marks, ", ")
}

// Best returns the first of sorted offers that lasts as long as asked, in a zone as good as that of the first of all;
// if there is none, the first, which is short.
func Best(offers []Offer) (best Offer, short bool) {
	for _, o := range offers {
		if o.longer >= 0 && o.Rank() == offers[0].Rank() {
			return o, false
		}
	}

	return offers[0], true
}

// The orders of SortOffers.
const (
	ByStart = "start"
	ByPrice = "price" // of an instance-hour
	ByFee   = "fee"   // of the whole block
)

// SortOffers adds the cluster's subnets to the offers, and puts zones that it can use first, then those that come
// first in the order.
func SortOffers(offers []Offer, by string, subnets Subnets) {
	for i := range offers {
		offers[i].ZoneUse = subnets.Zone(offers[i].AZID)
	}

	slices.SortStableFunc(offers, func(a, b Offer) int {
		rank := a.Rank() - b.Rank()
		start := a.Start.Compare(b.Start)
		price := compareFees(a.PerHour.Money, b.PerHour.Money)
		switch by {
		case ByPrice:
			return cmp.Or(rank, price, start)
		case ByFee:
			return cmp.Or(rank, compareFees(a.Offering.Fee, b.Offering.Fee), start)
		}

		return cmp.Or(rank, start, price)
	})
}

// compareFees orders fees of one currency by amount, and else by currency.
func compareFees(a, b capacity.Money) int {
	if order, err := a.Compare(b); err == nil {
		return order
	}
	return strings.Compare(a.Currency(), b.Currency())
}

// soldType returns the type by which EC2 sells a block: of its UltraServers, else of its instances.
func soldType(o capacity.Offering) string { return cmp.Or(o.UltraServerType, o.InstanceType) }

// SoldCount returns the number of UltraServers of a block, else of its instances.
func SoldCount(o capacity.Offering) int { return cmp.Or(o.UltraServerCount, o.Count) }

// WhyNone lists, a sentence each, why there is no offer; at writes a time.
func (f *Found) WhyNone(at func(time.Time) string) []string {
	var (
		why, asked []string
		dear       []capacity.Offering
	)
	for _, a := range f.answers {
		switch {
		case a.unsold != "":
			why = append(why, a.unsold)
		case a.region != "":
			asked = append(asked, a.region)
			dear = append(dear, a.found...)
		}
	}

	q := f.search.Query
	switch {
	case len(asked) == 0:
		return why
	case len(dear) > 0:
		return append(why, f.search.describeCheapest(dear))
	}

	window := ""
	if f.search.Zone != "" {
		window = ", zone " + f.search.Zone + ","
	}

	if !q.StartAfter.IsZero() {
		window += " from " + at(q.StartAfter)
	}

	if !q.EndBy.IsZero() {
		window += " until " + at(q.EndBy)
	}

	return append(why, fmt.Sprintf("EC2 has no block of %d x %s for %s for sale in %s%s.", q.Count, q.InstanceType,
		capacity.FormatDuration(q.Duration), strings.Join(asked, ", "), window))
}

// describeCheapest names the cheapest offering where none is affordable.
func (s Search) describeCheapest(found []capacity.Offering) string {
	least := slices.MinFunc(found, func(a, b capacity.Offering) int { return compareFees(a.Fee, b.Fee) })
	what := fmt.Sprintf("The cheapest block of %d x %s for about %s costs %s", s.Query.Count, s.Query.InstanceType,
		capacity.FormatDuration(s.Query.Duration), least.Fee)
	if least.Fee.Currency() != s.MaxPrice.Currency() {
		return fmt.Sprintf("%s, which cannot be compared with --max-price %s.", what, s.MaxPrice)
	}

	return fmt.Sprintf("%s, more than --max-price %s.", what, s.MaxPrice.Amount())
}

// affordable returns the offerings at or under the highest price, in its currency.
func (s Search) affordable(found []capacity.Offering) []capacity.Offering {
	if s.MaxPrice == (capacity.Money{}) {
		return found
	}

	var kept []capacity.Offering
	for _, o := range found {
		if order, err := o.Fee.Compare(s.MaxPrice); err == nil && order <= 0 {
			kept = append(kept, o)
		}
	}

	return kept
}
