package capacity

import (
	"testing"
)

// TestParseLimit: every row was compared with sbatch -t on Slurm 22.05.8.
func TestParseLimit(t *testing.T) {
	minutes, unlimited := Minutes, NoLimit
	for _, test := range []struct {
		text string
		want Limit
	}{
		{"1", minutes(1)},
		{"60", minutes(60)},
		{"90:00", minutes(90)},
		{"90:30", minutes(91)},
		{"0:1", minutes(1)},
		{"0:59", minutes(1)},
		{"00:90", minutes(2)},
		{"1:30:00", minutes(90)},
		{"1:30:01", minutes(91)},
		{"1:90:90", minutes(152)},
		{"2-00:00:00", minutes(2880)},
		{"2-0", minutes(2880)},
		{"2-", minutes(2880)},
		{"2-1:30", minutes(2970)},
		{"1-0:0:1", minutes(1441)},
		{"365-0", minutes(525600)},
		{"0", unlimited},
		{"0:00", unlimited},
		{"0-0", unlimited},
		{"-1", unlimited},
		{"infinite", unlimited},
		{"UNLIMITED", unlimited},
		{"4294967295", unlimited},
		{"", Limit{}},
		{"Partition_Limit", Limit{}},
		{"NONE", Limit{}},
		{"2982616-04:14:00", Limit{}},
		{"4294967294", Limit{}},
		{"65534", Limit{}},
	} {
		got, err := ParseLimit(test.text)
		if err != nil || got != test.want {
			t.Errorf("ParseLimit(%q) = %+v, %v; want %+v", test.text, got, err, test.want)
		}
	}
	for _, text := range []string{"1:", ":1", "1:2:3:4", "1-2-3", " 5", "5m", "1::2", "--", "1-:1", "UnLim", "-2", "+5", "99999999999", "35791395"} {
		if got, err := ParseLimit(text); err == nil {
			t.Errorf("ParseLimit(%q) = %+v, want an error", text, got)
		}
	}
}

func TestLimitPrints(t *testing.T) {
	for want, limit := range map[string]Limit{
		"none":       {},
		"UNLIMITED":  NoLimit,
		"00:01:00":   Minutes(1),
		"01:30:00":   Minutes(90),
		"23:59:00":   Minutes(1439),
		"2-01:30:00": Minutes(2970),
	} {
		if got := limit.String(); got != want {
			t.Errorf("%#v prints %s, want %s", limit, got, want)
		}
		if back, err := ParseLimit(want); err != nil || back != limit {
			t.Errorf("ParseLimit(%s) = %+v, %v; want %+v", want, back, err, limit)
		}
	}
}

func FuzzParseLimit(f *testing.F) {
	for _, seed := range []string{"60", "1:30:01", "2-1:30", "UNLIMITED", "2982616-04:14:00", "9999999999-9999999999:9999999999:9999999999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		limit, err := ParseLimit(text)
		if err != nil {
			return
		}
		if limit.Bounded() && (limit.Minutes < 1 || limit.Minutes > MaxMinutes) {
			t.Fatalf("ParseLimit(%q) = %d minutes", text, limit.Minutes)
		}
		if back, err := ParseLimit(limit.String()); err != nil || back != limit {
			t.Fatalf("%q is %+v, prints %s, which is %+v (%v)", text, limit, limit, back, err)
		}
	})
}
