package slurm

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// Jobs returns all jobs that have not ended, by their ids, in one call.
func (c *Client) Jobs(ctx context.Context) ([]capacity.Job, error) { return c.jobs(ctx, allFields) }

// BriefJobs lists jobs with fewer fields, in three quarters of the time: of
// each job there are ID, Shown and HetJobID, Account, Partition, Comment, AdminComment,
// State and StateFlag, TimeLimit, TimeMin, Eligible, Restarts, Requeue, Batch and Nodes, and no more.
func (c *Client) BriefJobs(ctx context.Context) ([]capacity.Job, error) {
	return c.jobs(ctx, briefFields)
}

func (c *Client) jobs(ctx context.Context, fields jobFields) ([]capacity.Job, error) {
	jobs := []capacity.Job{}
	if err := c.eachJob(ctx, fields, func(j capacity.Job) error { jobs = append(jobs, j); return nil }); err != nil {
		return nil, err
	}

	return jobs, nil
}

// JobsOf returns the jobs of the partitions, or of all if none is given, that wanted keeps (nil: all): the live ones,
// and those that have ended within MinJobAge (slurm.conf(5): 5 minutes unless set). They come in one call, by their
// ids, tasks of an array one after the other. A job that waits for one of several partitions is among those of each. A
// requeued job is among those that have ended only when its last run has.
func (c *Client) JobsOf(ctx context.Context, partitions []string, wanted func(capacity.Job) bool) (live,
	ended []capacity.Job, err error,
) {
	live, ended = make([]capacity.Job, 0, 16), []capacity.Job{}

	var full [][]capacity.Job // live ones: append alone would copy many jobs five times

	// Also those that have ended: a job may end between two passes.
	more := []string{"--states=all"}
	if len(partitions) > 0 {
		more = append(more, "--partition="+strings.Join(partitions, ","))
	}

	err = c.eachJob(ctx, allFields, func(job capacity.Job) error {
		switch {
		case wanted != nil && !wanted(job):
		case job.Ended():
			ended = append(ended, job)
		default:
			// A full slice is set aside rather than copied into a larger one.
			if len(live) == cap(live) {
				full = append(full, live)
				live = make([]capacity.Job, 0, 256)
			}

			live = append(live, job)
		}

		return nil
	}, more...)
	if err != nil {
		return nil, nil, err
	}

	return slices.Concat(append(full, live)...), ended, nil
}

// Queue returns the jobs that run or wait in a partition, the one with the highest priority first, and each task of an
// array by itself.
func (c *Client) Queue(ctx context.Context, partition string) (jobs []capacity.Job, err error) {
	err = c.eachJob(ctx, allFields, func(j capacity.Job) error { jobs = append(jobs, j); return nil },
		"--array", "--sort=-p,i", "--partition="+partition)

	return jobs, err
}

// Tasks reads tasks of arrays by their names, such as 12_3, each by itself: squeue shows those that wait
// as one, also where some were requeued or are held.
func (c *Client) Tasks(ctx context.Context, names []string) ([]capacity.Job, error) {
	var tasks []capacity.Job
	for some := range slices.Chunk(names, 1000) {
		err := c.eachJob(ctx, allFields, func(j capacity.Job) error { tasks = append(tasks, j); return nil }, "--array",
			"--states=all", "--jobs="+strings.Join(some, ","))
		if err != nil && !errors.Is(err, ErrNoJob) {
			return nil, err
		}
	}

	return tasks, nil
}

