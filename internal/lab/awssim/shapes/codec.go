package shapes

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// EC2Time is EC2's format of times.
const EC2Time = "2006-01-02T15:04:05.000Z"

// EncodeEC2 writes the answer of an operation of EC2. A structure is a map or a struct by the names that the service
// model gives its members; tags may be a map of strings. Empty strings, lists and times, and nil, are left out. An
// answer that differs from the model is an *Error with every violation.
func EncodeEC2(operation, requestID string, result any) ([]byte, error) {
	var out bytes.Buffer

	err := check("ec2", operation, func(op *operationShape, c *checker) {
		if op == nil {
			c.unknownOperation()
			return
		}

		fmt.Fprintf(
			&out,
			"%s<%sResponse xmlns=%q><requestId>%s</requestId>",
			xml.Header,
			operation,
			"http://ec2.amazonaws.com/doc/2016-11-15/",
			requestID,
		)

		if op.output == "-" {
			out.WriteString("<return>true</return>")
		} else {
			c.encodeStructure(&out, "", op.output, reflect.ValueOf(result))
		}

		fmt.Fprintf(&out, "</%sResponse>", operation)
	})

	return out.Bytes(), err
}

func (c *checker) encodeStructure(out *bytes.Buffer, path, typ string, v reflect.Value) {
	given := map[string]reflect.Value{}
	if !membersOf(v, given) {
		c.report(path, "is %s, want the structure %s", v.Type(), typ)
	}

	for _, m := range c.shapes.structures[typ].members {
		member, there := given[m.name]
		if delete(given, m.name); there {
			c.encode(out, within(path, m.name), m.wire, m.typ, member)
		} else if m.required {
			c.missing(within(path, m.name), typ)
		}
	}

	for _, name := range slices.Sorted(maps.Keys(given)) {
		c.unknown(within(path, name), typ)
	}
}

// membersOf collects the members of a map or a struct that are not empty.
func membersOf(v reflect.Value, into map[string]reflect.Value) bool {
	keep := func(name string, v reflect.Value) {
		for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
			v = v.Elem()
		}

		if !v.IsValid() ||
			(v.Kind() == reflect.String || v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0 {
			return
		}

		if t, isTime := v.Interface().(time.Time); isTime && t.IsZero() {
			return
		}

		into[name] = v
	}
	switch v.Kind() {
	case reflect.Map:
		for _, key := range v.MapKeys() {
			keep(key.String(), v.MapIndex(key))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Anonymous {
				membersOf(v.Field(i), into)
			} else {
				keep(f.Name, v.Field(i))
			}
		}
	default:
		return false
	}

	return true
}

func (c *checker) encode(out *bytes.Buffer, path, wire, typ string, v reflect.Value) {
	fmt.Fprintf(out, "<%s>", wire)

	list, isList := c.shapes.lists[typ]
	switch {
	case c.shapes.structures[typ] != nil:
		c.encodeStructure(out, path, typ, v)
	case isList && v.Kind() == reflect.Slice:
		for i := range v.Len() {
			item := v.Index(i)
			for item.Kind() == reflect.Pointer || item.Kind() == reflect.Interface {
				item = item.Elem()
			}

			c.encode(out, at(path, i), list.wire, list.item, item)
		}
	case isList && v.Type() == reflect.TypeFor[map[string]string]():
		tags := v.Interface().(map[string]string)
		for _, key := range slices.Sorted(maps.Keys(tags)) {
			// A value of "" is there.
			fmt.Fprintf(out, "<%s><key>%s</key><value>%s</value></%[1]s>", list.wire, escaped(key), escaped(tags[key]))
		}
	case isList:
		c.report(path, "is %s, want a list", v.Type())
	default:
		text := fmt.Sprint(v.Interface())
		if t, isTime := v.Interface().(time.Time); isTime {
			text = t.UTC().Format(EC2Time)
		}

		if typ != "State" { // of a VPC endpoint: the model has "Available", EC2 answers "available"
			c.scalar(path, typ, text)
		}

		out.WriteString(escaped(text))
	}

	fmt.Fprintf(out, "</%s>", wire)
}

func escaped(text string) string {
	var b strings.Builder

	_ = xml.EscapeText(&b, []byte(text)) // a Builder does not fail
	return b.String()
}
