package report

import (
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Cost is the cost of the used time of a reservation. Unknown amounts are the zero Money.
type Cost struct {
	// Fee is what was paid for all of it, from start to end; InReport for the part that the
	// report is about.
	Fee      capacity.Money `json:"fee,omitzero"`
	InReport capacity.Money `json:"fee_in_report,omitzero"`
	// PerUsed is what a useful hour of one GPU cost, and OnDemand what it costs on demand; of
	// one node, where nobody knows how many GPUs it has. PerPaid counts every paid hour.
	PerUsed  capacity.Money `json:"per_used_hour,omitzero"`
	PerPaid  capacity.Money `json:"per_paid_hour,omitzero"`
	OnDemand capacity.Money `json:"on_demand,omitzero"`
	// PerNode: the prices are those of a node.
	PerNode bool `json:"per_node"`
}

// Costs divides the fee of a reservation by what was used of it. fee is zero if it is not
// known; onDemand is the price of an instance for an hour on demand, which is also what an
// On-Demand Capacity Reservation costs; zero if it is not known.
func (r Reservation) Costs(fee, onDemand capacity.Money) Cost {
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
