//go:build !race

package submit_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/hooks/submit"
	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// TestFilterAcrossTheEndOfSummer: a fence that is on the other side of a change of the clocks.
// A day of 23 or of 25 hours adds and takes no minute of a limit, and a --begin that sbatch
// gives in local time is what slurmctld has in seconds.
func TestFilterAcrossTheEndOfSummer(t *testing.T) {
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	local := time.Local
	defer func() { time.Local = local }()
	time.Local = newYork
	for name, test := range map[string]struct {
		now    time.Time // 10 hours later no job runs
		begins []string  // of local time
		told   string    // the fence, as squeue shows it
	}{
		"it ends":   {time.Date(2026, 10, 31, 20, 0, 0, 0, time.UTC), []string{"2026-10-31T20:00:00", "2026-11-01T00:30:00"}, "2026-11-01T01:10 (06:10 UTC)"},
		"it begins": {time.Date(2026, 3, 7, 22, 0, 0, 0, time.UTC), []string{"2026-03-08T01:30:00", "2026-03-08T03:15:00"}, "2026-03-08T04:10 (08:10 UTC)"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := state.Dir(dir).WriteSnapshot(hookstest.Snapshot(test.now)); err != nil {
				t.Fatal(err)
			}
			answer := func(pairs ...string) string {
				return readable(t, submit.Answer(shimArgs(dir, append([]string{"partition", "gpu"}, pairs...)...), test.now, slog.New(slog.DiscardHandler)))
			}
			if got := answer(); !strings.Contains(got, "set time 600\n") {
				t.Errorf("without a limit: %q", got)
			}
			if got := answer("time", "601"); !strings.Contains(got, "refuse ") || !strings.Contains(got, test.told) {
				t.Errorf("a minute too long: %q, want it to tell %q", got, test.told)
			}
			for _, begin := range test.begins {
				at, err := time.ParseInLocation("2006-01-02T15:04:05", begin, newYork)
				if err != nil {
					t.Fatal(err)
				}
				left := fmt.Sprintf("set time %d\n", int(test.now.Add(10*time.Hour).Sub(at)/time.Minute))
				for _, text := range []string{begin, fmt.Sprint(at.Unix())} {
					if got := answer("begin", text); !strings.Contains(got, left) {
						t.Errorf("--begin %s: %q, want %q", text, got, left)
					}
				}
			}
		})
	}
}
