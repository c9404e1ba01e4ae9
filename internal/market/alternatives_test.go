package market

import (
	"math/bits"
	"testing"
	"time"
)

// The largest number is found in as many tries as it has binary digits.
func TestLargest(t *testing.T) {
	for most := range 65 {
		for sold := range most + 1 {
			tries := 0
			best, ok := largest(most, func(n int) (Alternative, bool) {
				tries++
				if n < 1 || n > most {
					t.Fatalf("tried %d of 1 to %d", n, most)
				}
				return Alternative{Count: n}, n <= sold
			})
			if ok != (sold > 0) || best.Count != sold {
				t.Errorf("up to %d of %d are sold; found %d, %v", sold, most, best.Count, ok)
			}
			if enough := bits.Len(uint(most)); tries > enough {
				t.Errorf("up to %d of %d are sold; %d tries, want at most %d", sold, most, tries, enough)
			}
		}
	}
}

func TestBestOfEach(t *testing.T) {
	day := 24 * 60 * 60
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	all := []Alternative{
		{Differs: "duration", Region: "a", Count: 4, Seconds: 5 * day, Start: noon},
		{Differs: "count", Region: "a", Count: 8, Seconds: 7 * day, Start: noon},
		{Differs: "count", Region: "b", Count: 16, Seconds: 7 * day, Start: noon.Add(time.Hour)},
		{Differs: "count", Region: "c", Count: 16, Seconds: 7 * day, Start: noon},
		{Differs: "duration", Region: "b", Count: 4, Seconds: 8 * day, Start: noon},
		{Differs: "start", Region: "b", Count: 4, Seconds: 7 * day, Start: noon.Add(time.Hour)},
		{Differs: "start", Region: "c", Count: 4, Seconds: 7 * day, Start: noon},
	}
	got := bestOfEach(all, 7*24*time.Hour)
	want := []string{"count c", "duration b", "start c"}
	if len(got) != len(want) {
		t.Fatalf("picked %+v", got)
	}
	for i, a := range got {
		if a.Differs+" "+a.Region != want[i] {
			t.Errorf("%d: picked %+v, want %s", i, a, want[i])
		}
	}
}
