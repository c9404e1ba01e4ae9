package capacity

import (
	"fmt"
	"hash/fnv"
	"strings"
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

// The end of the AdminComment of a job that could not be launched.
const (
	retryText = "; Slurm tries again at "
	orSooner  = ", or once AWS answers"
)

// RetryNote tells the owner of a job when it may start again. undecided: AWS did not answer.
func RetryNote(refusals int, at time.Time, undecided bool) string {
	note := retryText + FormatUTC(at)
	if undecided {
		note += orSooner
	}

	if refusals >= noPauseBefore {
		note = fmt.Sprintf("; tried %d times", refusals) + note
	}

	return note
}

// Retry holds what a RetryNote in a job's AdminComment says.
type Retry struct {
	At        time.Time // to the minute
	Undecided bool
	Rest      string // the AdminComment without it
}

// ReadRetry reads the job's AdminComment.
func (j Job) ReadRetry() (r Retry, is bool) {
	i := strings.LastIndex(j.AdminComment, retryText)
	if i < 0 || !strings.HasPrefix(j.AdminComment, adminMark) {
		return r, false
	}

	at, undecided := strings.CutSuffix(j.AdminComment[i+len(retryText):], orSooner)
	when, err := time.Parse(utcTime, at)

	return Retry{At: when, Undecided: undecided, Rest: j.AdminComment[:i]}, err == nil
}
