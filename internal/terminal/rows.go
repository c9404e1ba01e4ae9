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
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Rows shows a slice of structs. The tag `col` is a field's heading in a table, and a
// field without it is left out there; the tag `json` is its name in all other formats.
// A nil pointer is a value that is not known.
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

// column is one field of a row.
type column struct {
	index      int
	head, name string
	number     bool
}

// columns lists the fields of a row type; embedded fields are not followed.
func columns(row reflect.Type) []column {
	var all []column
	for i := range row.NumField() {
		f := row.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			name = ""
		}
		c := column{index: i, head: f.Tag.Get("col"), name: name}
		kind := f.Type.Kind()
		if kind == reflect.Pointer {
			kind = f.Type.Elem().Kind()
		}
		switch kind {
		case reflect.Int, reflect.Int64, reflect.Float64:
			c.number = f.Type != reflect.TypeFor[time.Duration]()
		}
		all = append(all, c)
	}
	return all
}

func (t *Terminal) table(rows reflect.Value) error {
	w := table.NewWriter()
	w.SetOutputMirror(t.Out)
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	style.Format.Header = text.FormatDefault
	w.SetStyle(style)
	w.SuppressTrailingSpaces()

	var shown []column
	var head table.Row
	var configs []table.ColumnConfig
	for _, c := range columns(rows.Type().Elem()) {
		if c.head == "" {
			continue
		}
		shown = append(shown, c)
		head = append(head, c.head)
		if c.number {
			configs = append(configs, table.ColumnConfig{Number: len(shown), Align: text.AlignRight, AlignHeader: text.AlignRight})
		}
	}
	w.SetColumnConfigs(configs)
	w.AppendHeader(head)
	for i := range rows.Len() {
		var line table.Row
		for _, c := range shown {
			line = append(line, t.cell(rows.Index(i).Field(c.index).Interface()))
		}
		w.AppendRow(line)
	}
	w.Render()
	return nil
}

// cell shows a value to a person.
func (t *Terminal) cell(value any) string {
	switch v := value.(type) {
	case time.Time:
		return t.Time(v)
	case bool:
		if v {
			return "yes"
		}
		return "no"
	}
	if s := machine(value); s != "" {
		return s
	}
	return "-"
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
