package explain

import (
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// OfCode is the page of a code.
func OfCode(m capacity.Meaning) Explanation {
	e := Explanation{Subject: "code " + string(m.Code), Code: string(m.Code), Answer: m.Text, Advice: m.Do}
	e.fact("who acts", "%s", m.Who())
	e.fact("shown by", "%s", strings.Join(shownBy(m.Where), "; "))
	e.fact("example", "%s", m.Example)
	if m.More != "" {
		e.fact("more", "docs/%s", m.More)
	}
	return e
}

// shownBy names the programs that show a code.
func shownBy(w capacity.Where) (by []string) {
	for _, place := range []struct {
		where capacity.Where
		by    string
	}{
		{capacity.AtSubmission, "sbatch, srun and salloc, fit"},
		{capacity.AtLaunch, "a node's Reason, a job's AdminComment, resume.log"},
		{capacity.AtPass, "sync, status"},
		{capacity.AtSetup, "setup, teardown, check"},
		{capacity.AsNotice, "[notify]"},
	} {
		if w&place.where != 0 {
			by = append(by, place.by)
		}
	}
	return by
}