// Job reads one job. It has no id if Slurm has forgotten it, or shows it by
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

	err = c.eachJob(ctx, allFields, func(j capacity.Job) error {
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
	delimiter := newDelimiter()

	r := jobReader{wanted: fields, delimiter: []byte(delimiter), take: take}
	err := c.runInto(ctx, &r, []string{"SQUEUE_FORMAT2=" + fields.format(delimiter)},
		"squeue", append([]string{"--all", "--noheader", "--noconvert", "--sort=i"}, more...)...)
	if err = r.end(err); err != nil {
		return fmt.Errorf("listing jobs: %w", err)
	}

	return nil
}

// Jobs are read as text: "squeue --json" lists every core of every job, which for 1,000 jobs
// on whole nodes takes 50 times as long and 20 times the memory.
//
// What a user can write may hold anything, newlines too. So each of these fields ends with a mark that is random for
// each call. It is told to squeue in its environment, which other users cannot read, unlike its arguments: a comment
// that is changed while squeue asks slurmctld cannot hold it.

// plainField is a field that Slurm alone writes: numbers, times, and names from slurm.conf.
type plainField struct {
	name string // as squeue --Format has it, from 22.05 to 26.05
	// read keeps copies of what it keeps of the text: else the whole record stays in memory.
	read func(j *capacity.Job, text string) error
}

// plainFields are ended by plainEnd.
var plainFields = []plainField{
	{"JobID", intField(func(j *capacity.Job) *int { return &j.ID })},
	{"JobArrayID", func(j *capacity.Job, text string) error { return parseShown(j, text) }},
	{"State", func(j *capacity.Job, text string) error { j.State, j.StateFlag = splitState(text); return nil }},
	{"TimeLimit", func(j *capacity.Job, text string) error {
		if text == "NOT_SET" { // its partition, whose limit it would have, is gone
			return nil
		}

		limit, err := capacity.ParseLimit(text)
		if errors.Is(err, capacity.ErrLimitRange) {
			limit, err = capacity.NoLimit, nil
		}

		j.TimeLimit = limit

		return err
	}},
	{"MinTime", func(j *capacity.Job, text string) error {
		if limit, err := capacity.ParseLimit(text); err == nil && limit.Bounded() { // zero is one that was not stated
			j.TimeMin = limit
		}
		return nil
	}},
	{"EligibleTime", timeField(func(j *capacity.Job) *time.Time { return &j.Eligible })},
	{"StartTime", timeField(func(j *capacity.Job) *time.Time { return &j.Start })},
	{"EndTime", func(j *capacity.Job, text string) error {
		if text == "NONE" { // it has no limit: Slurm counts a year
			if !j.Start.IsZero() {
				j.End = j.Start.Add(capacity.SlurmInfinite)
			}
			return nil
		}

		return timeField(func(j *capacity.Job) *time.Time { return &j.End })(j, text)
	}},
	{"Deadline", timeField(func(j *capacity.Job) *time.Time { return &j.Deadline })},
	{"RestartCnt", intField(func(j *capacity.Job) *int { return &j.Restarts })},
	{"PriorityLong", func(j *capacity.Job, text string) error { j.Held = text == "0"; return nil }},
	{"Requeue", func(j *capacity.Job, text string) error { j.Requeue = text != "0"; return nil }},
	{"BatchFlag", func(j *capacity.Job, text string) error { j.Batch = text != "0"; return nil }},
	{"NumNodes", intField(func(j *capacity.Job) *int { return &j.NumNodes })},
	{"NodeList", func(j *capacity.Job, text string) (err error) {
		j.Nodes, err = hostlist.Expand(strings.Clone(text))
		return err
	}},
}

const plainDelimiter = "|"

// delimitedField is a field that a user can write, or that may hold plainEnd.
type delimitedField struct {
	name  string
	field func(j *capacity.Job) *string
}

// delimitedFields are ended by the mark.
var delimitedFields = []delimitedField{
	{"Partition", func(j *capacity.Job) *string { return &j.Partition }},
	{"Account", func(j *capacity.Job) *string { return &j.Account }},
	{"QOS", func(j *capacity.Job) *string { return &j.QOS }},
	{"UserName", func(j *capacity.Job) *string { return &j.User }},
	{"Reason", func(j *capacity.Job) *string { return &j.Reason }},
	{"Feature", func(j *capacity.Job) *string { return &j.Constraint }},
	{"Reservation", func(j *capacity.Job) *string { return &j.Reservation }},
	{"Comment", func(j *capacity.Job) *string { return &j.Comment }},
	{"admin_comment", func(j *capacity.Job) *string { return &j.AdminComment }},
}

// jobFields are fields that squeue is asked for, in their order; the last of plain is ended by the mark.
type jobFields struct {
	plain     []plainField
	delimited []delimitedField
}

var allFields = jobFields{plainFields, delimitedFields}

// briefFields are the columns of BriefJobs: each costs squeue about a fiftieth of its time.
var briefFields = allFields.omit("StartTime", "EndTime", "Deadline", "PriorityLong", "NumNodes", "QOS",
	"UserName", "Reason", "Feature", "Reservation")

func (f jobFields) omit(names ...string) jobFields {
	return jobFields{slices.DeleteFunc(slices.Clone(f.plain), func(p plainField) bool {
		return slices.Contains(names, p.name)
	}), slices.DeleteFunc(slices.Clone(f.delimited), func(m delimitedField) bool {
		return slices.Contains(names, m.name)
	})}
}

// newDelimiter returns a text that nobody can guess: 130 random bits. It begins with a letter, since
// squeue would take a digit for the width of the field.
func newDelimiter() string { return "m" + rand.Text() }

// format returns the value of SQUEUE_FORMAT2. A colon without a width means the whole text.
func (f jobFields) format(delimiter string) string {
	var all []string
	for i, p := range f.plain {
		end := plainDelimiter
		if i == len(f.plain)-1 {
			end = delimiter
		}

		all = append(all, p.name+":"+end)
	}

	for _, m := range f.delimited {
		all = append(all, m.name+":"+delimiter)
	}

	return strings.Join(all, ",")
}

// jobReader takes jobs out of what squeue prints with the format of a mark, while it does: no
// more than one record is kept. A field that cannot be read is Unread of its job. Anything else
// than whole records is an error: jobs that are left out would be taken for gone.
type jobReader struct {
	wanted    jobFields
	delimiter []byte
	take      func(capacity.Job) error
	unread    []byte       // the beginning of a record
	fields    [][]byte     // of the record that is read
	job       capacity.Job // that is read
	last      capacity.Job // texts that it has too are in memory once
	err       error
}

// Write implements io.Writer.
func (r *jobReader) Write(text []byte) (int, error) {
	r.unread = append(r.unread, text...)
	unread := r.unread
	for {
		rest, whole := r.split(unread)
		if !whole {
			break
		}

		r.err = r.take(r.read())
		if r.err != nil {
			return 0, r.err
		}

		unread, whole = bytes.CutPrefix(rest, []byte("\n"))
		if !whole {
			r.err = fmt.Errorf("the answer of squeue goes on after job %d: %s", r.job.ID, quote(string(rest)))
			return 0, r.err
		}
	}

	r.unread = append(r.unread[:0], unread...)

	return len(text), nil
}

// end reports what was wrong once squeue has printed all. err comes from running it.
func (r *jobReader) end(err error) error {
	switch {
	case r.err != nil:
		return r.err // squeue was ended by it
	case err == nil && len(r.unread) > 0:
		return fmt.Errorf("the answer of squeue ends within a record: %s", quote(string(r.unread)))
	}

	return err
}

// split cuts the first record of text into its fields. whole is false if there is less than it, and what ends it.
func (r *jobReader) split(text []byte) (rest []byte, whole bool) {
	r.fields = r.fields[:0]
	for range 1 + len(r.wanted.delimited) {
		field, after, ended := bytes.Cut(text, r.delimiter)
		if !ended {
			return nil, false
		}

		r.fields, text = append(r.fields, field), after
	}

	return text, len(text) > 0
}

func (r *jobReader) read() capacity.Job {
	r.last, r.job = r.job, capacity.Job{}
	plain := string(r.fields[0])
	if n := strings.Count(plain, plainDelimiter) + 1; n != len(r.wanted.plain) {
		r.job.Unread = fmt.Sprintf("squeue shows %d fields, not %d: %s", n, len(r.wanted.plain), quote(plain))
	}

	for _, f := range r.wanted.plain {
		var text string

		text, plain, _ = strings.Cut(plain, plainDelimiter)
		if err := f.read(&r.job, text); err != nil && r.job.Unread == "" {
			r.job.Unread = fmt.Sprintf("squeue's %s: %v", f.name, err)
		}
	}

	if unknownState(r.job.State) {
		r.job.State = "PENDING"
		if len(r.job.Nodes) > 0 {
			r.job.State = "RUNNING" // its nodes are not free, and its limit counts
		}
	}

	for i, f := range r.wanted.delimited {
		text, before := r.fields[1+i], *f.field(&r.last)
		switch string(text) {
		case "(null)", "N/A":
		case before:
			*f.field(&r.job) = before
		default: // what is not UTF-8 is U+FFFD, byte by byte
			*f.field(&r.job) = string(bytes.Runes(text))
		}
	}

	return r.job
}

func intField(of func(j *capacity.Job) *int) func(j *capacity.Job, text string) error {
	return func(j *capacity.Job, text string) error {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return fmt.Errorf("%s is not a number", quote(text))
		}

		*of(j) = int(n)

		return nil
	}
}

