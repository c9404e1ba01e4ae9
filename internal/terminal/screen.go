package terminal

import (
	"io"
	"os"
	"strconv"

	"golang.org/x/term"
)

// widthOffTerminal is that of a pipe or a file, where nothing else says.
const widthOffTerminal = 80

// Width is how many columns a stream has: COLUMNS goes before the terminal's own width.
func Width(out io.Writer, getenv func(string) string) int {
	if width, err := strconv.Atoi(getenv("COLUMNS")); err == nil && width > 0 {
		return width
	}
	if fd, yes := isTerminal(out); yes {
		if width, _, err := term.GetSize(fd); err == nil && width > 0 {
			return width
		}
	}
	return widthOffTerminal
}

// widthOf is how wide a line that a person reads there may be; 0, no bound, off a terminal.
func widthOf(stream *os.File, getenv func(string) string) int {
	if !term.IsTerminal(int(stream.Fd())) {
		return 0
	}
	return Width(stream, getenv)
}

// resultWidth is that of tables and pages: COLUMNS bounds it in a pipe too.
func resultWidth(stdout *os.File, getenv func(string) string) int {
	if getenv("COLUMNS") != "" {
		return Width(stdout, getenv)
	}
	return widthOf(stdout, getenv)
}
