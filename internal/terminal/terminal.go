// Package terminal owns the output of a command for a person or a script: results as table, JSON,
// YAML or CSV on stdout; sentences, questions and progress on stderr.
//
// Tables show times in the local zone, or in UTC where asked; the other formats write RFC 3339 and stable field names.
// There is no progress and no question where stderr or stdin is not a terminal.
package terminal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Format names a way in which results are written.
type Format string

// The formats.
const (
	Table Format = "table"
	JSON  Format = "json"
	YAML  Format = "yaml"
	CSV   Format = "csv"
)

// Terminal is the standard streams of a command.
type Terminal struct {
	In       io.Reader
	Out, Err io.Writer
	Format   Format
	// Width bounds the columns of text of a table or a page; 0 for no bound, as in a
	// pipe. Wide has tables show every column nevertheless.
	Width int
	Wide  bool
	// OutWidth and ErrWidth are how many a sentence there may have; 0 off a terminal.
	OutWidth, ErrWidth int
	UTC                bool // shows times in tables in UTC
	Yes                bool // answers every yes-or-no question
	// CanAsk: stdin and stderr are a terminal. CanDraw: stderr is one.
	CanAsk, CanDraw bool
	// Interrupted is closed when the person wants the program to end, as by Ctrl-C: then
	// every question is declined. nil if nobody says so.
	Interrupted <-chan struct{}
}

// Standard returns the terminal of this process.
func Standard() *Terminal {
	draw := term.IsTerminal(int(os.Stderr.Fd()))

	t := &Terminal{
		In:       os.Stdin,
		Out:      Stdout,
		Err:      os.Stderr,
		Format:   Table,
		OutWidth: widthOf(os.Stdout),
		ErrWidth: widthOf(os.Stderr),
		CanDraw:  draw,
		CanAsk:   draw && term.IsTerminal(int(os.Stdin.Fd())),
	}
	t.Width = t.OutWidth
	if os.Getenv("COLUMNS") != "" { // which bounds tables and pages in a pipe too
		t.Width = Width(os.Stdout, os.Getenv)
	}

	return t
}

// Say writes a sentence to stderr, whole where that is a terminal, see Wrap.
func (t *Terminal) Say(format string, args ...any) {
	fmt.Fprintln(t.Err, Wrap(fmt.Sprintf(format, args...), t.ErrWidth))
}

// Print writes a sentence that is a result to stdout, as Say does to stderr.
func (t *Terminal) Print(format string, args ...any) {
	fmt.Fprintln(t.Out, Wrap(fmt.Sprintf(format, args...), t.OutWidth))
}

// ErrDeclined is returned when a person did not confirm.
var ErrDeclined = errors.New("not confirmed; nothing was done")

// Confirm asks a yes-or-no question; nil means yes. Without a terminal it is refused unless Yes is set.
func (t *Terminal) Confirm(question string) error {
	if t.Yes {
		return nil
	}

	if !t.CanAsk {
		return fmt.Errorf("%q cannot be asked, because there is no terminal; add --yes to answer yes", question)
	}

	return t.Type(question+" Type yes to go on", "yes")
}

// Type asks a person to type a word; nil means that they did. An interrupt ends the
// question, and what is typed after it is lost.
func (t *Terminal) Type(question, word string) error {
	fmt.Fprint(t.Err, Wrap(question+": ", t.ErrWidth))

	typed := make(chan error, 1)
	go func() { // no read of a terminal can be ended from outside
		answer, err := bufio.NewReader(t.In).ReadString('\n')
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			typed <- err
		case strings.TrimSpace(answer) != word:
			typed <- ErrDeclined
		default:
			typed <- nil
		}
	}()

	// Ctrl-C declines the question; what is typed after it goes to nobody.
	select {
	case err := <-typed:
		return err
	case <-t.Interrupted:
		fmt.Fprintln(t.Err)
		return ErrDeclined
	}
}

