// Package metrics writes gauges as text that node_exporter's textfile collector reads, in the text format that
// Prometheus and OpenMetrics share. What the gauges are is decided elsewhere: see lifecycle.Metrics.
package metrics

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Gauges are metrics by name: lower case with underscores.
type Gauges map[string]*Gauge

// Gauge is a metric with all of its values. Help is one line.
type Gauge struct {
	Help    string
	Samples []Sample
}

// Sample is a value, which is told from others by its labels.
type Sample struct {
	Labels []string // names and values in turn
	Value  float64
}

// Add adds a value to a gauge, with labels: names and values in turn.
func (all Gauges) Add(name, help string, value float64, labels ...string) {
	if all[name] == nil {
		all[name] = &Gauge{Help: help}
	}

	all[name].Samples = append(all[name].Samples, Sample{labels, value})
}

var escaped = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// Text returns the gauges in the order of their names.
func (all Gauges) Text() []byte {
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %[1]s gauge\n", name, all[name].Help)

		for _, s := range all[name].Samples {
			var labels []string
			for label := range slices.Chunk(s.Labels, 2) {
				labels = append(labels, fmt.Sprintf(`%s="%s"`, label[0], escaped.Replace(label[1])))
			}

			if b.WriteString(name); len(labels) > 0 {
				b.WriteString("{" + strings.Join(labels, ",") + "}")
			}

			b.WriteString(" " + strconv.FormatFloat(s.Value, 'f', -1, 64) + "\n")
		}
	}

	b.WriteString("# EOF\n")

	return b.Bytes()
}
