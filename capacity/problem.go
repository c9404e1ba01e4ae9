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
)

// Problem is something that people should know, and who has to act on it. Two equal problems are the same problem.
type Problem struct {
	// Code is stable, for scripts; Codes explains it.
	Code     Code     `json:"code,omitzero"`
	Severity Severity `json:"severity"`
	About    Subject  `json:"about,omitzero"`
	// Sentence says what is wrong and where. Fix says what to do, "" if there is nothing to add.
	Sentence string `json:"message"`
	Fix      string `json:"fix,omitzero"`
}

// Problemf makes a problem with a formatted sentence; the code says who has to act on it.
func Problemf(code Code, about Subject, fix, format string, args ...any) Problem {
	return Problem{Code: code, Severity: code.Severity(), About: about, Sentence: fmt.Sprintf(format, args...), Fix: fix}
}

// Text is the sentence followed by the fix.
func (p Problem) Text() string {
	if p.Fix == "" {
		return p.Sentence
	}
	return p.Sentence + "; " + p.Fix
}

// String is a line for people: "problem: …", "user problem: …" or "note: …".
func (p Problem) String() string {
	switch p.Severity {
	case User:
		return "user problem: " + p.Text()
	case Note:
		return "note: " + p.Text()
	}
	return "problem: " + p.Text()
}

// Said holds problems by the person who has to act: as sentences for people, and as values in Details.
type Said struct {
	// Problems need an administrator.
	Problems []string `json:"problems,omitzero"`
	// UserProblems need the owner of a job.
	UserProblems []string `json:"user_problems,omitzero"`
	// Notes need nobody to act.
	Notes []string `json:"notes,omitzero"`
	// Details are all the problems above with their codes. Older versions did not write them.
	Details []Problem `json:"problem_details,omitzero"`
}

// Add appends problems that are not in the list yet.
func (s *Said) Add(problems ...Problem) {
	for _, p := range problems {
		list := s.list(p.Severity)
		if text := p.Text(); !slices.Contains(*list, text) {
			*list = append(*list, text)
			s.Details = append(s.Details, p)
		}
	}
}

// All returns the problems, administrators' first.
func (s *Said) All() []Problem {
	type key struct {
		severity Severity
		text     string
	}
	details := map[key]Problem{}
	for _, p := range s.Details {
		details[key{p.Severity, p.Text()}] = p
	}
	var all []Problem
	for _, severity := range []Severity{Admin, User, Note} {
		for _, text := range *s.list(severity) {
			p, ok := details[key{severity, text}]
			if !ok {
				p = Problem{Severity: severity, Sentence: text}
			}
			all = append(all, p)
		}
	}
	return all
}

// Copy is a copy without nil lists, so JSON shows them all.
func (s *Said) Copy() Said {
	out := Said{Problems: []string{}, UserProblems: []string{}, Notes: []string{}, Details: []Problem{}}
	out.Add(s.All()...)
	return out
}

// list is the list for a severity; an unknown severity needs an administrator.
func (s *Said) list(severity Severity) *[]string {
	switch severity {
	case User:
		return &s.UserProblems
	case Note:
		return &s.Notes
	}
	return &s.Problems
}

// Subject is what an action or a problem is about; an unused field is "".
type Subject struct {
	Partition   string `json:"partition,omitzero"`
	Slot        string `json:"slot,omitzero"`
	Node        string `json:"node,omitzero"` // a node, or a hostlist
	Job         string `json:"job,omitzero"`  // as squeue shows it: 12_3
	Instance    string `json:"instance,omitzero"`
	Reservation string `json:"reservation,omitzero"`
}

// Action is one change, decided and not yet made. W is the world that it is made in: the calls that a use case needs.
// `--dry-run`, the log, the record and `-o json` show the action itself.
type Action[W any] struct {
	Code  string // stable, for scripts: "create-fence"
	About Subject
	// Text says for people what is to be done: "place the fence …". It is "" where only our own files change.
	Text string
	// Do makes the change by one or a few calls. It checks again what may have changed since the decision.
	Do func(ctx context.Context, w W) error
}