// timeField reads seconds since 1970, or one of the words for no time.
func timeField(of func(j *capacity.Job) *time.Time) func(j *capacity.Job, text string) error {
	return func(j *capacity.Job, text string) error {
		switch text {
		case "N/A", "NONE", "Unknown", "0":
			return nil
		}

		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil || seconds < 0 || seconds > math.MaxUint32 {
			return fmt.Errorf("%s is not in seconds since 1970", quote(text))
		}

		*of(j) = time.Unix(seconds, 0).UTC()

		return nil
	}
}

// parseShown reads "12", "12_3", "12+1" or "12_[1-4%2]".
func parseShown(j *capacity.Job, text string) error {
	base, task, array := strings.Cut(text, "_")
	base, component, het := strings.Cut(base, "+")
	id, err := strconv.ParseUint(base, 10, 32)
	if err != nil || array && het {
		return fmt.Errorf("%s is not a job id as squeue shows it", quote(text))
	}

	switch {
	case het:
		j.HetJobID = int(id)
		_, err = strconv.ParseUint(component, 10, 31)
	case array && !(strings.HasPrefix(task, "[") && strings.HasSuffix(task, "]")):
		_, err = strconv.ParseUint(task, 10, 31)
	}

	if err != nil {
		return fmt.Errorf("%s is not a job id as squeue shows it: %w", quote(text), errors.Unwrap(err))
	}

	j.Shown = strings.Clone(text)

	return nil
}

