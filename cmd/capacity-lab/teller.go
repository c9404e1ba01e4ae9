package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// patience is how long waitFor tries, and most that one command may take.
const patience = 60 * time.Second

// widest is how many columns the demo takes, and those of its commands where nothing bounds them.
const widest = 100

// teller runs commands and notices what is not as told. It shows those that are worth a
// reader's time, or all of them.
type teller struct {
	*terminal.Terminal
	ctx context.Context
	// env is the file to source before each command, work the folder to run it in, bin
	// where the programs are.
	env, work, bin string
	// all shows every command, with all that it printed.
	all      bool
	last     string // the output of the last command
	failed   bool   // something went wrong: the rest makes no sense
	commands int
}

// wants is the expected result of a command: it ends with the status and prints a match of output.
type wants struct {
	status int
	output string
	// shows matches the lines that are worth showing; "" if not even the command is.
	shows string
}

func (t *teller) say(format string, args ...any) {
	if !t.failed {
		t.Tell(format, args...)
	}
}

// note says what belongs to a command that is not shown.
func (t *teller) note(format string, args ...any) {
	if t.all {
		t.say(format, args...)
	}
}

// command shows the command to run.
func (t *teller) command(line string) {
	if !t.failed {
		fmt.Fprintln(t.Out, terminal.WrapCommand("$ "+line, t.OutWidth))
	}
}

func (t *teller) wrong(format string, args ...any) {
	t.Tell("✗ "+format, args...)
	t.failed = true
}

// run runs a command, and compares.
func (t *teller) run(command string, w wants) {
	if t.failed {
		return
	}
	if t.shown(w) {
		t.command(command)
	}
	t.commands++
	problem := w.unmet(t.sh(command), t.last)
	if problem != "" && !t.shown(w) {
		t.command(command)
	}
	t.show(w, problem)
}

// waitFor runs a command until its result is as expected, and shows its last run.
func (t *teller) waitFor(command string, w wants) {
	if t.failed {
		return
	}
	t.commands++
	var problem string
	for end := time.Now().Add(patience); ; time.Sleep(300 * time.Millisecond) {
		problem = w.unmet(t.sh(command), t.last)
		if problem == "" || time.Now().After(end) || t.ctx.Err() != nil {
			break
		}
	}
	if problem != "" {
		problem += fmt.Sprintf(", for %s", patience)
	}
	if t.shown(w) || problem != "" {
		t.command(command)
	}
	t.show(w, problem)
}

// shown tells whether a command is shown that does what it should.
func (t *teller) shown(w wants) bool { return t.all || w.shows != "" }

// find returns the first match in the last output, or its first group.
func (t *teller) find(pattern string) string {
	if t.failed {
		return ""
	}
	m := regexp.MustCompile(pattern).FindStringSubmatch(t.last)
	if m == nil {
		t.wrong("the output has no match of %s", pattern)
		return ""
	}
	return m[len(m)-1]
}

func (w wants) unmet(status int, output string) string {
	switch {
	case status != w.status:
		return fmt.Sprintf("it ended with status %d, not %d", status, w.status)
	case !regexp.MustCompile(w.output).MatchString(output):
		return fmt.Sprintf("the output has no match of %s", w.output)
	}
	return ""
}

// sh runs a command in the environment of the lab and keeps its output.
func (t *teller) sh(command string) (status int) {
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	c := exec.CommandContext(ctx, "/bin/sh", "-c", `. "$0" && eval "$1"`, t.env, command)
	c.Dir = t.work
	// Tables are as wide as here, less what show indents.
	c.Env = append(os.Environ(), "PATH="+t.bin+":"+os.Getenv("PATH"), fmt.Sprintf("COLUMNS=%d", max(1, cmp.Or(t.OutWidth, widest)-2)))
	// Its own process group: a command that hangs ends with its children.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	out, err := c.CombinedOutput()
	t.last = string(out)
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		t.last += fmt.Sprintf("(no end within %s)\n", patience)
		return -1
	case errors.As(err, &exit):
		return exit.ExitCode()
	case err != nil:
		t.last += err.Error()
		return -1
	}
	return 0
}

// show shows what the last command printed: all of it where something is wrong, else the
// lines that are worth it, with a sign where some before them are left out.
func (t *teller) show(w wants, problem string) {
	whole := t.all || problem != ""
	if text := strings.TrimRight(t.last, "\n"); text != "" && (whole || w.shows != "") {
		worth := regexp.MustCompile(w.shows)
		begin := "  "
		for line := range strings.SplitSeq(text, "\n") {
			if !whole && !worth.MatchString(line) {
				if line != "" {
					begin = "… "
				}
				continue
			}
			t.Tell("%s%s", begin, line)
			begin = "  "
		}
	}
	if problem != "" {
		t.wrong("%s", problem)
	}
}
