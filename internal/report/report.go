// Package report says where the paid node-hours of reservations went: each in exactly one class, such as jobs, boot,
// idle or the time after the fence. `pcs-capacity report` calls it.
//
// It works from the samples that sync keeps (history.go) and from the runs of Slurm's accounting, and divides the time
// of each instance among them (divide.go). What was held for launches is beside that (held.go). It reads and asks
// nothing itself.
package report

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Class names a use of paid time.
type Class string

// The classes, in the order in which they are shown.
const (
	Useful      Class = "useful"
	Lent        Class = "lent"
	LostRequeue Class = "lost-requeue"
	LostTimeout Class = "lost-timeout"
	LostFailure Class = "lost-failure"
	Boot        Class = "boot"
	IdleWaiting Class = "idle-jobs-waiting"
	TailIdle    Class = "tail-idle"
	Idle        Class = "idle"
	FenceTail   Class = "fence-tail"
	Hardware    Class = "hardware"
	Unknown     Class = "unknown"
)

// Classes lists all of them, in the order in which they are shown.
var Classes = []Class{
	Useful,
	Lent,
	LostRequeue,
	LostTimeout,
	LostFailure,
	Boot,
	IdleWaiting,
	TailIdle,
	Idle,
	FenceTail,
	Hardware,
	Unknown,
}

// Meanings explains each class.
var Meanings = map[Class]string{
	Useful:      "a job ran to its end or to the fence",
	Lent:        "a job of the spare partition ran",
	LostRequeue: "a job ran that was requeued or preempted",
	LostTimeout: "a job ran into its time limit",
	LostFailure: "a job failed, or its node did",
	Boot:        "the node booted",
	IdleWaiting: "no job ran, though jobs waited",
	TailIdle:    "jobs waited that were too long for the rest",
	Idle:        "no job ran, and none waited",
	FenceTail:   "from the fence to the end, when no job may run",
	Hardware:    "the host had failed, or the node was down or drained",
	Unknown:     "unknown: sync did not run",
}

// Sums counts node-seconds by class.
type Sums map[Class]int64

// Total returns the sum of all classes.
func (s Sums) Total() int64 {
	var total int64
	for _, n := range s {
		total += n
	}

	return total
}

// Hours writes the node-hours of all classes.
func (s Sums) Hours() string { return Hours(s.Total()) }

// UsefulPart writes the useful part of all, in percent.
func (s Sums) UsefulPart() string { return Part(s[Useful], s.Total()) }

// LentPart writes the part of all that was lent, in percent.
func (s Sums) LentPart() string { return Part(s[Lent], s.Total()) }

// used counts what jobs used for something: those of the partition itself, and those to which it lent its nodes.
func (s Sums) used() int64 { return s[Useful] + s[Lent] }

// Lost writes the node-hours that were not used for anything.
func (s Sums) Lost() string { return Hours(s.Total() - s.used()) }

// LostTo says how jobs lost theirs.
func (s Sums) LostTo() (why []string) {
	for _, c := range []Class{LostRequeue, LostTimeout, LostFailure} {
		if s[c] > 0 {
			why = append(why, strings.TrimPrefix(string(c), "lost-"))
		}
	}

	return why
}

// Hours writes hours to the nearest hundredth.
func Hours(seconds int64) string {
	n := (seconds + 18) / 36
	return fmt.Sprintf("%d.%02d", n/100, n%100)
}

// Part writes a part of a whole, in percent; "" of nothing.
func Part(part, whole int64) string {
	if whole == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f%%", 100*float64(part)/float64(whole))
}

// Input holds the data of a report. All times are AWS's.
type Input struct {
	Samples   []state.Sample // those of sync, oldest first
	Accounted []capacity.Run // the runs of Slurm's accounting, which go before those that sync saw
	Records   []state.Record // those of hooks and of sync
	// From and Until bound the report; From may be zero.
	From, Until time.Time
	IDs         []string // the reservations to report; empty for all
}

