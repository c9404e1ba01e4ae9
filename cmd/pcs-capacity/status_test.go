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
		"nothing":                   {json: `[]`},
		"what users and nobody do":  {said: []capacity.Problem{note, user}, json: `[{"code":"never-starts","severity":"user","about":{"job":"7"},"message":"job 7 can never start"},{"severity":"note","message":"cr-9 has ended"}]`},
		"what an administrator has": {said: []capacity.Problem{user, admin}, red: true, json: `[{"severity":"admin","message":"a host has failed","fix":"open a case"},{"code":"never-starts","severity":"user","about":{"job":"7"},"message":"job 7 can never start"}]`},
		"what could not be asked":   {err: errors.New("no answer"), red: true, json: `[]`},
		"one of no known severity":  {said: []capacity.Problem{{Sentence: "x"}}, red: true, json: `[{"severity":"","message":"x"}]`},
	} {
		doc := statusDocument{}
		doc.Add(c.said...)
		text, err := json.Marshal(doc.All())
		if red := doc.outcome(c.err) != nil; red != c.red || err != nil || string(text) != c.json {
			t.Errorf("%s: red %t, %s, %v", name, red, text, err)
		}
	}
}
