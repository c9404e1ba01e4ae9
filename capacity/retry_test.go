package capacity

import (
	"fmt"
	"testing"
	"time"
)

// A pause doubles with each refusal up to 16 minutes, give or take a half; the first refusal and none have no pause.
func TestPausesGrow(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 7, 23, 0, time.UTC)
	j := Job{Shown: "7", NumNodes: 1}

	for refusals, pause := range map[int]time.Duration{
		0:  0,
		1:  0,
		2:  30 * time.Second,
		3:  time.Minute,
		4:  2 * time.Minute,
		6:  8 * time.Minute,
		7:  16 * time.Minute,
		8:  16 * time.Minute,
		99: 16 * time.Minute,
	} {
		wait := RetryAt(j, refusals, now).Sub(now)
		if wait < pause/2 || wait > pause*3/2+retrySpread {
			t.Errorf("%d refusals: %s", refusals, wait)
		}
	}
}

// Slurm's own delay counts, where it is longer.
func TestSlurmsDelayCounts(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	slurms := now.Add(2 * time.Minute)
	j := Job{Shown: "7", NumNodes: 1, Eligible: slurms}

	for refusals := range 4 {
		if at := RetryAt(j, refusals, now); at.Before(slurms) || at.After(slurms.Add(time.Minute+retrySpread)) {
			t.Errorf("%d refusals: %s", refusals, at)
		}
	}
}

// A job with a longer pause is not overtaken at its minute by smaller ones with shorter pauses, whenever these failed;
// jobs of the same size do not come back in the same second.
func TestLargeJobsKeepTheirPlace(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

	for seconds := range 4000 {
		failed := noon.Add(time.Duration(seconds) * time.Second)
		large := RetryAt(Job{Shown: "1", NumNodes: 8}, 2+seconds%6, failed)

		for refusals := 2; refusals <= 2+seconds%6; refusals++ {
			small := RetryAt(Job{Shown: fmt.Sprint(seconds), NumNodes: 1}, refusals, large.Add(-time.Minute))
			if small.Before(large) && large.Sub(small) < 10*time.Second {
				t.Fatalf("failed at %s: the large job comes back at %s, a small one at %s", failed, large, small)
			}
		}
	}

	at := map[time.Time]int{}
	for id := range 200 {
		at[RetryAt(Job{Shown: fmt.Sprint(1000 + id), NumNodes: 1}, 0, noon)]++
	}

	for second, jobs := range at {
		if jobs > 40 {
			t.Errorf("%d of 200 jobs come back at %s", jobs, second)
		}
	}
}
