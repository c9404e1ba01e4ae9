package slurm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Jobs returns all jobs that have not ended, by their ids, in one call.
func (c *Client) Jobs(ctx context.Context) ([]capacity.Job, error) { return c.jobs(ctx, allFields) }

// BriefJobs is Jobs for who cannot wait for all of it, in three quarters of the time: of
// each job there are ID, Shown and HetJobID, Account, Partition, Comment, AdminComment,
// State and StateFlag, TimeLimit, Eligible, Restarts, Requeue, Batch and Nodes, and no more.
func (c *Client) BriefJobs(ctx context.Context) ([]capacity.Job, error) {
	return c.jobs(ctx, briefFields)
}

// NamedNodes are the nodes that a job must have and those that it must not, as hostlists; "" is
// none. It asks about one job: few name nodes.
func (c *Client) NamedNodes(ctx context.Context, job string) (required, excluded string, err error) {
	name, err := parseJobName(job)
	if err != nil {
		return "", "", fmt.Errorf("reading the nodes that a job names: %w", err)
	}
	out, err := c.run(ctx, "squeue", "--all", "--noheader", "--jobs="+name.base, "--format=%n|%x")
	if err != nil {
		return "", "", fmt.Errorf("reading the nodes that job %s names: %w", job, err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	required, excluded, _ = strings.Cut(strings.ReplaceAll(line, "(null)", ""), "|")
	return required, excluded, nil
}

func (c *Client) jobs(ctx context.Context, fields jobFields) ([]capacity.Job, error) {
	jobs := []capacity.Job{}
	if err := c.eachJob(ctx, fields, func(j capacity.Job) error { jobs = append(jobs, j); return nil }); err != nil {
		return nil, err
	}
	return jobs, nil
}

// EachJob takes the jobs of the partitions, or of all if none is given, that have not ended, and
// those that have ended within MinJobAge (slurm.conf(5): 5 minutes unless set), in one call, by
// their ids; tasks of an array come one after the other. A job that waits for one of several
// partitions is among those of each. A requeued job is among those that have ended only when its
// last run has. After an error, which may be that of take, what was taken is not all. Name, Submit
// and UserID are not asked for.
func (c *Client) EachJob(ctx context.Context, partitions []string, take func(capacity.Job) error) error {
	more := []string{"--states=all"}
	if len(partitions) > 0 {
		more = append(more, "--partition="+strings.Join(partitions, ","))
	}
	return c.eachJob(ctx, eachFields, take, more...)
}

// JobsOf returns, of the jobs that [Client.EachJob] takes, those that wanted keeps (nil: all): the live
// ones, and those that have ended.
func (c *Client) JobsOf(
	ctx context.Context, partitions []string, wanted func(capacity.Job) bool,
) (live, ended []capacity.Job, err error) {
	live, ended = make([]capacity.Job, 0, 16), []capacity.Job{}
	var full [][]capacity.Job // live ones: append alone would copy many jobs five times
	err = c.EachJob(ctx, partitions, func(job capacity.Job) error {
		switch {
		case wanted != nil && !wanted(job):
		case job.Ended():
			ended = append(ended, job)
		default:
			if len(live) == cap(live) {
				full = append(full, live)
				live = make([]capacity.Job, 0, 256)
			}
			live = append(live, job)
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return slices.Concat(append(full, live)...), ended, nil
}

// Tasks reads tasks of arrays by their names, such as 12_3, each by itself: squeue shows those that wait
// as one, also where some were requeued or are held.
func (c *Client) Tasks(ctx context.Context, names []string) ([]capacity.Job, error) {
	var tasks []capacity.Job
	for some := range slices.Chunk(names, 1000) {
		err := c.eachJob(ctx, eachFields, func(j capacity.Job) error { tasks = append(tasks, j); return nil }, "--array",
			"--states=all", "--jobs="+strings.Join(some, ","))
		if err != nil && !errors.Is(err, ErrNoJob) {
			return nil, err
		}
	}
	return tasks, nil
}

// Job reads one job, as [Client.EachJob] does. It has no id if Slurm has forgotten it, or shows it by
// another name by now: 12_[2-4], after 12_1 has started, is no longer 12_[1-4].
func (c *Client) Job(ctx context.Context, shown string) (job capacity.Job, err error) {
	name, err := parseJobName(shown)
	if err != nil {
		return job, fmt.Errorf("reading a job: %w", err)
	}
	more := []string{"--states=all", "--jobs=" + name.base}
	if strings.Contains(shown, "_") && len(name.rows) == 1 && name.rows[0] == shown {
		more = []string{"--array", "--states=all", "--jobs=" + shown}
	}
	err = c.eachJob(ctx, eachFields, func(j capacity.Job) error {
		if j.Shown == shown {
			job = j
		}
		return nil
	}, more...)
	switch {
	case errors.Is(err, ErrNoJob):
		err = nil
	case err == nil && job.Unread != "":
		err = fmt.Errorf("reading job %s: %s", shown, job.Unread)
	}
	return job, err
}

func (c *Client) eachJob(ctx context.Context, fields jobFields, take func(capacity.Job) error, more ...string) error {
	mark := newMark()
	r := jobReader{fields: fields, mark: []byte(mark), take: take}
	err := c.runInto(
		ctx,
		&r,
		[]string{"SQUEUE_FORMAT2=" + fields.format(mark)},
		"squeue",
		append([]string{"--all", "--noheader", "--noconvert", "--sort=i"}, more...)...)
	if err = r.end(err); err != nil {
		return fmt.Errorf("listing jobs: %w", err)
	}
	return nil
}
