package lifecycle

import (
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

func TestRelaunched(t *testing.T) {
	const booting = "IDLE+CLOUD+MAINTENANCE+POWERING_UP+RESERVED"
	fence := func(active bool) capacity.SlurmReservation {
		r := reservation("pcs-capacity-fence-gpu.cr-0."+me, []string{"gpu-1", "gpu-2"}, at("-5m"), time.Time{})
		r.Active = active
		return r
	}
	// The fence is at 12:00, and EC2 takes the instances from 12:10.
	for name, c := range map[string]struct {
		state string
		fence capacity.SlurmReservation
		now   string
		twice bool
		want  capacity.Severity // "" for nothing
	}{
		"boots":                   {state: booting, fence: fence(true), now: "5m", want: capacity.Note},
		"boots again":             {state: booting, fence: fence(true), now: "5m", twice: true, want: capacity.Admin},
		"is up":                   {state: "IDLE+CLOUD+MAINTENANCE+RESERVED", fence: fence(true), now: "5m"},
		"goes down":               {state: "IDLE+CLOUD+MAINTENANCE+POWERING_DOWN+RESERVED", fence: fence(true), now: "5m"},
		"before the fence":        {state: booting, fence: fence(true), now: "-1m"},
		"the fence is not active": {state: booting, fence: fence(false), now: "5m"},
		"the block closes":        {state: booting, fence: fence(true), now: "11m"},
		"a guest's fence":         {state: booting, fence: asGuest(fence(true))[0], now: "5m"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Seen{Snap: oneSlot("pcs", []string{"cr-0"}, block("cr-0", "-5h", "40m", capacity.StateActive)), Now: at(c.now)}
			s.Cluster = &Cluster{slots: map[string][]string{"gpu": {"gpu-1", "gpu-2"}}, Nodes: []capacity.Node{{Name: "gpu-1", State: c.state}, {Name: "gpu-2", State: "IDLE+CLOUD"}}}
			s.Cluster.Reservations = []capacity.SlurmReservation{c.fence}
			if c.twice {
				s.Old = oneSlot("pcs", nil)
				s.Old.Add(relaunched(s)...)
			}
			found := relaunched(s)
			switch {
			case c.want == "" && len(found) == 0:
			case len(found) != 1 || found[0].Severity != c.want || found[0].About.Slot != "gpu":
				t.Errorf("%+v, want %q", found, c.want)
			}
		})
	}
}
