package terminal

import (
	"regexp"
	"strings"

	"github.com/mattn/go-runewidth"
)

// typed is an indented line that a person is to type.
var typed = regexp.MustCompile(`^ +(pcs-capacity|sbatch|systemctl) `)

// Wrap breaks the lines of a text that are longer than width: commands as a person types
// them, see WrapCommand, all else at blanks. No word is broken. A width of 0 is no bound.
func Wrap(text string, width int) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if typed.MatchString(line) {
			lines[i] = WrapCommand(line, width)
		} else {
			lines[i] = fill(strings.SplitAfter(line, " "), "", 0, hang(line, width), width)
		}
	}

	return strings.Join(lines, "\n")
}

// WrapCommand breaks a line of shell that is longer than width at blanks outside of quotes,
// with a backslash, and keeps an option with its value.
func WrapCommand(line string, width int) string {
	var pieces []string

	// Broken between an option and its value, a command would be hard to read and to edit.
	option := false // the last piece is an option that may have a value
	for _, word := range shellWords(line) {
		if option && !strings.HasPrefix(word, "-") {
			pieces[len(pieces)-1] += word
			option = false
			continue
		}

		pieces = append(pieces, word)
		option = strings.HasPrefix(word, "-") && !strings.Contains(word, "=")
	}

	return fill(pieces, `\`, 0, indent(line)+4, width)
}

// shellWords returns the words of a line, each with the blanks that follow it.
func shellWords(line string) []string {
	var (
		words []string
		quote rune
	)

	begin := 0
	for i, r := range line {
		switch {
		case r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		case quote == 0 && r == ' ':
			words = append(words, line[begin:i+1])
			begin = i + 1
		}
	}

	return append(words, line[begin:])
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// value is the text after a name in an indented line.
var value = regexp.MustCompile(`^ +[^ ]+  +`)

// hang returns the column at which the second line of a broken one begins: below the value of a name, or two
// blanks further than the first one.
func hang(line string, width int) int {
	if column := len(value.FindString(line)); column > 0 && column < width/2 {
		return column
	}
	return indent(line) + 2
}

// fill joins words, which end with their blanks, to lines of at most width columns. The first one begins at a column,
// the next ones at hang, or before it where only that makes a word fit; end is put before each break.
func fill(words []string, end string, column, hang, width int) string {
	var b strings.Builder

	fresh := true // the line has no word yet, and can be no shorter
	for i, word := range words {
		bare := strings.TrimRight(word, " ")
		n := runewidth.StringWidth(bare)

		most := width
		if i < len(words)-1 && end != "" {
			most -= 1 + len(end)
		}

		if width > 0 && !fresh && n > 0 && column+n > most {
			// The blanks of the word before stand at the end of the line now.
			broken := strings.TrimRight(b.String(), " ")
			b.Reset()
			b.WriteString(broken)

			if end != "" {
				b.WriteString(" " + end)
			}

			column = max(0, min(hang, most-n))
			b.WriteString("\n" + strings.Repeat(" ", column))
		}

		fresh = fresh && n == 0

		b.WriteString(word)
		column += n + len(word) - len(bare)
	}

	return b.String()
}
