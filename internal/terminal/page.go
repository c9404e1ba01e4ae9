package terminal

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// Page writes an answer to stdout: its first line, what it rests on as names and values, and
// its last line.
func (t *Terminal) Page(first string, facts [][2]string, last string) {
	width := 0
	for _, f := range facts {
		width = max(width, utf8.RuneCountInString(f[0]))
	}
	fmt.Fprintln(t.Out, t.block(t.Zoned(first), 0))
	fmt.Fprintln(t.Out)
	for _, f := range facts {
		fmt.Fprintf(t.Out, "  %-*s  %s\n", width, f[0], t.block(t.Zoned(f[1]), width+4))
	}
	fmt.Fprintln(t.Out)
	fmt.Fprintln(t.Out, t.block(t.Zoned(last), 0))
}

// utcTime is how sentences name a time.
var utcTime = regexp.MustCompile(`\b\d{4}-\d\d-\d\d \d\d:\d\d UTC\b`)

// Zoned has the times of a text in the zone that tables show.
func (t *Terminal) Zoned(text string) string {
	return utcTime.ReplaceAllStringFunc(text, func(written string) string {
		at, err := time.Parse("2006-01-02 15:04 UTC", written)
		if err != nil {
			return written
		}
		return t.Time(at)
	})
}

// block breaks a text that begins at a column: all of its lines begin there.
func (t *Terminal) block(text string, column int) string {
	return fill(strings.SplitAfter(oneLineOf(text), " "), "", column, column, t.Width)
}

// oneLineOf makes one printable line of a text from others.
func oneLineOf(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 }), " ")
}
