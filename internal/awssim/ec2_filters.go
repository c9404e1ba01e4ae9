package awssim

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// filter is one of the filters of a Describe call: its values are alternatives, several filters
// must all match.
type filter struct {
	Name   string
	Values []string
}

// listing is what Describe calls take.
type listing struct {
	Filters    []filter
	MaxResults *int
	NextToken  string
}

// describing is a Describe operation of EC2 that lists things.
type describing struct {
	items  func(*call) []object // all that are visible, in order
	answer string               // the member of the answer
	// id is a member of an item, and the parameter of the request that names some: one that none has fails the whole call,
	// as in EC2. name is another such parameter.
	id, name             string
	noSuchID, noSuchName func(string) error
	mostIDs, least, most int    // of ids in a request, and of MaxResults; 0: it has no pages
	filters, more        string // see list; further parameters, which items reads
}

func (s *Sim) describe(d describing) operation {
	return func(c *call) ([]byte, error) {
		items, named := d.items(c), false
		for parameter, noSuch := range map[string]func(string) error{d.id: d.noSuchID, d.name: d.noSuchName} {
			ids := c.takeList(parameter)
			if parameter == "" || len(ids) == 0 {
				continue
			}
			if d.mostIDs > 0 && len(ids) > d.mostIDs {
				return nil, apiErrorf("InvalidParameterValue", "The maximum number of values of %s is %d", parameter, d.mostIDs)
			}
			var err error
			if items, err = byID(items, ids, func(o object) string { return o[parameter].(string) }, noSuch); err != nil {
				return nil, err
			}
			named = true
		}
		for parameter := range strings.FieldsSeq(d.more) {
			c.form.Del(parameter)
		}
		if d.most == 0 {
			return ec2Op(func(c *call, in *struct{ Filters []filter }) (any, error) {
				all, _, err := list(c, listing{Filters: in.Filters}, 0, len(items), true, d.filters, items)
				return object{d.answer: all}, err
			})(c)
		}
		return ec2Op(func(c *call, in *listing) (any, error) {
			part, next, err := list(c, *in, d.least, d.most, named, d.filters, items)
			return object{d.answer: part, "NextToken": next}, err
		})(c)
	}
}

// takeList takes the values of a list of strings out of a request.
func (c *call) takeList(parameter string) (values []string) {
	for i := 1; c.form.Has(fmt.Sprint(parameter, ".", i)); i++ {
		values = append(values, c.form.Get(fmt.Sprint(parameter, ".", i)))
		c.form.Del(fmt.Sprint(parameter, ".", i))
	}
	return values
}

// list filters the items of an answer, and cuts the asked page out of them: see [page]. The names of filters stand
// apart by spaces: vpc-id is member VpcId of an item; instance-state-name=State.Name is member Name of member State;
// tag stands for tag:KEY and tag-key. An unknown filter is an error, even without items.
func list(c *call, in listing, least, most int, byID bool, filters string, items []object) (part []object, next string, err error) {
	for _, f := range in.Filters {
		read, err := filterOf(f.Name, filters)
		if err != nil {
			return nil, "", err
		}
		if len(f.Values) == 0 {
			return nil, "", apiErrorf("InvalidParameterValue", "The filter '%s' has no values", f.Name)
		}
		items = slices.DeleteFunc(slices.Clone(items), func(item object) bool { return !matchesAny(f.Values, read(item)) })
	}
	return page(c, in, least, most, byID, items)
}

func filterOf(name, filters string) (func(object) []string, error) {
	for word := range strings.FieldsSeq(filters) {
		known, path, _ := strings.Cut(word, "=")
		tags := func(item object) map[string]string { tags, _ := item["Tags"].(map[string]string); return tags }
		key, byKey := strings.CutPrefix(name, "tag:")
		switch {
		case known == "tag" && byKey:
			return func(item object) []string {
				if value, there := tags(item)[key]; there {
					return []string{value}
				}
				return nil
			}, nil
		case known == "tag" && name == "tag-key":
			return func(item object) []string { return slices.Collect(maps.Keys(tags(item))) }, nil
		case known != name || name == "tag":
			continue
		case path == "":
			for part := range strings.SplitSeq(name, "-") {
				path += strings.ToUpper(part[:1]) + part[1:]
			}
		}
		return func(item object) []string { return valuesAt(item, strings.Split(path, ".")) }, nil
	}
	return nil, apiErrorf("InvalidParameterValue", "The filter '%s' is invalid", name)
}

// valuesAt are those of a member, of each item where a list is on the way.
func valuesAt(v any, path []string) []string {
	switch v := v.(type) {
	case object:
		return valuesAt(v[path[0]], path[1:])
	case []object:
		var all []string
		for _, item := range v {
			all = append(all, valuesAt(item, path)...)
		}
		return all
	case []string:
		return v
	case time.Time:
		return []string{wireTime(v)}
	case nil:
		return []string{""}
	}
	return []string{fmt.Sprint(v)}
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

// page cuts the asked page out of items. least and most bound MaxResults; byID says that the
// request names ids, with which EC2 refuses MaxResults.
func page[T any](c *call, p listing, least, most int, byID bool, items []T) (part []T, next string, err error) {
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
