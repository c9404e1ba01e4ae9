package awssim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	kindODCR          = "odcr"
	kindBlock         = "capacity-block"
	kindInterruptible = "interruptible-odcr"
)

// quantityTag carries the size of a block that is not open yet, while EC2 reports counts of 0
// (EC2 User Guide, capacity-blocks-view).
const quantityTag = "aws:ec2capacityreservation:incrementalRequestedQuantity"

// reservation is a Capacity Reservation of any kind.
type reservation struct {
	ID, kind, Type    string
	zone              *zone
	zoneName          string // as DescribeCapacityReservations shows it: the owner's name
	count             int
	state             string
	platform, tenancy string
	match             string // open, targeted
	created           time.Time
	start, end        time.Time // end is zero when there is none
	owner             string
	shared            bool // belongs to another account
	tags              map[string]string
	deadHosts         int
	committed         time.Time // of a future-dated ODCR
	placementGroup    string    // that an ODCR was made in, or empty

	ultraServer string   // of blocks
	perServer   int      // instances in each UltraServer
	blockIDs    []string // one, or one for each UltraServer
	reclaiming  bool     // EC2 has begun to take the block back
	offered     *offeringTemplate
	extensions  []*extension

	launched int       // instances, ever
	closed   time.Time // when it was cancelled or expired
}

// block is a Capacity Block: one of a reservation, or one of its UltraServers.
type block struct {
	id   string
	of   *reservation
	tags map[string]string
}

// keepsCapacity reports whether the reservation still keeps capacity.
func (res *reservation) keepsCapacity() bool {
	return slices.Contains([]string{"active", "pending", "scheduled", "payment-pending"}, res.state)
}

// blockFor names the block that the next instance joins: the first UltraServer with room.
func (res *reservation) blockFor(r *region) string {
	if res.ultraServer == "" {
		return res.blockIDs[0]
	}

	in := map[string]int{}
	for _, i := range r.instances {
		if i.seat == res {
			in[i.BlockID]++
		}
	}

	for _, id := range res.blockIDs {
		if in[id] < res.perServer {
			return id
		}
	}

	return res.blockIDs[len(res.blockIDs)-1]
}

// byCreation lists the reservations, oldest first.
func (r *region) byCreation() []*reservation {
	return slices.SortedFunc(maps.Values(r.reservations), func(a, b *reservation) int {
		return cmp.Or(a.created.Compare(b.created), strings.Compare(a.ID, b.ID))
	})
}

// reservation finds one by id, or returns the fault of the id.
func (r *region) reservation(id string) (*reservation, error) {
	if res := r.reservations[id]; res != nil && r.isVisible(id) {
		return res, nil
	}
	return nil, reservationNotFound(id)
}

// visibleReservations returns the reservations that EC2 shows, oldest first.
func (r *region) visibleReservations() []*reservation {
	return visible(r, r.byCreation(), func(res *reservation) string { return res.ID })
}

// wellFormed reports whether an id has its prefix and hexadecimal digits, as EC2 makes them. EC2 does not look for
// another one.
func wellFormed(id, prefix string) bool {
	hex, ok := strings.CutPrefix(id, prefix+"-")
	return ok && hex != "" && strings.Trim(hex, "0123456789abcdef") == ""
}

func reservationNotFound(id string) error {
	if !wellFormed(id, "cr") {
		return apiErrorf("InvalidCapacityReservationId.Malformed", "The capacity reservation ID '%s' is malformed", id)
	}
	return apiErrorf("InvalidCapacityReservationId.NotFound", "The capacity reservation ID '%s' does not exist", id)
}

