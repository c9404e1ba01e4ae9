package hook

import (
	"strings"
	"unicode"
)

// OneLine makes text safe to show on a terminal, in a log and in a Reason: one line
// without control characters, valid UTF-8.
func OneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}

// Clip cuts text to at most n bytes, between two characters.
func Clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "")
}
