package capacity

import (
	"strings"
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

func TestWall(t *testing.T) {
	w := NewWalls([]QOSWall{{Name: "normal"}, {Name: "short", MaxWall: Minutes(60)}, {Name: "long", MaxWall: Minutes(600)},
		{Name: "over", MaxWall: Minutes(700), OverPartition: true}, {Name: "part", MaxWall: Minutes(120)}}, []Association{
		{Account: "root"}, {Account: "nlp", MaxWall: Minutes(300)}, {Account: "nlp", User: "ann", MaxWall: Minutes(300)},
		{Account: "nlp", User: "bob", MaxWall: Minutes(30)}, {Account: "nlp", User: "bob", Partition: "gpu", MaxWall: Minutes(20)},
		{Account: "vis", DefaultQOS: "short"}, {Account: "vis", User: "bob", DefaultQOS: "short"}, {Account: "vis", User: "ann", DefaultQOS: "normal"},
		{Account: "free"}, {Account: "free", User: "bob"},
	}, map[string]string{"ann": "nlp", "bob": "vis", "cleo": "free"})
	gpu, cpu, part := Partition{Name: "gpu"}, Partition{Name: "cpu"}, Partition{Name: "gpu", QOS: "part"}
	for _, c := range []struct {
		user, account, qos string
		p                  Partition
		want               int // 0: none
	}{
		{"ann", "nlp", "", gpu, 300},
		{"ann", "", "", gpu, 300},
		{"bob", "nlp", "", cpu, 30},
		{"bob", "nlp", "", gpu, 20},
		{"bob", "", "", gpu, 60},     // vis, and its default QOS
		{"ann", "vis", "", gpu, 0},   // hers is normal
		{"dora", "vis", "", gpu, 60}, // that of the account
		{"bob", "nlp", "long", gpu, 600},
		{"bob", "nlp", "normal", gpu, 20},
		{"bob", "nlp", "long", part, 120}, // the partition's QOS first
		{"bob", "nlp", "over", part, 700},
		{"cleo", "", "", gpu, 0},
		{"", "", "short", gpu, 60},
		{"bob", "gone", "gone", gpu, 0},
	} {
		if got, _ := w.MaxWall(c.user, c.account, c.qos, c.p); got.Minutes != c.want || got.Bounded() != (c.want > 0) {
			t.Errorf("%+v: got %s", c, got)
		}
	}
	if len(w.Associations) != 5 || len(w.Accounts) != 2 || len(w.QOS) != 4 {
		t.Errorf("what binds is %+v", w)
	}
}

// The limit of a job that states none is one that accounting lets it have.
func TestFitsWithinWall(t *testing.T) {
	for name, c := range map[string]struct {
		req  Request
		wall int
		time int
		min  int
	}{
		"shorter than the window": {wall: 90, time: 90, min: 31},
		"shorter than the floor":  {wall: 10, time: 10, min: 10},
		"stated by the user":      {req: Request{TimeLimit: Minutes(120)}, wall: 90},
	} {
		t.Run(name, func(t *testing.T) {
			snap := twoBlocks(onlyA)
			snap.Walls = Walls{QOS: []QOSWall{{Name: NormalQOS, MaxWall: Minutes(c.wall)}}}
			c.req.Partitions = []string{"gpu"}
			v := Admit(c.req, snap, noon)
			if v.Refused || v.Edits.TimeLimit.Minutes != c.time || v.Edits.TimeMin.Minutes != c.min {
				t.Errorf("%+v", v)
			}
		})
	}
}

// Where accounting counts what jobs use, a limit that we choose is the floor, and the user is told.
func TestFitsTheFloorWhereUseIsLimited(t *testing.T) {
	metered := []Association{{Account: "nlp", Metered: true}, {Account: "nlp", User: "ann", Metered: true}, {Account: "vis"}}
	for name, c := range map[string]struct {
		walls   Walls
		account string
		floor   bool
	}{
		"an account":       {NewWalls(nil, metered, map[string]string{"ann": "nlp"}), "nlp", true},
		"the default one":  {NewWalls(nil, metered, map[string]string{"ann": "nlp"}), "", true},
		"another":          {NewWalls(nil, metered, nil), "vis", false},
		"a QOS":            {NewWalls([]QOSWall{{Name: NormalQOS, Metered: true}}, nil, nil), "vis", true},
		"nothing is known": {Walls{Unknown: true}, "vis", true},
		"nothing":          {Walls{}, "nlp", false},
	} {
		snap := twoBlocks(onlyA)
		snap.Walls = c.walls
		v := Admit(Request{Partitions: []string{"gpu"}, User: "ann", Account: c.account}, snap, noon)
		told := len(v.Warnings) == 1 && strings.Contains(v.Warnings[0], "limits what you may use over time")
		if v.Refused || (v.Edits.TimeLimit == v.Edits.TimeMin) != c.floor || told != c.floor || v.Edits.TimeMin.Minutes != 31 {
			t.Errorf("%s: %+v", name, v)
		}
	}
}
