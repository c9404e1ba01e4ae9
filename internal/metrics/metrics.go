// Package metrics writes gauges as text that node_exporter's textfile collector reads, in the
// text format that Prometheus and OpenMetrics share.
package metrics

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Gauge is a metric with all of its values.
type Gauge struct {
	// Name in lower case with underscores; Help is one line.
	Name, Help string
	Samples    []Sample
}

// Sample is a value, which is told from others by its labels.
type Sample struct {
	Labels []string // names and values in turn
	Value  float64
}

// Add adds a value with labels: names and values in turn.
func (g *Gauge) Add(value float64, labels ...string) {
	g.Samples = append(g.Samples, Sample{labels, value})
}

var escaped = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// Text is the gauges in the order of their names; those without values are left out.
func Text(gauges []Gauge) []byte {
	gauges = slices.DeleteFunc(slices.Clone(gauges), func(g Gauge) bool { return len(g.Samples) == 0 })
	slices.SortFunc(gauges, func(a, b Gauge) int { return cmp.Compare(a.Name, b.Name) })
	var b bytes.Buffer
	for _, g := range gauges {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %[1]s gauge\n", g.Name, g.Help)
		for _, s := range g.Samples {
			b.WriteString(g.Name)
			for i := 0; i+1 < len(s.Labels); i += 2 {
				open := ","
				if i == 0 {
					open = "{"
				}
				fmt.Fprintf(&b, `%s%s="%s"`, open, s.Labels[i], escaped.Replace(s.Labels[i+1]))
			}
			if len(s.Labels) > 1 {
				b.WriteByte('}')
			}
			b.WriteString(" " + strconv.FormatFloat(s.Value, 'f', -1, 64) + "\n")
		}
	}
	b.WriteString("# EOF\n")
	return b.Bytes()
}
