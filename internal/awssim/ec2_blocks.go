package awssim

import (
	"fmt"
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
	paging
}

type wireOffering struct {
	ID               string `xml:"capacityBlockOfferingId"`
	Type             string `xml:"instanceType"`
	Zone             string `xml:"availabilityZone"`
	Count            int    `xml:"instanceCount"`
	Start            string `xml:"startDate"`
	End              string `xml:"endDate"`
	Hours            int    `xml:"capacityBlockDurationHours"`
	Minutes          int    `xml:"capacityBlockDurationMinutes"` // beyond Hours
	Fee              string `xml:"upfrontFee"`
	Currency         string `xml:"currencyCode"`
	Tenancy          string `xml:"tenancy"`
	UltraServerType  string `xml:"ultraserverType,omitempty"`
	UltraServerCount *int   `xml:"ultraserverCount"`
	ZoneType         string `xml:"zoneType,omitempty"`
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
	part, next, err := page(c, in.paging, 1, 1000, false, all)
	out := struct {
		Offerings []wireOffering `xml:"capacityBlockOfferingSet>item"`
		Next      string         `xml:"nextToken,omitempty"`
	}{Next: next}
	var round uint64
	if s.scenario.NewOfferingIDs {
		s.searches++
		round = s.searches
	}
	for _, o := range part {
		o.id, o.shown = o.makeID(round), s.now
		c.region.issued[o.id] = o
		out.Offerings = append(out.Offerings, o.wire())
	}
	return out, err
}

// serves tells whether the template sells what is asked, and how many instances and UltraServers that is.
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
	instances, servers := in.InstanceType != "" || in.InstanceCount != 0, in.UltraserverType != "" || in.UltraserverCount != 0
	switch {
	case !validHours(in.CapacityDurationHours):
		return apiErrorf("InvalidParameterValue", "Value (%d) for parameter capacityDurationHours is invalid. "+
			"Specify 1 to 14 days in increments of 24 hours, or up to 182 days in increments of 168 hours.", in.CapacityDurationHours)
	case instances == servers:
		return apiErrorf("InvalidParameterCombination", "Specify either InstanceType and InstanceCount or UltraserverType and UltraserverCount")
	case instances && (in.InstanceType == "" || in.InstanceCount == 0):
		return apiErrorf("MissingParameter", "The request must contain the parameters InstanceType and InstanceCount")
	case servers && (in.UltraserverType == "" || in.UltraserverCount == 0):
		return apiErrorf("MissingParameter", "The request must contain the parameters UltraserverType and UltraserverCount")
	case in.InstanceCount < 0 || in.InstanceCount > maxBlock || in.UltraserverCount < 0:
		return apiErrorf("InvalidParameterValue", "Value (%d) for parameter instanceCount is invalid. Expecting a value between 1 and %d.", in.InstanceCount, maxBlock)
	}
	return nil
}

func (o *offering) wire() wireOffering {
	d := o.duration()
	w := wireOffering{
		ID: o.id, Type: o.from.Type, Zone: o.from.zone.name, Count: o.count, Start: wireTime(o.start), End: wireTime(o.end),
		Hours: int(d.Hours()), Minutes: int(d.Minutes()) % 60, Fee: o.from.fee(o.count, d), Currency: o.from.Currency,
		Tenancy: "default", ZoneType: o.from.zone.kind, UltraServerType: o.from.UltraServer,
	}
	if o.servers > 0 {
		w.UltraServerCount = &o.servers
	}
	return w
}

// blockPlatforms are those that blocks come with (EC2 User Guide, ec2-capacity-blocks).
var blockPlatforms = []string{"Linux/UNIX", "Red Hat Enterprise Linux", "RHEL with HA", "SUSE Linux", "Ubuntu Pro"}

type purchaseCapacityBlockInput struct {
	CapacityBlockOfferingId string
	InstancePlatform        string
	TagSpecifications       []tagSpecification `form:"TagSpecification"`
}

func (in *purchaseCapacityBlockInput) dryRun(c *call) error {
	return nil
}

type purchaseResult struct {
	Blocks      []wireBlock     `xml:"capacityBlockSet>item"`
	Reservation wireReservation `xml:"capacityReservation"`
}

