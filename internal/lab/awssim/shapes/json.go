package shapes

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
)

// commonJSONErrors may come from any operation although the model lists them for some only, or for none:
// they are raised by AWS's front end, before the operation is known or reached.
var commonJSONErrors = []string{
	"AccessDeniedException", "InternalServerException", "ThrottlingException",
	"ValidationException", "SerializationException", "UnknownOperationException",
}

func parseJSON(body []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()

	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}

	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text follows the JSON value")
	}

	return value, nil
}

// jsonMessage checks a whole request or answer in JSON.
func (c *checker) jsonMessage(typ string, body []byte) {
	value, err := parseJSON(body)
	if err != nil {
		c.report("", "not JSON: %v", err)
		return
	}

	c.jsonValue("", typ, value)
}

// jsonError checks {"__type": "com.amazonaws.SERVICE#Name", "message": ...} and the members of the modelled exception.
func (c *checker) jsonError(op *operationShape, body []byte) {
	value, err := parseJSON(body)
	if err != nil {
		c.report("", "not JSON: %v", err)
		return
	}

	object, ok := value.(map[string]any)
	if !ok {
		c.report("", "an error is an object")
		return
	}

	typ, _ := object["__type"].(string)
	_, name, qualified := strings.Cut(typ, "#")
	modelled := op != nil && slices.Contains(op.errors, name)
	switch {
	case !qualified:
		c.report("__type", "%q is not like com.amazonaws.SERVICE#Name", typ)
		return
	case !modelled && !slices.Contains(commonJSONErrors, name):
		c.report("__type", "%s is not an error of this operation", name)
	}

	delete(object, "__type")

	if _, ok := c.shapes.structures[name]; !ok {
		text, _ := cmp.Or(object["message"], object["Message"]).(string)
		if text == "" {
			c.report("message", "missing or empty")
		}

		return
	}

	c.jsonStructure("", name, object)
}

func (c *checker) jsonValue(path, typ string, value any) {
	if _, ok := c.shapes.structures[typ]; ok {
		if object, ok := value.(map[string]any); ok {
			c.jsonStructure(path, typ, object)
		} else {
			c.report(path, "is %s, want the structure %s", jsonKind(value), typ)
		}

		return
	}

	if list, ok := c.shapes.lists[typ]; ok {
		items, ok := value.([]any)
		if !ok {
			c.report(path, "is %s, want a list", jsonKind(value))
		}

		for i, item := range items {
			c.jsonValue(at(path, i), list.item, item)
		}

		return
	}

	if of, ok := c.shapes.maps[typ]; ok {
		object, ok := value.(map[string]any)
		if !ok {
			c.report(path, "is %s, want a map", jsonKind(value))
		}

		for _, key := range slices.Sorted(maps.Keys(object)) {
			c.jsonValue(within(path, key), of, object[key])
		}

		return
	}

	c.jsonScalar(path, typ, value)
}

func (c *checker) jsonStructure(path, typ string, object map[string]any) {
	structure := c.shapes.structures[typ]
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if object[name] == nil && c.nullIsAbsent {
			continue
		}

		member, ok := structure.find(func(m memberShape) bool { return m.wire == name })
		if !ok {
			c.unknown(within(path, name), typ)
			continue
		}

		c.jsonValue(within(path, name), member.typ, object[name])
	}

	for _, member := range structure.members {
		if member.required && object[member.wire] == nil {
			c.missing(within(path, member.wire), typ)
		}
	}
}

func (c *checker) jsonScalar(path, typ string, value any) {
	var want string
	switch typ {
	case "boolean":
		want = "a boolean"
	case "integer", "long", "float", "double":
		want = "a number"
	default: // strings, enumerations, and the timestamps of PCS, which are ISO 8601 in a string
		want = "a string"
	}

	if got := jsonKind(value); got != want {
		c.report(path, "is %s, want %s", got, want)
		return
	}

	switch value := value.(type) {
	case json.Number:
		c.scalar(path, typ, value.String())
	case string:
		c.scalar(path, typ, value)
	}
}

func jsonKind(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "a list"
	default:
		return "an object"
	}
}
