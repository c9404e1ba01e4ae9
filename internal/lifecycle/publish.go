package lifecycle

import (
	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// published writes the snapshot and the plan for their readers, and the facts for running jobs. slurmctld's own copy
// comes first, because state_dir may be on a file server that hangs.
func published(s Seen, local state.Dir) (effects []capacity.Effect) {
	if local != "" && local != s.dir {
		effects = append(effects, KeepSnapshot{"local_dir", local, s.Snap})
	}
	return append(effects, KeepSnapshot{"state_dir", s.dir, s.Snap}, KeepFacts{facts(s)})
}

// facts returns what running jobs may read about their reservations. If several share a slot, only EC2 knows which
// one a node runs in, so there are no facts.
func facts(s Seen) map[string]state.Facts {
	all := map[string]state.Facts{}
	for _, v := range s.slots() {
		if v.current.ID == "" || len(s.Snap.Standing(v.slot, s.Now).Current) > 1 {
			continue
		}
		w := v.window
		f := state.Facts{
			ReservationID: v.current.ID,
			InstanceType:  v.current.InstanceType,
			Partition:     v.partition.Name,
			Slot:          v.slot.Name,
		}
		if !w.Unbounded() {
			f.Requeue = capacity.RequeueAt(w.Fence, s.Snap.KillWait.Duration).UTC()
			f.Fence, f.Reclaim, f.End = w.Fence.UTC(), w.Reclaim.UTC(), w.End.UTC()
			f.RequeueUnix = f.Requeue.Unix()
			f.FenceUnix, f.ReclaimUnix, f.EndUnix = w.Fence.Unix(), w.Reclaim.Unix(), w.End.Unix()
		}
		all[v.slot.Name] = f
	}
	return all
}
