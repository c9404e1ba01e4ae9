package capacity

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Match compares a reservation with the node group that is to launch into it and returns every mismatch. Without a
// mismatch, EC2 accepts launches from the reservation's start on. Match compares Availability Zones by id: the same
// name can be another zone in another account.
func Match(r Reservation, g NodeGroup, now time.Time) (found []Problem) {
	add := func(code Code, fix, message string, args ...any) {
		found = append(found, Problemf(code, aboutReservation(r), fix, message, args...))
	}

	usable := true
	if m := StateMismatch(r, now); m != nil {
		found = append(found, *m)
		usable = false
	}

	if !g.PurchaseOption.CanUse(r.Kind) {
		fix := "use a Capacity Block or an ODCR"
		if slices.Contains(PurchaseOptions, r.Kind) {
			fix = fmt.Sprintf("set purchase_option = %q", r.Kind)
		}

		add(WrongPurchase, fix, "reservation %s is of kind %s, but node group %s buys %s",
			r.ID, r.Kind, g.Name, g.PurchaseOption)
	}

	if !slices.Contains(g.Types(), r.InstanceType) {
		add(WrongType, fmt.Sprintf("use instance type %s, or another reservation", r.InstanceType),
			"reservation %s is for %s, but node group %s launches %s",
			r.ID, r.InstanceType, g.Name, strings.Join(g.Types(), ", "))
	}

	switch {
	case r.AZID == "":
		add(ZoneUnknown, "run this again once EC2 shows a zone for it",
			"EC2 has not yet reported the Availability Zone of reservation %s, so subnets cannot be checked", r.ID)
	case !slices.ContainsFunc(g.Subnets, func(s Subnet) bool { return s.AZID == r.AZID }):
		add(WrongZone, fmt.Sprintf("use a subnet in %s", FormatZone(r.AZID, r.AZ)),
			"reservation %s is in %s, but node group %s has %s",
			r.ID, FormatZone(r.AZID, r.AZ), g.Name, FormatSubnets(g.Subnets))
	}

	// EC2 reports size 0 for blocks that have not opened, but an open one should have instances.
	if r.State == StateActive && r.Size() == 0 {
		add(NoInstances, "look it up in EC2, or use another reservation",
			"reservation %s is open and has no instances", r.ID)
	}

	// An ended or not yet opened reservation has no instances; its state says more.
	if size := r.Size(); g.MaxNodes > size && (size > 0 || usable && r.State != StateActive) {
		fix := fmt.Sprintf("use at most %d nodes", size)
		if size == 0 {
			fix = "run this again once EC2 shows its instances, or use another reservation"
		}

		add(WrongSize, fix, "reservation %s has %d instances, but node group %s would have up to %d nodes",
			r.ID, size, g.Name, g.MaxNodes)
	}

	// An unknown platform is no mismatch: EC2 refuses the launch if it differs.
	if g.Platform != "" && r.Platform != "" && g.Platform != r.Platform {
		add(WrongPlatform, fmt.Sprintf("use an image for %s, or another reservation", r.Platform),
			"reservation %s is for platform %s, but the image of node group %s is for %s",
			r.ID, r.Platform, g.Name, g.Platform)
	}

	if r.Tenancy != "" && r.Tenancy != "default" {
		add(WrongTenancy, "use a reservation of default tenancy",
			"reservation %s has tenancy %s, but node groups launch with default tenancy", r.ID, r.Tenancy)
	}

	return found
}

// FilterLasting drops the mismatches that time resolves: a pass says the others.
func FilterLasting(mismatches []Problem) []Problem {
	return slices.DeleteFunc(slices.Clone(mismatches), func(m Problem) bool { return !m.Code.AppearsAt(AtPass) })
}

// StateMismatch says why a reservation's state makes it unusable; nil if it is usable.
func StateMismatch(r Reservation, now time.Time) *Problem {
	problem := func(code Code, fix, format string, args ...any) *Problem {
		p := Problemf(code, aboutReservation(r), fix, format, args...)
		return &p
	}

	switch {
	case !r.End.IsZero() && !r.End.After(now):
		return problem(HasEnded, "choose a reservation that has not ended", "reservation %s ended at %s (state %s)",
			r.ID, FormatUTC(r.End), r.State)
	case r.State == StateActive || r.State == StateScheduled:
		return nil
	case r.State == StatePaymentPending:
		return problem(PaymentPending,
			"run this again once its state is scheduled; EC2 bills within 5 minutes to 12 hours",
			"the payment of reservation %s is still pending", r.ID)
	case r.State.MayOpen():
		return problem(WrongState, "run this again once its state is scheduled or active",
			"reservation %s is in state %s", r.ID, r.State)
	case r.State == StateExpired || r.State == StateCancelled:
		return problem(HasEnded, "choose a reservation that is scheduled or active", "reservation %s is %s",
			r.ID, r.State)
	}

	return problem(WrongState, "choose a reservation that is scheduled or active",
		"reservation %s is in state %s, which cannot be used", r.ID, r.State)
}

func aboutReservation(r Reservation) Subject { return Subject{Reservation: r.ID} }

