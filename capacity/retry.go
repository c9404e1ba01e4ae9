package capacity

import (
	"hash/fnv"
	"time"
)

// A job that could not be launched waits longer after each refusal. Slurm would try again within seconds or minutes,
// forever, which keeps other jobs from the nodes and uses up EC2's request limits. After the first refusal Slurm's own
// delay is enough, because most do not recur.
const (
	firstPause    = 30 * time.Second
	longestPause  = 16 * time.Minute // a multiple of every shorter pause
	retrySpread   = 20 * time.Second // over which the jobs of one moment are spread
	noPauseBefore = 2                // refusals in a row
)

// RetryAt returns when a job that EC2 has refused so often may start again: after about its pause. Retries are due at
// multiples of the pause, so those with a longer pause meet all others. Of these the larger ones begin first, each at a
// moment of its own: small ones would leave them no room, and all at once would be throttled. Slurm itself may start
// the job again from its Eligible on, and now is in Slurm's clock.
func RetryAt(j Job, refusals int, now time.Time) time.Time {
	at := now
	if refusals >= noPauseBefore {
		pause := min(firstPause<<min(refusals-noPauseBefore, 10), longestPause)
		at = now.Add(pause * 3 / 2).Truncate(pause)
	}

	if at.Before(j.Eligible) {
		at = j.Eligible
	}

	return at.Add(retryOffset(j)).Truncate(time.Second)
}

// retryOffset places a job of n nodes between 1/(n+1) and 1/n of the spread, by its id.
func retryOffset(j Job) time.Duration {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(j.Shown))
	n := float64(max(1, j.NumNodes))
	share := float64(hash.Sum32()%1000) / 1000 // its last bits vary most

	return time.Duration((1/(n+1) + share*(1/n-1/(n+1))) * float64(retrySpread))
}
