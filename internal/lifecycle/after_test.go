package lifecycle

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
)

// The heartbeat is asked after a pass that did all, never after one that failed; its own failure is a note.
func TestHeartbeatOfAPass(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > 1 {
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	cfg := config.Default()
	cfg.StateDir, cfg.Notify.Heartbeat, cfg.Notify.Timeout.Duration = t.TempDir(), server.URL+"/secret", time.Minute
	s := Sources{After: after(cfg, nil)}
	for i, c := range []struct {
		report Report
		asked  int32
		note   string
	}{
		{Report{Failed: true}, 0, ""},
		{Report{}, 1, ""},
		{Report{}, 2, "answers 404"},
	} {
		problems := After(t.Context(), s, &capacity.Snapshot{}, c.report)
		if asked.Load() != c.asked {
			t.Errorf("%d: asked %d times, want %d", i, asked.Load(), c.asked)
		}
		if c.note == "" && len(problems) > 0 || c.note != "" && (len(problems) != 1 || problems[0].Severity != capacity.Note || !strings.Contains(problems[0].String(), c.note) || strings.Contains(problems[0].String(), "secret")) {
			t.Errorf("%d: %v", i, problems)
		}
	}
}
