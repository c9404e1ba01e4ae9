// Package hook is shared by the programs that Slurm runs: [Log] opens their log, in the folder of the settings and in
// syslog; [OneLine] and [Clip] make text fit for a node's Reason, an AdminComment or a record.
package hook

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// The syslog priorities that hooks use: a facility of RFC 5424, and "informational"; the text carries the level as
// well.
const (
	userInfo   = 1<<3 | 6
	daemonInfo = 3<<3 | 6
)

// syslogSocket is the socket of the machine's syslog. A variable for tests.
var syslogSocket = "/dev/log"

// FilterLog returns the log of the filter, which runs as the user: syslog only.
func FilterLog() *slog.Logger {
	return slog.New(slog.NewJSONHandler(&syslog{userInfo, "pcs-capacity-filter"}, utc))
}

// Log returns the log of a hook that Slurm starts, one JSON object a line: dir/NAME.log and syslog. Slurm discards the
// output of its programs, so a hook that cannot open its file logs to syslog only, and goes on. Times are UTC.
func Log(dir, name string) *slog.Logger {
	var out io.Writer = &syslog{daemonInfo, "pcs-capacity-" + name}

	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		var file *os.File
		// Appended in single writes, so lines of hooks that run at once do not mix.
		file, err = state.AppendTo(dir, name+".log")
		if err == nil {
			out = io.MultiWriter(out, file) // the first never fails, and none comes after the second
		}
	}

	log := slog.New(slog.NewJSONHandler(out, utc)).With("pid", os.Getpid())
	if err != nil {
		log.Warn("logging to syslog only; set `[log] dir` to a folder that SlurmUser can write", "err", err)
	}

	return log
}

var utc = &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindTime {
		a.Value = slog.TimeValue(a.Value.Time().UTC())
	}
	return a
}}

// syslog sends each Write as one message to the machine's syslog. The standard library's log/syslog links package net,
// which would let the filter open network connections and doubles its start time; this can only reach a Unix socket.
// The socket is opened at the first message. Nothing blocks: if syslog is not there or is full, the message is lost.
type syslog struct {
	priority int
	name     string
}

func (s *syslog) Write(p []byte) (int, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return len(p), nil
	}
	defer syscall.Close(fd)

	stamp := time.Now().Format(time.Stamp) // RFC 3164, which every local syslog reads
	message := fmt.Sprintf("<%d>%s %s[%d]: %s", s.priority, stamp, s.name, os.Getpid(), p)
	_ = syscall.Sendto(fd, []byte(message), 0, &syscall.SockaddrUnix{Name: syslogSocket})

	return len(p), nil
}

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
