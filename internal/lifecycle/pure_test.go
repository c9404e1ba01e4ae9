package lifecycle

import (
	"encoding/json"
	"slices"

	"github.com/google/go-cmp/cmp"
)

// decisions are those of a pass that are functions of what was seen alone.
var decisions = map[string]func(Seen) any{
	"fences":          func(s Seen) any { a, p := fences(s); return []any{sentences(a), p} },
	"unfinished":      func(s Seen) any { return sentences(unfinished(s)) },
	"endings":         func(s Seen) any { return sentences(endings(s)) },
	"keepMarks":       func(s Seen) any { return sentences(keepMarks(s)) },
	"limits":          func(s Seen) any { return sentences(limits(s)) },
	"waiting":         func(s Seen) any { return sentences(waiting(s)) },
	"endedHolds":      func(s Seen) any { return sentences(endedHolds(s)) },
	"givenUp":         func(s Seen) any { return sentences(givenUp(s)) },
	"completing":      func(s Seen) any { return sentences(completing(s)) },
	"endedBlocks":     func(s Seen) any { return sentences(endedBlocks(s)) },
	"openings":        func(s Seen) any { return sentences(openings(s)) },
	"endOrphans":      func(s Seen) any { return sentences(endOrphans(s)) },
	"forgetMisplaced": func(s Seen) any { return sentences(forgetMisplaced(s)) },
	"sample":          func(s Seen) any { return sentences(sample(s)) },
	"rollings":        func(s Seen) any { return rollings(s) },
	"published":       func(s Seen) any { return sentences(published(s, "elsewhere")) },
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
