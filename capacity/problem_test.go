package capacity

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A problem is said once, administrators' first.
func TestProblems(t *testing.T) {
	host := Problemf(
		HostFailed,
		Subject{Partition: "gpu", Reservation: "cr-0"},
		"open a case",
		"%d hosts have failed",
		1,
	)
	ended := Problemf("reservation-ended", Subject{}, "", "cr-9 has ended")
	never := Problemf(NeverStarts, Subject{Job: "7"}, "", "job 7 can never start")

	var all Problems
	all.Add(ended, never, host, host)

	if diff := cmp.Diff(Problems{host, never, ended}, all.All()); diff != "" {
		t.Error(diff)
	}
}

// A job is told "never" only for a refusal that no later minute can lift: blocks, fences, clocks and settings change.
func TestOutlook(t *testing.T) {
	never := map[Code]bool{
		BadComment:         true,
		AccountNotAllowed:  true,
		WrongPartition:     true,
		UnknownReservation: false,
		NoMatchingCapacity: false,
		NoReservation:      false,
		TooManyNodes:       false,
		TooLong:            false,
		Mismatched:         false,
	}
	for _, m := range Codes {
		if m.Slurm == "" {
			continue
		}

		want, listed := never[m.Code]
		outlook := refuse(m.Code, "").Outlook()
		if !listed || want != (outlook == CanNeverStart) || !want && outlook != CannotStart {
			t.Errorf("%s (listed: %t): %s", m.Code, listed, outlook)
		}
	}
}

// Each code stands once in the table, with a line that says what it means.
func TestCodes(t *testing.T) {
	seen := map[Code]bool{}
	for _, m := range Codes {
		if seen[m.Code] || m.Text == "" || m.Severity != m.Code.Severity() {
			t.Errorf("%+v", m)
		}

		seen[m.Code] = true
	}

	if Code("").Severity() != Admin {
		t.Error("an unknown code needs an administrator")
	}
}

// A compute node group may hold a reservation that the settings do not name: it keeps its slot, and no more jobs are
// admitted to it while it lives.
func TestUnnamedReservationsOfSlots(t *testing.T) {
	named, other := blockA, blockB
	for name, c := range map[string]struct {
		held     string
		provider Provider
		change   func(*Reservation)
		unnamed  bool
		holds    string
	}{
		"named":   {held: named.ID, provider: ProviderPCS, holds: named.ID},
		"another": {held: other.ID, provider: ProviderPCS, holds: other.ID, unnamed: true},
		"another that ended": {
			held:     other.ID,
			provider: ProviderPCS,
			holds:    other.ID,
			change:   func(r *Reservation) { r.State = StateExpired },
		},
		"one that EC2 forgot":              {held: "cr-0", provider: ProviderPCS, holds: "cr-0"},
		"another, without PCS":             {held: other.ID, provider: ProviderEC2},
		"one that EC2 forgot, without PCS": {held: "cr-0", provider: ProviderEC2},
		"named, without PCS":               {held: named.ID, provider: ProviderEC2, holds: named.ID},
	} {
		r := other
		if c.change != nil {
			c.change(&r)
		}

		slots := fillSlots(
			c.provider,
			[]string{"gpu-a", "gpu-b"},
			[]string{named.ID},
			placement{holds: map[string]string{"gpu-b": c.held}},
			&Snapshot{Reservations: []Reservation{named, r}, Timing: twoBlocks().Timing},
		)
		if slots[1].Unnamed != c.unnamed || slots[1].Occupant != c.holds || slots[0].Unnamed {
			t.Errorf("%s: %+v", name, slots)
		}
	}
}

func TestMoneyIsExact(t *testing.T) {
	for in, want := range map[string]string{
		"12345.67":             "12345.67",
		"12345.670000000":      "12345.67",
		"0.1":                  "0.10",
		"1000000":              "1000000.00",
		"3.1415":               "3.1415",
		"0.000001":             "0.000001",
		"007":                  "7.00",
		"0":                    "0.00",
		"5.":                   "5.00",
		"9223372036854.775807": "9223372036854.775807",
	} {
		m, err := ParseMoney(in, USD)
		if err != nil || m.Amount() != want || m.String() != want+" USD" || m.Currency() != USD {
			t.Errorf("%q: %s, %v; want %s", in, m, err, want)
		}
	}

	for _, bad := range []string{
		"",
		".",
		".5",
		"1e6",
		"-1",
		"12,345.67",
		"$5",
		"1.2.3",
		"1/2",
		"+1",
		"0.0000001",
		"9223372036854.775808",
		"99999999999999999999",
	} {
		if m, err := ParseMoney(bad, USD); err == nil {
			t.Errorf("%q was read as %s", bad, m)
		}
	}
}

