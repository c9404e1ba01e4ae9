package awssim

import (
	"testing"
	"time"
)

func TestClock(t *testing.T) {
	c := NewClock(noon, 0)
	if !c.Now().Equal(noon) {
		t.Errorf("a clock that stands still shows %v, want %v", c.Now(), noon)
	}
	c.Advance(time.Hour)
	if want := noon.Add(time.Hour); !c.Now().Equal(want) {
		t.Errorf("after Advance %v, want %v", c.Now(), want)
	}
	if _, ok := c.Until(noon.Add(2 * time.Hour)); ok {
		t.Error("a clock that stands still reaches a later time")
	}
	if wait, ok := c.Until(noon); !ok || wait != 0 {
		t.Errorf("a past time is %v away, %v", wait, ok)
	}
	changed := c.Changed()
	c.SetSpeed(3.6)
	select {
	case <-changed:
	default:
		t.Error("SetSpeed did not tell of the change")
	}
	wait, ok := c.Until(c.Now().Add(time.Hour))
	if !ok || wait > 1001*time.Second || wait < 900*time.Second {
		t.Errorf("an hour at speed 3.6 is %v away, %v; want 1000 s", wait, ok)
	}
	c.SetSpeed(0)
	c.Set(noon)
	if !c.Now().Equal(noon) {
		t.Errorf("%v after Set, want %v", c.Now(), noon)
	}
}