// Report says where the paid time of some reservations went.
type Report struct {
	From         time.Time     `json:"from"`
	Until        time.Time     `json:"until"`
	Total        Sums          `json:"node_seconds"`
	Reservations []Reservation `json:"reservations"`
	Accounts     []Share       `json:"accounts"` // Shares are those of accounts, users and jobs, the largest first
	Users        []Share       `json:"users"`
	Jobs         []Share       `json:"jobs"`
	Gaps         []Gap         `json:"unknown"` // the times that nobody knows, by reservation and time
	Held         []HoldSum     `json:"held"`    // Held and HeldJobs say what was held for launches, by partition and by job
	HeldJobs     []HoldSum     `json:"held_jobs"`
}

// Reservation says where the paid time of one of them went.
type Reservation struct {
	ID   string     `json:"id"`
	Paid state.Paid `json:"paid"` // as it was last seen
	// Start and End are those of what is paid for, also outside of the report; End is zero for one without an end.
	Start time.Time `json:"start"`
	End   time.Time `json:"end,omitzero"`
	From  time.Time `json:"from"` // Start, or the begin of the report if that is later
	Sums  Sums      `json:"node_seconds"`
	Cost  Cost      `json:"cost"` // what [Reservation.Costs] made of the fee
	Whole int64     `json:"-"`    // the node-seconds from Start to End, or to Until where it has no end
}

// Nodes writes the number and the type of its instances.
func (r Reservation) Nodes() string { return fmt.Sprintf("%d x %s", r.Paid.Size, r.Paid.InstanceType) }

// Share holds the share of an account, a user or a job in the nodes.
type Share struct {
	Account string `json:"account"`
	User    string `json:"user,omitempty"`
	Job     string `json:"job,omitempty"`
	Sums    Sums   `json:"node_seconds"`
}

// Which names the job; "all" for an account or a user.
func (s Share) Which() string { return cmp.Or(s.Job, "all") }

// Gap marks a time of which nobody knows all.
type Gap struct {
	Reservation string    `json:"reservation"`
	From        time.Time `json:"from"`
	To          time.Time `json:"to"`
	NodeSeconds int64     `json:"node_seconds"`
	Reason      string    `json:"reason"`
}

// Begins returns the first time that the report is about; Until if it is about none.
func (in Input) Begins() time.Time {
	begin := in.Until
	for _, h := range in.histories() {
		begin = earliest(begin, latest(h.start, in.From))
	}

	for _, r := range in.holds() {
		begin = earliest(begin, r.At)
	}

	return begin
}

// histories returns one of each reservation that the report is about.
func (in Input) histories() []*history {
	return slices.DeleteFunc(replay(in.Samples, in.Until), func(h *history) bool {
		return len(in.IDs) > 0 && !slices.Contains(in.IDs, h.id) ||
			!latest(h.start, in.From).Before(h.paidUntil(in.Until))
	})
}

// Make makes a report. The classes of each reservation add up to what was paid, to the second. The error is for a
// hostlist that cannot be read.
func Make(in Input) (Report, error) {
	runs, err := in.runs()
	if err != nil {
		return Report{}, err
	}

	r := Report{
		From:         in.Begins(),
		Until:        in.Until,
		Total:        Sums{},
		Reservations: []Reservation{},
		Gaps:         []Gap{},
		Held:         sumHolds(in.holds(), false),
		HeldJobs:     sumHolds(in.holds(), true),
	}
	parts := &shares{{}, {}, {}}
	for _, h := range in.histories() {
		a := &account{
			history: h,
			runs:    runs,
			parts:   parts,
			from:    latest(h.start, in.From),
			to:      h.paidUntil(in.Until),
		}

		one, err := a.divide()
		if err != nil {
			return Report{}, err
		}

		r.Reservations = append(r.Reservations, one)
		for c, n := range one.Sums {
			r.Total[c] += n
		}

		r.Gaps = append(r.Gaps, a.gaps...)
	}

	r.Accounts = sorted(parts[0])
	r.Users = sorted(parts[1])
	r.Jobs = sorted(parts[2])

	return r, nil
}

