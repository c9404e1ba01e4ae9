package awssim

import (
	"strings"
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

func TestMoment(t *testing.T) {
	start := time.Date(2026, 12, 1, 12, 30, 15, 500, time.UTC)
	for text, want := range map[string]string{
		"2026-12-24T18:00:00+01:00": "2026-12-24T17:00:00Z", "+90m": "2026-12-01T14:00:15Z", "-48h": "2026-11-29T12:30:15Z",
		"+3d 11:30": "2026-12-04T11:30:00Z", "-1d 11:30": "2026-11-30T11:30:00Z", "+0d 00:05": "2026-12-01T00:05:00Z",
	} {
		var m Moment
		if err := m.UnmarshalText([]byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		} else if got := m.At(start).Format(time.RFC3339Nano); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{"tomorrow", "+3d", "+3d 1130", "2026-12-24", "+3x"} {
		if err := new(Moment).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func TestScenarioErrors(t *testing.T) {
	for name, test := range map[string]struct{ toml, want string }{
		"unknown key":    {"[[region]]\nname = \"r\"\ncolour = 1\n", "unknown key region.colour"},
		"syntax":         {"[[region\n", "line 2"},
		"bad time":       {"[[region]]\nreservation = [{id = \"cr-1\", end = \"tomorrow\"}]\n", "tomorrow"},
		"no region":      {"account = \"1\"\n", "no region"},
		"unknown home":   {"home = \"mars\"\n[[region]]\nname = \"r\"\n", "mars"},
		"unknown zone":   {"[[region]]\nname = \"r\"\nvpc = [{id = \"v\"}]\nsubnet = [{id = \"s\", vpc = \"v\", zone = \"z\"}]\n", `subnet s: no zone "z"`},
		"unknown type":   {"[[region]]\nname = \"r\"\nzone = [{name = \"z\"}]\ncapacity = [{zone = \"z\", type = \"t\"}]\n", `no instance type "t"`},
		"malformed id":   {"[[instance_type]]\nname = \"t\"\n[[region]]\nname = \"r\"\nzone = [{name = \"z\"}]\nreservation = [{id = \"cr-x\", zone = \"z\", type = \"t\"}]\n", "cr-x"},
		"no end":         {"[[instance_type]]\nname = \"t\"\n[[region]]\nname = \"r\"\nzone = [{name = \"z\"}]\nreservation = [{id = \"cr-1\", kind = \"capacity-block\", zone = \"z\", type = \"t\"}]\n", "needs an end"},
		"offer, no size": {"[[instance_type]]\nname = \"t\"\n[[region]]\nname = \"r\"\nzone = [{name = \"z\"}]\noffering = [{zone = \"z\", type = \"t\"}]\n", "max_count"},
	} {
		sc, err := ParseScenario("world.toml", []byte(test.toml))
		if err == nil {
			var sim *Sim
			if sim, err = New(sc, nil); err == nil {
				sim.Close()
			}
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
}

// The lab sells a block that opens seconds after its purchase and ends two hours later.
func TestLabScenario(t *testing.T) {
	sim, endpoint := wireSim(t, string(labTOML))
	w := &ec2World{t, sim, ec2Client(endpoint), endpoint}
	offers := w.offerings(4, 1)
	sim.Clock().Advance(10 * time.Minute) // somebody reads and thinks
	bought, err := w.purchase(*offers[0].CapacityBlockOfferingId)
	if err != nil {
		t.Fatal(err)
	}
	id := *bought.CapacityReservation.CapacityReservationId
	if got := bought.CapacityReservation.EndDate.Sub(*bought.CapacityReservation.StartDate); got != 2*time.Hour {
		t.Errorf("the block lasts %v", got)
	}
	if got := bought.CapacityReservation.StartDate.Sub(sim.Clock().Now()); got < 0 || got > 5*time.Second {
		t.Errorf("the block starts %v after its purchase, want 5 s", got)
	}
	sim.Clock().Advance(5 * time.Second)
	if got := w.reservation(id).State; got != "active" {
		t.Errorf("state %s 5 s after the purchase", got)
	}
	in := run(4, "p5.48xlarge", "subnet-01ab00000000000a1", intoBlock(id))
	in.ImageId = nil
	template("lt-01ab0000000000002", "")(in)
	for n, i := range do(t, w.ec2.RunInstances, in).Instances {
		if !strings.HasPrefix(*i.PrivateIpAddress, "127.0.1.") || int(*i.AmiLaunchIndex) != n {
			t.Errorf("instance %d at %s", n, *i.PrivateIpAddress)
		}
	}
}
