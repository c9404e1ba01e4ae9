package awssim

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// parameter is a node in the tree that the flat keys of an EC2 Query request spell out: Filter.1.Value.2=x.
type parameter struct {
	value    *string
	children map[string]*parameter
}

func parseQuery(values url.Values) *parameter {
	root := &parameter{children: map[string]*parameter{}}
	for key, texts := range values {
		if key == "Action" || key == "Version" {
			continue
		}
		node := root
		for _, name := range strings.Split(key, ".") {
			if node.children[name] == nil {
				node.children[name] = &parameter{children: map[string]*parameter{}}
			}
			node = node.children[name]
		}
		node.value = &texts[0]
	}
	return root
}

// queryMessage checks a form of the EC2 Query protocol.
func (c *checker) queryMessage(typ string, body []byte) {
	values, err := url.ParseQuery(string(body))
	if err != nil {
		c.report("", "not a form: %v", err)
		return
	}
	c.queryStructure("", typ, parseQuery(values))
}

func (c *checker) queryValue(path, typ string, p *parameter) {
	_, isStructure := c.shapes.structures[typ]
	list, isList := c.shapes.lists[typ]
	switch {
	case (isStructure || isList) && p.value != nil:
		c.report(path, "has a value, want %s", typ)
	case isStructure:
		c.queryStructure(path, typ, p)
	case isList:
		for _, index := range slices.Sorted(maps.Keys(p.children)) {
			if n, err := strconv.Atoi(index); err != nil || n < 1 {
				c.report(within(path, index), "items of a list are numbered from 1")
				continue
			}
			c.queryValue(within(path, index), list.item, p.children[index])
		}
	case p.value == nil || len(p.children) > 0:
		c.report(path, "has parts, want a %s", typ)
	default:
		c.scalar(path, typ, *p.value)
	}
}

func (c *checker) queryStructure(path, typ string, p *parameter) {
	structure, ok := c.shapes.structures[typ]
	if !ok {
		structure = &structureShape{}
	}
	for _, name := range slices.Sorted(maps.Keys(p.children)) {
		member, ok := structure.find(func(m memberShape) bool { return m.query == name })
		if !ok {
			c.report(within(path, name), "unknown parameter")
			continue
		}
		c.queryValue(within(path, name), member.typ, p.children[name])
	}
	for _, member := range structure.members {
		if member.required && p.children[member.query] == nil {
			c.report(within(path, member.query), "required parameter is missing")
		}
	}
}
