package lifecycle

import "github.com/pcs-capacity/pcs-capacity/internal/state"

// facts are what running jobs may read of the reservations behind their nodes. Where several
// share a slot nobody but EC2 knows whose a node is, and there are none.
func (p *pass) facts() map[string]state.Facts {
	all := map[string]state.Facts{}
	for _, v := range views(p.snap, p.now) {
		if v.current.ID == "" || len(p.snap.Standing(v.slot, p.now).Current) > 1 {
			continue
		}
		w := v.window
		f := state.Facts{ReservationID: v.current.ID, InstanceType: v.current.InstanceType, Partition: v.partition.Name, Slot: v.slot.Name}
		if !w.Unbounded() {
			f.Fence, f.Reclaim, f.End = w.Fence.UTC(), w.Reclaim.UTC(), w.End.UTC()
			f.FenceUnix, f.ReclaimUnix, f.EndUnix = w.Fence.Unix(), w.Reclaim.Unix(), w.End.Unix()
		}
		all[v.slot.Name] = f
	}
	return all
}
