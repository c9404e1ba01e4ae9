package lifecycle

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/model"
)

// dryRun is what a pass would do, as that pass will say it. It changes and writes nothing.
func (st *stage) dryRun() (planned []string) {
	st.Helper()
	tape, files, lines, die := st.tape.String(), st.files(), st.lines, st.dieAt
	st.dieAt = 0
	dry := st.sources
	dry.DryRun = true
	p := passOf(dry, Seen{})
	p.run(st.Context())
	st.isPure(p.seen)
	if got := st.tape.String(); got != tape {
		st.Errorf("the dry run changed something:%s", got[len(tape):])
	}
	if diff := cmp.Diff(files, st.files()); diff != "" {
		st.Errorf("the dry run wrote: %s", diff)
	}
	st.lines, st.dieAt = lines, die
	for _, d := range p.done {
		text, would := strings.CutPrefix(d.Message, "would ")
		if d.Error != "" || !would {
			st.Errorf("it shows %+v", d)
		}
		planned = append(planned, fmt.Sprint(d.Do, " ", d.Slot, " ", d.Job, ": ", text))
	}
	return planned
}

// isAsPlanned compares a pass with the dry run before it. What a failure keeps from being done,
// and what changed on the way, no dry run knows.
func (st *stage) isAsPlanned(planned []string, report Report) {
	st.Helper()
	var did []string
	for _, d := range report.Done {
		if d.Error != "" {
			return
		}
		if d.Do == "set-up-slot" || d.Do == "remove-slot" { // setup says what it begins
			d.Message, _, _ = strings.Cut(d.Message, ": ")
		}
		did = append(did, fmt.Sprint(d.Do, " ", d.Slot, " ", d.Job, ": ", d.Message))
	}
	for _, r := range report.Rolling {
		if r.Setback.Tried.Equal(report.At) { // it could begin nothing
			planned = slices.DeleteFunc(planned, func(p string) bool { return strings.Contains(p, r.Block.ID+" in partition") })
		}
	}
	if diff := cmp.Diff(planned, did); diff != "" {
		st.Errorf("pass at %s (-dry run, +pass): %s", model.Clock(st.Now()), diff)
	}
}

// files are those of state_dir with what is in them.
func (st *stage) files() map[string]string {
	all := map[string]string{}
	_ = filepath.WalkDir(string(st.sources.State), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			text, _ := os.ReadFile(path)
			all[path] = string(text)
		}
		return nil
	})
	return maps.Clone(all)
}

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
		return slices.Concat(setbackProblems(s), orphanProblems(s), unnamedBlocks(s), neverOpens(s), outOfService(s))
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

// Nodes that get no job are named by what keeps them and why.
func TestNodesOut(t *testing.T) {
	cluster := &Cluster{Nodes: []capacity.Node{
		{Name: "gpu-1", State: "IDLE+DRAIN", Reason: "bad cable"}, {Name: "gpu-2", State: "IDLE"}, {Name: "gpu-3", State: "IDLE+DRAIN", Reason: "bad cable"},
		{Name: "gpu-4", State: "DOWN", Reason: "Not responding"}, {Name: "cpu-1", State: "FAIL"}}}
	got := cluster.out([]string{"gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5"})
	want := []capacity.NodesOut{{Nodes: "gpu-[1,3]", Count: 2, State: "drained", Reason: "bad cable"}, {Nodes: "gpu-4", Count: 1, State: "down", Reason: "Not responding"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