// buildReservation puts a reservation of the scenario into the region.
func (s *Sim) buildReservation(r *region, rs ReservationScenario) error {
	z, err := r.zoneNamed(rs.Zone)
	if err != nil {
		return err
	}

	if r.types[rs.Type] == nil {
		return fmt.Errorf("no instance type %q", rs.Type)
	}

	if rs.PlacementGroup != "" && rs.Owner == "" &&
		!slices.Contains(r.placementGroups, rs.PlacementGroup) { // else it is the owner's
		return fmt.Errorf("no placement group %q", rs.PlacementGroup)
	}

	if _, err := r.reservation(rs.ID); err != nil && strings.Contains(err.Error(), "malformed") {
		return fmt.Errorf("want an id such as cr-0123456789abcdef0")
	}

	res := &reservation{
		ID:             rs.ID,
		kind:           cmp.Or(rs.Kind, kindODCR),
		Type:           rs.Type,
		zone:           z,
		zoneName:       cmp.Or(rs.OwnerZoneName, z.name),
		count:          rs.Count,
		platform:       cmp.Or(rs.Platform, "Linux/UNIX"),
		tenancy:        cmp.Or(rs.Tenancy, "default"),
		match:          cmp.Or(rs.Match, "targeted"),
		created:        s.now.Add(-time.Hour).Truncate(time.Second),
		start:          rs.Start.At(s.now),
		end:            rs.End.At(s.now),
		owner:          cmp.Or(rs.Owner, s.scenario.Account),
		shared:         rs.Owner != "" && rs.Owner != s.scenario.Account,
		ultraServer:    rs.UltraServer,
		tags:           copyTags(rs.Tags),
		placementGroup: rs.PlacementGroup,
		committed:      rs.Committed.At(s.now),
	}
	if res.start.IsZero() {
		res.start = res.created
	}

	if res.created.After(res.start) {
		res.created = res.start
	}

	switch res.kind {
	case kindBlock:
		if res.end.IsZero() {
			return fmt.Errorf("a capacity block needs an end")
		}

		res.offered = r.templateFor(res.Type, z)
		servers := 1
		if res.ultraServer != "" {
			if res.offered == nil || res.offered.PerServer == 0 {
				return fmt.Errorf("no offering tells how many instances %s has", res.ultraServer)
			}

			res.perServer = res.offered.PerServer
			servers = res.count / res.perServer
		}

		s.addBlocks(r, res, servers, nil)
	case kindInterruptible, kindODCR:
	default:
		return fmt.Errorf("kind %q: want odcr, capacity-block or interruptible-odcr", rs.Kind)
	}

	r.reservations[res.ID] = res
	s.begin(r, res)

	// A scenario may put a reservation into a state that time alone would not lead to.
	if rs.State != "" {
		res.state = rs.State
	}

	return nil
}

// addBlocks makes the blocks of a reservation.
func (s *Sim) addBlocks(r *region, res *reservation, n int, tags map[string]string) {
	for range n {
		b := &block{id: s.newID("cb"), of: res, tags: copyTags(tags)}
		r.blocks[b.id] = b
		res.blockIDs = append(res.blockIDs, b.id)
	}
}

// begin gives a paid block or an ODCR the state that follows from its dates.
func (s *Sim) begin(r *region, res *reservation) {
	res.state = "scheduled"
	if res.kind == kindBlock {
		res.tags[quantityTag] = fmt.Sprint(res.count)
	}

	open := func() {
		if res.state == "scheduled" {
			res.state = "active"
			delete(res.tags, quantityTag)
		}
	}
	if res.start.After(s.now) {
		s.at(res.start, open)
	} else {
		open()
	}

	s.followEnd(r, res)
}

// followEnd has EC2 take the reservation back when its present end comes. Called again with each
// new end; the timers of an old end then find another one and do nothing.
func (s *Sim) followEnd(r *region, res *reservation) {
	end := res.end
	if end.IsZero() {
		return
	}

	unless := func(run func()) func() {
		return func() {
			if res.end.Equal(end) && res.keepsCapacity() {
				run()
			}
		}
	}
	if res.kind == kindBlock {
		s.at(end.Add(-s.reclaimLead(res)), unless(func() {
			res.reclaiming = true
			s.evict(r, res, "Server.CapacityBlockExpired") // EC2 documents no reason code for it
		}))
	}

	s.at(end, unless(func() { s.finish(r, res, "expired") }))
}

// reclaimLead returns the time before the end of a block at which EC2 begins to terminate its instances
// (EC2 User Guide, capacity-blocks-monitor).
func (s *Sim) reclaimLead(res *reservation) time.Duration {
	if res.ultraServer != "" {
		return 2 * time.Duration(s.scenario.ReclaimLead)
	}
	return time.Duration(s.scenario.ReclaimLead)
}

// evict terminates every instance of a reservation.
func (s *Sim) evict(r *region, res *reservation, reason string) {
	for _, i := range r.byLaunch() {
		if i.seat == res {
			s.terminate(r, i, reason)
		}
	}
}

