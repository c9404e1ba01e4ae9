package awssim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

type describeCapacityBlockOfferingsInput struct {
	CapacityDurationHours int
	InstanceType          string
	InstanceCount         int
	UltraserverType       string
	UltraserverCount      int
	StartDateRange        time.Time // earliest start
	EndDateRange          time.Time // latest end
	AllAvailabilityZones  bool
	MaxResults            *int
	NextToken             string
}

func (s *Sim) describeCapacityBlockOfferings(c *call, in *describeCapacityBlockOfferingsInput) (any, error) {
	if err := in.check(); err != nil {
		return nil, err
	}

	if err := s.checkSearch(c.region, in); err != nil {
		return nil, err
	}

	asked := time.Duration(in.CapacityDurationHours) * time.Hour

	var all []*offering
	for _, t := range c.region.offerings {
		count, servers, ok := t.serves(in)
		if !ok {
			continue
		}

		for _, o := range t.offersFor(s.now, count, servers, asked) {
			if o.start.Before(in.StartDateRange) || (!in.EndDateRange.IsZero() && o.end.After(in.EndDateRange)) {
				continue
			}

			all = append(all, o)
		}
	}

	sortOfferings(all)
	all = all[:min(len(all), maxOfferings)]
	part, next, err := page(c, listing{MaxResults: in.MaxResults, NextToken: in.NextToken}, 1, 1000, false, all)

	var (
		shown []object
		round uint64
	)
	if s.scenario.NewOfferingIDs {
		s.searches++
		round = s.searches
	}

	for _, o := range part {
		o.id = o.makeID(round)
		o.listedAt = s.now
		c.region.issued[o.id] = o
		shown = append(shown, o.wire())
	}

	return object{"CapacityBlockOfferings": shown, "NextToken": next}, err
}

// serves reports whether the template sells what is asked, and how many instances and UltraServers that is.
func (t *offeringTemplate) serves(in *describeCapacityBlockOfferingsInput) (count, servers int, ok bool) {
	if t.UltraServer != in.UltraserverType || t.zone.optIn == "not-opted-in" && !in.AllAvailabilityZones {
		return 0, 0, false
	}

	if t.UltraServer != "" {
		return in.UltraserverCount * t.PerServer, in.UltraserverCount, in.UltraserverCount <= t.MaxCount
	}

	return in.InstanceCount, 0, t.Type == in.InstanceType && in.InstanceCount <= t.MaxCount
}

func (in *describeCapacityBlockOfferingsInput) check() error {
	instances, servers := in.InstanceType != "" ||
		in.InstanceCount != 0, in.UltraserverType != "" ||
		in.UltraserverCount != 0
	switch {
	case !validHours(in.CapacityDurationHours):
		return apiErrorf("InvalidParameterValue", "Value (%d) for parameter capacityDurationHours is invalid. "+
			"Specify 1 to 14 days in increments of 24 hours, or up to 182 days in increments of 168 hours.",
			in.CapacityDurationHours)
	case instances == servers:
		return apiErrorf(
			"InvalidParameterCombination",
			"Specify either InstanceType and InstanceCount or UltraserverType and UltraserverCount",
		)
	case instances && (in.InstanceType == "" || in.InstanceCount == 0):
		return apiErrorf("MissingParameter", "The request must contain the parameters InstanceType and InstanceCount")
	case servers && (in.UltraserverType == "" || in.UltraserverCount == 0):
		return apiErrorf(
			"MissingParameter",
			"The request must contain the parameters UltraserverType and UltraserverCount",
		)
	case in.InstanceCount < 0 || in.InstanceCount > maxBlock || in.UltraserverCount < 0:
		return apiErrorf(
			"InvalidParameterValue",
			"Value (%d) for parameter instanceCount is invalid. Expecting a value between 1 and %d.",
			in.InstanceCount,
			maxBlock,
		)
	}

	return nil
}

func (o *offering) wire() object {
	d := o.duration()
	w := object{
		"CapacityBlockOfferingId":      o.id,
		"InstanceType":                 o.from.Type,
		"AvailabilityZone":             o.from.zone.name,
		"InstanceCount":                o.count,
		"StartDate":                    o.start,
		"EndDate":                      o.end,
		"CapacityBlockDurationHours":   int(d.Hours()),
		"CapacityBlockDurationMinutes": int(d.Minutes()) % 60,
		"UpfrontFee": o.from.fee(
			o.count,
			d,
		),
		"CurrencyCode":    o.from.Currency,
		"Tenancy":         "default",
		"ZoneType":        o.from.zone.kind,
		"UltraserverType": o.from.UltraServer,
	}
	if o.servers > 0 {
		w["UltraserverCount"] = o.servers
	}

	return w
}

// blockPlatforms lists the platforms of blocks (EC2 User Guide, ec2-capacity-blocks).
var blockPlatforms = []string{"Linux/UNIX", "Red Hat Enterprise Linux", "RHEL with HA", "SUSE Linux", "Ubuntu Pro"}

