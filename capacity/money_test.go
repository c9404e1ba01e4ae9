package capacity

import (
	"encoding/json"
	"testing"
	"time"
)

func TestMoneyIsExact(t *testing.T) {
	for in, want := range map[string]string{
		"12345.67": "12345.67", "12345.670000000": "12345.67", "0.1": "0.10", "1000000": "1000000.00", "3.1415": "3.1415", "0.000001": "0.000001",
		"007": "7.00", "0": "0.00", "5.": "5.00", "9223372036854.775807": "9223372036854.775807",
	} {
		m, err := ParseMoney(in, USD)
		if err != nil || m.Amount() != want || m.String() != want+" USD" || m.Currency() != USD {
			t.Errorf("%q: %s, %v; want %s", in, m, err, want)
		}
	}
	for _, bad := range []string{"", ".", ".5", "1e6", "-1", "12,345.67", "$5", "1.2.3", "1/2", "+1", "0.0000001", "9223372036854.775808", "99999999999999999999"} {
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

// Amounts of two currencies have no order, and are never the same.
func TestMoneyIsComparedWithItsCurrency(t *testing.T) {
	for _, c := range []struct {
		a, b Money
		want int
		ok   bool
	}{
		{money(t, "1", "USD"), money(t, "1.000000", "USD"), 0, true},
		{money(t, "1", "USD"), money(t, "1.000001", "USD"), -1, true},
		{money(t, "10", "EUR"), money(t, "9.99", "EUR"), 1, true},
		{money(t, "1", "USD"), money(t, "1", "EUR"), 0, false},
		{money(t, "1", "USD"), money(t, "1", ""), 0, false},
		{money(t, "1", ""), money(t, "1", ""), 0, false},
		{Money{}, money(t, "0", "USD"), 0, false},
	} {
		got, err := c.a.Compare(c.b)
		if got != c.want || (err == nil) != c.ok {
			t.Errorf("%s with %s: %d, %v; want %d, %t", c.a, c.b, got, err, c.want, c.ok)
		}
	}
	if money(t, "1", "USD") == money(t, "1", "EUR") {
		t.Error("1 USD is 1 EUR")
	}
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
		{"9223372036854", 1, time.Minute, "0.00"}, // too large to say
		{"1", 0, time.Hour, "0.00"}, {"1", 1, 0, "0.00"}, {"1", 1, -time.Hour, "0.00"},
	} {
		if got := money(t, c.fee, "EUR").PerHour(c.count, c.d).String(); got != c.want {
			t.Errorf("%s for %d over %s is %s an hour, want %s", c.fee, c.count, c.d, got, c.want)
		}
	}
}

func TestMoneyIsWrittenAndRead(t *testing.T) {
	for want, m := range map[string]Money{`"12345.678 USD"`: money(t, "12345.678", "USD"), `"1.00"`: money(t, "1", ""), `""`: {}} {
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
