package lifecycle

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// What sync saw end is no problem when EC2 has forgotten it; an id that it never saw is one.
func TestEC2ForgetsWhatHasEnded(t *testing.T) {
	w := newStage(t)
	old := oneSlot("ec2", []string{"cr-0"}, block("cr-0", "-48h", "-1h", capacity.StateExpired))
	w.sources.State = state.Dir(quickDir(t))
	for id, said := range map[string]bool{"cr-0": false, "cr-1": true} {
		o := observation{Sources: w.sources, old: old}
		o.MachineTime = func() time.Time { return noon }
		o.missing(capacity.Missing{ID: id, Err: errors.New("InvalidCapacityReservationId.NotFound")})
		if _, known := capacity.Build(capacity.Settings{}, o.seen).Reservation(id); known == said || len(o.said.Problems) > 0 != said {
			t.Errorf("%s: known %t, said %q", id, known, o.said.Problems)
		}
	}
}

// What EC2 says of one reservation cannot be read: what was known of it is kept, however long.
func TestAnAnswerThatCannotBeRead(t *testing.T) {
	w := newStage(t)
	old := oneSlot("ec2", []string{"cr-0"}, block("cr-0", "-48h", "48h", capacity.StateActive))
	for id, kept := range map[string]bool{"cr-0": true, "cr-1": false} {
		o := observation{Sources: w.sources, old: old}
		o.MachineTime = func() time.Time { return noon.Add(2 * missingFor) }
		o.missing(capacity.Missing{ID: id, Err: errors.New("EndDate"), Unread: true})
		_, known := capacity.Build(capacity.Settings{}, o.seen).Reservation(id)
		if want := "EC2's answer about reservation " + id + " cannot be read: EndDate; what was known of it is kept"; known != kept ||
			strings.Join(o.said.Problems, "\n") != want || o.absent != nil || o.failed != nil {
			t.Errorf("%s: known %t, said %q, absent %v, failed %v", id, known, o.said.Problems, o.absent, o.failed)
		}
	}
}

// No slot is set up for a block that is open still but past its fence.
func TestNothingIsSetUpPastItsFence(t *testing.T) {
	for end, want := range map[string]int{"39m": 0, "41m": 1} {
		snap := oneSlot("pcs", []string{"cr-0"}, block("cr-0", "-24h", end, capacity.StateActive))
		s := Seen{Snap: snap, Now: noon, Cluster: &Cluster{}}
		part := snap.Partitions[0]
		if got := s.rollingsOf(part, part.Groups[0]); len(got) != want {
			t.Errorf("with an end in %s: %+v", end, got)
		}
	}
}
