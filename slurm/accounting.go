package slurm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// ErrNoAccounting says that this cluster has no accounting that can be read.
var ErrNoAccounting = errors.New("slurm has no accounting database")

// runFields are the columns of sacct that Runs reads. None is a text that a user writes, but for the account,
// which is free text where Slurm does not check it.
var runFields = []string{"jobid", "user", "partition", "start", "end", "state", "nodelist", "account"}

var sacctJobID = lazyRegexp(`^[0-9]+([_+][0-9]+)?$`)

// accountingTimeout bounds a call of sacct: months of a busy cluster are many rows.
const accountingTimeout = 2 * time.Minute

// Runs lists the runs of all users that overlap a time, in the order in which Slurm has them. It asks slurmdbd, not
// slurmctld; without one the error is [ErrNoAccounting].
func (c *Client) Runs(ctx context.Context, from, until time.Time) ([]capacity.Run, error) {
	runs, err := c.readRuns(ctx, from, until)
	if err != nil {
		return nil, fmt.Errorf("reading Slurm's accounting: %w", err)
	}

	return slices.DeleteFunc(runs,
		func(r capacity.Run) bool { return !r.Start.Before(until) || !r.End.IsZero() && !r.End.After(from) }), nil
}

func (c *Client) readRuns(ctx context.Context, from, until time.Time) ([]capacity.Run, error) {
	config, err := c.Config(ctx)
	if err != nil {
		return nil, err
	}

	if !config.Accounts {
		return nil, ErrNoAccounting
	}

	slow := Client{Conf: c.Conf, Dir: c.Dir, Timeout: accountingTimeout}
	delimiter := newDelimiter() // which no account can hold
	at := func(t time.Time) string { return "uts" + strconv.FormatInt(t.Unix(), 10) }

	out, err := slow.run(ctx, "sacct", "--allusers", "--duplicates", "--allocations", "--noheader", "--parsable",
		"--delimiter="+delimiter, "--starttime="+at(from), "--endtime="+at(until),
		"--format="+strings.Join(runFields, ","))
	if err != nil {
		return nil, err
	}

	return parseRuns(string(out), delimiter)
}

// parseRuns reads records whose fields each end with mark. Those of jobs that had no node are left out.
func parseRuns(text, delimiter string) ([]capacity.Run, error) {
	var runs []capacity.Run

	fields := strings.Split(text, delimiter)
	for ; len(fields) > len(runFields); fields = fields[len(runFields):] {
		r := capacity.Run{
			Job:       strings.TrimPrefix(fields[0], "\n"),
			User:      fields[1],
			Partition: fields[2],
			Nodes:     fields[6],
			Account:   fields[7],
		}
		r.State, _, _ = strings.Cut(fields[5], " ") // CANCELLED by 1001
		started, ok := parseSacctTime(fields[3])
		if !ok || r.Nodes == "" || strings.HasPrefix(r.Nodes, "None") {
			continue
		}

		r.Start = started
		if end, ok := parseSacctTime(fields[4]); ok {
			r.End = end
		}

		if !sacctJobID().MatchString(r.Job) {
			return nil, fmt.Errorf("sacct names a job %s", quote(r.Job))
		}

		runs = append(runs, r)
	}

	if rest := strings.TrimSpace(strings.Join(fields, "")); rest != "" {
		return nil, fmt.Errorf("sacct answers %s, not the fields %s", quote(rest), strings.Join(runFields, ","))
	}

	return runs, nil
}

// parseSacctTime reads seconds since 1970; Unknown and None are no time.
func parseSacctTime(text string) (time.Time, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return time.Unix(n, 0).UTC(), err == nil && n > 0
}

// Walls reads the limits that QOS and associations set in a cluster. Users cannot write them. It asks slurmdbd, not
// slurmctld.
func (c *Client) Walls(ctx context.Context, cluster string) (capacity.Walls, error) {
	w, err := c.readWalls(ctx, cluster)
	if err != nil {
		return capacity.Walls{}, fmt.Errorf("reading the limits of accounting: %w", err)
	}

	return w, nil
}

