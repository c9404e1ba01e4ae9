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

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Run is one time that a job held nodes, from Slurm's accounting. A requeued job has one for each start.
type Run struct {
	Job                      string // as squeue shows it: 12_3, 12+1
	User, Account, Partition string
	Nodes                    string // a hostlist
	Start                    time.Time
	End                      time.Time // zero as long as it runs
	State                    string    // one word of Slurm's: COMPLETED, TIMEOUT, REQUEUED, …
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

// parseRuns reads records whose fields each end with mark. Those of jobs that had no node are left out.
func parseRuns(text, mark string) ([]Run, error) {
	var runs []Run
	fields := strings.Split(text, mark)
	for ; len(fields) > len(runFields); fields = fields[len(runFields):] {
		r := Run{Job: strings.TrimPrefix(fields[0], "\n"), User: fields[1], Partition: fields[2],
			Nodes: fields[6], Account: fields[7]}
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

// Walls reads the longest limits that QOS and associations allow in this cluster. Nothing
// in them is written by users without rights. It asks slurmdbd, not slurmctld.
func (c *Client) Walls(ctx context.Context, cluster string) (capacity.Walls, error) {
	fail := func(err error) (capacity.Walls, error) {
		return capacity.Walls{}, fmt.Errorf("reading the limits of accounting: %w", err)
	}
	if err := checkName("cluster", cluster); err != nil {
		return fail(err)
	}
	var qos []capacity.QOSWall
	err := c.sacctmgr(ctx, []string{"qos"}, []string{"name", "maxwall", "flags", "grpwall", "maxtresmins", "grptresmins",
		"grptresrunmins", "maxtresrunminspa", "maxtresrunminspu"}, func(f []string) (err error) {
		q := capacity.QOSWall{Name: f[0], OverPartition: slices.Contains(splitList(f[2]), "OverPartQOS"),
			Metered: anySet(f[3:])}
		q.MaxWall, err = capacity.ParseLimit(f[1])
		qos = append(qos, q)
		return err
	})
	if err != nil {
		return fail(err)
	}
	var associations []capacity.Association
	parents, grouped := map[string]string{}, map[string]bool{} // of accounts
	err = c.sacctmgr(ctx, []string{"associations", "cluster=" + cluster}, []string{"account", "user", "partition",
		"maxwall", "defaultqos", "qos", "parentname", "grpwall", "grptresmins", "grptresrunmins", "maxtresmins"}, func(
		f []string) (err error) {
		a := capacity.Association{Account: f[0], User: f[1], Partition: f[2], DefaultQOS: f[4]}
		if allowed := splitList(f[5]); a.DefaultQOS == "" && len(allowed) == 1 {
			a.DefaultQOS = allowed[0]
		}
		a.MaxWall, err = capacity.ParseLimit(f[3])
		a.Metered = anySet(f[7:])
		if a.User == "" {
			parents[a.Account], grouped[a.Account] = f[6], anySet(f[7:10])
		}
		associations = append(associations, a)
		return err
	})
	if err != nil {
		return fail(err)
	}
	for i := range associations { // limits of a group are those of its parents too, which sacctmgr does not show
		a := &associations[i]
		for account, n := a.Account, 0; account != "" && !a.Metered && n <= len(parents); n++ {
			a.Metered = grouped[account]
			account = parents[account]
		}
	}
	accounts := map[string]string{}
	err = c.sacctmgr(ctx, []string{"user"}, []string{"user", "defaultaccount"}, func(f []string) error {
		accounts[f[0]] = f[1]
		return nil
	})
	if err != nil {
		return fail(err)
	}
	return capacity.NewWalls(qos, associations, accounts), nil
}

func anySet(values []string) bool {
	return slices.ContainsFunc(values, func(v string) bool { return v != "" })
}

// sacctmgr shows things of Slurm's accounting and calls row with the fields of each.
func (c *Client) sacctmgr(ctx context.Context, what, fields []string, row func([]string) error) error {
	args := append([]string{"--noheader", "--parsable2", "show"}, what...)
	out, err := c.run(ctx, "sacctmgr", append(args, "format="+strings.Join(fields, ","))...)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(out)) {
		values := strings.Split(strings.TrimSuffix(line, "\n"), "|")
		if len(values) != len(fields) {
			return fmt.Errorf("sacctmgr show %s answers %s, not the fields %s", what[0], quote(line), strings.Join(fields, ","))
		}
		if err := row(values); err != nil {
			return err
		}
	}
	return nil
}
