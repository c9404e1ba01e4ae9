package report

import (
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Cost is the cost of the used time of a reservation. Unknown amounts are the zero Money.
type Cost struct {
	// Fee is what was paid for all of it, from start to end; InReport for the part that the
	// report is about.
	Fee, InReport capacity.Money
	// PerUsed is what a useful hour of one GPU cost, and OnDemand what it costs on demand; of
	// one node, where nobody knows how many GPUs it has. PerPaid counts every paid hour.
	PerUsed, PerPaid, OnDemand capacity.Money
	// PerNode: the prices are those of a node.
	PerNode bool
}

// Cost divides the fee of a reservation by what was used of it. fee is zero if it is not
// known; onDemand is the price of an instance for an hour on demand, which is also what an
// On-Demand Capacity Reservation costs; zero if it is not known.
func (r Reservation) Cost(fee, onDemand capacity.Money) Cost {
	each := r.Paid.GPUs
	c := Cost{Fee: fee, PerNode: each == 0}
	each = max(each, 1)
	c.OnDemand = onDemand.PerHour(each, time.Hour)
	paid, used := r.Sums.Total(), r.Sums[Useful]
	switch {
	case !isBlock(r.Paid) && onDemand != capacity.Money{}:
		// Used or not, each of its hours costs what one on demand does.
		c.PerPaid = c.OnDemand
		c.InReport = onDemand.Part(paid, int64(time.Hour/time.Second))
		c.PerUsed = c.InReport.PerHour(each, time.Duration(used)*time.Second)
	case fee != capacity.Money{}:
		c.InReport = fee.Part(paid, r.Whole)
		c.PerPaid = fee.PerHour(each, time.Duration(r.Whole)*time.Second)
		c.PerUsed = c.InReport.PerHour(each, time.Duration(used)*time.Second)
	}
	return c
}
