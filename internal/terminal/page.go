package terminal

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Page writes an answer to stdout: its first line, what it rests on as names and values, and
// its last line. On a terminal, and where COLUMNS is set, it is broken at blanks.
func (t *Terminal) Page(first string, facts [][2]string, last string) {
	width := 0
	for _, f := range facts {
		width = max(width, utf8.RuneCountInString(f[0]))
	}
	fmt.Fprintln(t.Out, t.fill(first, 0))
	fmt.Fprintln(t.Out)
	for _, f := range facts {
		fmt.Fprintf(t.Out, "  %-*s  %s\n", width, f[0], t.fill(f[1], width+4))
	}
	fmt.Fprintln(t.Out)
	fmt.Fprintln(t.Out, t.fill(last, 0))
}

// fill breaks a text that begins at a column; the lines after the first one begin there too.
func (t *Terminal) fill(text string, column int) string {
	text = oneLineOf(text)
	if t.Width == 0 {
		return text
	}
	return strings.ReplaceAll(wrapLines(text, max(20, t.Width-column)), "\n", "\n"+strings.Repeat(" ", column))
}

// oneLineOf makes one printable line of what others have written.
func oneLineOf(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 }), " ")
}
