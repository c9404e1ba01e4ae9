package shapes

import (
	"slices"
	"strconv"
	"time"
)

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
