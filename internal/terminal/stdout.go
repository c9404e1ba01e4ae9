package terminal

import (
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// Stdout is that of this process. It keeps the first error of a write, since most who write
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
		if s.err == nil {
			s.err = err
		}
		return n, s.err
	}
	return n, nil
}

// Fd is for those who ask whether it is a terminal.
func (s *stdout) Fd() uintptr { return s.file.Fd() }

// Lost is why not everything was written to stdout; nil if it was.
func (t *Terminal) Lost() error {
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
