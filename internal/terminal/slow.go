package terminal

import (
	"sync"
	"time"
)

// slow is how long something may take without a word.
const slow = time.Second

// Slow tells on a terminal about something that takes more than a second. Elsewhere it
// tells nothing: it is for questions, whose answer says everything.
type Slow struct {
	t  *Terminal
	mu sync.Mutex
	// what is going on, and the progress once it shows
	what     string
	began    time.Time
	progress *Progress
	timer    *time.Timer
	done     bool
}

// Slow begins; end it with Done.
func (t *Terminal) Slow(what string) *Slow {
	s := &Slow{t: t, what: what, began: time.Now()}
	if t.CanDraw {
		s.timer = time.AfterFunc(slow, s.show)
	}
	return s
}

func (s *Slow) show() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.done {
		s.progress = s.t.startedAt(s.what, s.began)
	}
}

// Now shows the current step.
func (s *Slow) Now(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.what = what
	if s.progress != nil {
		s.progress.Now(what)
	}
}

// Say writes a sentence to stderr, above the progress.
func (s *Slow) Say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.progress == nil {
		s.t.Say(format, args...)
		return
	}
	s.progress.Above(format, args...)
}

// Done takes the progress away; it may be called twice.
func (s *Slow) Done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return
	}
	s.done = true
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.progress != nil {
		s.progress.Done("")
	}
}
