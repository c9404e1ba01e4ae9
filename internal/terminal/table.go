package terminal

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// column is one field of a row.
type column struct {
	index      int
	head, name string
	right      bool // aligned: a number or an amount
	time       bool
	// drop says in which order columns make room in a narrow terminal, 1 first; 0 stays.
	drop int
	// wrap: the cells of the column may have several lines.
	wrap bool
}

// columns lists the fields of a row type; embedded fields are not followed. The tag
// `drop` is the column's place in the order in which columns make room, `wrap` says that
// its cells may be broken into lines, and `align:"right"` is for amounts.
func columns(row reflect.Type) []column {
	var all []column
	for i := range row.NumField() {
		f := row.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			name = ""
		}
		c := column{index: i, head: f.Tag.Get("col"), name: name, right: f.Tag.Get("align") == "right", wrap: f.Tag.Get("wrap") != ""}
		c.drop, _ = strconv.Atoi(f.Tag.Get("drop")) // "" is 0
		of := f.Type
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		switch of.Kind() {
		case reflect.Int, reflect.Int64, reflect.Float64:
			c.right = of != reflect.TypeFor[time.Duration]()
		}
		c.time = of == reflect.TypeFor[time.Time]()
		all = append(all, c)
	}
	return all
}

const gap = 2 // blanks between two columns

// leastWrapped is the narrowest that a column with broken cells becomes.
const leastWrapped = 24

// grid is a table before it is written: a heading and cells for each column.
type grid struct {
	columns []column
	cells   [][]string // by row
}

func (t *Terminal) grid(rows reflect.Value) grid {
	var g grid
	layout := t.timeLayout(rows)
	for _, c := range columns(rows.Type().Elem()) {
		if c.head == "" {
			continue
		}
		if zone := t.zoneOf(rows); c.time && zone != "" {
			c.head += " " + zone
		}
		g.columns = append(g.columns, c)
	}
	for i := range rows.Len() {
		var line []string
		for _, c := range g.columns {
			line = append(line, t.cell(rows.Index(i).Field(c.index).Interface(), layout))
		}
		g.cells = append(g.cells, line)
	}
	return g
}

// width of each column: the longest line in it.
func (g grid) widths() []int {
	widths := make([]int, len(g.columns))
	for i, c := range g.columns {
		widths[i] = text.StringWidthWithoutEscSequences(c.head)
		for _, line := range g.cells {
			widths[i] = max(widths[i], text.LongestLineLen(line[i]))
		}
	}
	return widths
}

// fit leaves columns out, in their order, until the table is at most width wide, then
// takes back those for which there is room, and says how wide broken cells may be.
func (g *grid) fit(width int) (wrapped int) {
	widths := g.widths()
	out := map[int]bool{}
	total := func(wrapped int) int {
		sum := -gap
		for i, w := range widths {
			if g.columns[i].wrap {
				w = min(w, wrapped)
			}
			if !out[i] {
				sum += w + gap
			}
		}
		return sum
	}
	order := make([]int, 0, len(widths)) // of those that may go, the first to go first
	for i, c := range g.columns {
		if c.drop > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return g.columns[a].drop - g.columns[b].drop })
	for _, i := range order {
		if total(leastWrapped) > width {
			out[i] = true
		}
	}
	for _, i := range slices.Backward(order) {
		if was := out[i]; was {
			out[i] = false
			out[i] = total(leastWrapped) > width
		}
	}
	for wrapped = leastWrapped; wrapped < width && total(wrapped+1) <= width; wrapped++ {
		// broken cells of several columns become equally wide
	}
	g.leaveOut(out)
	return wrapped
}

func (g *grid) leaveOut(columns map[int]bool) {
	keep := func(i int) bool { return !columns[i] }
	g.columns = kept(g.columns, keep)
	for i := range g.cells {
		g.cells[i] = kept(g.cells[i], keep)
	}
}

func kept[T any](all []T, keep func(int) bool) []T {
	var some []T
	for i, one := range all {
		if keep(i) {
			some = append(some, one)
		}
	}
	return some
}

