// Package shapes checks requests and answers against AWS's service models, of which it carries a compact record. So no
// client passes with a request that AWS would refuse, and the simulator cannot answer what AWS would not.
package shapes

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// shapeRecord is a compact record of the wire shapes of the operations that the simulator answers, derived from AWS's
// service models by shapes.py. It documents its own format.
//
//go:embed shapes.txt
var shapeRecord string

// Error says in which places a message does not have the shape that AWS's service model gives it.
type Error struct {
	Service, Operation string
	Violations         []Violation
}

// Violation is one place where a message differs from its shape.
type Violation struct {
	Kind    Kind
	Path    string // wire names, such as reservationSet.item[0].instancesSet; empty for the message itself
	Problem string
}

// Kind classifies a difference between a request and its shape.
type Kind int

const (
	Invalid Kind = iota // of another type, or not one of the values
	Unknown             // the model has no such member
	Missing             // and the model requires it
)

func (v Violation) String() string {
	if v.Path == "" {
		return v.Problem
	}
	return v.Path + ": " + v.Problem
}

func (e *Error) Error() string {
	lines := make([]string, len(e.Violations))
	for i, v := range e.Violations {
		lines[i] = v.String()
	}

	return fmt.Sprintf(
		"%s %s differs from the service model:\n\t%s",
		e.Service,
		e.Operation,
		strings.Join(lines, "\n\t"),
	)
}

// CheckAnswer compares an answer of the simulator in JSON, as PCS or Resource Groups, with the service model: every
// member must be a known one of the right type and enumeration value, required members must be there, and an error must
// come in the service's envelope. The error is a *Error with every violation, not the first. Answers in XML pass: those
// as EC2 are made by the model.
func CheckAnswer(service, operation string, status int, body []byte) error {
	if service != "pcs" && service != "resource-groups" {
		return nil
	}

	return check(service, operation, func(op *operationShape, c *checker) {
		switch {
		case status >= 400:
			c.jsonError(op, body)
		case op == nil:
			c.unknownOperation()
		default:
			c.jsonMessage(op.output, body)
		}
	})
}

// CheckJSON compares the body of a request in JSON with the service model in the same way.
func CheckJSON(service, operation string, body []byte) error {
	return check(service, operation, func(op *operationShape, c *checker) {
		if op == nil {
			c.unknownOperation()
			return
		}

		c.nullIsAbsent = true
		c.jsonMessage(op.input, body)
	})
}

// Operations returns the names of the operations that the record holds of a service, sorted.
func Operations(service string) []string {
	shapes, ok := recordedShapes()[service]
	if !ok {
		return nil
	}

	return slices.Sorted(maps.Keys(shapes.operations))
}

func check(service, operation string, run func(*operationShape, *checker)) error {
	shapes, ok := recordedShapes()[service]
	if !ok {
		return fmt.Errorf("no shapes are recorded for the service %q", service)
	}

	c := &checker{shapes: shapes}
	run(shapes.operations[operation], c)

	if len(c.violations) == 0 {
		return nil
	}

	return &Error{Service: service, Operation: operation, Violations: c.violations}
}

// checker collects violations while it walks one message.
type checker struct {
	shapes       *serviceShapes
	violations   []Violation
	nullIsAbsent bool // services ignore a JSON null in a request; in an answer it would be a surprise
}

func (c *checker) report(path, format string, args ...any) {
	c.add(Invalid, path, format, args...)
}

func (c *checker) add(kind Kind, path, format string, args ...any) {
	c.violations = append(c.violations, Violation{kind, path, fmt.Sprintf(format, args...)})
}

func (c *checker) unknown(path, structure string) {
	c.add(Unknown, path, "unknown member of %s", structure)
}

func (c *checker) missing(path, structure string) {
	c.add(Missing, path, "required member of %s is missing", structure)
}

func (c *checker) unknownOperation() {
	c.report("", "the operation is not in the record of shapes: add it to shapes.py and run that")
}

type serviceShapes struct {
	operations map[string]*operationShape
	structures map[string]*structureShape
	lists      map[string]listShape
	maps       map[string]string   // type of the values
	enums      map[string][]string // allowed values
}

