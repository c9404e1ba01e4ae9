package awssim

import (
	"fmt"
	"time"
)

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
			all = append(all, ReservationUse{ID: res.ID, Kind: res.kind, State: res.state, Type: res.Type, ZoneID: res.zone.id, Match: res.match,
				Count: res.count, Created: res.created, Start: res.start, End: res.end, Closed: res.closed, Launched: res.launched, Tags: copyTags(res.tags)})
		}
	})
	return all
}

// SetCapacity changes EC2's capacity of a type in a zone, given by its name.
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
	r.capacity[pool{z.id, instanceType}] = count
	return nil
}