func money(t *testing.T, amount, currency string) Money {
	t.Helper()

	m, err := ParseMoney(amount, currency)
	if err != nil {
		t.Fatal(err)
	}

	return m
}

func TestMoneyPerHour(t *testing.T) {
	for _, c := range []struct {
		fee   string
		count int
		d     time.Duration
		want  string
	}{
		{"21143.81", 4, 7 * 24 * time.Hour, "31.46 EUR"},
		{"0.01", 1, 2 * time.Hour, "0.01 EUR"}, // half a cent
		{"0.01", 1, 2*time.Hour + 1, "0.00 EUR"},
		{"100", 1, 30 * time.Minute, "200.00 EUR"},
		{"9223372036854", 1, time.Minute, "0.00"}, // too large to show
		{"1", 0, time.Hour, "0.00"},
		{"1", 1, 0, "0.00"},
		{"1", 1, -time.Hour, "0.00"},
	} {
		if got := money(t, c.fee, "EUR").PerHour(c.count, c.d).String(); got != c.want {
			t.Errorf("%s for %d over %s is %s an hour, want %s", c.fee, c.count, c.d, got, c.want)
		}
	}
}

func TestMoneyIsWrittenAndRead(t *testing.T) {
	for want, m := range map[string]Money{
		`"12345.678 USD"`: money(t, "12345.678", "USD"),
		`"1.00"`:          money(t, "1", ""),
		`""`:              {},
	} {
		text, err := json.Marshal(m)
		if err != nil || string(text) != want {
			t.Errorf("%s is written as %s, %v; want %s", m, text, err, want)
		}

		back := money(t, "7", "EUR")
		if err := json.Unmarshal(text, &back); err != nil || back != m {
			t.Errorf("%s is read as %s, %v", text, back, err)
		}
	}

	var m Money
	if err := json.Unmarshal([]byte(`"dear"`), &m); err == nil {
		t.Errorf("read as %s", m)
	}
}

func TestExactDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0s":         0,
		"90s":        90 * time.Second,
		"10m":        10 * time.Minute,
		"1h30m":      90 * time.Minute,
		"36h":        36 * time.Hour,
		"7d":         7 * day,
		"2w":         14 * day,
		"1d12h":      36 * time.Hour,
		"1w1d":       8 * day,
		"1-12:00:00": 36 * time.Hour,
		"0:10:30":    10*time.Minute + 30*time.Second,
		"10m0s":      10 * time.Minute,
		"-1.5s":      -1500 * time.Millisecond,
	} {
		got, err := ParseDuration(text)
		if err != nil || got != want {
			t.Errorf("%q is %s, %v; want %s", text, got, err, want)
		}

		if back, err := ParseDuration(FormatExact(got)); err != nil || back != got {
			t.Errorf("%s is written as %s, which is %s, %v", got, FormatExact(got), back, err)
		}
	}

	for _, bad := range []string{
		"",
		"-",
		"7",
		"d",
		"7 d",
		"1.5d",
		"1h-30m",
		"--1h",
		"1d1w",
		"7days",
		"99999w",
		"40000d",
		"1-2",
		"1:30",
		"2562047h",
		"+1h",
		"1d+1h",
	} {
		if got, err := ParseDuration(bad); err == nil {
			t.Errorf("%q was read as %s", bad, got)
		}
	}

	for d, want := range map[time.Duration]string{
		0:                        "0s",
		7 * day:                  "7d",
		36 * time.Hour:           "1d12h",
		90 * time.Second:         "1m30s",
		-1500 * time.Millisecond: "-1.5s",
	} {
		if got := FormatExact(d); got != want {
			t.Errorf("%s is written as %s, want %s", d, got, want)
		}
	}
}
