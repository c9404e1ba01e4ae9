package lifecycle

import (
	"testing"
	"time"
)

// ShortenAnswers gives a pass less time for all its questions while a test runs.
func ShortenAnswers(t *testing.T, to time.Duration) {
	was := allAnswers
	allAnswers = to
	t.Cleanup(func() { allAnswers = was })
}
