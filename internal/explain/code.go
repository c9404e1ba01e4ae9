package explain

import (
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// OfCode is the page of a code.
func OfCode(m capacity.Meaning) Explanation {
	e := Explanation{Subject: "code " + string(m.Code), Code: string(m.Code), Answer: m.Text, Advice: m.Do}
	var by []string
	for _, at := range m.At {
		by = append(by, shownBy[at])
	}
	e.fact("who acts", "%s", m.Who())
	e.fact("shown by", "%s", strings.Join(by, "; "))
	if m.More != "" {
		e.fact("more", "docs/%s", m.More)
	}
	return e
}

// shownBy names the programs that show a code.
var shownBy = map[string]string{
	"submission": "sbatch, srun and salloc, fit",
	"launch":     "a node's Reason, a job's AdminComment, resume.log",
	"pass":       "sync, status",
	"setup":      "setup, teardown, check",
	"notice":     "[notify]",
}
