package terminal

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Page writes an answer to stdout: its first line, what it rests on as names and values, and
// its last line.
func (t *Terminal) Page(first string, facts [][2]string, last string) {
	width := 0
	for _, f := range facts {
		width = max(width, utf8.RuneCountInString(f[0]))
	}
	fmt.Fprintln(t.Out, t.block(first, 0))
	fmt.Fprintln(t.Out)
	for _, f := range facts {
		fmt.Fprintf(t.Out, "  %-*s  %s\n", width, f[0], t.block(f[1], width+4))
	}
	fmt.Fprintln(t.Out)
	fmt.Fprintln(t.Out, t.block(last, 0))
}

// block breaks what begins at a column, so that all of its lines begin there.
func (t *Terminal) block(text string, column int) string {
	return fill(strings.SplitAfter(oneLineOf(text), " "), "", column, column, t.Width)
}

// oneLineOf makes one printable line of what others have written.
func oneLineOf(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 }), " ")
}
