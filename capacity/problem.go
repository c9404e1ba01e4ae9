package capacity

import (
	"fmt"
	"slices"
)

// Severity says who has to act on a problem.
type Severity string

// The severities.
const (
	Admin Severity = "admin" // an administrator; only these make a status bad
	User  Severity = "user"  // the owner of a job
	Note  Severity = "note"  // nobody, but it is worth knowing
)

// Problem is what people should know, and who has to act on it.
type Problem struct {
	Severity Severity `json:"severity"`
	// Sentence says what is wrong, where, and what to do.
	Sentence string `json:"sentence"`
}

// Problemf makes a problem of a sentence.
func Problemf(severity Severity, format string, args ...any) Problem {
	return Problem{severity, fmt.Sprintf(format, args...)}
}

// String is a line for people: "problem: …", "user problem: …" or "note: …".
func (p Problem) String() string {
	switch p.Severity {
	case User:
		return "user problem: " + p.Sentence
	case Note:
		return "note: " + p.Sentence
	}
	return "problem: " + p.Sentence
}

// Said are problems by who has to act on them, each a sentence for a person.
type Said struct {
	// Problems need an administrator.
	Problems []string `json:"problems,omitzero"`
	// UserProblems need the owner of a job.
	UserProblems []string `json:"user_problems,omitzero"`
	// Notes need nobody.
	Notes []string `json:"notes,omitzero"`
}

// Add appends problems that are not there yet.
func (s *Said) Add(problems ...Problem) {
	for _, p := range problems {
		list := s.list(p.Severity)
		if !slices.Contains(*list, p.Sentence) {
			*list = append(*list, p.Sentence)
		}
	}
}

// All are the problems, those for administrators first.
func (s *Said) All() []Problem {
	var all []Problem
	for _, severity := range []Severity{Admin, User, Note} {
		for _, sentence := range *s.list(severity) {
			all = append(all, Problem{severity, sentence})
		}
	}
	return all
}

// Copy is a copy in which no list is nil, so that JSON has them all.
func (s *Said) Copy() Said {
	out := Said{Problems: []string{}, UserProblems: []string{}, Notes: []string{}}
	out.Add(s.All()...)
	return out
}

// list is where the problems of a severity are; an unknown one needs an administrator.
func (s *Said) list(severity Severity) *[]string {
	switch severity {
	case User:
		return &s.UserProblems
	case Note:
		return &s.Notes
	}
	return &s.Problems
}
