package power

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// call is one call of a hook by Slurm. Its log has a line for each AWS call, and a last line that sums up the hook's
// records.
type call struct {
	log   *slog.Logger
	what  string // such as "power up"
	nodes string // a hostlist
	began time.Time

	mu       sync.Mutex
	kept     []state.Record
	requests []string // AWS's names of its answers
	refused  []string // AWS's error codes
}

// begin logs that Slurm has called.
func begin(log *slog.Logger, what, nodes string, attrs ...any) *call {
	log.Info(what, append([]any{"nodes", nodes}, attrs...)...)
	return &call{log: log, what: what, nodes: nodes, began: time.Now()}
}

// aws logs a call of AWS.
func (c *call) aws(a ec2.Call) {
	c.log.LogAttrs(context.Background(), slog.LevelInfo, "AWS call", a.Attrs()...)
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.RequestID != "" {
		c.requests = append(c.requests, a.RequestID)
	}
	if a.Code != "" {
		c.refused = append(c.refused, a.Code)
	}
}

// keep receives records.
func (c *call) keep(records []state.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = append(c.kept, records...)
}

// end logs the sum of the call, and returns the exit status. advice is for a non-nil err.
func (c *call) end(err error, advice string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var jobs, reservations, instances, codes []string
	for _, r := range c.kept {
		jobs, instances = append(jobs, r.Jobs...), append(instances, r.Instances...)
		reservations, codes = append(reservations, r.Reservation), append(codes, r.Code)
		c.refused = append(c.refused, r.EC2Code)
	}
	attrs := []any{"nodes", c.nodes, "ms", time.Since(c.began).Milliseconds()}
	for _, list := range []struct {
		name string
		of   []string
	}{{"jobs", jobs}, {"reservations", reservations}, {"instances", instances}, {"codes", codes}, {"aws_codes", c.refused}, {"aws_request_ids", c.requests}} {
		slices.Sort(list.of)
		all := slices.DeleteFunc(slices.Compact(list.of), func(s string) bool { return s == "" })
		if len(all) > 0 {
			attrs = append(attrs, list.name, all)
		}
	}
	if err != nil {
		c.log.Error(c.what+": failed"+advice, append(attrs, "err", err)...)
		return 1
	}
	c.log.Info(c.what+": done", attrs...)
	return 0
}
