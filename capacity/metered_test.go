package capacity

import (
	"strings"
	"testing"
)

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