// finish ends a reservation. Instances of an ODCR go on, on demand; those of a block end with it.
func (s *Sim) finish(r *region, res *reservation, state string) {
	res.state = state
	res.closed = s.now
	switch res.kind {
	case kindBlock:
		s.evict(r, res, "Server.CapacityBlockExpired")
	case kindODCR:
		for _, i := range r.instances {
			if i.seat == res {
				i.take(nil)
			}
		}

		r.leaveGroups(res)
	}
}

// ReservationUse is a Capacity Reservation of any kind with its use.
type ReservationUse struct {
	ID, Kind, State, Type, ZoneID, Match string
	Count                                int
	Created, Start                       time.Time
	End                                  time.Time // zero if there is none
	Closed                               time.Time // when it was cancelled or expired; zero if it was not
	Launched                             int       // how many instances were ever launched into it
	Tags                                 map[string]string
}

// Reservations lists the Capacity Reservations of a region that there ever were, oldest first.
func (s *Sim) Reservations(regionName string) (all []ReservationUse) {
	s.do(func() {
		for _, res := range s.regions[regionName].byCreation() {
			all = append(
				all,
				ReservationUse{
					ID:       res.ID,
					Kind:     res.kind,
					State:    res.state,
					Type:     res.Type,
					ZoneID:   res.zone.id,
					Match:    res.match,
					Count:    res.count,
					Created:  res.created,
					Start:    res.start,
					End:      res.end,
					Closed:   res.closed,
					Launched: res.launched,
					Tags:     copyTags(res.tags),
				},
			)
		}
	})

	return all
}

// Capacity is what EC2 has of a type in a zone.
type Capacity struct {
	Region string `json:"region"`
	Zone   string `json:"zone"`
	Type   string `json:"type"`
	Count  int    `json:"count"` // of launches on demand and ODCRs together
	Free   int    `json:"free"`  // what they have left; without effect in a change
}

// capacities lists what EC2 has, by region, zone and type.
func (s *Sim) capacities() []Capacity {
	all := []Capacity{} // an empty list, not null
	s.do(func() {
		for _, name := range s.order {
			r := s.regions[name]
			for _, z := range r.zones {
				for _, kind := range slices.Sorted(maps.Keys(r.types)) {
					p := pool{z.id, kind}
					if count, known := r.capacity[p]; known {
						all = append(all, Capacity{name, z.name, kind, count, r.freeCapacity(p)})
					}
				}
			}
		}
	})

	return all
}

// SetCapacity changes EC2's capacity of a type in a zone, given by its name; 0 fills the zone.
func (s *Sim) SetCapacity(regionName, zoneName, instanceType string, count int) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	r := s.regions[regionName]
	if r == nil {
		return fmt.Errorf("no region %q", regionName)
	}

	z, err := r.zoneNamed(zoneName)
	if err != nil {
		return err
	}

	if r.types[instanceType] == nil {
		return fmt.Errorf("no instance type %q", instanceType)
	}

	r.capacity[pool{z.id, instanceType}] = count

	return nil
}

// FailHost breaks the host of an instance, as a failed system status check does: the instance stays
// running in EC2's eyes but is dead, and its place stays lost to the reservation after it is terminated.
func (s *Sim) FailHost(regionName, instanceID string) (err error) {
	s.do(func() {
		r := s.regions[regionName]
		if r == nil {
			err = fmt.Errorf("no region %q", regionName)
			return
		}

		i := r.instances[instanceID]
		if i == nil {
			err = instanceNotFound(instanceID)
			return
		}

		if i.HostFailed {
			return
		}

		i.HostFailed = true
		if i.seat != nil {
			i.seat.deadHosts++
		}

		s.emit(HostFailed, "", i)
	})

	return err
}

// SetEnd moves the end of an ODCR, as its owner does in EC2's console; to none by the zero time.
func (s *Sim) SetEnd(regionName, id string, end time.Time) (err error) {
	s.do(func() {
		r := s.regions[regionName]
		if r == nil || r.reservations[id] == nil {
			err = fmt.Errorf("region %q has no reservation %q", regionName, id)
			return
		}

		r.reservations[id].end = end
		if !end.IsZero() {
			s.followEnd(r, r.reservations[id])
		}
	})

	return err
}
