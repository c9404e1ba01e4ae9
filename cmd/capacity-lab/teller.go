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

// teller shows commands with their real output and notices what is not as told.
type teller struct {
	*terminal.Terminal
	ctx context.Context
	// env is the file to source before each command, work the folder to run it in, bin
	// where the programs are.
	env, work, bin string
	// quirks are the quirks of every simulated AWS.
	quirks quirks

	last     string // the output of the last command
	failed   bool   // the act went wrong: the rest of it makes no sense
	commands int
	mistakes int
}

// wants is the expected result of a command: it ends with the status and prints a match of output.
type wants struct {
	status int
	output string
}

func (t *teller) title(text string) {
	t.Tell("\n%s\n%s", text, strings.Repeat("=", len(text)))
}

func (t *teller) say(format string, args ...any) {
	if !t.failed {
		t.Tell(format, args...)
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
	t.mistakes++
	t.failed = true
}

// run shows a command, runs it, shows what it printed, and compares.
func (t *teller) run(command string, w wants) {
	if t.failed {
		return
	}
	t.command(command)
	t.commands++
	status := t.sh(command)
	t.show()
	if problem := w.unmet(status, t.last); problem != "" {
		t.wrong("%s", problem)
	}
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
	t.command(command)
	t.show()
	if problem != "" {
		t.wrong("%s, for %s", problem, patience)
	}
}

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
	// Tables are as wide as in this terminal, or in one of 100 columns, less what show indents.
	c.Env = append(os.Environ(), "PATH="+t.bin+":"+os.Getenv("PATH"), fmt.Sprintf("COLUMNS=%d", max(1, cmp.Or(t.OutWidth, 100)-2)))
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

func (t *teller) show() {
	if text := strings.TrimRight(t.last, "\n"); text != "" {
		t.Tell("  %s", strings.ReplaceAll(text, "\n", "\n  "))
	}
}
