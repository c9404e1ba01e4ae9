package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// HoldSum adds up the ODCRs of one instance type that were held for launches in a partition, or there for one job.
type HoldSum struct {
	Partition string `json:"partition"`
	Job       string `json:"job,omitempty"` // as squeue shows it; several if they share nodes
	ODCRs     int    `json:"odcrs"`
	state.Held
	Cost     capacity.Amount `json:"cost,omitzero"` // see SetPrice
	Currency string          `json:"currency,omitempty"`
}

// Which names the job; "all" for a partition.
func (h HoldSum) Which() string { return cmp.Or(h.Job, "all") }

// SetPrice sets the cost of the idle time. price is that of an instance for an hour; zero if it is not known.
func (h *HoldSum) SetPrice(price capacity.Money) {
	h.Cost.Money = price.Part(h.Seconds, int64(time.Hour/time.Second))
	h.Currency = price.Currency()
}

// holds returns the records of ODCRs that were held in the time of the report; none if it is about some reservations.
func (in Input) holds() []state.Record {
	return slices.DeleteFunc(slices.Clone(in.Records), func(r state.Record) bool {
		return r.Held == nil || len(in.IDs) > 0 || r.At.Before(in.From) || !r.At.Before(in.Until)
	})
}

// sumHolds adds holds up by partition, and by job if jobs is set. The one that was idle longest is the first.
func sumHolds(holds []state.Record, jobs bool) []HoldSum {
	sums := map[[3]string]*HoldSum{}
	for _, r := range holds {
		job := ""
		if jobs {
			job = strings.Join(r.Jobs, ",")
		}

		key := [3]string{r.Partition, r.Held.InstanceType, job}
		if sums[key] == nil {
			sums[key] = &HoldSum{Partition: r.Partition, Job: job, Held: state.Held{InstanceType: r.Held.InstanceType}}
		}

		sums[key].ODCRs++
		sums[key].Instances += r.Held.Instances
		sums[key].Seconds += r.Held.Seconds
	}

	all := []HoldSum{}
	for _, sum := range sums {
		all = append(all, *sum)
	}

	slices.SortFunc(all, func(a, b HoldSum) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Partition, b.Partition),
			cmp.Compare(a.InstanceType, b.InstanceType), cmp.Compare(a.Job, b.Job))
	})

	return all
}

// Nodes writes the number and the type of the instances.
func (h HoldSum) Nodes() string { return fmt.Sprintf("%d x %s", h.Instances, h.InstanceType) }