// kindOf says in which class a run is by how it ended.
func kindOf(ended string) Class {
	switch ended {
	case "", "RUNNING", "SUSPENDED", "COMPLETING", "COMPLETED", "CANCELLED":
		return Useful
	case "REQUEUED", "PREEMPTED":
		return LostRequeue
	case "TIMEOUT", "DEADLINE":
		return LostTimeout
	}

	return LostFailure
}

func latest(a, b time.Time) time.Time { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }

func earliest(a, b time.Time) time.Time { return slices.MinFunc([]time.Time{a, b}, time.Time.Compare) }

// Accounted returns what Slurm's accounting has of a time, which is AWS's, as the samples of sync are. offset is AWS's
// time minus Slurm's. Without a database the error is [slurm.ErrNoAccounting].
func Accounted(
	ctx context.Context, s *slurm.Client, from, until time.Time, offset time.Duration,
) ([]capacity.Run, error) {
	runs, err := s.Runs(ctx, from.Add(-offset), until.Add(-offset))
	if err != nil {
		return nil, err
	}

	for i := range runs {
		r := &runs[i]

		r.Start = r.Start.Add(offset).Truncate(time.Second)
		if !r.End.IsZero() {
			r.End = r.End.Add(offset).Truncate(time.Second)
		}
	}

	return runs, nil
}

// shares sums up accounts, their users, and their jobs.
type shares [3]map[[3]string]Sums

func (all *shares) add(r capacity.Run, c Class, n int64) {
	for i, parts := range all {
		key := [3]string{r.Account, r.User, r.Job}
		clear(key[i+1:])

		if parts[key] == nil {
			parts[key] = Sums{}
		}

		parts[key][c] += n
	}
}

// sorted returns some parts, the largest first.
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

// Cost holds the cost of the used time of a reservation, in one currency. Unknown amounts are the zero value.
type Cost struct {
	// Fee paid for all of it, from start to end; InReport for the part that the report is about.
	Fee      capacity.Amount `json:"fee,omitzero"`
	InReport capacity.Amount `json:"fee_in_report,omitzero"`
	// PerUsed is the price of a useful or lent hour of one GPU, OnDemand that of an hour on demand; of one node, where
	// nobody knows how many GPUs it has. PerPaid counts every paid hour.
	PerUsed  capacity.Amount `json:"per_used_hour,omitzero"`
	PerPaid  capacity.Amount `json:"per_paid_hour,omitzero"`
	OnDemand capacity.Amount `json:"on_demand,omitzero"`
	Currency string          `json:"currency,omitempty"`
	PerNode  bool            `json:"per_node"` // the prices are those of a node
}

// Unit names the unit of the prices.
func (c Cost) Unit() string {
	if c.PerNode {
		return "node"
	}
	return "GPU"
}

// Costs divides the fee of a reservation by what was used of it. fee is zero if it is not known; onDemand is the price
// of an instance for an hour on demand, which is also what an On-Demand Capacity Reservation costs; zero if it is not
// known, or in another currency than the fee.
func (r Reservation) Costs(fee, onDemand capacity.Money) Cost {
	each := max(r.Paid.GPUs, 1)
	paid := r.Sums.Total()
	used := r.Sums.used()

	c := Cost{Currency: cmp.Or(fee.Currency(), onDemand.Currency()), PerNode: r.Paid.GPUs == 0}
	if onDemand.Currency() != c.Currency {
		onDemand = capacity.Money{}
	}

	c.Fee.Money = fee
	c.OnDemand.Money = onDemand.PerHour(each, time.Hour)

	switch {
	case !r.Paid.Kind.IsBlock() && onDemand != capacity.Money{}:
		// Used or not, each of its hours costs what one on demand does.
		c.PerPaid = c.OnDemand
		c.InReport.Money = onDemand.Part(paid, int64(time.Hour/time.Second))
		c.PerUsed.Money = c.InReport.PerHour(each, time.Duration(used)*time.Second)
	case fee != capacity.Money{}:
		c.InReport.Money = fee.Part(paid, r.Whole)
		c.PerPaid.Money = fee.PerHour(each, time.Duration(r.Whole)*time.Second)
		c.PerUsed.Money = c.InReport.PerHour(each, time.Duration(used)*time.Second)
	}

	return c
}
