package terminal

import (
	"fmt"
	"sync"
	"time"
	"unicode/utf8"
)

// Progress tells on stderr how far something is. On a terminal one line is kept
// current, with the time that has passed; elsewhere each new state is one line.
type Progress struct {
	t     *Terminal
	mu    sync.Mutex
	what  string
	began time.Time
	stop  chan struct{}
	ended sync.WaitGroup
}

// Start begins to tell about something; end it with Done.
func (t *Terminal) Start(what string) *Progress { return t.startedAt(what, time.Now()) }

func (t *Terminal) startedAt(what string, began time.Time) *Progress {
	p := &Progress{t: t, began: began, stop: make(chan struct{})}
	p.Now(what)
	if t.CanDraw {
		p.ended.Add(1)
		go p.draw()
	}
	return p
}

// Now shows the current step; the same step is not shown again.
func (p *Progress) Now(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if what == p.what {
		return
	}
	p.what = what
	if !p.t.CanDraw {
		fmt.Fprintln(p.t.Err, what)
	}
}

// Above writes a sentence above the current line.
func (p *Progress) Above(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.t.CanDraw {
		fmt.Fprint(p.t.Err, "\r\033[K")
	}
	p.t.Say(format, args...)
}

// Done ends it and leaves the last line as the result.
func (p *Progress) Done(result string) {
	close(p.stop)
	p.ended.Wait()
	if p.t.CanDraw {
		fmt.Fprint(p.t.Err, "\r\033[K")
	}
	if result != "" {
		p.t.Say("%s", result)
	}
}

func (p *Progress) draw() {
	defer p.ended.Done()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		p.mu.Lock()
		fmt.Fprintf(p.t.Err, "\r\033[K%s", oneLine(p.what, fmt.Sprintf(" (%s)", time.Since(p.began).Round(time.Second)), p.t.ErrWidth))
		p.mu.Unlock()
		select {
		case <-tick.C:
		case <-p.stop:
			return
		}
	}
}

// oneLine is what goes on, and for how long, in a line that the next one can take the place
// of: less than width columns, 0 for no bound.
func oneLine(what, passed string, width int) string {
	if room := width - 1 - len(passed); width > 0 && utf8.RuneCountInString(what) > room {
		what = string([]rune(what)[:max(0, room-1)]) + "…"
	}
	return what + passed
}

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
