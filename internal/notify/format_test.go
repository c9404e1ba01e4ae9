package notify

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestFormats(t *testing.T) {
	message := struct {
		Kind string `json:"kind"`
		Slot string `json:"slot"`
		Job  string `json:"job"`
		Text string `json:"message"`
	}{"opened", "gpu-a", "", `it's "open" & <b>`}
	for format, want := range map[Format]string{
		JSON:  `{"kind":"opened","slot":"gpu-a","job":"","message":"it's \"open\" \u0026 \u003cb\u003e"}`,
		Slack: `{"text":"*pcs-capacity: opened*\nit's \"open\" \u0026amp; \u0026lt;b\u0026gt;"}`,
		SNS: `{"TopicArn":"arn:t","Subject":"pcs-capacity: opened","Message":"it's \"open\" \u0026 \u003cb\u003e",` +
			`"MessageAttributes":{"kind":{"DataType":"String","StringValue":"opened"},"slot":{"DataType":"String","StringValue":"gpu-a"}}}`,
	} {
		if got, err := (Target{Format: format, Topic: "arn:t"}).body(message); err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", format, err, got, want)
		}
	}
}

// A heartbeat keeps nobody, even one that is never answered; its failure is known at the next, without
// the secret of its URL.
func TestHeartbeat(t *testing.T) {
	var asked atomic.Int32
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch asked.Add(1); r.URL.Path {
		case "/hangs/secret":
			select {
			case <-r.Context().Done():
			case <-hang:
			}
		case "/no/secret":
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	defer close(hang)
	if err := Ping(t.Context(), server.URL+"/ok", time.Minute); err != nil {
		t.Error(err)
	}
	q := NewQueue()
	if err := q.Ping(server.URL+"/no/secret", time.Minute); err != nil {
		t.Error("the first knows of no failure, but ", err)
	}
	wait(t, "the failure is known", func() bool {
		err := q.Ping(server.URL+"/no/secret", time.Minute)
		return errors.As(err, new(*PingError)) && strings.Contains(err.Error(), "answers 404") && !strings.Contains(err.Error(), "secret")
	})
	wait(t, "it is at rest", func() bool { q.mu.Lock(); defer q.mu.Unlock(); return !q.pinging })
	before := asked.Load()
	for range 3 {
		_ = q.Ping(server.URL+"/hangs/secret", time.Hour) // an hour, if it kept its caller
	}
	wait(t, "it is asked", func() bool { return asked.Load() > before })
	q.Close() // and does not wait for an hour
	if n := asked.Load() - before; n != 1 {
		t.Errorf("%d are under way", n)
	}
	if err := Ping(context.Background(), server.URL+"/hangs/secret", 10*time.Millisecond); err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}
