package terminal

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/mattn/go-runewidth"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Rows shows a slice of structs in each format, as Show does.
func (t *Terminal) Rows(rows any, columns string) error { return t.Show(rows, rows, columns) }

// Show writes doc as JSON or YAML, and rows, a slice of structs, as CSV or a table. CSV has the fields that have a
// name in JSON, a table the columns, each a heading and the field or method that its cells are:
//
//	ID: ID; COUNT: Count drop 2; GPU-HOUR: PerGPU.Amount right; WHY NOT: Message wrap
//
// A table without rows is not shown. Columns with drop make room in a narrow terminal, 1 first. Cells with wrap may be
// broken into lines. Numbers and money are aligned to the right, and so is what has right. A nil pointer is a value
// that is not known.
func (t *Terminal) Show(doc, rows any, columns string) error {
	switch t.Format {
	case JSON, YAML:
		// A program that reads no rows reads [], not null.
		if v := reflect.ValueOf(doc); v.Kind() == reflect.Slice && v.IsNil() {
			doc = []struct{}{}
		}
		return t.document(doc)
	case CSV:
		return t.csv(reflect.ValueOf(rows))
	}

	if reflect.ValueOf(rows).Len() == 0 {
		return nil
	}

	return t.table(reflect.ValueOf(rows), columns)
}

func (t *Terminal) document(doc any) error {
	if t.Format == JSON {
		return encode(t.Out, doc)
	}

	var out bytes.Buffer
	if err := encode(&out, doc); err != nil {
		return err
	}

	// By way of JSON, so that both formats have the same names.
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
	case encoding.TextMarshaler:
		text, err := v.MarshalText()
		if err != nil {
			return err.Error()
		}

		return string(text)
	}

	// Maps have no order, and scripts compare what they read.
	if v := reflect.ValueOf(value); v.Kind() == reflect.Map {
		var pairs []string
		for key, of := range v.Seq2() {
			pairs = append(pairs, fmt.Sprintf("%v=%v", key, of))
		}

		slices.Sort(pairs)

		return strings.Join(pairs, " ")
	}

	return fmt.Sprint(value)
}

func (t *Terminal) csv(rows reflect.Value) error {
	w := csv.NewWriter(t.Out)

	var (
		fields []reflect.StructField
		head   []string
	)
	for _, f := range reflect.VisibleFields(rows.Type().Elem()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			fields = append(fields, f)
			head = append(head, name)
		}
	}

	lines := [][]string{head}
	for i := range rows.Len() {
		var line []string
		for _, f := range fields {
			line = append(line, machine(rows.Index(i).FieldByIndex(f.Index).Interface()))
		}

		lines = append(lines, line)
	}

	return w.WriteAll(lines)
}

// column is one of a table before that is written.
type column struct {
	path        string // of its values, in a row
	right, wrap bool
	drop        int      // leaves the table in this order; 0 stays
	cells       []string // the head, and one for each row
	width       int      // of the longest line
	out         bool
}

// columns returns the columns that Show draws, with the cells of rows.
func (t *Terminal) columns(rows reflect.Value, spec string) (all []*column) {
	var times []time.Time

	values := map[*column][]any{}
	for one := range strings.SplitSeq(spec, "; ") {
		head, cells, _ := strings.Cut(one, ": ")

		words := strings.Fields(cells)
		c := &column{
			path:  words[0],
			cells: []string{head},
			right: slices.Contains(words, "right"),
			wrap:  slices.Contains(words, "wrap"),
		}
		if i := slices.Index(words, "drop"); i > 0 {
			c.drop, _ = strconv.Atoi(words[i+1])
		}

		for i := range rows.Len() {
			v := valueOf(rows.Index(i), c.path)
			switch v := v.(type) {
			case time.Time:
				if !v.IsZero() {
					times = append(times, v)
				}
			case int, int64, float64, *int, *int64, capacity.Amount:
				c.right = true
			}

			values[c] = append(values[c], v)
		}

		all = append(all, c)
	}

	layout, zone := t.timeLayout(times)
	for _, c := range all {
		for _, v := range values[c] {
			c.cells = append(c.cells, t.cell(v, layout))
		}

		if slices.ContainsFunc(values[c], func(v any) bool { _, is := v.(time.Time); return is }) {
			c.cells[0] += zone
		}

		for line := range strings.SplitSeq(strings.Join(c.cells, "\n"), "\n") {
			c.width = max(c.width, runewidth.StringWidth(line))
		}
	}

	return all
}

// timeLayout returns one form for all times of a table: with years only if they are needed, and the zone once, for the
// head.
func (t *Terminal) timeLayout(times []time.Time) (layout, zone string) {
	layout = "01-02 15:04"
	if len(times) == 0 {
		return layout, ""
	}

	first := slices.MinFunc(times, time.Time.Compare)
	last := slices.MaxFunc(times, time.Time.Compare)
	if last.Sub(first) > oneYear {
		layout = "2006-01-02 15:04"
	}

	zone = " " + first.In(t.Zone()).Format("MST")
	if other := last.In(t.Zone()).Format("MST"); " "+other != zone { // a place with summer time has two
		zone += "/" + other
	}

	return layout, zone
}

// oneYear is a stretch of time in which month and day tell a time.
const oneYear = 300 * 24 * time.Hour

