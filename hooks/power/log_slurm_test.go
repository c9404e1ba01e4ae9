package power_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
)

// logged are the lines of a hook's log with a message. Every line is one JSON object.
func (p *power) logged(hook, message string) []map[string]any {
	p.t.Helper()
	var found []map[string]any
	p.until(fmt.Sprintf("%s.log has a line %q", hook, message), func() bool {
		text, _ := os.ReadFile(filepath.Join(p.dir, "log", hook+".log"))
		for line := range strings.Lines(string(text)) {
			var fields map[string]any
			if err := json.Unmarshal([]byte(line), &fields); err != nil {
				p.t.Fatalf("%s.log: %v: %s", hook, err, line)
			}
			if fields["msg"] == message {
				found = append(found, fields)
			}
		}
		return len(found) > 0
	})
	return found
}

// checkLog checks what the hooks have logged of a job on nodes gpu-1 and gpu-2 that was
// launched at the second attempt, and powered down.
func (p *power) checkLog(job string, instances map[string]awssim.Instance) {
	p.t.Helper()
	ids := []string{instances["gpu-1"].ID, instances["gpu-2"].ID}
	slices.Sort(ids)
	end := p.logged("resume", "power up: done")[0]
	for key, want := range map[string]any{"level": "INFO", "nodes": "gpu-[1-2]", "jobs": []string{job}, "reservations": []string{hookstest.BlockID}, "instances": ids, "codes": []string{"ok"}} {
		if fmt.Sprint(end[key]) != fmt.Sprint(want) {
			p.t.Errorf("resume.log: %s is %v, want %v", key, end[key], want)
		}
	}
	if ms, ok := end["ms"].(float64); !ok || ms <= 0 {
		p.t.Errorf("resume.log: a power-up took %v ms", end["ms"])
	}
	calls := p.logged("resume", "AWS call")
	for _, c := range calls {
		id, _ := c["request_id"].(string)
		if c["region"] != region || c["status"] != 200.0 || !strings.Contains(fmt.Sprint(end["aws_request_ids"]), id) || id == "" {
			p.t.Errorf("resume.log: %v", c)
		}
		if c["operation"] == "RunInstances" && (c["service"] != "EC2" || c["attempts"] != 2.0) {
			p.t.Errorf("a launch that took two attempts: %v", c)
		}
	}
	if !slices.ContainsFunc(calls, func(c map[string]any) bool { return c["operation"] == "RunInstances" }) {
		p.t.Errorf("resume.log has no launch: %v", calls)
	}
	end = p.logged("suspend", "power down: done")[0]
	if fmt.Sprint(end["nodes"]) != "gpu-[1-2]" || fmt.Sprint(end["instances"]) != fmt.Sprint(ids) {
		p.t.Errorf("suspend.log: %v", end)
	}
}
