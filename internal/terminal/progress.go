package terminal

import (
	"fmt"
	"sync"
	"time"
	"unicode/utf8"
)

// Progress tells on stderr how far something is. On a terminal one line is kept current, with the time that has passed.
type Progress struct {
	t      *Terminal
	silent bool // off a terminal
	mu     sync.Mutex
	what   string
	began  time.Time
	drawn  bool // a line is there
	stop   chan struct{}
	once   sync.Once
	ended  sync.WaitGroup
}

// slow bounds how long something takes without a word.
const slow = time.Second

// Start begins to tell about something; end it with Done. Off a terminal each new step is a line.
func (t *Terminal) Start(what string) *Progress { return t.progress(what, 0, false) }

// Slow tells on a terminal about something that takes more than a second. Elsewhere it tells nothing: it is for
// questions, whose answer says everything.
func (t *Terminal) Slow(what string) *Progress { return t.progress(what, slow, true) }

func (t *Terminal) progress(what string, after time.Duration, silent bool) *Progress {
	p := &Progress{t: t, silent: silent, began: time.Now(), stop: make(chan struct{})}
	p.Now(what)

	if t.CanDraw {
		p.ended.Go(func() { p.draw(after) })
	}

	return p
}

// Now shows the current step; the same step is not shown again.
func (p *Progress) Now(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()

	// On a terminal the next drawing shows it.
	if what != p.what && !p.t.CanDraw && !p.silent {
		fmt.Fprintln(p.t.Err, what)
	}

	p.what = what
}

// Say writes a sentence to stderr, above the current line.
func (p *Progress) Say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.erase()
	p.t.Say(format, args...)
}

// Done ends it, and leaves no line on a terminal. It may be called twice.
func (p *Progress) Done() {
	p.once.Do(func() {
		close(p.stop)
		p.ended.Wait()
		p.erase()
	})
}

func (p *Progress) erase() {
	if p.drawn {
		fmt.Fprint(p.t.Err, "\r\033[K")
	}

	p.drawn = false
}

func (p *Progress) draw(after time.Duration) {
	for next := after; ; next = time.Second {
		select {
		case <-time.After(next):
		case <-p.stop:
			return
		}

		p.mu.Lock()
		p.drawn = true
		fmt.Fprintf(
			p.t.Err,
			"\r\033[K%s",
			oneLine(p.what, fmt.Sprintf(" (%s)", time.Since(p.began).Round(time.Second)), p.t.ErrWidth),
		)
		p.mu.Unlock()
	}
}

// oneLine says what goes on, and for how long, in a line that the next one can take the place
// of: less than width columns, 0 for no bound.
func oneLine(what, passed string, width int) string {
	if room := width - 1 - len(passed); width > 0 && utf8.RuneCountInString(what) > room {
		what = string([]rune(what)[:max(0, room-1)]) + "…"
	}
	return what + passed
}
