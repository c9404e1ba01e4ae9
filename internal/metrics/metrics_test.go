package metrics

import (
	"bytes"
	"testing"

	"github.com/prometheus/common/expfmt"
)

// What Prometheus reads is what was written, whatever is in a label.
func TestPrometheusReadsIt(t *testing.T) {
	all := Gauges{}
	all.Add("pcs_capacity_nodes", "Nodes.", 3, "slot", "gpu-a", "state", "busy")
	all.Add("pcs_capacity_nodes", "Nodes.", 0.5, "slot", "a \"quoted\\ one\nin two lines", "state", "idle")
	all.Add("pcs_capacity_last_pass_timestamp_seconds", "When.", 1795000000)
	text := all.Text()

	var parser expfmt.TextParser

	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}

	nodes := families["pcs_capacity_nodes"].GetMetric()
	if len(families) != 2 || len(nodes) != 2 || nodes[0].GetGauge().GetValue() != 3 ||
		nodes[1].GetLabel()[0].GetValue() != "a \"quoted\\ one\nin two lines" {
		t.Errorf("read %v from\n%s", families, text)
	}

	if got := families["pcs_capacity_last_pass_timestamp_seconds"].GetMetric()[0].GetGauge().GetValue(); got != 1795000000 {
		t.Errorf("%v", got)
	}

	if !bytes.HasSuffix(text, []byte("# EOF\n")) {
		t.Errorf("OpenMetrics ends with # EOF:\n%s", text)
	}
}
