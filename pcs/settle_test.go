package pcs

import (
	"testing"
	"time"
)

// However long PCS takes, its end is noticed within a tenth of that and a fifth of a second, and
// asking for it takes few calls.
func TestPace(t *testing.T) {
	for _, test := range []struct {
		takes time.Duration
		looks int
	}{{0, 1}, {500 * time.Millisecond, 4}, {2 * time.Second, 11}, {30 * time.Second, 40}, {4 * time.Minute, 67}, {20 * time.Minute, 163}} {
		var p Pace
		looks, at := 1, time.Duration(0) // the first is at once
		for ; at < test.takes; looks++ {
			at += p.Next(0)
		}
		if late := at - test.takes; late > min(test.takes/mostBehind+firstLook, lastLook) || looks > test.looks || p.Waited() != at {
			t.Errorf("what takes %s is noticed %s late, by %d looks, want %d", test.takes, late, looks, test.looks)
		}
	}
	var fixed Pace
	for range 2 {
		if every := fixed.Next(time.Second); every != time.Second {
			t.Errorf("a fixed pace has become %s", every)
		}
	}
	if fixed.Waited() != 2*time.Second {
		t.Errorf("two seconds were %s", fixed.Waited())
	}
}
