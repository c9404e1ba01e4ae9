package shapes

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// CheckForm compares a request of EC2's protocol, or of STS's, with the service model:
// every parameter must be known and of the right type, and required ones must be there. It returns them by the names
// that the model gives the members, as encoding/json would with numbers as [json.Number].
func CheckForm(service, operation string, form url.Values) (request map[string]any, err error) {
	return request, check(service, operation, func(op *operationShape, c *checker) {
		if op == nil {
			c.unknownOperation()
			return
		}

		root := &parameter{}
		for name, values := range form {
			if name != "Action" && name != "Version" {
				root.descend(strings.Split(name, ".")).values = values
			}
		}

		if op.input == "-" {
			c.unknownParameters("", root, "the operation has no input")
			return
		}

		request = c.formStructure("", op.input, root)
	})
}

// parameter is a parameter of a form with those below it: of A.B.1, A has B, which has 1.
type parameter struct {
	values  []string
	members map[string]*parameter
}

func (p *parameter) descend(path []string) *parameter {
	for _, name := range path {
		if p.members == nil {
			p.members = map[string]*parameter{}
		}

		if p.members[name] == nil {
			p.members[name] = &parameter{}
		}

		p = p.members[name]
	}

	return p
}

// unknownParameters reports a parameter and those below it by the names that the request has.
func (c *checker) unknownParameters(path string, p *parameter, why string) {
	if p.values != nil {
		c.add(Unknown, path, "%s", why)
	}

	for _, name := range slices.Sorted(maps.Keys(p.members)) {
		c.unknownParameters(within(path, name), p.members[name], why)
	}
}

func (c *checker) formValue(path, typ string, p *parameter) any {
	if _, ok := c.shapes.structures[typ]; ok {
		return c.formStructure(path, typ, p)
	}

	if list, ok := c.shapes.lists[typ]; ok {
		return c.formList(path, list, p)
	}

	for _, name := range slices.Sorted(maps.Keys(p.members)) {
		c.unknownParameters(within(path, name), p.members[name], "is below a value of type "+typ)
	}

	if len(p.values) == 0 {
		return nil
	}

	text := p.values[0]
	if len(p.values) > 1 {
		c.report(path, "appears %d times", len(p.values))
	} else if typ != "InstanceType" { // there are new ones every week, and services have words of their own for others
		c.scalar(path, typ, text)
	}

	switch typ {
	case "boolean":
		return text == "true"
	case "integer", "long", "float", "double":
		return json.Number(text)
	}

	return text
}

func (c *checker) formStructure(path, typ string, p *parameter) map[string]any {
	structure := c.shapes.structures[typ]
	members := map[string]any{}

	if p.values != nil {
		c.add(Unknown, path, "is the structure %s and has no value", typ)
	}

	for _, name := range slices.Sorted(maps.Keys(p.members)) {
		member, ok := structure.find(func(m memberShape) bool { return formName(m) == name })
		if !ok {
			c.unknownParameters(within(path, name), p.members[name], "unknown member of "+typ)
			continue
		}

		members[member.name] = c.formValue(within(path, name), member.typ, p.members[name])
	}

	for _, member := range structure.members {
		if name := formName(member); member.required && p.members[name] == nil {
			c.missing(within(path, name), typ)
		}
	}

	return members
}

// formList checks Name.1, Name.2, ….
func (c *checker) formList(path string, list listShape, p *parameter) (values []any) {
	if p.values != nil {
		c.add(Unknown, path, "is a list and has no value")
	}

	items := p.members
	for i := range len(items) {
		if name := strconv.Itoa(i + 1); items[name] != nil {
			values = append(values, c.formValue(within(path, name), list.item, items[name]))
		}
	}

	for _, name := range slices.Sorted(maps.Keys(items)) {
		if n, err := strconv.Atoi(name); err != nil || n < 1 || n > len(items) || strconv.Itoa(n) != name {
			c.unknownParameters(
				within(path, name),
				items[name],
				"is not one of the "+strconv.Itoa(len(items))+" items of the list",
			)
		}
	}

	return values
}

// formName returns a member's name in a form: it begins with a capital letter.
func formName(m memberShape) string {
	return cmp.Or(m.query, strings.ToUpper(m.wire[:1])+m.wire[1:])
}