// Time shows a time in a table or a sentence, with its zone; "-" for none.
func (t *Terminal) Time(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.In(t.Zone()).Format("2006-01-02 15:04 MST")
}

// Soon shows a time near now in few words, as "Thu 10:30"; a week or more away, with its date.
func (t *Terminal) Soon(at, now time.Time) string {
	if at.Sub(now).Abs() < 6*24*time.Hour {
		return at.In(t.Zone()).Format("Mon 15:04")
	}
	return at.In(t.Zone()).Format("Mon 2006-01-02 15:04")
}

// Zone returns the time zone of tables and sentences.
func (t *Terminal) Zone() *time.Location {
	if t.UTC {
		return time.UTC
	}
	return time.Local
}

// widthOffTerminal bounds the lines of a pipe or a file, where nothing else says.
const widthOffTerminal = 80

// Width returns the number of columns of a stream: COLUMNS goes before the terminal's own width.
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

// widthOf bounds the lines that a person reads there; 0, no bound, off a terminal.
func widthOf(stream *os.File) int {
	if !term.IsTerminal(int(stream.Fd())) {
		return 0
	}
	return Width(stream, os.Getenv)
}

// Page writes an answer to stdout: its first line, what it rests on as names and values, and its last line.
func (t *Terminal) Page(first string, facts [][2]string, last string) {
	// Values stand below each other.
	width := 0
	for _, f := range facts {
		width = max(width, utf8.RuneCountInString(f[0]))
	}

	fmt.Fprintln(t.Out, t.block(t.Localize(first), 0))
	fmt.Fprintln(t.Out)

	for _, f := range facts {
		fmt.Fprintf(t.Out, "  %-*s  %s\n", width, f[0], t.block(t.Localize(f[1]), width+4))
	}

	fmt.Fprintln(t.Out)
	fmt.Fprintln(t.Out, t.block(t.Localize(last), 0))
}

// Localize has the times of a text in the zone that tables show.
func (t *Terminal) Localize(text string) string {
	return capacity.ReplaceTimes(text, func(_ string, at time.Time) string { return t.Time(at) })
}

// block breaks a text that begins at a column: all of its lines begin there.
func (t *Terminal) block(text string, column int) string {
	return fill(strings.SplitAfter(oneLineOf(text), " "), "", column, column, t.Width)
}

// oneLineOf makes one printable line of a text from others.
func oneLineOf(text string) string {
	return strings.Join(
		strings.FieldsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 }),
		" ",
	)
}

// Stdout writes to that of this process. It keeps the first error of a write, since most who write
// there do not look, and a script has to learn that its file is not whole: see Lost.
//
// A pipe whose reader is gone ends the process by SIGPIPE, as with any other write of Go to
// stdout. Where stdout was closed, Go's runtime has opened /dev/null in its place before main,
// and nothing tells that from a caller that did so; then there is no error.
var Stdout io.Writer = &stdout{file: os.Stdout}

// stdout has no method of os.File that writes but Write, so that none goes past it.
type stdout struct {
	file *os.File
	mu   sync.Mutex
	err  error
}

func (s *stdout) Write(p []byte) (int, error) {
	n, err := s.file.Write(p)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()

		// A later error, of a write after it, would say less.
		if s.err == nil {
			s.err = err
		}

		return n, s.err
	}

	return n, nil
}

// Fd returns the descriptor, by which a caller can ask whether it is a terminal.
func (s *stdout) Fd() uintptr { return s.file.Fd() }

// WriteErr returns the error that kept output from stdout; nil if all was written.
func (t *Terminal) WriteErr() error {
	s, ok := t.Out.(*stdout)
	if !ok {
		return nil
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	return s.err
}

// isTerminal reports whether a stream is one.
func isTerminal(stream any) (fd int, yes bool) {
	f, ok := stream.(interface{ Fd() uintptr })
	if !ok {
		return 0, false
	}

	fd = int(f.Fd())

	return fd, term.IsTerminal(fd)
}
