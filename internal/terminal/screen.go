package terminal

import (
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"
)

// Screen is the abilities of stdout beyond lines of ASCII.
type Screen struct {
	// Width in columns.
	Width int
	// Unicode: the locale is UTF-8.
	Unicode bool
}

// widthOffTerminal is that of a pipe or a file, where nothing else says.
const widthOffTerminal = 80

// ScreenOf learns it from the stream and the environment: COLUMNS goes before the
// terminal's own width; the locale is the first of LC_ALL, LC_CTYPE and LANG
// that is set.
func ScreenOf(out io.Writer, getenv func(string) string) Screen {
	s := Screen{Width: widthOffTerminal}
	if fd, yes := isTerminal(out); yes {
		if width, _, err := term.GetSize(fd); err == nil && width > 0 {
			s.Width = width
		}
	}
	if width, err := strconv.Atoi(getenv("COLUMNS")); err == nil && width > 0 {
		s.Width = width
	}
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := strings.ToLower(getenv(name)); locale != "" {
			s.Unicode = strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
			break
		}
	}
	return s
}

// widthOf is how wide a line that a person reads there may be; 0, no bound, off a terminal.
func widthOf(stream *os.File, getenv func(string) string) int {
	if !term.IsTerminal(int(stream.Fd())) {
		return 0
	}
	return ScreenOf(stream, getenv).Width
}

// resultWidth is that of tables and pages: COLUMNS bounds it in a pipe too.
func resultWidth(stdout *os.File, getenv func(string) string) int {
	if getenv("COLUMNS") != "" {
		return ScreenOf(stdout, getenv).Width
	}
	return widthOf(stdout, getenv)
}