type purchaseCapacityBlockInput struct {
	CapacityBlockOfferingId string
	InstancePlatform        string
	TagSpecifications       []tagSpecification
}

// purchaseCapacityBlock sells a block. As in EC2 there is no client token: two calls buy two blocks.
func (s *Sim) purchaseCapacityBlock(c *call, in *purchaseCapacityBlockInput) (any, error) {
	o, err := s.forSale(c.region, in.CapacityBlockOfferingId)
	if err != nil {
		return nil, err
	}

	if !slices.Contains(blockPlatforms, in.InstancePlatform) {
		return nil, apiErrorf(
			"InvalidParameterValue",
			"Value (%s) for parameter instancePlatform is invalid.",
			in.InstancePlatform,
		)
	}

	tags, err := specifiedTags(in.TagSpecifications, "capacity-reservation", "capacity-block")
	if err != nil {
		return nil, err
	}

	blockTags, err := specifiedTags(in.TagSpecifications, "capacity-block", "capacity-reservation")
	if err != nil {
		return nil, err
	}

	now := s.now.Truncate(time.Second)
	res := &reservation{
		ID:          s.newID("cr"),
		kind:        kindBlock,
		Type:        o.from.Type,
		zone:        o.from.zone,
		zoneName:    o.from.zone.name,
		count:       o.count,
		state:       "payment-pending",
		platform:    in.InstancePlatform,
		tenancy:     "default",
		match:       "targeted",
		created:     now,
		start:       o.start,
		end:         o.end,
		owner:       s.scenario.Account,
		ultraServer: o.from.UltraServer,
		perServer:   o.from.PerServer,
		tags:        tags,
		offered:     o.from,
	}

	// Some offerings start the moment that they are bought.
	if o.atPurchase() {
		res.start = s.now.Add(time.Duration(o.from.StartsIn))
		res.end = res.start.Add(o.duration())
	}

	res.tags[quantityTag] = fmt.Sprint(res.count)
	s.addBlocks(c.region, res, max(o.servers, 1), blockTags)
	c.region.reservations[res.ID] = res

	// EC2 shows a purchase only after a while: clients must not take that for a failure.
	c.region.hide(res.ID, s.lag.Purchases)
	o.from.sold = append(o.from.sold, res)
	s.ledger = append(s.ledger, Purchase{
		At:            s.now,
		Region:        c.Region,
		Kind:          "block",
		OfferingID:    o.id,
		ReservationID: res.ID,
		InstanceType:  res.Type,
		Count:         res.count,
		Start:         res.start,
		End:           res.end,
		Fee:           o.from.fee(o.count, o.duration()),
		Currency:      o.from.Currency,
	})

	// The answer shows the reservation as it is now, before the payment.
	result := object{
		"CapacityBlocks":      s.wireBlocks(c.region, res),
		"CapacityReservation": s.wireReservation(c.region, res),
	}
	s.later(time.Duration(s.scenario.PaymentDelay), func() {
		if s.unpaid {
			res.state = "payment-failed"
			return
		}

		s.begin(c.region, res)
	})

	return result, nil
}

// forSale finds an offering that can still be bought. EC2 names these three errors without dots.
func (s *Sim) forSale(r *region, id string) (*offering, error) {
	if hex, ok := strings.CutPrefix(id, "cb-"); !ok || len(hex) != 17 || strings.Trim(hex, "0123456789abcdef") != "" {
		return nil, apiErrorf(
			"InvalidCapacityBlockOfferingIdMalformed",
			"The Capacity Block offering ID '%s' is malformed",
			id,
		)
	}

	o := r.issued[id]
	if o == nil {
		return nil, apiErrorf(
			"InvalidCapacityBlockOfferingIdNotFound",
			"The Capacity Block offering ID '%s' does not exist",
			id,
		)
	}

	old := s.scenario.OfferingIDsLast > 0 && s.now.Sub(o.listedAt) > time.Duration(s.scenario.OfferingIDsLast)
	if old || !o.atPurchase() && !o.start.After(s.now) || o.from.remaining(o.start, o.end) < o.count {
		return nil, apiErrorf(
			"InvalidCapacityBlockOfferingIdExpired",
			"The Capacity Block offering '%s' is no longer available",
			id,
		)
	}

	return o, nil
}

func (s *Sim) wireBlocks(r *region, res *reservation) []object {
	var out []object

	shown := s.wireReservation(r, res)
	for _, id := range res.blockIDs {
		out = append(out, object{
			"CapacityBlockId":        id,
			"CapacityReservationIds": []string{res.ID},
			"UltraserverType":        res.ultraServer,
			"AvailabilityZone":       shown["AvailabilityZone"],
			"AvailabilityZoneId":     shown["AvailabilityZoneId"],
			"CreateDate":             shown["CreateDate"],
			"StartDate":              shown["StartDate"],
			"EndDate":                shown["EndDate"],
			"State":                  shown["State"],
			"Tags":                   r.blocks[id].tags,
		})
	}

	return out
}

