package capacity

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Match compares a reservation with the node group that is to launch into it and returns every mismatch. Without a
// mismatch, EC2 accepts launches from the reservation's start on. Match compares Availability Zones by id: the same
// name can be another zone in another account.
func Match(r Reservation, g NodeGroup, now time.Time) []Problem {
	var found []Problem
	add := func(code Code, fix, message string, args ...any) {
		found = append(found, Problemf(code, about(r), fix, message, args...))
	}

	usable := true
	if m := StateMismatch(r, now); m != nil {
		found, usable = append(found, *m), false
	}
	if !g.PurchaseOption.Buys(r.Kind) {
		fix := "use a Capacity Block or an ODCR"
		if slices.Contains(PurchaseOptions, r.Kind) {
			fix = fmt.Sprintf("set purchase_option = %q", r.Kind)
		}
		add(WrongPurchase, fix,
			"reservation %s is of kind %s, but node group %s buys %s", r.ID, r.Kind, g.Name, g.PurchaseOption)
	}
	if !slices.Contains(g.Types(), r.InstanceType) {
		add(WrongType, fmt.Sprintf("use instance type %s, or another reservation", r.InstanceType),
			"reservation %s is for %s, but node group %s launches %s", r.ID, r.InstanceType, g.Name,
			strings.Join(g.Types(), ", "))
	}
	switch {
	case r.AZID == "":
		add(ZoneNotKnown, "run this again once EC2 shows a zone for it",
			"EC2 does not say yet in which Availability Zone reservation %s is, so no subnet can be checked", r.ID)
	case !slices.ContainsFunc(g.Subnets, func(s Subnet) bool { return s.AZID == r.AZID }):
		add(WrongZone, fmt.Sprintf("use a subnet in %s", FormatZone(r.AZID, r.AZ)),
			"reservation %s is in %s, but node group %s has %s", r.ID, FormatZone(r.AZID, r.AZ), g.Name, subnetZones(g.Subnets))
	}
	if r.State == StateActive && r.Size() == 0 {
		add(NoInstances, "see it in EC2, or use another reservation", "reservation %s is open and has no instances", r.ID)
	}
	// An ended or not yet opened reservation has no instances; its state says more.
	if size := r.Size(); g.MaxNodes > size && (size > 0 || usable && r.State != StateActive) {
		fix := fmt.Sprintf("use at most %d nodes", size)
		if size == 0 {
			fix = "run this again once EC2 shows its instances, or use another reservation"
		}
		add(WrongSize, fix,
			"reservation %s has %d instances, but node group %s would have up to %d nodes", r.ID, size, g.Name, g.MaxNodes)
	}
	if g.Platform != "" && r.Platform != "" && g.Platform != r.Platform {
		add(WrongPlatform, fmt.Sprintf("use an image for %s, or another reservation", r.Platform),
			"reservation %s is for platform %s, but the image of node group %s is for %s", r.ID, r.Platform, g.Name, g.Platform)
	}
	if r.Tenancy != "" && r.Tenancy != "default" {
		add(WrongTenancy, "use a reservation of default tenancy",
			"reservation %s has tenancy %s, but node groups launch with default tenancy", r.ID, r.Tenancy)
	}
	return found
}

// Lasting drops the mismatches that time resolves.
func Lasting(mismatches []Problem) []Problem {
	return slices.DeleteFunc(slices.Clone(mismatches), func(m Problem) bool {
		switch m.Code {
		case WrongZone, WrongType, WrongPurchase, WrongTenancy, WrongPlatform, NoInstances:
			return false
		}
		return true
	})
}

// StateMismatch says why a reservation's state makes it unusable; nil if it is usable.
func StateMismatch(r Reservation, now time.Time) *Problem {
	problem := func(code Code, fix, format string, args ...any) *Problem {
		p := Problemf(code, about(r), fix, format, args...)
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
	case r.State.Expected():
		return problem(WrongState, "run this again once its state is scheduled or active",
			"reservation %s is in state %s", r.ID, r.State)
	case r.State == StateExpired || r.State == StateCancelled:
		return problem(HasEnded, "choose a reservation that is scheduled or active", "reservation %s is %s", r.ID, r.State)
	}
	return problem(WrongState, "choose a reservation that is scheduled or active",
		"reservation %s is in state %s, which cannot be used", r.ID, r.State)
}

func about(r Reservation) Subject { return Subject{Reservation: r.ID} }

func subnetZones(subnets []Subnet) string {
	if len(subnets) == 0 {
		return "no subnet"
	}
	var parts []string
	for _, s := range subnets {
		parts = append(parts, fmt.Sprintf("%s in %s", s.ID, FormatZone(s.AZID, s.AZ)))
	}
	return "only " + strings.Join(parts, ", ")
}
