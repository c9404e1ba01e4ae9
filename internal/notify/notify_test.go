package notify

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func program(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "tell")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}

	return path
}

var message = map[string]string{"kind": "opened", "message": `it's "open"; $(reboot)`}

// A command gets the message on its standard input.
func TestCommand(t *testing.T) {
	dir := t.TempDir()
	path := program(t, "cat >>"+dir+"/said; echo >>"+dir+"/said\n")
	if err := (Target{Command: path, Timeout: 20 * time.Second}).Deliver(t.Context(), message); err != nil {
		t.Fatal(err)
	}

	text, err := os.ReadFile(dir + "/said")
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")

	var got map[string]string
	if err != nil || len(lines) != 1 || json.Unmarshal([]byte(lines[0]), &got) != nil ||
		got["message"] != message["message"] {
		t.Errorf("%v: %q", err, lines)
	}
}

func TestCommandsThatFail(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"an exit status": {"echo no such channel; echo more; exit 3\n", "exit status 3: no such channel"},
		"it hangs":       {"exec sleep 100\n", "did not finish within 200ms"},
	} {
		t.Run(name, func(t *testing.T) {
			timeout := 20 * time.Second
			if name == "it hangs" {
				timeout = 200 * time.Millisecond
			}

			err := (Target{Command: program(t, c.text), Timeout: timeout}).Deliver(t.Context(), message)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// A webhook is asked once; what is said of it has no secret of its URL.
func TestWebhook(t *testing.T) {
	var (
		calls atomic.Int32
		body  atomic.Value
	)

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		body.Store(string(text))

		if calls.Add(1); r.URL.Path == "/never/secret" {
			http.Error(w, "busy", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()

	if err := (Target{
		Webhook: server.URL + "/ok/secret",
		Timeout: 20 * time.Second,
	}).Deliver(t.Context(), message); err != nil ||
		calls.Load() != 1 {
		t.Errorf("%v after %d calls", err, calls.Load())
	}

	if text := body.Load().(string); !strings.Contains(text, `"kind":"opened"`) {
		t.Errorf("it got %s", text)
	}

	file := filepath.Join(t.TempDir(), "webhook")
	if err := os.WriteFile(file, []byte(server.URL+"/ok/secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	if err := (Target{
		Webhook: "file://" + file,
		Timeout: 20 * time.Second,
	}).Deliver(t.Context(), message); err != nil ||
		calls.Load() != 2 {
		t.Errorf("%v after %d calls", err, calls.Load())
	}

	err := (Target{Webhook: server.URL + "/never/secret", Timeout: 20 * time.Second}).Deliver(t.Context(), message)
	if err == nil || !strings.Contains(err.Error(), "503") || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	if err := (Target{Webhook: "http://127.0.0.1:1/secret", Timeout: time.Second}).Deliver(ctx, message); err == nil ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}