type operationShape struct {
	input, output string // names of structures; "-" for none
	errors        []string
}

type structureShape struct {
	members []memberShape
}

type memberShape struct {
	name, typ string
	wire      string // name in the message
	query     string // name in a form, where the model gives it one of its own
	required  bool
}

type listShape struct {
	item string // type
	wire string // name of an item's XML element
}

// recordedShapes returns the shapes by service.
var recordedShapes = sync.OnceValue(func() map[string]*serviceShapes {
	services, err := parseShapes(shapeRecord)
	if err != nil {
		panic("the embedded record of shapes is broken: " + err.Error())
	}

	return services
})

func parseShapes(text string) (map[string]*serviceShapes, error) {
	services := map[string]*serviceShapes{}

	var (
		service   *serviceShapes
		structure *structureShape
	)
	for number, line := range strings.Split(text, "\n") {
		fields := strings.Split(line, "\t")
		if line == "" || line[0] == '#' {
			continue
		}

		if fields[0] != "service" && service == nil || len(fields) < 2 ||
			fields[0] == "" && (structure == nil || len(fields) < 3) {
			return nil, fmt.Errorf("line %d: misplaced: %q", number+1, line)
		}

		switch name, rest := fields[1], fields[2:]; fields[0] {
		case "service":
			service = &serviceShapes{
				operations: map[string]*operationShape{},
				structures: map[string]*structureShape{},
				lists:      map[string]listShape{},
				maps:       map[string]string{},
				enums:      map[string][]string{},
			}
			services[name] = service
		case "operation":
			service.operations[name] = &operationShape{input: rest[0], output: rest[1], errors: rest[2:]}
		case "structure":
			structure = &structureShape{}
			service.structures[name] = structure
		case "":
			structure.members = append(structure.members, parseMember(name, rest))
		case "list":
			service.lists[name] = listShape{item: rest[0], wire: rest[1]}
		case "map":
			service.maps[name] = rest[0]
		case "enum":
			service.enums[name] = rest
		default:
			return nil, fmt.Errorf("line %d: unknown kind %q", number+1, fields[0])
		}
	}

	return services, nil
}

func parseMember(name string, fields []string) memberShape {
	m := memberShape{name: name, typ: fields[0], wire: name}
	for _, field := range fields[1:] {
		switch key, value, _ := strings.Cut(field, "="); key {
		case "wire":
			m.wire = value
		case "query":
			m.query = value
		case "required":
			m.required = true
		}
	}

	return m
}

func (s *structureShape) find(match func(memberShape) bool) (memberShape, bool) {
	i := slices.IndexFunc(s.members, match)
	if i < 0 {
		return memberShape{}, false
	}

	return s.members[i], true
}

// scalar checks the text of a value whose type is neither a structure nor a list nor a map. JSON's own types are
// checked by the caller; the text of a JSON string comes here for its timestamp format and enumeration.
func (c *checker) scalar(path, typ, text string) {
	var err error
	switch typ {
	case "string", "blob":
	case "boolean":
		if text != "true" && text != "false" {
			c.report(path, "%q is not true or false", text)
		}
	case "integer":
		_, err = strconv.ParseInt(text, 10, 32)
	case "long":
		_, err = strconv.ParseInt(text, 10, 64)
	case "float", "double":
		_, err = strconv.ParseFloat(text, 64)
	case "timestamp":
		if _, err := time.Parse("2006-01-02T15:04:05.999999999Z", text); err != nil {
			c.report(path, "%q is not a timestamp like 2006-01-02T15:04:05.000Z", text)
		}
	default:
		values, ok := c.shapes.enums[typ]
		switch {
		case !ok:
			c.report(path, "the record has no type %s", typ)
		case !slices.Contains(values, text):
			c.report(path, "%q is not a value of %s", text, typ)
		}
	}

	if err != nil {
		c.report(path, "%q is not of type %s", text, typ)
	}
}

// within appends a name to a path.
func within(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// at appends an index to a path.
func at(path string, index int) string {
	return path + "[" + strconv.Itoa(index) + "]"
}