// valueOf returns the field or the answer of the method that a path leads to.
func valueOf(row reflect.Value, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		if method := row.MethodByName(name); method.IsValid() {
			row = method.Call(nil)[0]
		} else {
			row = row.FieldByName(name)
		}
	}

	return row.Interface()
}

const gap = 2 // blanks between two columns

// leastWrapped is the narrowest that a column with broken cells becomes.
const leastWrapped = 24

// fit leaves columns out, in their order, until the table is at most width wide, then takes back those for which there
// is room, and says how wide broken cells may be.
func fit(all []*column, width int) (kept []*column, wrapped int) {
	total := func(wrapped int) int {
		sum := -gap
		for _, c := range all {
			switch {
			case c.out:
			case c.wrap:
				sum += min(c.width, wrapped) + gap
			default:
				sum += c.width + gap
			}
		}

		return sum
	}
	order := slices.DeleteFunc(slices.Clone(all), func(c *column) bool { return c.drop == 0 })
	slices.SortStableFunc(order, func(a, b *column) int { return cmp.Compare(a.drop, b.drop) })

	for _, c := range order {
		// Broken cells at their narrowest: a column is worth more than long lines.
		c.out = total(leastWrapped) > width
	}

	// A wide column that went late may have made room for narrow ones that went before it.
	for _, c := range slices.Backward(order) {
		if c.out {
			c.out = false
			c.out = total(leastWrapped) > width
		}
	}

	for wrapped = leastWrapped; wrapped < width && total(wrapped+1) <= width; wrapped++ {
		// broken cells of several columns become equally wide
	}

	return slices.DeleteFunc(all, func(c *column) bool { return c.out }), wrapped
}

// table writes rows whole: every column where there is no terminal, else those that fit.
func (t *Terminal) table(rows reflect.Value, spec string) error {
	// Off a terminal a script or a file gets every column.
	columns := t.columns(rows, spec)
	wrapped := 0 // no bound
	if t.Width > 0 && !t.Wide {
		columns, wrapped = fit(columns, t.Width)
	}

	for _, c := range columns {
		if c.wrap && wrapped > 0 {
			c.width = min(c.width, wrapped)
			for i, cell := range c.cells {
				c.cells[i] = wrapLines(cell, wrapped)
			}
		}
	}

	var out bytes.Buffer
	// The heads are the first row. A row is as high as its highest cell.
	for row := range rows.Len() + 1 {
		height := 1
		for _, c := range columns {
			height = max(height, 1+strings.Count(c.cells[row], "\n"))
		}

		for n := range height {
			line := ""
			for _, c := range columns {
				cell := strings.Split(c.cells[row]+strings.Repeat("\n", n), "\n")[n] // "" below its last line
				if c.right {
					cell = runewidth.FillLeft(cell, c.width)
				}

				line += runewidth.FillRight(cell, c.width+gap)
			}

			fmt.Fprintln(&out, strings.TrimRight(line, " "))
		}
	}

	_, err := t.Out.Write(out.Bytes())

	return err
}

// wrapLines breaks a cell at blanks, and each of its lines for itself: where it has several,
// what is broken off is indented by two more than its line.
func wrapLines(cell string, width int) string {
	lines := strings.Split(cell, "\n")
	for i, line := range lines {
		// Only where a cell has several lines must a broken one differ from the next.
		indent := 0
		if len(lines) > 1 {
			indent = 2 + len(line) - len(strings.TrimLeft(line, " "))
		}

		if runewidth.StringWidth(line) > width {
			lines[i] = fill(cellWords(line, width-indent), "", indent, indent, width)
		}
	}

	return strings.Join(lines, "\n")
}

// joints break a word that is too wide, as a path or an ARN can be, the best first.
var joints = []string{"/", ":", "=", ",", "-", "_"}

// cellWords returns the words of a line. One that is too wide is in pieces: up to each joint, or
// where there is none that fits, of the width.
func cellWords(line string, width int) []string {
	var words []string
	for _, word := range strings.SplitAfter(line, " ") {
		words = append(words, pieces(word, joints, width)...)
	}

	return words
}

func pieces(word string, joints []string, width int) []string {
	switch {
	case runewidth.StringWidth(word) <= width:
		return []string{word}
	case len(joints) == 0:
		return strings.Split(runewidth.Wrap(word, width), "\n")
	}

	// A path breaks at each slash, so that its parts stand whole; other joints only where the room ends.
	var all []string
	for _, piece := range strings.SplitAfter(word, joints[0]) {
		if last := len(all) - 1; joints[0] != "/" && last >= 0 &&
			runewidth.StringWidth(all[last]+piece) <= width {
			all[last] += piece // as much of it together as there is room for
		} else if piece != "" {
			all = append(all, pieces(piece, joints[1:], width)...)
		}
	}

	return all
}

// cell shows a value to a person.
func (t *Terminal) cell(value any, layout string) string {
	if v := reflect.ValueOf(value); v.Kind() == reflect.Pointer && !v.IsNil() {
		value = v.Elem().Interface()
	}

	if v := reflect.ValueOf(value); v.Kind() == reflect.Struct && v.IsZero() {
		return "-"
	}

	switch v := value.(type) {
	case time.Time:
		return v.In(t.Zone()).Format(layout)
	case capacity.Amount:
		return v.Grouped()
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
