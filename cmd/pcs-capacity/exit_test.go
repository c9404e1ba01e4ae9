package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

func TestExitStatus(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		status int
		text   string
	}{
		"done":                  {nil, 0, ""},
		"failed":                {errors.New("describing x: no"), 1, "pcs-capacity: describing x: no\n"},
		"said already":          {errShown, 1, ""},
		"a mistake in use":      {fmt.Errorf("setup: %w", usage("--count=0: use at least 1")), 2, "pcs-capacity: setup: --count=0: use at least 1\n"},
		"several, a line each":  {errors.Join(errors.New("one"), errors.New("two")), 1, "pcs-capacity: one\npcs-capacity: two\n"},
		"settings with mistake": {usageError{errors.Join(errors.New("a.toml:1: x"), errors.New("a.toml:2: y"))}, 2, "pcs-capacity: a.toml:1: x\npcs-capacity: a.toml:2: y\n"},
	} {
		var out strings.Builder
		if status := exitStatus(&terminal.Terminal{Err: &out}, c.err); status != c.status || out.String() != c.text {
			t.Errorf("%s: status %d and %q, want %d and %q", name, status, out.String(), c.status, c.text)
		}
	}
	for _, args := range [][]string{{"offering"}, {"offerings"}, {"--output=xml", "list"}, {"--config", filepath.Join(t.TempDir(), "none.toml"), "sync"}} {
		if status := run(args); status != 2 {
			t.Errorf("%q: exit status %d, want 2", args, status)
		}
	}
}

func TestSpan(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"7d": 7 * day, "36h": 36 * time.Hour, "2w": 14 * day, "1d12h": 36 * time.Hour, "1w1d30m": 8*day + 30*time.Minute, "90m": 90 * time.Minute,
		"": 0, "7": 0, "0d": 0, "-1d": 0, "d": 0, "1d-2h": 0, "7days": 0, "1h1d": 0, "99999999d": 0,
	} {
		var s span
		err := s.UnmarshalText([]byte(text))
		if time.Duration(s) != want || (err != nil) != (want == 0) {
			t.Errorf("%q: %v, %v", text, time.Duration(s), err)
		}
	}
}