func (s *Sim) blockObjects(c *call) (all []object) {
	for _, res := range c.region.visibleReservations() {
		all = append(all, s.wireBlocks(c.region, res)...)
	}
	return all
}

func blockNotFound(id string) error {
	return apiErrorf("InvalidCapacityBlockId.NotFound", "The Capacity Block ID '%s' does not exist", id)
}

func (s *Sim) blockStatuses(c *call) (all []object) {
	for _, res := range c.region.visibleReservations() {
		for n, id := range res.blockIDs {
			all = append(all, res.status(n, id))
		}
	}

	return all
}

// status returns the health of the n-th block of a reservation: nothing unless it is open. Total is the
// sum of the other two (SDK documentation of CapacityBlockStatus), so running instances count as
// available; dead hosts fill the first UltraServers.
func (res *reservation) status(n int, id string) object {
	size := 0
	if res.state == "active" {
		size = res.count / len(res.blockIDs)
	}

	dead := min(max(res.deadHosts-n*size, 0), size)
	w := object{"TotalCapacity": size, "TotalAvailableCapacity": size - dead, "TotalUnavailableCapacity": dead}

	own := maps.Clone(w)

	own["CapacityReservationId"] = res.ID
	w["CapacityBlockId"] = id
	w["CapacityReservationStatuses"] = []object{own}
	if res.ultraServer != "" {
		w["InterconnectStatus"] = "ok"
	}

	return w
}

// Limits keep an account from searching Capacity Blocks. Fields left out stay.
type Limits struct {
	Region         string    `json:"region,omitempty"          toml:"-"`               // default: every one
	BlockQuota     *int      `json:"block_quota,omitempty"     toml:"block_quota"`     // EC2's quota "Concurrent Capacity Blocks"; with 0 every search is refused
	NoUltraServers *bool     `json:"no_ultraservers,omitempty" toml:"no_ultraservers"` // the account is not approved for UltraServers
	SearchPause    *Duration `json:"search_pause,omitempty"    toml:"search_pause"`    // searches that follow each other sooner are refused
}

// SetLimits changes the limits of one region, or of all.
func (s *Sim) SetLimits(l Limits) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	if l.Region != "" && s.regions[l.Region] == nil {
		return fmt.Errorf("no region %q", l.Region)
	}

	for name, r := range s.regions {
		if l.Region == "" || l.Region == name {
			r.limits = Limits{
				BlockQuota:     cmp.Or(l.BlockQuota, r.limits.BlockQuota),
				NoUltraServers: cmp.Or(l.NoUltraServers, r.limits.NoUltraServers),
				SearchPause:    cmp.Or(l.SearchPause, r.limits.SearchPause),
			}
		}
	}

	return nil
}

// checkSearch refuses a search for blocks that live accounts were refused.
func (s *Sim) checkSearch(r *region, in *describeCapacityBlockOfferingsInput) error {
	l := r.limits
	soon := !r.searched.IsZero() && l.SearchPause != nil && s.now.Sub(r.searched) < time.Duration(*l.SearchPause)
	r.searched = s.now
	switch {
	case l.BlockQuota != nil && *l.BlockQuota == 0:
		return apiErrorf(
			"CapacityBlockDescribeLimitExceeded",
			"Your existing service limits for this AWS account are not sufficient to use EC2 Capacity Blocks. Contact "+
				"AWS Support to request a limit increase.",
		)
	case soon: // the code was seen; nobody recorded the message
		return apiErrorf(
			"CapacityBlockDescribeLimitExceeded",
			"You have exceeded the rate at which you may describe Capacity Block offerings. Try again later.",
		)
	case in.UltraserverType != "" && l.NoUltraServers != nil && *l.NoUltraServers:
		e := apiErrorf(
			"UnauthorizedOperation",
			"This account is not authorized to call DescribeCapacityBlockOfferings for UltraServers.",
		)
		e.Status = 403

		return e
	case in.InstanceType != "" && !r.sellsBlocks(in.InstanceType):
		return apiErrorf(
			"InvalidParameterValue",
			"The instance type '%s' is not supported for Capacity Blocks in '%s'.",
			in.InstanceType,
			r.name,
		)
	case !in.StartDateRange.IsZero() && in.StartDateRange.Before(s.now),
		!in.StartDateRange.IsZero() && !in.EndDateRange.IsZero() && !in.EndDateRange.After(in.StartDateRange):
		return apiErrorf("InvalidParameterValue", "The start date is not valid.")
	}

	return nil
}

// sellsBlocks reports whether EC2 sells blocks of a type in the region at all, be some left or not.
func (r *region) sellsBlocks(instanceType string) bool {
	for _, o := range r.offerings {
		if o.Type == instanceType {
			return true
		}
	}

	t := r.types[instanceType]

	return t != nil && t.soldAsBlocks() && r.offers(instanceType, "")
}
