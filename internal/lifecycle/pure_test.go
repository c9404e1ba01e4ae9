package lifecycle

import (
	"encoding/json"
	"slices"

	"github.com/google/go-cmp/cmp"
)

// decisions are those of a pass that are functions of what was seen alone.
var decisions = map[string]func(Seen) any{
	"fences":          func(s Seen) any { e, p := fences(s); return []any{e, p} },
	"unfinished":      func(s Seen) any { return unfinished(s) },
	"endings":         func(s Seen) any { return endings(s) },
	"keepMarks":       func(s Seen) any { return keepMarks(s) },
	"limits":          func(s Seen) any { return limits(s) },
	"waiting":         func(s Seen) any { return waiting(s) },
	"endedHolds":      func(s Seen) any { return endedHolds(s) },
	"givenUp":         func(s Seen) any { return givenUp(s) },
	"completing":      func(s Seen) any { return completing(s) },
	"endedBlocks":     func(s Seen) any { return endedBlocks(s) },
	"openings":        func(s Seen) any { return openings(s) },
	"endOrphans":      func(s Seen) any { return endOrphans(s) },
	"forgetMisplaced": func(s Seen) any { return forgetMisplaced(s) },
	"sample":          func(s Seen) any { return sample(s) },
	"rollings":        func(s Seen) any { return rollings(s) },
	"rollOver":        func(s Seen) any { return rollOver(s) },
	"published":       func(s Seen) any { return published(s, "elsewhere") },
	"problems": func(s Seen) any {
		return slices.Concat(setbackProblems(s), orphanProblems(s), leftoverProblems(s), unnamedBlocks(s), neverOpens(s), outOfService(s))
	},
}

// isPure makes each decision twice, which says the same and leaves what was seen as it was.
func (st *stage) isPure(seen Seen) {
	st.Helper()
	if seen.Cluster == nil || seen.Snap == nil {
		return
	}
	shown := func(v any) string {
		text, err := json.Marshal([]any{v, seen})
		if err != nil {
			st.Error(err)
		}
		return string(text)
	}
	for name, decide := range decisions {
		if diff := cmp.Diff(shown(decide(seen)), shown(decide(seen))); diff != "" {
			st.Errorf("%s says another thing the second time, or changes what was seen: %s", name, diff)
		}
	}
}
