package lifecycle

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

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
