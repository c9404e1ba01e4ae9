package main

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/market"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// sampleWeek writes what sync would have kept of a block of 4 nodes over a week: jobs that end
// in every way, a host that fails, a night without jobs, an hour in which sync was dead.
func sampleWeek(t *testing.T, dir state.Dir, end time.Time) (start time.Time) {
	t.Helper()
	start = end.Add(-7 * 24 * time.Hour)
	at := func(hours float64) time.Time { return start.Add(time.Duration(hours * float64(time.Hour))) }
	var last *state.Sample
	states := []string{"COMPLETED", "COMPLETED", "TIMEOUT", "COMPLETED", "FAILED", "COMPLETED", "REQUEUED"}
	for n := range 7*24*4 + 1 {
		h := float64(n) / 4
		if h > 100 && h < 104 {
			continue // sync is dead
		}
		p := &state.Paid{Partition: "gpu", Slot: "gpu", Kind: capacity.CapacityBlock, InstanceType: "p5.48xlarge", GPUs: 8, Size: 4, Start: start, Fence: end.Add(-40 * time.Minute), End: end,
			Waits: int(h)%24 > 8 && int(h)%24 < 14, Nodes: map[string]string{"up": "gpu-[1-4]"}}
		switch {
		case h < 0.25:
			p.Nodes = map[string]string{"boot": "gpu-[1-4]"}
		case h > 60 && h < 70:
			p.Unhealthy, p.Nodes = 1, map[string]string{"up": "gpu-[1-3]", "down": "gpu-4"}
		}
		now := state.Sample{At: at(h), Paid: map[string]*state.Paid{"cr-0e2000000000000a1": p}, Runs: map[string]state.Run{}}
		for job := range 24 {
			from := float64(job)*7 + 0.3
			run := state.Run{Job: strconv.Itoa(100 + job), User: []string{"alice", "bob", "carol"}[job%3], Account: []string{"nlp", "vision"}[job%2], Partition: "gpu",
				Nodes: []string{"gpu-[1-3]", "gpu-[1-4]", "gpu-2"}[job%3], Start: at(from)}
			to := from + 2 + float64(job%5)
			if h < from || h > to+0.25 || to > 167 {
				continue
			}
			if h >= to {
				run.End, run.State = at(to), states[job%len(states)]
			}
			now.Runs[run.Job+".0"] = run
		}
		if h < 168 {
			if err := dir.AppendSample(now, last, 15*time.Minute); err != nil {
				t.Fatal(err)
			}
			last = dir.LastSample()
		}
	}
	return start
}

// The report of a week, in each form. PICTURES names a folder in which they are kept.
func TestReportForms(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "slurm.conf")
	t.Setenv("SLURM_CONF", conf) // without the file each question takes Slurm seconds
	if err := os.WriteFile(conf, []byte(downConf), 0o644); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cfg := config.Default()
	cfg.StateDir = dir
	end := time.Now().Add(-time.Minute).Truncate(time.Hour)
	start := sampleWeek(t, state.Dir(dir), end)
	fee, err := capacity.ParseMoney("21143.81", "USD")
	if err != nil {
		t.Fatal(err)
	}
	const id = "cr-0e2000000000000a1"
	for i, paid := range []struct {
		kind   market.IntentKind
		fee    string
		newEnd time.Time
	}{{market.BuyBlock, "20000.00", time.Time{}}, {market.ExtendBlock, "1143.81", end}, {market.ExtendBlock, "5.00", end.Add(time.Hour)}} {
		part, err := capacity.ParseMoney(paid.fee, "USD")
		if err != nil {
			t.Fatal(err)
		}
		if err := (market.Intents{StateDir: state.Dir(dir)}).Write(market.Intent{ID: strconv.Itoa(i), Kind: paid.kind, Phase: market.Done, At: start.Add(time.Duration(i)), Reservation: id, NewEnd: paid.newEnd, Fee: part}); err != nil {
			t.Fatal(err)
		}
	}
	run := func(form terminal.Format) (out, said string) {
		t.Helper()
		var stdout, stderr strings.Builder
		c := ReportCmd{Reservations: []string{id}, Price: map[string]string{"p5.48xlarge": "55.04"}}
		if err := c.Run(t.Context(), &terminal.Terminal{Out: &stdout, Err: &stderr, Format: form, UTC: true, Width: 100}, cfg); err != nil {
			t.Fatal(err)
		}
		return stdout.String(), stderr.String()
	}
	paid := int64(4 * 7 * 24 * 3600)

	table, said := run(terminal.Table)
	for _, want := range []string{"672.00 node-hours were paid", "lost-timeout", "unknown", "hardware", "/GPU", "nlp", "carol"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, table)
		}
	}
	if !strings.Contains(said, "Unknown: "+id+" from ") || !strings.Contains(said, "sync did not run") {
		t.Errorf("said: %s", said)
	}
	for line := range strings.Lines(table) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}

	text, _ := run(terminal.JSON)
	var doc reportDocument
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	days := int64(0)
	for _, d := range doc.Days {
		days += d.Sums.Total()
	}
	if doc.Total.Total() != paid || days != paid {
		t.Errorf("paid %d: %d, days %d", paid, doc.Total.Total(), days)
	}
	if r := doc.Reservations[0]; r.Cost.Fee != fee || r.Cost.InReport != fee || r.Cost.PerPaid.Amount() != "3.93" || r.Cost.OnDemand.Amount() != "6.88" || r.Cost.PerUsed.Amount() == "" || !r.Start.Equal(start) {
		t.Errorf("%+v", r)
	}
	if doc.Accounting || len(doc.Warnings) != 1 {
		t.Errorf("Slurm did not answer: %v", doc.Warnings)
	}

	text, _ = run(terminal.CSV)
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]int64{}
	for _, row := range rows[1:] {
		n, err := strconv.ParseInt(row[8], 10, 64)
		if err != nil {
			t.Fatal(row, err)
		}
		sums[row[0]] += n
	}
	if sums["reservation"] != paid || sums["day"] != paid || sums["account"] != sums["job"] || sums["user"] != sums["job"] || sums["job"] == 0 {
		t.Errorf("CSV: %v", sums)
	}
}

// What is wrong with the command line, and a state_dir without samples.
func TestReportRefuses(t *testing.T) {
	cfg := config.Default()
	cfg.StateDir = t.TempDir()
	for want, c := range map[string]ReportCmd{
		"is not the id of a reservation": {Reservations: []string{"gpu"}},
		"has no samples":                 {},
		"--price p5: ":                   {Price: map[string]string{"p5": "much"}},
	} {
		err := c.Run(t.Context(), &terminal.Terminal{Out: io.Discard, Err: io.Discard}, cfg)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
