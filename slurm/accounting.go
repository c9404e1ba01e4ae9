package slurm

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Run is one time that a job held nodes, from Slurm's accounting. A requeued job has one for
// each start.
type Run struct {
	// Job is as squeue shows it: 12_3, 12+1.
	Job                      string
	User, Account, Partition string
	// Nodes is a hostlist.
	Nodes string
	Start time.Time
	// End is zero as long as it runs.
	End time.Time
	// State is one word of Slurm's: COMPLETED, TIMEOUT, REQUEUED, …
	State string
}

// ErrNoAccounting says that this cluster has no accounting that can be read.
var ErrNoAccounting = errors.New("slurm has no accounting database")

// runFields are what Runs asks for. None is a text that a user writes, but for the account,
// which is free text where Slurm does not check it.
var runFields = []string{"jobid", "user", "partition", "start", "end", "state", "nodelist", "account"}

var accountedJob = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]+([_+][0-9]+)?$`) })

// accountingTimeout is how long sacct may take: months of a busy cluster are many rows.
const accountingTimeout = 2 * time.Minute

// Runs are those that overlap a time, of all users, in the order in which Slurm has them. It
// asks slurmdbd, not slurmctld; without one the error is [ErrNoAccounting].
func (c *Client) Runs(ctx context.Context, from, until time.Time) ([]Run, error) {
	config, err := c.Config(ctx)
	if err == nil && !config.Accounts {
		err = ErrNoAccounting
	}
	if err != nil {
		return nil, fmt.Errorf("reading Slurm's accounting: %w", err)
	}
	slow := Client{Conf: c.Conf, Dir: c.Dir, Timeout: accountingTimeout}
	mark := newMark() // which no account can hold
	at := func(t time.Time) string { return "uts" + strconv.FormatInt(t.Unix(), 10) }
	out, err := slow.run(ctx, "sacct", "--allusers", "--duplicates", "--allocations", "--noheader", "--parsable",
		"--delimiter="+mark, "--starttime="+at(from), "--endtime="+at(until), "--format="+strings.Join(runFields, ","))
	if err != nil {
		return nil, fmt.Errorf("reading Slurm's accounting: %w", err)
	}
	runs, err := parseRuns(string(out), mark)
	if err != nil {
		return nil, fmt.Errorf("reading Slurm's accounting: %w", err)
	}
	return slices.DeleteFunc(runs,
		func(r Run) bool { return !r.Start.Before(until) || !r.End.IsZero() && !r.End.After(from) }), nil
}

// parseRuns reads records whose fields each end with mark. Those of jobs that had no node are
// left out.
func parseRuns(text, mark string) ([]Run, error) {
	var runs []Run
	fields := strings.Split(text, mark)
	for ; len(fields) > len(runFields); fields = fields[len(runFields):] {
		r := Run{
			Job:       strings.TrimPrefix(fields[0], "\n"),
			User:      fields[1],
			Partition: fields[2],
			Nodes:     fields[6],
			Account:   fields[7],
		}
		r.State, _, _ = strings.Cut(fields[5], " ") // CANCELLED by 1001
		started, ok := accountedTime(fields[3])
		if !ok || r.Nodes == "" || strings.HasPrefix(r.Nodes, "None") {
			continue
		}
		r.Start = started
		if end, ok := accountedTime(fields[4]); ok {
			r.End = end
		}
		if !accountedJob().MatchString(r.Job) {
			return nil, fmt.Errorf("sacct names a job %s", quote(r.Job))
		}
		runs = append(runs, r)
	}
	if rest := strings.TrimSpace(strings.Join(fields, "")); rest != "" {
		return nil, fmt.Errorf("sacct answers %s, not the fields %s", quote(rest), strings.Join(runFields, ","))
	}
	return runs, nil
}

// accountedTime reads seconds since 1970; Unknown and None are no time.
func accountedTime(text string) (time.Time, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return time.Unix(n, 0).UTC(), err == nil && n > 0
}