// purchaseCapacityBlock sells a block. As in EC2 there is no client token: two calls buy two blocks.
func (s *Sim) purchaseCapacityBlock(c *call, in *purchaseCapacityBlockInput) (any, error) {
	if err := in.dryRun(c); err != nil {
		return nil, err
	}
	o, err := s.forSale(c.region, in.CapacityBlockOfferingId)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(blockPlatforms, in.InstancePlatform) {
		return nil, apiErrorf("InvalidParameterValue", "Value (%s) for parameter instancePlatform is invalid.", in.InstancePlatform)
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
		ID: s.newID("cr"), kind: kindBlock, Type: o.from.Type, zone: o.from.zone, zoneName: o.from.zone.name, count: o.count,
		state: "payment-pending", platform: in.InstancePlatform, tenancy: "default", match: "targeted", created: now,
		start: o.start, end: o.end, owner: s.scenario.Account, ultraServer: o.from.UltraServer, perServer: o.from.PerServer,
		tags: tags, offered: o.from,
	}
	if o.atPurchase() {
		res.start = s.now.Add(time.Duration(o.from.StartsIn))
		res.end = res.start.Add(o.duration())
	}
	res.tags[quantityTag] = fmt.Sprint(res.count)
	s.addBlocks(c.region, res, max(o.servers, 1), blockTags)
	c.region.reservations[res.ID] = res
	c.region.hide(res.ID, s.lag.purchases)
	o.from.sold = append(o.from.sold, res)
	s.ledger = append(s.ledger, Purchase{
		At: s.now, Region: c.Region, Kind: "block", OfferingID: o.id, ReservationID: res.ID, InstanceType: res.Type,
		Count: res.count, Start: res.start, End: res.end, Fee: o.from.fee(o.count, o.duration()), Currency: o.from.Currency,
	})
	result := purchaseResult{s.wireBlocks(c.region, res), s.wireReservation(c.region, res)}
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
		return nil, apiErrorf("InvalidCapacityBlockOfferingIdMalformed", "The Capacity Block offering ID '%s' is malformed", id)
	}
	o := r.issued[id]
	if o == nil {
		return nil, apiErrorf("InvalidCapacityBlockOfferingIdNotFound", "The Capacity Block offering ID '%s' does not exist", id)
	}
	old := s.scenario.OfferingIDsLast > 0 && s.now.Sub(o.shown) > time.Duration(s.scenario.OfferingIDsLast)
	if old || !o.atPurchase() && !o.start.After(s.now) || o.from.left(o.start, o.end) < o.count {
		return nil, apiErrorf("InvalidCapacityBlockOfferingIdExpired", "The Capacity Block offering '%s' is no longer available", id)
	}
	return o, nil
}

type wireBlock struct {
	ID             string   `xml:"capacityBlockId"`
	ReservationIDs []string `xml:"capacityReservationIdSet>item"`
	UltraServer    string   `xml:"ultraserverType,omitempty"`
	Zone           string   `xml:"availabilityZone,omitempty"`
	ZoneID         string   `xml:"availabilityZoneId,omitempty"`
	Created        string   `xml:"createDate"`
	Start          string   `xml:"startDate"`
	End            string   `xml:"endDate"`
	State          string   `xml:"state"`
	Tags           []tag    `xml:"tagSet>item"`
}

func (s *Sim) wireBlocks(r *region, res *reservation) []wireBlock {
	var out []wireBlock
	shown := s.wireReservation(r, res)
	for _, id := range res.blockIDs {
		out = append(out, wireBlock{
			ID: id, ReservationIDs: []string{res.ID}, UltraServer: res.ultraServer, Zone: shown.Zone, ZoneID: shown.ZoneID,
			Created: shown.Created, Start: shown.Start, End: shown.End, State: shown.State, Tags: wireTags(r.blocks[id].tags),
		})
	}
	return out
}

type describeCapacityBlocksInput struct {
	IDs     []string `form:"CapacityBlockId"`
	Filters []filter `form:"Filter"`
	paging
}

