package timeline

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

func TestText(t *testing.T) {
	want := `
Capacity in us-east-2, 2026-11-16 to 2026-12-06, now 2026-11-20 13:00 CET

                        Nov 16     Nov 20     Nov 24     Nov 28     Dec 02
                        ┬──────────┬▼─────────┬──────────┬──────────┬───────────
gpu                                 │                ╌╌╌╌╌
  gap of 2d40m: from Nov 26 11:50 to Nov 28 12:30
  cr-0e2000000000000a1         █████│████████▓▓▓▓▓▓▄╳
  4 x p5.48xlarge, active, us-east-2a (use2-az1)
  start Nov 18 12:30, fence Nov 26 11:50, reclaim Nov 26 12:00, end Nov 26 12:30
  extended from Nov 23 12:30 to Nov 26 12:30
  cr-0e2000000000000a2              │·····················█████████████████▄╳░░░
  4 x p5.48xlarge, scheduled, us-east-2a (use2-az1)
  start Nov 28 12:30, fence Dec 05 11:50, reclaim Dec 05 12:00, end Dec 05 12:30
  extension payment-pending: from Dec 05 12:30 to Dec 06 12:30
batch                               │
  cr-0e2000000000000c5   ███████████│███████████████████████████████████████████
  4 x p5.48xlarge, odcr, active, us-east-2a (use2-az1)
  start Nov 16 09:00, no end
empty                               │
  no reservation in this time
no partition                        │
  cr-0e2000000000000d6              │·····░░░░░░░░░░░░░░░░░▄╳
  4 x p6e-gb200.36xlarge, UltraServer, payment-pending, us-east-2a (use2-az1)
  start Nov 22 12:30, fence Nov 29 11:20, reclaim Nov 29 11:30, end Nov 29 12:30
  cr-0e2000000000000e7              │··········█▄╳
  4 x p5.48xlarge, scheduled, us-east-2a (use2-az1)
  start Nov 24 12:30, fence Nov 24 12:32, reclaim Nov 24 12:42, end Nov 24 13:12

· not open yet
█ open for jobs
▓ open, by an extension
░ payment pending
▄ drain margin: no jobs
╳ EC2 takes instances back
╌ gap: no capacity
│ now
`
	if diff := cmp.Diff(want[1:], sample(berlin(t)).Text(80)); diff != "" {
		t.Error(diff)
	}
}

// TestTextFits: no row is wider than the terminal; notes are wrapped where they are printed.
func TestTextFits(t *testing.T) {
	for width := LeastWidth; width < 200; width++ {
		for line := range strings.Lines(sample(time.UTC).Text(width)) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width && strings.ContainsAny(line, "█─") {
				t.Fatalf("width %d: %d columns: %s", width, n, line)
			}
		}
	}
}

// TestNamesDoNotSteerTheTerminal: names from settings and from EC2 are text only.
func TestNamesDoNotSteerTheTerminal(t *testing.T) {
	evil := block("cr-1\033[2J", capacity.StateActive, 1, 30)
	evil.InstanceType = "p5\r"
	text := Chart{Region: "x\a", Now: noon, From: at(0), To: at(48), Zone: time.UTC, Lanes: []capacity.Lane{lane("gpu\n\033c", evil)}}.Text(80)
	if strings.ContainsAny(text, "\033\r\a") || !strings.Contains(text, "cr-1?[2J") || !strings.Contains(text, "gpu??c") {
		t.Errorf("%q", text)
	}
}
