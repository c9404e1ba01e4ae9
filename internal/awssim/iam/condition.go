package iam

import (
	"fmt"
	"slices"
	"strings"
)

// condition is one operator on one key.
type condition struct {
	key      string // in lower case
	values   []string
	like     bool // values are patterns
	anyCase  bool
	not      bool   // it holds if no value fits
	null     bool   // it is about the key's presence only
	ifExists bool   // it holds for a request without the key
	set      string // "", ForAllValues or ForAnyValue: for a key with several values
}

// operators are those on texts and ARNs; the rest has no use with the keys of EC2 and PCS.
var operators = map[string]condition{
	"StringEquals":              {},
	"StringNotEquals":           {not: true},
	"StringEqualsIgnoreCase":    {anyCase: true},
	"StringNotEqualsIgnoreCase": {anyCase: true, not: true},
	"StringLike":                {like: true},
	"StringNotLike":             {like: true, not: true},
	"ArnEquals":                 {like: true}, // the same as ArnLike
	"ArnNotEquals":              {like: true, not: true},
	"ArnLike":                   {like: true},
	"ArnNotLike":                {like: true, not: true},
	"Null":                      {null: true},
}

func newCondition(operator, key string, values []string) (condition, error) {
	set, name, found := strings.Cut(operator, ":")
	if !found {
		set, name = "", operator
	}
	name, ifExists := strings.CutSuffix(name, "IfExists")
	c, known := operators[name]
	if !known || set != "" && set != "ForAllValues" && set != "ForAnyValue" || c.null && (ifExists || set != "") {
		return c, fmt.Errorf("operator %q is not supported", operator)
	}
	for _, v := range values {
		if strings.Contains(v, "${") {
			return c, fmt.Errorf("value %q of %s: variables are not supported", v, key)
		}
		if c.null && v != "true" && v != "false" {
			return c, fmt.Errorf("value %q of %s: want true or false", v, key)
		}
	}
	c.key, c.values, c.set, c.ifExists = strings.ToLower(key), values, set, ifExists
	return c, nil
}

// holds tells whether a request with the keys fulfils the condition.
func (c condition) holds(keys Keys) bool {
	given, there := keys[c.key]
	if c.null {
		return slices.Contains(c.values, fmt.Sprint(!there))
	}
	if !there {
		return c.ifExists || c.set == "ForAllValues" || c.set == "" && c.not
	}
	fits := func(value string) bool {
		return slices.ContainsFunc(c.values, func(want string) bool { return c.fits(want, value) })
	}
	switch c.set {
	case "ForAllValues":
		return !slices.ContainsFunc(given, func(v string) bool { return fits(v) == c.not })
	case "ForAnyValue":
		return slices.ContainsFunc(given, func(v string) bool { return fits(v) != c.not })
	}
	return slices.ContainsFunc(given, fits) != c.not
}

func (c condition) fits(want, value string) bool {
	switch {
	case c.like:
		return matches(want, value)
	case c.anyCase:
		return strings.EqualFold(want, value)
	}
	return want == value
}
