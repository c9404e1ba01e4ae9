// Package iam decides what an identity-based policy allows, as AWS Identity and Access Management does: an explicit
// deny wins, and what no statement allows is denied. It knows what policies for EC2 and PCS are written with, and
// refuses a policy with anything else, so that none is taken for one that works.
//
// IAM User Guide: "Policy evaluation logic" and "IAM JSON policy element reference".
package iam

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Request asks for one action on one resource.
type Request struct {
	Action   string // such as ec2:RunInstances
	Resource string // ARN; "*" for an action that cannot be granted by resource
	Keys     Keys
}

// Keys are the condition keys of a request with their values. Their names are not case-sensitive: use Set.
type Keys map[string][]string

// Set gives a key its values.
func (k Keys) Set(name string, values ...string) { k[strings.ToLower(name)] = values }

// Verdict is what a policy says of a request.
type Verdict int

// The verdicts.
const (
	NotAllowed Verdict = iota // no statement allows it
	Allowed
	Denied // a statement denies it
)

// Policy is one policy document.
type Policy struct{ statements []statement }

type statement struct {
	Sid                   string
	Effect                string
	Action, NotAction     texts
	Resource, NotResource texts
	Condition             map[string]map[string]texts // by operator and key

	conditions []condition
}

// Parse reads a policy document. An error says which statement is wrong, and how.
func Parse(document []byte) (*Policy, error) {
	var doc struct {
		Version, ID string
		Statement   json.RawMessage
	}
	if err := strictly(document, &doc); err != nil {
		return nil, err
	}
	if doc.Version != "" && doc.Version != "2012-10-17" && doc.Version != "2008-10-17" {
		return nil, fmt.Errorf("version %q: want 2012-10-17", doc.Version)
	}
	var p Policy
	into := any(&p.statements)
	if !bytes.HasPrefix(bytes.TrimSpace(doc.Statement), []byte("[")) { // one may stand without a list
		p.statements = make([]statement, 1)
		into = &p.statements[0]
	}
	if err := strictly(doc.Statement, into); err != nil {
		return nil, err
	}
	if len(p.statements) == 0 {
		return nil, errors.New("no statement")
	}
	for i := range p.statements {
		if err := p.statements[i].check(); err != nil {
			return nil, fmt.Errorf("statement %d: %w", i+1, err)
		}
	}
	return &p, nil
}

// strictly decodes JSON without members that are not known.
func strictly(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

var actionPattern = regexp.MustCompile(`^(\*|[a-zA-Z0-9-]+:[a-zA-Z0-9*?]+)$`)

func (s *statement) check() error {
	switch {
	case s.Effect != "Allow" && s.Effect != "Deny":
		return fmt.Errorf("effect %q: want Allow or Deny", s.Effect)
	case (len(s.Action) > 0) == (len(s.NotAction) > 0):
		return errors.New("want Action or NotAction")
	case (len(s.Resource) > 0) == (len(s.NotResource) > 0):
		return errors.New("want Resource or NotResource")
	}
	for _, a := range slices.Concat(s.Action, s.NotAction) {
		if !actionPattern.MatchString(a) {
			return fmt.Errorf("action %q: want service:Operation", a)
		}
	}
	for _, r := range slices.Concat(s.Resource, s.NotResource) {
		if r != "*" && !strings.HasPrefix(r, "arn:") {
			return fmt.Errorf("resource %q: want an ARN or *", r)
		}
		if strings.Contains(r, "${") {
			return fmt.Errorf("resource %q: variables are not supported", r)
		}
	}
	for operator, keys := range s.Condition {
		for key, values := range keys {
			c, err := newCondition(operator, key, values)
			if err != nil {
				return err
			}
			s.conditions = append(s.conditions, c)
		}
	}
	return nil
}

// Keys are the condition keys that the policy reads, without repetitions and in lower case.
func (p *Policy) Keys() []string {
	var keys []string
	for _, s := range p.statements {
		for _, c := range s.conditions {
			keys = append(keys, c.key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// Decide says whether the policy allows a request.
func (p *Policy) Decide(r Request) Verdict {
	verdict := NotAllowed
	for _, s := range p.statements {
		switch {
		case !s.covers(r):
		case s.Effect == "Deny":
			return Denied
		default:
			verdict = Allowed
		}
	}
	return verdict
}

// covers tells whether the statement is about the request.
func (s *statement) covers(r Request) bool {
	action := func(pattern string) bool { return matches(strings.ToLower(pattern), strings.ToLower(r.Action)) }
	resource := func(pattern string) bool { return matches(pattern, r.Resource) }
	if len(s.Action) > 0 && !slices.ContainsFunc(s.Action, action) || slices.ContainsFunc(s.NotAction, action) {
		return false
	}
	if len(s.Resource) > 0 && !slices.ContainsFunc(s.Resource, resource) || slices.ContainsFunc(s.NotResource, resource) {
		return false
	}
	return !slices.ContainsFunc(s.conditions, func(c condition) bool { return !c.holds(r.Keys) })
}

// matches tells whether a text fits a pattern, in which * is any text and ? any character.
func matches(pattern, text string) bool {
	p, t := 0, 0
	star, after := -1, 0 // the last * of the pattern, and where in the text to go on behind it
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, after = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			after++
			p, t = star+1, after
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// texts is a list that may be written as a single value.
type texts []string

// UnmarshalJSON is for encoding/json.
func (t *texts) UnmarshalJSON(data []byte) error {
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return err
	}
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	for _, v := range list {
		switch v := v.(type) {
		case string:
			*t = append(*t, v)
		case bool:
			*t = append(*t, fmt.Sprint(v))
		default:
			return fmt.Errorf("%s: want a text or a list of texts", data)
		}
	}
	return nil
}
