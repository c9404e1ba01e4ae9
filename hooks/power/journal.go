package power

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// journal is the log of one call by Slurm, and its records. The log has a line for each AWS call, and a last line that
// sums up the records.
type journal struct {
	*slog.Logger
	what  string // such as "power up"
	list  string // of nodes
	began time.Time

	mu       sync.Mutex
	kept     []state.Record
	requests []string // AWS's names of its answers
	refused  []string // AWS's error codes
}

// did logs what was done, or that it failed, and returns the error.
func (j *journal) did(err error, what string, attrs ...any) error {
	if err != nil {
		j.Warn("failed: "+what, append(attrs, "err", err)...)
	} else {
		j.Info(what, attrs...)
	}
	return err
}

// aws logs a call of AWS.
func (j *journal) aws(a ec2.Call) {
	j.LogAttrs(context.Background(), slog.LevelInfo, "AWS call", a.Attrs()...)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.requests, j.refused = append(j.requests, a.RequestID), append(j.refused, a.Code)
}

// record writes records. Those that differ only in nodes, jobs and instances share a line of the log: one call
// launches a thousand jobs of one node each.
func (j *journal) record(w World, records ...state.Record) {
	if len(records) == 0 {
		return
	}
	var lines []state.Record
	for _, r := range records {
		i := slices.IndexFunc(lines, func(l state.Record) bool {
			return l.Message == r.Message && l.Reservation == r.Reservation && l.Code == r.Code && l.EC2Code == r.EC2Code
		})
		if i < 0 {
			i, lines = len(lines), append(lines, state.Record{Message: r.Message, Reservation: r.Reservation, Code: r.Code,
				EC2Code: r.EC2Code})
		}
		l := &lines[i]
		l.Nodes, l.Jobs, l.Instances = l.Nodes+","+r.Nodes, append(l.Jobs, r.Jobs...), append(l.Instances, r.Instances...)
	}
	for _, l := range lines {
		nodes := strings.Trim(l.Nodes, ",")
		if names, err := hostlist.Expand(nodes); err == nil {
			nodes = hostlist.Compress(names)
		}
		j.Info(l.Message, "nodes", nodes, "jobs", l.Jobs, "reservation", l.Reservation, "code", l.Code, "aws_code", l.EC2Code,
			"instances", l.Instances)
	}
	j.mu.Lock()
	j.kept = append(j.kept, records...)
	j.mu.Unlock()
	if err := w.AppendRecords(records...); err != nil {
		j.Warn("records are lost", "err", err)
	}
}

// end logs the sum of the call, and returns the exit status. advice is for a non-nil err.
func (j *journal) end(err error, advice string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	sums := map[string][]string{"aws_codes": j.refused, "aws_request_ids": j.requests}
	add := func(name string, more ...string) { sums[name] = append(sums[name], more...) }
	for _, r := range j.kept {
		add("jobs", r.Jobs...)
		add("reservations", r.Reservation)
		add("instances", r.Instances...)
		add("codes", r.Code)
		add("aws_codes", r.EC2Code)
	}
	attrs := []any{"nodes", j.list, "ms", time.Since(j.began).Milliseconds()}
	for _, name := range []string{"jobs", "reservations", "instances", "codes", "aws_codes", "aws_request_ids"} {
		all := slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(sums[name]))),
			func(s string) bool { return s == "" })
		if len(all) > 0 {
			attrs = append(attrs, name, all)
		}
	}
	if err != nil {
		j.Error(fmt.Sprintf("%s: failed%s", j.what, advice), append(attrs, "err", err)...)
		return 1
	}
	j.Info(j.what+": done", attrs...)
	return 0
}
