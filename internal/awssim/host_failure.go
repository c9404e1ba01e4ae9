package awssim

import (
	"fmt"
	"time"
)

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