// table writes rows whole: every column where there is no terminal, else those that fit.
func (t *Terminal) table(rows reflect.Value) error {
	g := t.grid(rows)
	wrapped := 0 // no bound
	if t.Width > 0 && !t.Wide {
		wrapped = g.fit(t.Width)
	}
	w := table.NewWriter()
	w.SetOutputMirror(t.Out)
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", strings.Repeat(" ", gap)
	style.Format.Header = text.FormatDefault
	w.SetStyle(style)
	w.SuppressTrailingSpaces()

	var head table.Row
	var configs []table.ColumnConfig
	for i, c := range g.columns {
		head = append(head, c.head)
		config := table.ColumnConfig{Number: i + 1}
		if c.right {
			config.Align, config.AlignHeader = text.AlignRight, text.AlignRight
		}
		if c.wrap && wrapped > 0 {
			config.WidthMax, config.WidthMaxEnforcer = wrapped, wrapLines
		}
		configs = append(configs, config)
	}
	w.SetColumnConfigs(configs)
	w.AppendHeader(head)
	for _, cells := range g.cells {
		var line table.Row
		for _, cell := range cells {
			line = append(line, cell)
		}
		w.AppendRow(line)
	}
	w.Render()
	return nil
}

// wrapLines breaks a cell at blanks, and each of its lines for itself: where it has several,
// what is broken off is indented.
func wrapLines(cell string, width int) string {
	lines := strings.Split(cell, "\n")
	indent := 2
	if len(lines) == 1 {
		indent = 0
	}
	for i, line := range lines {
		if text.StringWidthWithoutEscSequences(line) > width {
			lines[i] = fill(cellWords(line, width-indent), "", indent, indent, width)
		}
	}
	return strings.Join(lines, "\n")
}

// joints are where a word may be broken that is too wide, as a path or an ARN can be, the best
// first.
var joints = []string{"/", ":", "=", ",", "-", "_"}

// cellWords are the words of a line. One that is too wide is in pieces: up to each joint, or
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
	case text.StringWidthWithoutEscSequences(word) <= width:
		return []string{word}
	case len(joints) == 0:
		return strings.Split(text.WrapHard(word, width), "\n")
	}
	var all []string
	for _, piece := range strings.SplitAfter(word, joints[0]) {
		if last := len(all) - 1; joints[0] != "/" && last >= 0 && text.StringWidthWithoutEscSequences(all[last]+piece) <= width {
			all[last] += piece // as much of it together as there is room for
		} else if piece != "" {
			all = append(all, pieces(piece, joints[1:], width)...)
		}
	}
	return all
}

// oneYear is a stretch of time in which month and day tell a time.
const oneYear = 300 * 24 * time.Hour

// timeLayout leaves the year out where the times of all rows are near to each other.
func (t *Terminal) timeLayout(rows reflect.Value) string {
	first, last := t.timeRange(rows)
	if last.Sub(first) > oneYear {
		return "2006-01-02 15:04"
	}
	return "01-02 15:04"
}

func (t *Terminal) timeRange(rows reflect.Value) (first, last time.Time) {
	for i := range rows.Len() {
		for _, c := range columns(rows.Type().Elem()) {
			if !c.time || c.head == "" {
				continue
			}
			at, _ := reflect.Indirect(rows.Index(i).Field(c.index)).Interface().(time.Time)
			if at.IsZero() {
				continue
			}
			if first.IsZero() || at.Before(first) {
				first = at
			}
			if at.After(last) {
				last = at
			}
		}
	}
	return first, last
}

// zoneOf is the zone that times are shown in; "" where there are none. A place with
// summer time has two names for it.
func (t *Terminal) zoneOf(rows reflect.Value) string {
	first, last := t.timeRange(rows)
	if first.IsZero() {
		return ""
	}
	a, b := t.in(first).Format("MST"), t.in(last).Format("MST")
	if a != b {
		return a + "/" + b
	}
	return a
}

// cell shows a value to a person.
func (t *Terminal) cell(value any, layout string) string {
	switch v := value.(type) {
	case time.Time:
		if v.IsZero() {
			return "-"
		}
		return t.in(v).Format(layout)
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