// impliedState gives the state of a job of which squeue shows only a flag.
// COMPLETING is not here: how the job ended is not known then.
var impliedState = map[string]string{
	"CONFIGURING":   "RUNNING",
	"RESIZING":      "RUNNING",
	"SIGNALING":     "RUNNING",
	"STAGE_OUT":     "RUNNING",
	"STOPPED":       "RUNNING",
	"REQUEUED":      "PENDING",
	"REQUEUE_FED":   "PENDING",
	"REQUEUE_HOLD":  "PENDING",
	"RESV_DEL_HOLD": "PENDING",
	"SPECIAL_EXIT":  "PENDING",
	"EXPEDITING":    "PENDING",
}

var baseStates = append([]string{"PENDING", "RUNNING", "SUSPENDED"}, capacity.EndedStates...)

// unknownState reports whether a state is a word of which nobody knows whether the job has ended. Such a job is taken
// for one that has not, and shows the word as its flag.
func unknownState(state string) bool {
	return state != "COMPLETING" && !slices.Contains(baseStates, state)
}

// splitState tells a job's state from the one word that squeue shows, which is a flag if the job has one.
func splitState(word string) (base, flag string) {
	if i := slices.Index(baseStates, word); i >= 0 {
		return baseStates[i], ""
	}

	word = strings.Clone(word)

	return cmp.Or(impliedState[word], word), word
}
