package main

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Only what needs an administrator makes the exit status of `status` 1, and programs see
// who has to act.
func TestStatusIsRedForAdministratorsOnly(t *testing.T) {
	user := capacity.Problem{Code: capacity.NeverStarts, About: capacity.Subject{Job: "7"}, Severity: capacity.User, Sentence: "job 7 can never start"}
	note := capacity.Problem{Severity: capacity.Note, Sentence: "cr-9 has ended"}
	admin := capacity.Problem{Severity: capacity.Admin, Sentence: "a host has failed", Fix: "open a case"}
	for name, c := range map[string]struct {
		said []capacity.Problem
		err  error
		red  bool
		json string
	}{
		"nothing":                   {json: `{"problems":[],"user_problems":[],"notes":[],"problem_details":[]}`},
		"what users and nobody do":  {said: []capacity.Problem{note, user}, json: `{"problems":[],"user_problems":["job 7 can never start"],"notes":["cr-9 has ended"],"problem_details":[{"severity":"note","message":"cr-9 has ended"},{"code":"never-starts","severity":"user","about":{"job":"7"},"message":"job 7 can never start"}]}`},
		"what an administrator has": {said: []capacity.Problem{user, admin}, red: true, json: `{"problems":["a host has failed; open a case"],"user_problems":["job 7 can never start"],"notes":[],"problem_details":[{"code":"never-starts","severity":"user","about":{"job":"7"},"message":"job 7 can never start"},{"severity":"admin","message":"a host has failed","fix":"open a case"}]}`},
		"what could not be asked":   {err: errors.New("no answer"), red: true, json: `{"problems":[],"user_problems":[],"notes":[],"problem_details":[]}`},
		"one of no known severity":  {said: []capacity.Problem{{Sentence: "x"}}, red: true, json: `{"problems":["x"],"user_problems":[],"notes":[],"problem_details":[{"severity":"","message":"x"}]}`},
	} {
		doc := statusDocument{Said: new(capacity.Said).Copy()}
		doc.Add(c.said...)
		text, err := json.Marshal(doc.Said)
		if red := doc.outcome(c.err) != nil; red != c.red || err != nil || string(text) != c.json {
			t.Errorf("%s: red %t, %s, %v", name, red, text, err)
		}
	}
}