func (c *Client) readWalls(ctx context.Context, cluster string) (w capacity.Walls, err error) {
	if err := checkName("cluster", cluster); err != nil {
		return w, err
	}

	qos, err := c.sacctmgr(ctx, []string{"qos"}, "name", "flags", "maxwall", "grpwall", "grptresmins", "grptresrunmins",
		"maxtresmins", "maxtresrunminspa", "maxtresrunminspu")
	users, usersErr := c.sacctmgr(ctx, []string{"user"}, "user", "defaultaccount")
	rows, rowsErr := c.sacctmgr(ctx, []string{"associations", "cluster=" + cluster}, "account", "user", "partition",
		"parentname", "defaultqos", "qos", "maxwall", "grpwall", "grptresmins", "grptresrunmins", "maxtresmins")
	if err := cmp.Or(err, usersErr, rowsErr); err != nil {
		return w, err
	}

	w.QOS = map[string]capacity.Wall{}
	for _, f := range qos {
		q, err := parseWall(f[2], f[3:])
		if err != nil {
			return w, err
		}

		q.OverPartition = slices.Contains(splitList(f[1]), "OverPartQOS")
		w.QOS[f[0]] = q
	}

	defaultAccounts := map[string]string{} // by user
	for _, f := range users {
		defaultAccounts[f[0]] = f[1]
	}

	w.Associations, err = associations(rows, defaultAccounts)
	w.Trim()

	return w, err
}

// associations returns the limits of accounts and users, by ACCOUNT|USER|PARTITION without what is empty; those of a
// user's default account also without the account.
func associations(rows [][]string, defaultAccounts map[string]string) (map[string]capacity.Wall, error) {
	parents := map[string]string{} // of accounts
	grouped := map[string]bool{}   // the accounts with a limit on their users together
	for _, f := range rows {
		if f[1] == "" {
			parents[f[0]] = f[3]
			grouped[f[0]] = hasAny(f[7:10])
		}
	}

	walls := map[string]capacity.Wall{}
	for _, f := range rows {
		account, user := f[0], f[1]

		a, err := parseWall(f[6], f[7:])
		if err != nil {
			return nil, err
		}

		// The limits of a group are those of its parents too, which sacctmgr does not show. A circle of parents ends.
		ancestor := account
		for n := 0; ancestor != "" && n <= len(parents); n++ {
			a.Metered = a.Metered || grouped[ancestor]
			ancestor = parents[ancestor]
		}

		a.DefaultQOS = f[4]
		if allowed := splitList(f[5]); a.DefaultQOS == "" && len(allowed) == 1 {
			a.DefaultQOS = allowed[0]
		}

		if a.DefaultQOS == capacity.NormalQOS {
			a.DefaultQOS = ""
		}

		name := strings.TrimRight(strings.Join(f[:3], "|"), "|")
		walls[name] = a
		if user != "" && defaultAccounts[user] == account {
			walls[strings.TrimPrefix(name, account)] = a
		}
	}

	return walls, nil
}

func parseWall(limit string, meters []string) (w capacity.Wall, err error) {
	w.MaxWall, err = capacity.ParseLimit(limit)
	if !w.MaxWall.Bounded() {
		w.MaxWall = capacity.Limit{}
	}

	w.Metered = hasAny(meters)

	return w, err
}

func hasAny(values []string) bool {
	return slices.ContainsFunc(values, func(v string) bool { return v != "" })
}

// sacctmgr shows things of Slurm's accounting: the fields of each.
func (c *Client) sacctmgr(ctx context.Context, what []string, fields ...string) (rows [][]string, err error) {
	args := append([]string{"--noheader", "--parsable2", "show"}, what...)
	out, err := c.run(ctx, "sacctmgr", append(args, "format="+strings.Join(fields, ","))...)
	for line := range strings.Lines(string(out)) {
		row := strings.Split(strings.TrimSuffix(line, "\n"), "|")
		if len(row) != len(fields) {
			return nil, fmt.Errorf("sacctmgr show %s answers %s, not the fields %s", what[0], quote(line),
				strings.Join(fields, ","))
		}

		rows = append(rows, row)
	}

	return rows, err
}
