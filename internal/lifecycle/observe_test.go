package lifecycle

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// A slot that was reused has its new reservation, and not the old one beside it.
func TestSlotsOfPCS(t *testing.T) {
	reservations := []capacity.Reservation{{ID: "cr-old", State: capacity.StateExpired}, {ID: "cr-older", State: capacity.StateExpired},
		{ID: "cr-now", State: capacity.StateActive}, {ID: "cr-next", State: capacity.StateScheduled}}
	for name, test := range map[string]struct {
		there  []PCSSlot
		wanted []string
		a, b   []string
	}{
		"both were reused": {[]PCSSlot{{"gpu-a", "cr-next"}, {"gpu-b", "cr-now"}}, []string{"cr-older", "cr-old", "cr-now", "cr-next"},
			[]string{"cr-next"}, []string{"cr-now"}},
		"one was reused, the other is free": {[]PCSSlot{{"gpu-a", "cr-now"}}, []string{"cr-older", "cr-old", "cr-now"},
			[]string{"cr-now"}, []string{"cr-older"}},
		"the next goes before the last": {[]PCSSlot{{"gpu-a", "cr-now"}}, []string{"cr-old", "cr-now", "cr-next"},
			[]string{"cr-now"}, []string{"cr-next"}},
		"all have ended": {[]PCSSlot{{"gpu-a", "cr-old"}, {"gpu-b", "cr-older"}}, []string{"cr-older", "cr-old"},
			[]string{"cr-old"}, []string{"cr-older"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := observation{snap: &capacity.Snapshot{Reservations: reservations}, wanted: map[string][]string{"gpu": test.wanted}, groups: map[string][]PCSSlot{"gpu": test.there}}
			want := []capacity.Slot{{Name: "gpu-a", ReservationIDs: test.a}, {Name: "gpu-b", ReservationIDs: test.b}}
			if diff := cmp.Diff(want, o.pcsSlots("gpu", "gpu")); diff != "" {
				t.Errorf("slots (-want +got):\n%s", diff)
			}
		})
	}
}
