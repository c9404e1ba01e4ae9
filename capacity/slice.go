package capacity

import (
	"maps"
	"slices"
)

// Slice is the part of the snapshot that decides about jobs submitted to one partition; nil if there is no such
// partition. See [Snapshot.Decides].
func (s *Snapshot) Slice(partition string) *Snapshot {
	p, ok := s.Partition(partition)
	if !ok {
		return nil
	}
	out := *s
	out.Partitions, out.Reservations = []Partition{p}, nil
	out.Former, out.Missing, out.Orphans, out.Said = nil, nil, nil, Said{}
	out.Walls.Associations = slices.DeleteFunc(slices.Clone(s.Walls.Associations), func(a Association) bool {
		return a.Partition != "" && a.Partition != partition
	})
	for _, r := range s.Reservations {
		if p.Has(r.ID) {
			r.Tags = maps.Clone(r.Tags)
			maps.DeleteFunc(r.Tags, func(key, _ string) bool { return key != RequestedQuantityTag })
			out.Reservations = append(out.Reservations, r)
		}
	}
	return &out
}

// Decides reports whether a [Snapshot.Slice] decides about a job in its partition as the whole snapshot would. It
// does not if the job names a reservation that may be another partition's.
func (s *Snapshot) Decides(req Request) bool {
	wish, _ := req.Wish()
	return len(req.Partitions) <= 1 && (wish.ReservationID == "" || s.Partitions[0].Has(wish.ReservationID))
}
