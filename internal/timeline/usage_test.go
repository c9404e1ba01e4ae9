package timeline

import "testing"

func TestHoursLabel(t *testing.T) {
	for hours, want := range map[float64]string{0: "0", 0.2 + 0.2 + 0.2: "0.6", 0.1 + 0.2: "0.3", 20: "20", 1500: "1500"} {
		if got := hoursLabel(hours); got != want {
			t.Errorf("%v: %s, want %s", hours, got, want)
		}
	}
}

// One picture has the blocks and what became of their hours: no green means two things.
func TestUsefulIsNotOpen(t *testing.T) {
	find := func(all []colour, name string) colour {
		for _, c := range all {
			if c.name == name {
				return c
			}
		}
		t.Fatal(name)
		return colour{}
	}
	useful, open := find(usageColours, "use0"), find(colours, "open")
	if useful.light == open.light || useful.dark == open.dark {
		t.Errorf("useful is %v, open for jobs is %v", useful, open)
	}
}
