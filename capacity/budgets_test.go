package capacity

import (
	"strings"
	"testing"
)

// No limit is raised past what QOS and associations leave: each limit counts where it is found
// first, and those of a group are those of its parents too.
func TestMostThatAccountingLeaves(t *testing.T) {
	cpu := func(limit, taken int64) map[string]Meter { return map[string]Meter{"cpu": {limit, taken}} }
	base := func() *Budgets {
		return &Budgets{QOS: []Budget{{QOS: "normal"}, {QOS: "part"}},
			Associations: []Budget{{Account: "root"}, {Account: "top", Parent: "root"}, {Account: "nlp", Parent: "top"}, {Account: "nlp", User: "ann"},
				{Account: "nlp", User: "bob"}, {Account: "nlp", User: "bob", Partition: "gpu"}}}
	}
	const normal, part, top, nlp, ann = 0, 1, 1, 2, 3
	for name, c := range map[string]struct {
		change func(b *Budgets)
		walls  Walls
		who    func(s *Spender)
		want   int // of 100 minutes, of which 10 are the limit now
		by     string
		err    string
	}{
		"nothing":                {want: 100},
		"MaxTRESMins of one job": {change: func(b *Budgets) { b.Associations[ann].PerJob = TRES{"cpu": 400} }, want: 50, by: "MaxTRESMinsPerJob of cpu of user ann in account nlp"},
		"of a QOS before it": {change: func(b *Budgets) {
			b.Associations[ann].PerJob = TRES{"cpu": 400}
			b.QOS[normal].PerJob = TRES{"cpu": 480}
		}, want: 60, by: "MaxTRESMinsPerJob of cpu of QOS normal"},
		"of another TRES": {change: func(b *Budgets) {
			b.Associations[ann].PerJob = TRES{"cpu": 400}
			b.QOS[normal].PerJob = TRES{"node": 60}
		}, want: 50, by: "MaxTRESMinsPerJob of cpu of user ann in account nlp"},
		"of the partition's QOS": {change: func(b *Budgets) { b.QOS[part].PerJob = TRES{"cpu": 320}; b.QOS[normal].PerJob = TRES{"cpu": 160} }, want: 40, by: "MaxTRESMinsPerJob of cpu of QOS part"},
		"of the job's before it": {change: func(b *Budgets) { b.QOS[part].PerJob = TRES{"cpu": 320}; b.QOS[normal].PerJob = TRES{"cpu": 160} }, walls: Walls{QOS: []QOSWall{{Name: "normal", OverPartition: true}}}, want: 20, by: "MaxTRESMinsPerJob of cpu of QOS normal"},
		// it is the user's too, where it counts
		"one job's of an account":   {change: func(b *Budgets) { b.Associations[nlp].PerJob = TRES{"cpu": 400} }, want: 100},
		"what it does not hold":     {change: func(b *Budgets) { b.Associations[ann].PerJob = TRES{"gres/gpu": 1} }, want: 100},
		"less than it has":          {change: func(b *Budgets) { b.Associations[ann].PerJob = TRES{"cpu": 8} }, want: 10, by: "MaxTRESMinsPerJob of cpu of user ann in account nlp"},
		"GrpTRESMins of a parent":   {change: func(b *Budgets) { b.Associations[top].Total = cpu(1000, 839) }, want: 30, by: "GrpTRESMins of cpu of account top"},
		"the least of the parents":  {change: func(b *Budgets) { b.Associations[top].Total = cpu(1000, 839); b.Associations[nlp].Total = cpu(100, 20) }, want: 20, by: "GrpTRESMins of cpu of account nlp"},
		"of the QOS, and no parent": {change: func(b *Budgets) { b.Associations[top].Total = cpu(1000, 1000); b.QOS[normal].Total = cpu(1000, 680) }, want: 50, by: "GrpTRESMins of cpu of QOS normal"},
		"used up":                   {change: func(b *Budgets) { b.Associations[top].Total = cpu(1000, 1200) }, want: 10, by: "GrpTRESMins of cpu of account top"},
		"GrpTRESRunMins":            {change: func(b *Budgets) { b.Associations[top].Running = cpu(500, 100) }, want: 60, by: "GrpTRESRunMins of cpu of account top"},
		"GrpWall":                   {change: func(b *Budgets) { b.Associations[nlp].Wall, b.Associations[nlp].Jobs = &Meter{200, 100}, 2 }, want: 4 + 50 - 5, by: "GrpWall of account nlp"},
		"jobs that count double":    {change: func(b *Budgets) { b.Associations[top].Running = cpu(500, 100) }, walls: Walls{QOS: []QOSWall{{Name: "normal", Factor: 2}}}, want: 35, by: "GrpTRESRunMins of cpu of account top"},
		"another user":              {change: func(b *Budgets) { b.Associations[ann].PerJob = TRES{"cpu": 400} }, who: func(s *Spender) { s.User = "bob" }, want: 100},
		"in her partition":          {change: func(b *Budgets) { b.Associations[5].PerJob = TRES{"cpu": 400} }, who: func(s *Spender) { s.User = "bob" }, want: 50, by: "MaxTRESMinsPerJob of cpu of user bob in account nlp"},
		"a QOS that is not shown":   {who: func(s *Spender) { s.QOS = "gone" }, err: "does not show QOS gone"},
		"an account without a user": {who: func(s *Spender) { s.User = "eve" }, err: "does not show the association of user eve in account NLP"},
		"a parent that is missing":  {change: func(b *Budgets) { b.Associations[nlp].Parent = "gone" }, err: "does not show account gone"},
		"limits of another kind":    {walls: Walls{QOS: []QOSWall{{Name: "part", Untold: true}}}, err: "QOS part limits"},
		"walls that nobody knows":   {walls: Walls{Unknown: true}, err: "accounting has not said"},
	} {
		t.Run(name, func(t *testing.T) {
			b := base()
			if c.change != nil {
				c.change(b)
			}
			s := Spender{User: "ann", Account: "NLP", QOS: "normal", Partition: Partition{Name: "gpu", QOS: "part"}, TRES: TRES{"cpu": 8, "node": 1}, Limit: 10, Elapsed: 4}
			if c.who != nil {
				c.who(&s)
			}
			most, by, err := b.Most(s, c.walls, 100)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%v", err)
				}
				return
			}
			if most != c.want || by != c.by || err != nil {
				t.Errorf("%d by %q, %v; want %d by %q", most, by, err, c.want, c.by)
			}
			// What one job got the next one cannot get.
			if b.Raise(s, c.walls, most); strings.HasPrefix(by, "GrpTRES") {
				next := s
				next.Limit = 10
				if again, _, _ := b.Most(next, c.walls, 100); again > 10 {
					t.Errorf("the next job may be raised to %d", again)
				}
			}
		})
	}
}

// Where accounting counts what jobs use, a limit that we choose is the floor, and the user is
// told; the Lua shims leave such jobs to us.
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
		"a QOS's untold":   {NewWalls([]QOSWall{{Name: NormalQOS, Untold: true}}, nil, nil), "vis", true},
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
		for _, fit := range Quicks(snap) {
			if fit.Wall != 1 && c.floor {
				t.Errorf("%s: the shims fit up to %d minutes themselves", name, fit.Wall)
			}
		}
	}
}