// FormatSubnets names subnets with their zones: "only subnet-1 in us-east-2a (use2-az1)".
func FormatSubnets(subnets []Subnet) string {
	var all []string
	for _, s := range subnets {
		all = append(all, fmt.Sprintf("%s in %s", s.ID, FormatZone(s.AZID, s.AZ)))
	}

	if all == nil {
		return "no subnet"
	}

	return "only " + strings.Join(all, ", ")
}

// Need is a request for capacity: Count instances of a type for Duration, finished by By unless that is zero.
type Need struct {
	InstanceType string
	Count        int
	Duration     time.Duration
	By           time.Time
}

// FitResult is one reservation judged for a need. If Code is not OK, Message says what is missing.
type FitResult struct {
	Reservation
	Count   int       `json:"count"`          // the size, also before a block opens
	Idle    *int      `json:"nodes_idle"`     // its idle nodes, which are free; nil if unknown
	Start   time.Time `json:"start,omitzero"` // the earliest time at which the need could begin
	Code    Code      `json:"code"`
	Message string    `json:"message,omitempty"`
}

// Fits reports whether the need fits.
func (f FitResult) Fits() bool { return f.Code == OK }

// Fit judges a need against the reservations of its instance type and sorts them: first those that fit; then blocks
// before ODCRs, the earlier start before the later, the smaller reservation before the larger. Time is judged as for a
// job, boot included. If subnets are given, a reservation in none of their Availability Zones does not fit. idle counts
// our idle nodes in each reservation, by id: their instances are free for the need, although EC2 counts them as used.
func Fit(
	need Need, reservations []Reservation, subnets []Subnet, idle map[string]int, timing Timing, now time.Time,
) []FitResult {
	var all []FitResult
	for _, r := range reservations {
		if r.InstanceType != need.InstanceType {
			continue
		}

		f := fitOne(need, r, subnets, idle[r.ID], timing, now)
		if n, known := idle[r.ID]; known {
			f.Idle = &n
		}

		all = append(all, f)
	}

	slices.SortStableFunc(all, func(a, b FitResult) int {
		return cmp.Or(rank(!a.Fits())-rank(!b.Fits()), rank(!a.Kind.IsBlock())-rank(!b.Kind.IsBlock()),
			a.Start.Compare(b.Start), a.Count-b.Count)
	})

	return all
}

// fitOne judges a need against one reservation.
func fitOne(need Need, r Reservation, subnets []Subnet, idle int, timing Timing, now time.Time) FitResult {
	f := FitResult{Reservation: r, Count: r.Size(), Start: later(now, r.Start), Code: OK}
	f.AZ = "" // of a shared reservation it is the owner's name, which can be another zone here (R10)

	say := func(code Code, message string, args ...any) FitResult {
		f.Code = code
		f.Message = fmt.Sprintf(message, args...)

		return f
	}

	if len(subnets) > 0 && r.AZID == "" {
		return say(Mismatched, "EC2 has not yet reported its Availability Zone")
	}

	if len(subnets) > 0 && !slices.ContainsFunc(subnets, func(s Subnet) bool { return s.AZID == r.AZID }) {
		return say(Mismatched, "it is in %s, where the cluster has no subnet", FormatZone(r.AZID, r.AZ))
	}

	// Judged like a job in a node group that fits: the same rules decide.
	group := NodeGroup{InstanceType: r.InstanceType, PurchaseOption: r.Kind, Subnets: subnets, Dynamic: true}
	turn := Turn{SlotRef: SlotRef{&Partition{}, &group, &Slot{}}, Reservation: r, Window: timing.Window(r)}
	req := Request{Nodes: need.Count, TimeLimit: LimitOf(need.Duration)}
	v := turn.check(req, now)
	p := turn.prospect(req, &Snapshot{Timing: timing}, now)

	healthy := r.UsableSize()
	free := healthy
	if r.State == StateActive {
		free = min(free, r.Available+idle)
	}

	with := ""
	if idle > 0 {
		with = ", idle nodes included"
	}

	switch end := f.Start.Add(timing.BootAllowance.Duration + need.Duration); {
	case v.Code == TooManyNodes:
		return say(TooManyNodes, "it has %d instances, %d fewer than asked", r.Size(), need.Count-r.Size())
	case v.Refused:
		return say(v.Code, "it is %s", r.State)
	case !p.Fits:
		return say(TooLong, "its jobs must end by %s, which leaves %s",
			FormatUTC(p.Until), FormatDuration(max(0, p.Room)))
	case need.Count > healthy:
		return say(TooManyNodes, "%d of its %d instances are healthy, %d fewer than asked",
			healthy, r.Size(), need.Count-healthy)
	case need.Count > free:
		return say(TooManyNodes, "%d of its %d instances are free%s, %d fewer than asked",
			free, r.Size(), with, need.Count-free)
	case !need.By.IsZero() && end.After(need.By):
		return say(TooLong, "it could be done by %s at the earliest", FormatUTC(end))
	}

	return f
}

func rank(b bool) int {
	if b {
		return 1
	}
	return 0
}
