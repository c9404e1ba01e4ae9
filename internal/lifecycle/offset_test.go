package lifecycle

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// mute is an AWS of which the program has had no answer since its start.
type mute struct {
	EC2
	offset time.Duration
}

var errMute = errors.New("no answer")

func (m mute) Region() string                   { return "us-east-2" }
func (m mute) Offset() time.Duration            { return m.offset }
func (m mute) Explain(err error) (string, bool) { return err.Error(), true }
func (m mute) Untold() []string                 { return nil }
func (m mute) KnownSubnets(context.Context, []string) ([]capacity.Subnet, []capacity.Missing, error) {
	return nil, nil, errMute
}

// A sync that starts while AWS does not answer goes on by the clock offset of the snapshot; one
// that AWS has answered before goes by what that said.
func TestOffsetOutlivesARestart(t *testing.T) {
	now := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	settings := capacity.Settings{Partitions: []capacity.PartitionSettings{{Name: "gpu", Provider: capacity.ProviderEC2,
		Groups: []capacity.GroupSettings{{Name: "gpu", SubnetIDs: []string{"subnet-1"}}}}}}
	for name, c := range map[string]struct{ known, want time.Duration }{
		"after a restart": {0, 7 * time.Minute},
		"while it runs":   {5 * time.Minute, 5 * time.Minute},
	} {
		old := &capacity.Snapshot{TakenAt: now.Add(-time.Hour), ClockOffset: capacity.Duration{Duration: 7 * time.Minute}}
		s := Sources{Settings: settings, World: World{EC2: mute{offset: c.known}, MachineTime: func() time.Time { return now }}}
		snap, _, err := s.observe(t.Context(), old)
		if err == nil || snap.ClockOffset.Duration != c.want || !snap.TakenAt.Equal(old.TakenAt) {
			t.Errorf("%s: the offset is %s, want %s; taken at %s, %v", name, snap.ClockOffset.Duration, c.want, snap.TakenAt, err)
		}
	}
}
