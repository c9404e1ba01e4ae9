package capacity

import (
	"testing"
	"time"
)

func TestHoldNote(t *testing.T) {
	until := time.Date(2026, 11, 21, 20, 30, 5, 0, time.UTC)
	note := HoldNote(until.In(time.FixedZone("", 3600)), "refused on: Monday")
	if want := "pcs-capacity: its owner can release it from 2026-11-21 20:30:05 UTC on: refused on: Monday"; note != want {
		t.Errorf("%q", note)
	}
	if at, rest, ours := ReadHoldNote(note); !ours || !at.Equal(until) || rest != "pcs-capacity: refused on: Monday" {
		t.Errorf("%v %q %t", at, rest, ours)
	}
	if GoesOn(note) {
		t.Error("a job that is held goes on")
	}
	goes := GoOnNote("cpu,big", until, "gpu refuses it")
	if want := "pcs-capacity: it goes on in cpu,big; if it is held, its owner can release it from 2026-11-21 20:30:05 UTC on: gpu refuses it"; goes != want {
		t.Errorf("%q", goes)
	}
	at, rest, ours := ReadHoldNote(goes)
	if want := "pcs-capacity: it goes on in cpu,big: gpu refuses it"; !ours || !at.Equal(until) || rest != want || !GoesOn(goes) || GoesOn(rest) {
		t.Errorf("%v %q %t", at, rest, ours)
	}
	for _, other := range []string{"", "pcs-capacity: it goes on in cpu; if it is held, no", "mine; if it is held, " + note[len("pcs-capacity: "):], "mine", "pcs-capacity: refused on: Monday", note[1:], " " + note,
		"pcs-capacity: its owner can release it from 2026-11-21 20:30:05 UTC", "pcs-capacity: its owner can release it from Monday on: x"} {
		if _, _, ours := ReadHoldNote(other); ours {
			t.Errorf("%q is taken for ours", other)
		}
	}
}
