// Package notify delivers messages to a site, to a command of its own or to a webhook. sync calls [Target.Deliver] for
// each notice of a pass; which notices are due, and that each comes once, is decided in package lifecycle (notices.go).
package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Target receives messages: the command, the webhook, or both.
type Target struct {
	// Command is the path of a program, which is run without a shell and without arguments and reads the message from
	// its standard input. Exit status 0 says that it has been delivered.
	Command string
	// Webhook is a URL that the message is posted to, or file:///PATH of a file that has it. An answer of 2xx says the
	// same.
	Webhook string
	Timeout time.Duration // bounds each of the two
}

// Deliver delivers a message to both, once; call it again to try again.
func (t Target) Deliver(ctx context.Context, message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}

	var errs []error
	for _, deliver := range []func(context.Context, []byte) error{t.run, t.post} {
		attempt, cancel := context.WithTimeout(ctx, t.Timeout)
		errs = append(errs, deliver(attempt, text))

		cancel()
	}

	return errors.Join(errs...)
}

// maxOutput bounds the bytes kept of what a command prints; maxDrain bounds how long what it has left behind may keep
// its output open.
const maxOutput, maxDrain = 4096, time.Second

// run runs the command in a process group of its own, which ends with it.
func (t Target) run(ctx context.Context, text []byte) error {
	if t.Command == "" {
		return nil
	}

	var out head

	cmd := exec.CommandContext(ctx, t.Command)
	cmd.Stdin = bytes.NewReader(text)
	cmd.Stdout = &out
	cmd.Stderr = &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}

	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = maxDrain
	err := cmd.Run()
	if cmd.Process != nil {
		_ = cmd.Cancel() // what it has left behind, if anything
	}

	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("[notify] command %s did not finish within %s", t.Command, t.Timeout)
	case cmd.Process == nil:
		return fmt.Errorf("[notify] command %s: %w", t.Command, err)
	}

	return fmt.Errorf("[notify] command %s: %w: %s", t.Command, err, firstLine(out))
}

// head keeps the beginning of what is written.
type head []byte

func (h *head) Write(text []byte) (int, error) {
	*h = append(*h, text[:min(len(text), maxOutput-len(*h))]...)
	return len(text), nil
}

func (t Target) post(ctx context.Context, text []byte) error {
	if t.Webhook == "" {
		return nil
	}

	address := t.Webhook
	if path, is := strings.CutPrefix(t.Webhook, "file://"); is {
		secret, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("[notify] webhook: %w", err)
		}

		address = strings.TrimSpace(string(secret))
	}

	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(text))
	if err != nil {
		return errors.New("[notify] webhook is not a URL")
	}

	request.Header.Set("Content-Type", "application/json")

	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		// The URL may hold a secret, so that it is not shown.
		return fmt.Errorf("[notify] webhook at %s does not answer", request.URL.Host)
	}
	defer answer.Body.Close()

	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("[notify] webhook at %s answers %s", request.URL.Host, answer.Status)
	}

	return nil
}

func firstLine(out []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line[:min(len(line), 200)]
}
