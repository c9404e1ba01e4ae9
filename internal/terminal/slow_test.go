package terminal_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// screen is a stderr that several goroutines write.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func TestSlowShowsOnATerminalAfterASecond(t *testing.T) { synctest.Test(t, slowShows) }

func slowShows(t *testing.T) {
	var err screen
	s := (&terminal.Terminal{Err: &err, CanDraw: true}).Slow("asking 17 regions")
	s.Now("asked 1 of 17 regions")
	if got := err.String(); got != "" {
		t.Errorf("at once: %q", got)
	}
	time.Sleep(1100 * time.Millisecond) // of the bubble
	if got := err.String(); !strings.Contains(got, "asked 1 of 17 regions (1s)") {
		t.Fatalf("after a second: %q", got)
	}
	s.Now("asked 2 of 17 regions")
	s.Say("a sentence")
	s.Done()
	s.Done()
	if got := err.String(); !strings.Contains(got, "\r\033[Ka sentence\n") || !strings.HasSuffix(got, "\r\033[K") {
		t.Errorf("%q", got)
	}
}

func TestSlowIsSilentOffATerminal(t *testing.T) {
	var err screen
	s := (&terminal.Terminal{Err: &err}).Slow("asking")
	s.Now("still asking")
	s.Say("a sentence")
	s.Done()
	if got := err.String(); got != "a sentence\n" {
		t.Errorf("%q", got)
	}
}