func (s *Sim) describeCapacityBlocks(c *call, in *describeCapacityBlocksInput) (any, error) {
	var all []wireBlock
	for _, res := range c.region.shownReservations() {
		all = append(all, s.wireBlocks(c.region, res)...)
	}
	items, err := byID(all, in.IDs, func(b wireBlock) string { return b.ID }, blockNotFound)
	if err != nil {
		return nil, err
	}
	names := filterNames[wireBlock]{
		tags: func(b wireBlock) map[string]string { return c.region.blocks[b.ID].tags },
		values: map[string]func(wireBlock) []string{
			"capacity-block-id": one(func(b wireBlock) string { return b.ID }),
			"ultraserver-type":  one(func(b wireBlock) string { return b.UltraServer }),
			"availability-zone": one(func(b wireBlock) string { return b.Zone }),
			"start-date":        one(func(b wireBlock) string { return b.Start }),
			"end-date":          one(func(b wireBlock) string { return b.End }),
			"create-date":       one(func(b wireBlock) string { return b.Created }),
			"state":             one(func(b wireBlock) string { return b.State }),
		}}
	if items, err = names.apply(in.Filters, items); err != nil {
		return nil, err
	}
	part, next, err := page(c, in.paging, 1, 1000, len(in.IDs) > 0, items)
	return struct {
		Blocks []wireBlock `xml:"capacityBlockSet>item"`
		Next   string      `xml:"nextToken,omitempty"`
	}{part, next}, err
}

func blockNotFound(id string) error {
	return apiErrorf("InvalidCapacityBlockId.NotFound", "The Capacity Block ID '%s' does not exist", id)
}

type describeCapacityBlockStatusInput struct {
	IDs     []string `form:"CapacityBlockId"`
	Filters []filter `form:"Filter"`
	paging
}

type wireBlockStatus struct {
	ID           string                  `xml:"capacityBlockId"`
	Interconnect string                  `xml:"interconnectStatus,omitempty"`
	Total        int                     `xml:"totalCapacity"`
	Available    int                     `xml:"totalAvailableCapacity"`
	Unavailable  int                     `xml:"totalUnavailableCapacity"`
	Reservations []wireReservationStatus `xml:"capacityReservationStatusSet>item"`
}

type wireReservationStatus struct {
	ID          string `xml:"capacityReservationId"`
	Total       int    `xml:"totalCapacity"`
	Available   int    `xml:"totalAvailableCapacity"`
	Unavailable int    `xml:"totalUnavailableCapacity"`
}

func (s *Sim) describeCapacityBlockStatus(c *call, in *describeCapacityBlockStatusInput) (any, error) {
	var all []wireBlockStatus
	for _, res := range c.region.shownReservations() {
		for n, id := range res.blockIDs {
			all = append(all, res.status(n, id))
		}
	}
	items, err := byID(all, in.IDs, func(b wireBlockStatus) string { return b.ID }, blockNotFound)
	if err != nil {
		return nil, err
	}
	names := filterNames[wireBlockStatus]{values: map[string]func(wireBlockStatus) []string{
		"interconnect-status": one(func(b wireBlockStatus) string { return b.Interconnect }),
	}}
	if items, err = names.apply(in.Filters, items); err != nil {
		return nil, err
	}
	part, next, err := page(c, in.paging, 1, 1000, len(in.IDs) > 0, items)
	return struct {
		Statuses []wireBlockStatus `xml:"capacityBlockStatusSet>item"`
		Next     string            `xml:"nextToken,omitempty"`
	}{part, next}, err
}

// status is the health of the n-th block of a reservation: nothing unless it is open. Total is the
// sum of the other two (SDK documentation of CapacityBlockStatus), so running instances count as
// available; dead hosts fill the first UltraServers.
func (res *reservation) status(n int, id string) wireBlockStatus {
	size := 0
	if res.state == "active" {
		size = res.count / len(res.blockIDs)
	}
	dead := min(max(res.deadHosts-n*size, 0), size)
	w := wireBlockStatus{
		ID: id, Total: size, Available: size - dead, Unavailable: dead,
		Reservations: []wireReservationStatus{{res.ID, size, size - dead, dead}},
	}
	if res.ultraServer != "" {
		w.Interconnect = "ok"
	}
	return w
}
