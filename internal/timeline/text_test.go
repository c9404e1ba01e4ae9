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
                        +----------+v---------+----------+----------+----------+
gpu                                 |                -----
    gap of 2d40m: from 2026-11-26 11:50 to 2026-11-28 12:30 CET
  cr-0e2000000000000a1         #####|########++++++~x
    4 x p5.48xlarge, active, us-east-2a (use2-az1)
    opened 2026-11-18 12:30, fence 2026-11-26 11:50, reclaim 12:00,
    ends 12:30 CET
    extended from 2026-11-23 12:30 to 2026-11-26 12:30 CET
  cr-0e2000000000000a2              |.....................#################~x???
    4 x p5.48xlarge, scheduled, us-east-2a (use2-az1)
    opens 2026-11-28 12:30, fence 2026-12-05 11:50, reclaim 12:00,
    ends 12:30 CET
    extension payment-pending: from 2026-12-05 12:30 to 2026-12-06 12:30 CET
batch                               |
  cr-0e2000000000000c5   ###########|##########################################>
    4 x p5.48xlarge, odcr, active, us-east-2a (use2-az1)
    opened 2026-11-16 09:00 CET, no end
empty                               |
    no reservation in this time
no partition                        |
  cr-0e2000000000000d6              |.....?????????????????~x
    4 x p6e-gb200.36xlarge, UltraServer, payment-pending, us-east-2a (use2-az1)
    opens 2026-11-22 12:30, fence 2026-11-29 11:20, reclaim 11:30,
    ends 12:30 CET
  cr-0e2000000000000e7              |..........#~x
    4 x p5.48xlarge, scheduled, us-east-2a (use2-az1)
    opens 2026-11-24 12:30, fence 12:32, reclaim 12:42, ends 13:12 CET

. not open yet   # open for jobs   + open, by an extension   ? payment pending
~ drain margin: no jobs   x EC2 takes instances back   - gap: no capacity
| now   > goes on
`
	if diff := cmp.Diff(want[1:], sample(berlin(t)).Text(Look{Width: 80})); diff != "" {
		t.Error(diff)
	}
}

// TestTextFits: no line is wider than the terminal, and every id is whole.
func TestTextFits(t *testing.T) {
	c := sample(time.UTC)
	for _, unicode := range []bool{true, false} {
		for width := leastWidth; width < 200; width++ {
			text := c.Text(Look{Width: width, Unicode: unicode})
			for line := range strings.Lines(text) {
				if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width {
					t.Fatalf("width %d: %d columns: %s", width, n, line)
				}
			}
			for _, lane := range c.Lanes {
				for _, b := range lane.Blocks {
					if !strings.Contains(text, b.Reservation.ID) {
						t.Fatalf("width %d: %s is missing", width, b.Reservation.ID)
					}
				}
			}
		}
	}
}

func TestASCIIHasNoUnicode(t *testing.T) {
	for i, r := range sample(time.UTC).Text(Look{Width: 80}) {
		if r > 127 {
			t.Fatalf("%q at %d", r, i)
		}
	}
}

// TestNamesDoNotSteerTheTerminal: names from settings and from EC2 are text only.
func TestNamesDoNotSteerTheTerminal(t *testing.T) {
	evil := block("cr-1\033[2J", capacity.StateActive, 1, 30)
	evil.InstanceType = "p5\r"
	text := Chart{Region: "x\a", Now: noon, From: at(0), To: at(48), Zone: time.UTC, Lanes: []capacity.Lane{lane("gpu\n\033c", evil)}}.Text(Look{Width: 80})
	if strings.ContainsAny(text, "\033\r\a") || !strings.Contains(text, "cr-1?[2J") || !strings.Contains(text, "gpu??c") {
		t.Errorf("%q", text)
	}
}

// TestTimesAcrossAClockChange: the zone is written wherever it changes.
func TestTimesAcrossAClockChange(t *testing.T) {
	zone := berlin(t)
	r := block("", capacity.StateActive, 0, 0)
	r.Start, r.End = time.Date(2026, 10, 24, 11, 30, 0, 0, time.UTC), time.Date(2026, 10, 25, 1, 20, 0, 0, time.UTC)
	b := capacity.Block{Reservation: r, Window: timing.Window(r)}
	want := []string{"opened 2026-10-24 13:30", "fence 2026-10-25 02:40", "reclaim 02:50 CEST", "ended 02:20 CET"}
	if diff := cmp.Diff(want, Chart{Now: noon, Zone: zone}.blockTimes(b)); diff != "" {
		t.Error(diff)
	}
}
