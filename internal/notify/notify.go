// Package notify delivers messages to a site: as JSON, to a command of its own or to a webhook.
package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"time"
)

// Target is where messages go: to the command, to the webhook, or to both.
type Target struct {
	// Command is the path of a program, which is run without a shell and without arguments and
	// reads the message from its standard input. Exit status 0 says that it has been delivered.
	Command string
	// Webhook is a URL that the message is posted to; an answer of 2xx says the same.
	Webhook string
	// Timeout bounds each attempt.
	Timeout time.Duration
}

// attempts and pause are how often a delivery is tried, and the time between two of them.
const (
	attempts = 3
	pause    = time.Second
)

// Deliver delivers a message to all of the targets. It tries each up to three times; where the
// other one has taken the message before, it gets it again with the next attempt.
func (t Target) Deliver(ctx context.Context, message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	var errs []error
	if t.Command != "" {
		errs = append(errs, t.try(ctx, func(ctx context.Context) error { return t.run(ctx, text) }))
	}
	if t.Webhook != "" {
		errs = append(errs, t.try(ctx, func(ctx context.Context) error { return t.post(ctx, text) }))
	}
	return errors.Join(errs...)
}

func (t Target) try(ctx context.Context, deliver func(context.Context) error) (err error) {
	for n := range attempts {
		if n > 0 {
			select {
			case <-ctx.Done():
				return err
			case <-time.After(pause):
			}
		}
		attempt, cancel := context.WithTimeout(ctx, t.Timeout)
		err = deliver(attempt)
		cancel()
		if err == nil {
			return nil
		}
	}
	return err
}

func (t Target) run(ctx context.Context, text []byte) error {
	cmd := exec.CommandContext(ctx, t.Command)
	cmd.Stdin = bytes.NewReader(text)
	cmd.WaitDelay = time.Second // what it leaves behind keeps no pipe open for us
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return fmt.Errorf("[notify] command %s did not end within %s", t.Command, t.Timeout)
	}
	if err != nil {
		return fmt.Errorf("[notify] command %s: %w: %s", t.Command, err, firstLine(out))
	}
	return nil
}

func (t Target) post(ctx context.Context, text []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, t.Webhook, bytes.NewReader(text))
	if err != nil {
		return errors.New("[notify] webhook is no URL")
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
