package capacity

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Mismatch is one reason why a reservation and a node group do not go together.
type Mismatch struct {
	// Code is stable, for scripts: "az", "instance-type", …
	Code string `json:"code"`
	// Message says what is wrong, Fix what to do about it.
	Message string `json:"message"`
	Fix     string `json:"fix"`
}

func (m Mismatch) String() string { return m.Message + "; " + m.Fix }

// Problem is the mismatch as a problem about something.
func (m Mismatch) Problem(about Subject) Problem {
	return Problemf(Code(m.Code), about, m.Fix, "%s", m.Message)
}

// Match compares a reservation with the node group that is to launch into it and
// returns every mismatch; none means that launches will be accepted, from the
// reservation's start on. Availability Zones are compared by id: the same name can
// be another zone in another account.
func Match(r Reservation, g NodeGroup, now time.Time) []Mismatch {
	var found []Mismatch
	add := func(code, fix, message string, args ...any) {
		found = append(found, Mismatch{Code: code, Message: fmt.Sprintf(message, args...), Fix: fix})
	}

	usable := true
	if m := StateMismatch(r, now); m != nil {
		found, usable = append(found, *m), false
	}
	if !g.PurchaseOption.Buys(r.Kind) {
		add("purchase-option", fmt.Sprintf("set purchase_option = %q", r.Kind),
			"reservation %s is of kind %s, but node group %s buys %s", r.ID, r.Kind, g.Name, g.PurchaseOption)
	}
	if !slices.Contains(g.Types(), r.InstanceType) {
		add("instance-type", fmt.Sprintf("use instance type %s, or another reservation", r.InstanceType),
			"reservation %s is for %s, but node group %s launches %s", r.ID, r.InstanceType, g.Name, strings.Join(g.Types(), ", "))
	}
	switch {
	case r.AZID == "":
		add("az-unknown", "run this again once EC2 shows a zone for it",
			"EC2 does not say yet in which Availability Zone reservation %s is, so no subnet can be checked", r.ID)
	case !slices.ContainsFunc(g.Subnets, func(s Subnet) bool { return s.AZID == r.AZID }):
		add("az", fmt.Sprintf("use a subnet in %s", FormatZone(r.AZID, r.AZ)),
			"reservation %s is in %s, but node group %s has %s", r.ID, FormatZone(r.AZID, r.AZ), g.Name, subnetZones(g.Subnets))
	}
	// One that has ended, or is not yet there, has no instances; its state says more.
	if size := r.Size(); g.MaxNodes > size && (size > 0 || usable) {
		fix := fmt.Sprintf("use at most %d nodes", size)
		if size == 0 {
			fix = "run this again once EC2 shows its instances, or use another reservation"
		}
		add("size", fix,
			"reservation %s has %d instances, but node group %s would have up to %d nodes", r.ID, size, g.Name, g.MaxNodes)
	}
	if g.Platform != "" && r.Platform != "" && g.Platform != r.Platform {
		add("platform", fmt.Sprintf("use an image for %s, or another reservation", r.Platform),
			"reservation %s is for platform %s, but the image of node group %s is for %s", r.ID, r.Platform, g.Name, g.Platform)
	}
	if r.Tenancy != "" && r.Tenancy != "default" {
		add("tenancy", "use a reservation of default tenancy",
			"reservation %s has tenancy %s, but node groups launch with default tenancy", r.ID, r.Tenancy)
	}
	return found
}

// Lasting are those of the mismatches that time does not mend.
func Lasting(mismatches []Mismatch) []Mismatch {
	return slices.DeleteFunc(slices.Clone(mismatches), func(m Mismatch) bool {
		switch m.Code {
		case "az", "instance-type", "purchase-option", "tenancy", "platform":
			return false
		}
		return true
	})
}

// StateMismatch says why a reservation cannot be used in its state; nil if it can.
func StateMismatch(r Reservation, now time.Time) *Mismatch {
	switch {
	case !r.End.IsZero() && !r.End.After(now):
		return &Mismatch{"expired", fmt.Sprintf("reservation %s ended at %s (state %s)", r.ID, FormatUTC(r.End), r.State), "choose a reservation that has not ended"}
	case r.State == StateActive || r.State == StateScheduled:
		return nil
	case r.State == StatePaymentPending:
		return &Mismatch{"payment-pending", fmt.Sprintf("the payment of reservation %s is still pending", r.ID), "run this again once its state is scheduled; EC2 bills within 5 minutes to 12 hours"}
	case r.State.Expected():
		return &Mismatch{"state", fmt.Sprintf("reservation %s is in state %s", r.ID, r.State), "run this again once its state is scheduled or active"}
	case r.State == StateExpired || r.State == StateCancelled:
		return &Mismatch{"expired", fmt.Sprintf("reservation %s is %s", r.ID, r.State), "choose a reservation that is scheduled or active"}
	}
	return &Mismatch{"state", fmt.Sprintf("reservation %s is in state %s, which cannot be used", r.ID, r.State), "choose a reservation that is scheduled or active"}
}

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
