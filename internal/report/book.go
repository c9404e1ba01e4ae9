package report

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// hourlyBelow is the length of a report from which on it is by days.
const hourlyBelow = 72 * time.Hour

type book struct {
	days []Day
	// parts are those of accounts, of their users, and of their jobs.
	parts [3]map[[3]string]Sums
}

func newBook(from, until time.Time, zone *time.Location) *book {
	b := &book{parts: [3]map[[3]string]Sums{{}, {}, {}}}
	hourly := until.Sub(from) < hourlyBelow
	if zone == nil {
		zone = time.UTC
	}
	local := from.In(zone)
	for i := 0; from.Before(until); i++ {
		// Wall time: a day of 23 or 25 hours is one day.
		next := time.Date(local.Year(), local.Month(), local.Day()+i+1, 0, 0, 0, 0, zone)
		if hourly {
			next = time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), 0, 0, 0, zone).Add(time.Duration(i+1) * time.Hour)
		}
		if !next.After(from) {
			continue
		}
		next = earliest(next, until)
		b.days = append(b.days, Day{From: from, To: next, Sums: Sums{}})
		from = next
	}
	return b
}

// put adds a time of some nodes to the days that it is in.
func (b *book) put(from, to time.Time, nodes int, c Class) {
	i := sort.Search(len(b.days), func(i int) bool { return b.days[i].To.After(from) })
	for ; i < len(b.days) && b.days[i].From.Before(to); i++ {
		d := &b.days[i]
		d.Sums[c] += int64(nodes) * seconds(latest(from, d.From), earliest(to, d.To))
	}
}

func (b *book) share(r state.Run, c Class, n int64) {
	for i, parts := range b.parts {
		key := [3]string{r.Account, r.User, r.Job}
		clear(key[i+1:])
		if parts[key] == nil {
			parts[key] = Sums{}
		}
		parts[key][c] += n
	}
}

// sorted are some parts, the largest first.
func sorted(parts map[[3]string]Sums) []Share {
	all := make([]Share, 0, len(parts))
	for k, sums := range parts {
		all = append(all, Share{k[0], k[1], k[2], sums})
	}
	slices.SortFunc(all, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Sums.Total(), a.Sums.Total()), cmp.Compare(a.Account, b.Account),
			cmp.Compare(a.User, b.User), cmp.Compare(a.Job, b.Job))
	})
	return all
}

// Cost is the cost of the used time of a reservation. Unknown amounts are the zero Money.
type Cost struct {
	// Fee is what was paid for all of it, from start to end; InReport for the part that the report is about.
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
	case !r.Paid.Kind.Bought() && onDemand != capacity.Money{}:
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
