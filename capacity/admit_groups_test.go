package capacity

import (
	"strings"
	"testing"
)

// Who is known to be in none of the groups is told so; who is not known is left to Slurm.
func TestAdmitByGroup(t *testing.T) {
	for name, c := range map[string]struct {
		groups  []string
		outside func(string) bool
		refused bool
	}{
		"no allow_groups":  {nil, func(string) bool { return true }, false},
		"in one of them":   {[]string{"nlp", "law"}, func(g string) bool { return g == "nlp" }, false},
		"in none":          {[]string{"nlp", "law"}, func(string) bool { return true }, true},
		"nothing is known": {[]string{"nlp"}, nil, false},
	} {
		v := Admit(Request{Partitions: []string{"gpu"}, TimeLimit: Minutes(60), Outside: c.outside}, twoBlocks(onlyA, func(s *Snapshot) { s.Partitions[0].AllowGroups = c.groups }), noon)
		if v.Refused != c.refused || c.refused && (v.Code != GroupNotAllowed || !strings.Contains(v.Message, "members of group nlp, law")) {
			t.Errorf("%s: %+v", name, v)
		}
	}
}
