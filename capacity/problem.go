package capacity

import (
	"context"
	"fmt"
	"slices"
)

// Severity says who has to act on a problem.
type Severity string

// The severities.
const (
	Admin Severity = "admin" // an administrator; only these make a status bad
	User  Severity = "user"  // the owner of a job
	Note  Severity = "note"  // nobody, but worth knowing
	Good  Severity = "ok"    // nobody: what was checked is as it should be
)

// Problem tells people what they should know, and who has to act on it. Two equal problems are the same problem.
type Problem struct {
	Code     Code     `json:"code,omitzero"` // stable, for scripts; Codes explains it
	Severity Severity `json:"severity"`
	About    Subject  `json:"about,omitzero"`
	// Sentence says what is wrong and where. Fix says what to do, "" if there is nothing to add.
	Sentence string `json:"message"`
	Fix      string `json:"fix,omitzero"`
}

// Problemf makes a problem with a formatted sentence; the code says who has to act on it.
func Problemf(code Code, about Subject, fix, format string, args ...any) Problem {
	return Problem{
		Code:     code,
		Severity: code.Severity(),
		About:    about,
		Sentence: fmt.Sprintf(format, args...),
		Fix:      fix,
	}
}

// DeleteAgain is the fix for a compute node group that PCS could not delete; setup mends none of these.
func DeleteAgain(queue, slot string) string {
	return fmt.Sprintf("remove the cause, and run `pcs-capacity teardown --queue %s --node-group %s`", queue, slot)
}

// Text returns the sentence followed by the fix.
func (p Problem) Text() string {
	if p.Fix == "" {
		return p.Sentence
	}
	return p.Sentence + "; " + p.Fix
}

// String writes a line for people: "problem: …", "user problem: …" or "note: …".
func (p Problem) String() string {
	switch p.Severity {
	case User:
		return "user problem: " + p.Text()
	case Note:
		return "note: " + p.Text()
	}

	return "problem: " + p.Text()
}

// Problems lists what people should know, each once.
type Problems []Problem

// Add appends problems that are not in the list yet.
func (ps *Problems) Add(problems ...Problem) {
	for _, p := range problems {
		same := func(o Problem) bool { return o.Severity == p.Severity && o.Sentence == p.Sentence && o.Fix == p.Fix }
		if !slices.ContainsFunc(*ps, same) {
			*ps = append(*ps, p)
		}
	}
}

// order returns the place of a severity in All; an unknown severity needs an administrator.
func (s Severity) order() int { return slices.Index([]Severity{User, Note, Good}, s) }

// All returns the problems, administrators' first.
func (ps Problems) All() Problems {
	byOrder := func(a, b Problem) int { return a.Severity.order() - b.Severity.order() }
	return append(Problems{}, slices.SortedStableFunc(slices.Values(ps), byOrder)...)
}

// Texts returns the texts of the problems on which one kind of people has to act.
func (ps Problems) Texts(severity Severity) (texts []string) {
	for _, p := range ps {
		if p.Severity.order() == severity.order() {
			texts = append(texts, p.Text())
		}
	}

	return texts
}

// Subject names what an action or a problem is about; an unused field is "".
type Subject struct {
	Partition   string `json:"partition,omitzero"`
	Slot        string `json:"slot,omitzero"`
	Node        string `json:"node,omitzero"` // a node, or a hostlist
	Job         string `json:"job,omitzero"`  // as squeue shows it: 12_3
	Instance    string `json:"instance,omitzero"`
	Reservation string `json:"reservation,omitzero"`
	Check       string `json:"check,omitzero"` // of `pcs-capacity check`: credentials, permission, slurmctld, …
}

// Action describes one change, decided and not yet made. W is the world that it is made in: the calls that a use case
// needs. `--dry-run`, the log, the record and `-o json` show the action itself.
type Action[W any] struct {
	Code  string // stable, for scripts: "create-fence"
	About Subject
	// Text tells people what will be done: "place the fence …". It is "" where only our own files change.
	Text string
	// Do makes the change by one or a few calls. It checks again what may have changed since the decision.
	Do func(ctx context.Context, w W) error
}
