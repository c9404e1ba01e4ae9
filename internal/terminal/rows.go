package terminal

import (
	"bytes"
	"encoding"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// Rows shows a slice of structs. The tag `col` is a field's heading in a table, and a
// field without it is left out there; the tag `json` is its name in all other formats.
// A nil pointer is a value that is not known. What fits the width of a terminal is in
// table.go.
func (t *Terminal) Rows(rows any) error { return t.Show(rows, rows) }

// Show writes doc as JSON or YAML, and rows, a slice of structs, as a table or CSV.
func (t *Terminal) Show(doc, rows any) error {
	switch t.Format {
	case JSON, YAML:
		v := reflect.ValueOf(doc)
		if v.Kind() == reflect.Slice && v.IsNil() {
			doc = []struct{}{}
		}
		return t.document(doc)
	case CSV:
		return t.csv(reflect.ValueOf(rows))
	}
	return t.table(reflect.ValueOf(rows))
}

func (t *Terminal) document(doc any) error {
	if t.Format == JSON {
		return encode(t.Out, doc)
	}
	var out bytes.Buffer
	if err := encode(&out, doc); err != nil {
		return err
	}
	text, err := yaml.JSONToYAML(out.Bytes())
	if err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	_, err = t.Out.Write(text)
	return err
}

// encode writes JSON in one piece, or nothing.
func encode(w io.Writer, doc any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(doc); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

// machine writes a value for a program.
func machine(value any) string {
	if v := reflect.ValueOf(value); v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		value = v.Elem().Interface()
	}
	switch v := value.(type) {
	case time.Time:
		if v.IsZero() {
			return ""
		}
		return v.UTC().Format(time.RFC3339)
	case []string:
		return strings.Join(v, " ")
	case map[string]string:
		var pairs []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			pairs = append(pairs, key+"="+v[key])
		}
		return strings.Join(pairs, " ")
	case encoding.TextMarshaler:
		text, err := v.MarshalText()
		if err != nil {
			return err.Error()
		}
		return string(text)
	}
	return fmt.Sprint(value)
}

func (t *Terminal) csv(rows reflect.Value) error {
	w := csv.NewWriter(t.Out)
	var shown []column
	var head []string
	for _, c := range columns(rows.Type().Elem()) {
		if c.name != "" {
			shown = append(shown, c)
			head = append(head, c.name)
		}
	}
	if err := w.Write(head); err != nil {
		return err
	}
	for i := range rows.Len() {
		var line []string
		for _, c := range shown {
			line = append(line, machine(rows.Index(i).Field(c.index).Interface()))
		}
		if err := w.Write(line); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}
