package awssim

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
)

// filter is one of the filters of a Describe call: its values are alternatives, several filters
// must all match.
type filter struct {
	Name   string
	Values []string `form:"Value"`
}

// filterNames maps the name of each filter that an operation knows to the values which a resource
// has for it. Filters tag:KEY and tag-key are there where tags is given.
type filterNames[T any] struct {
	values map[string]func(T) []string
	tags   func(T) map[string]string
}

// apply keeps the items that match. An unknown filter is an error, even without items.
func (names filterNames[T]) apply(filters []filter, items []T) ([]T, error) {
	for _, f := range filters {
		read, err := names.reader(f.Name)
		if err != nil {
			return nil, err
		}
		if len(f.Values) == 0 {
			return nil, apiErrorf("InvalidParameterValue", "The filter '%s' has no values", f.Name)
		}
		var kept []T
		for _, item := range items {
			if matchesAny(f.Values, read(item)) {
				kept = append(kept, item)
			}
		}
		items = kept
	}
	return items, nil
}

func (names filterNames[T]) reader(name string) (func(T) []string, error) {
	if read, ok := names.values[name]; ok {
		return read, nil
	}
	if names.tags != nil {
		if key, ok := strings.CutPrefix(name, "tag:"); ok {
			return func(item T) []string {
				if v, ok := names.tags(item)[key]; ok {
					return []string{v}
				}
				return nil
			}, nil
		}
		if name == "tag-key" {
			return func(item T) []string {
				var keys []string
				for k := range names.tags(item) {
					keys = append(keys, k)
				}
				return keys
			}, nil
		}
	}
	return nil, apiErrorf("InvalidParameterValue", "The filter '%s' is invalid", name)
}

func matchesAny(patterns, values []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		return slices.ContainsFunc(values, func(v string) bool { return wildcard(p, v) })
	})
}

// wildcard matches EC2's filter values: * is any text, ? one character, \ takes the next literally.
func wildcard(pattern, s string) bool {
	for pattern != "" {
		switch pattern[0] {
		case '*':
			for i := range len(s) + 1 {
				if wildcard(pattern[1:], s[i:]) {
					return true
				}
			}
			return false
		case '?':
			if s == "" {
				return false
			}
		default:
			if pattern[0] == '\\' && len(pattern) > 1 {
				pattern = pattern[1:]
			}
			if s == "" || s[0] != pattern[0] {
				return false
			}
		}
		pattern, s = pattern[1:], s[1:]
	}
	return s == ""
}

// paging is the part of a Describe request that asks for a page.
type paging struct {
	MaxResults *int
	NextToken  string
}

// page cuts the asked page out of items. least and most bound MaxResults; byID says that the
// request names ids, with which EC2 refuses MaxResults.
func page[T any](c *call, p paging, least, most int, byID bool, items []T) (part []T, next string, err error) {
	size := most
	if p.MaxResults != nil {
		size = *p.MaxResults
		if byID {
			return nil, "", apiErrorf("InvalidParameterCombination", "The parameter MaxResults cannot be used with ids in %s", c.Operation)
		}
		if size < least || size > most {
			return nil, "", apiErrorf("InvalidParameterValue",
				"Value ( %d ) for parameter maxResults is invalid. Expecting a value between %d and %d.", size, least, most)
		}
	}
	from := 0
	if p.NextToken != "" {
		raw, err := base64.URLEncoding.DecodeString(p.NextToken)
		offset, ok := strings.CutPrefix(string(raw), c.Operation+":")
		if err == nil && ok {
			from, err = strconv.Atoi(offset)
		}
		if err != nil || !ok || from < 0 {
			return nil, "", apiErrorf("InvalidNextToken", "The token '%s' is invalid", p.NextToken)
		}
	}
	from = min(from, len(items))
	to := min(from+size, len(items))
	// A page may have fewer than were asked for, even none, and others follow it (EC2 API Reference, "Pagination").
	if most := c.region.sim.scenario.PageSize; most > 0 && !byID {
		if to = min(from+most, to); p.NextToken == "" {
			to = 0
		}
	}
	if to < len(items) {
		next = base64.URLEncoding.EncodeToString([]byte(c.Operation + ":" + strconv.Itoa(to)))
	}
	return items[from:to], next, nil
}

// one makes the values of a filter that has exactly one.
func one[T any](read func(T) string) func(T) []string {
	return func(item T) []string { return []string{read(item)} }
}
