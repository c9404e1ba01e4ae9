package state

import (
	"io"
	"sync"
	"time"
)

// RateLimit is a limit of AWS on an account's calls of one operation: a burst at once, then one each interval. All
// programs of a state_dir share it.
type RateLimit struct {
	dir      Dir
	file     Lock
	burst    int
	interval time.Duration

	mu   sync.Mutex
	full time.Time // when a whole burst may be sent again, as this program left it
}

// RateLimit has the limit in a file of the name.
func (d Dir) RateLimit(file Lock, burst int, interval time.Duration) *RateLimit {
	return &RateLimit{dir: d, file: file, burst: burst, interval: interval}
}

// Take takes the next turn to send a call and returns how long to wait for it, but takes none that is further away than
// most: ok is false then. An error says why the turns of other programs are not known; this program's are kept.
func (r *RateLimit) Take(now time.Time, most time.Duration) (wait time.Duration, ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()

	full := r.full

	shared, err := r.open()
	if err == nil {
		defer shared.Close()

		// Without a time a program was killed while it wrote: nobody waits.
		text, _ := io.ReadAll(shared)
		full, _ = time.Parse(time.RFC3339Nano, string(text))
	}

	wait, full = r.next(full, now)
	// Of no use to the caller: the turn is left to others.
	if wait > most {
		return wait, false, err
	}

	r.full = full

	if err == nil {
		err = shared.Truncate(0)
	}

	if err == nil {
		_, err = shared.WriteAt([]byte(full.UTC().Format(time.RFC3339Nano)), 0)
	}

	return wait, true, err
}

// longestQueue is further ahead than any program waits: the clock was wrong when a later time was written.
const longestQueue = 5 * time.Minute

// next returns how long the next call waits, and when a whole burst may be sent after it.
func (r *RateLimit) next(full, now time.Time) (wait time.Duration, then time.Time) {
	if full.Before(now) || full.After(now.Add(longestQueue)) {
		full = now
	}

	then = full.Add(r.interval)
	wait = max(0, then.Sub(now)-time.Duration(r.burst)*r.interval)

	return wait, then
}
