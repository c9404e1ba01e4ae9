package shapes

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
)

// ec2Namespace is the XML namespace of EC2's answers. The simulator has a constant of its
// own: what is checked may not say what is right.
const ec2Namespace = "http://ec2.amazonaws.com/doc/2016-11-15/"

// element is one XML element with its text and children.
type element struct {
	name     xml.Name
	text     string
	children []*element
}

func parseXML(body []byte) (*element, error) {
	decoder := xml.NewDecoder(bytes.NewReader(body))
	root := &element{}
	open := []*element{root}
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		top := open[len(open)-1]
		switch token := token.(type) {
		case xml.StartElement:
			child := &element{name: token.Name}
			top.children = append(top.children, child)
			open = append(open, child)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			top.text += string(token)
		}
	}
	if len(root.children) != 1 {
		return nil, errors.New("the body has no single root element")
	}
	return root.children[0], nil
}

// ec2Response checks <NameResponse><requestId/>members</NameResponse>.
func (c *checker) ec2Response(operation string, op *operationShape, body []byte) {
	if op == nil {
		c.unknownOperation()
		return
	}
	root, err := parseXML(body)
	if err != nil {
		c.report("", "not XML: %v", err)
		return
	}
	if want := operation + "Response"; root.name.Local != want || root.name.Space != ec2Namespace {
		c.report("", "the root is <%s> in namespace %q, want <%s> in %q", root.name.Local, root.name.Space, want, ec2Namespace)
	}
	var requestIDs int
	root.children = deleteElements(root.children, "requestId", &requestIDs)
	if requestIDs != 1 {
		c.report("", "%d elements <requestId>, want 1", requestIDs)
	}
	if op.output == "-" {
		// Operations without an output answer <return>true</return>.
		root.children = deleteElements(root.children, "return", new(int))
		for _, child := range root.children {
			c.report(child.name.Local, "unknown member: the operation has no output")
		}
		return
	}
	c.xmlStructure("", op.output, root)
}

// ec2Error checks <Response><Errors><Error><Code/><Message/></Error></Errors><RequestID/></Response>.
func (c *checker) ec2Error(body []byte) {
	root, err := parseXML(body)
	if err != nil {
		c.report("", "not XML: %v", err)
		return
	}
	if root.name.Local != "Response" {
		c.report("", "the root is <%s>, want <Response>", root.name.Local)
	}
	for _, path := range []string{"RequestID", "Errors.Error.Code", "Errors.Error.Message"} {
		if found := root.descend(strings.Split(path, ".")); found == nil || strings.TrimSpace(found.text) == "" {
			c.report(path, "missing or empty")
		}
	}
	for _, child := range root.children {
		if child.name.Local != "RequestID" && child.name.Local != "Errors" {
			c.report(child.name.Local, "unknown member of an error")
		}
	}
}

// descend follows a path of element names and returns nil where it ends early.
func (e *element) descend(path []string) *element {
	if len(path) == 0 {
		return e
	}
	for _, child := range e.children {
		if child.name.Local == path[0] {
			return child.descend(path[1:])
		}
	}
	return nil
}

func deleteElements(elements []*element, name string, deleted *int) []*element {
	var kept []*element
	for _, e := range elements {
		if e.name.Local == name {
			*deleted++
			continue
		}
		kept = append(kept, e)
	}
	return kept
}

func (c *checker) xmlValue(path, typ string, e *element) {
	if _, ok := c.shapes.structures[typ]; ok {
		c.xmlStructure(path, typ, e)
		return
	}
	if list, ok := c.shapes.lists[typ]; ok {
		c.xmlList(path, list, e)
		return
	}
	if len(e.children) > 0 {
		c.report(path, "has child elements, want a %s", typ)
		return
	}
	c.scalar(path, typ, e.text)
}

func (c *checker) xmlStructure(path, typ string, e *element) {
	if text := strings.TrimSpace(e.text); text != "" {
		c.report(path, "has text %q, want the structure %s", text, typ)
	}
	structure := c.shapes.structures[typ]
	seen := map[string]bool{}
	for _, child := range e.children {
		name := child.name.Local
		member, ok := structure.find(func(m memberShape) bool { return m.wire == name })
		switch {
		case !ok:
			c.unknown(within(path, name), typ)
		case seen[name]:
			c.report(within(path, name), "appears twice")
		default:
			c.xmlValue(within(path, name), member.typ, child)
		}
		seen[name] = true
	}
	for _, member := range structure.members {
		if member.required && !seen[member.wire] {
			c.missing(within(path, member.wire), typ)
		}
	}
}

func (c *checker) xmlList(path string, list listShape, e *element) {
	if text := strings.TrimSpace(e.text); text != "" {
		c.report(path, "has text %q, want a list", text)
	}
	for i, child := range e.children {
		if child.name.Local != list.wire {
			c.report(within(path, child.name.Local), "is no <%s> of the list", list.wire)
			continue
		}
		c.xmlValue(at(within(path, list.wire), i), list.item, child)
	}
}
