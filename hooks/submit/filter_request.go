package submit

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/hooks/internal/hook"
)

// The callers, as the shims name them in the field "from"; job_modify is for a change of a queued job.
const (
	fromCLIFilter = "cli_filter"
	fromJobSubmit = "job_submit"
	fromJobModify = "job_modify"
)

// decodeFields reads key=hex arguments.
func decodeFields(args []string) (map[string]string, error) {
	fields := map[string]string{}
	for _, arg := range args {
		key, value, found := strings.Cut(arg, "=")
		if !found {
			return nil, fmt.Errorf("argument %q is not key=hex; only the Lua shims call this "+
				"program", hook.Clip(arg, 40))
		}

		text, err := hex.DecodeString(value)
		if err != nil {
			return nil, fmt.Errorf("argument %s: %w", hook.Clip(key, 40), err)
		}

		fields[key] = string(text)
	}

	return fields, nil
}

// ParseRequest turns the fields of a shim into a job. Times are in the machine's clock.
func ParseRequest(fields map[string]string) (capacity.Request, error) {
	gpus := countGPUs
	cli := fields["from"] == fromCLIFilter
	gres := func(option string) int { return capacity.CountGPUs(keepLast(option)) }
	if !cli { // slurmctld has lists of TRES
		gpus = gres
	}

	partitions := strings.FieldsFunc(fields["partition"], func(r rune) bool { return r == ',' })
	req := capacity.Request{
		Partitions:   partitions,
		Account:      fields["account"],
		AccountKnown: !cli,
		User:         fields["user"],
		QOS:          fields["qos"],
		Comment:      fields["comment"],
		OldComment:   fields["was"],
		Started:      fields["started"] != "",
		Begin:        parseTime(fields["begin"]),
		Deadline:     parseTime(fields["deadline"]),
		Constraint:   fields["constraint"],
		Reservation:  fields["reservation"],
		Nodes:        parseCount(fields["nodes"]),
		OneNode:      fields["nodes"] == "1-1" || fields["nodes"] == "1" && cli,
		Component:    parseCount(fields["component"]) > 0,
		NodesBefore:  parseCount(fields["together"]),
		Tasks:        parseCount(fields["ntasks"]),
		TasksPerNode: parseCount(fields["ntasks-per-node"]),
		CPUsPerTask:  parseCount(fields["cpus-per-task"]),
		Overcommit:   fields["overcommit"] == "set",
		GPUs:         gpus(fields["gpus"]),
		GPUsPerNode:  max(gpus(fields["gpus-per-node"]), gres(fields["gres"])),
		GPUsPerTask:  max(gpus(fields["gpus-per-task"]), gres(fields["tres-per-task"])),
		Requeue:      parseRequeue(fields["requeue"]),
	}

	if text := fields["signal"]; text != "" && text != "0@0" {
		req.Signal = time.Minute // which sbatch does not show
		if _, seconds, given := strings.Cut(text, "@"); given {
			req.Signal = time.Duration(parseCount(seconds)) * time.Second
		}
	}

	limit, err := capacity.ParseLimit(fields["time"])
	if err != nil {
		return req, err
	}

	if !limit.Unlimited { // sync fits a job without a limit
		req.TimeLimit = limit
	}

	// Slurm starts no component with less than its limit, and this may be what the first one got from us.
	if !req.Component {
		req.TimeMin, err = capacity.ParseLimit(fields["time-min"])
	}

	return req, err
}

// parseRequeue reads --requeue and --no-requeue, as sbatch or slurmctld shows them.
func parseRequeue(option string) capacity.Requeue {
	switch option {
	case "no-requeue", "0":
		return capacity.RequeueNo
	case "invalid-context": // of srun and salloc, which have no such option
		return capacity.RequeueNever
	case "unset", "65534":
		return capacity.RequeueUnsaid
	}

	return ""
}

// parseTime reads a time: seconds since 1970 from slurmctld, local time without a zone from sbatch, in the standard
// form or, with SLURM_TIME_FORMAT, in the relative one. It is zero if none is given ("Unknown", 0), and in any other
// form: see unreadable.
func parseTime(text string) time.Time {
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil && seconds > 0 && seconds < noVal {
		return time.Unix(seconds, 0)
	}

	t, err := time.ParseInLocation("2006-01-02T15:04:05", text, time.Local)
	if err != nil {
		return parseRelative(text, time.Now())
	}

	return t
}

// parseRelative reads a time to come in the form of SLURM_TIME_FORMAT=relative; zero if it is in another (parse_time.c,
// and seen on 22.05).
func parseRelative(text string, now time.Time) time.Time {
	on := func(day time.Time, layout, clock string) time.Time {
		t, _ := time.ParseInLocation("2006-01-02 "+layout, day.Format("2006-01-02 ")+clock, time.Local)
		return t
	}

	day, clock, hasDay := strings.Cut(text, " ")
	if !hasDay {
		return on(now, "15:04:05", text)
	}

	for ahead := 1; ahead <= 7; ahead++ {
		then := now.AddDate(0, 0, ahead)
		if day == then.Format("Mon") || day == "Tomorr" {
			return on(then, "15:04", clock)
		}
	}

	thisYear, err := time.ParseInLocation("2006 2 Jan 15:04", now.Format("2006 ")+text, time.Local)
	if err == nil {
		return thisYear
	}

	later, _ := time.ParseInLocation("2 Jan 2006", text, time.Local)

	return later
}

// beginWarning returns the warning for a --begin that sbatch shows in a form of the user's own; "" for others. The job
// is judged as if it began at once, and Slurm itself delays it.
func beginWarning(begin string) string {
	if begin == "" || begin == "0" || begin == "Unknown" || !parseTime(begin).IsZero() {
		return ""
	}

	return fmt.Sprintf("--begin is checked as if it were now, because SLURM_TIME_FORMAT shows it as %q", begin)
}

// keepLast drops all but the last number of each resource: "gpu:4,gpu:8" is "gpu:8" to Slurm (seen on 22.05).
func keepLast(option string) string {
	var keys, last []string
	for item := range strings.SplitSeq(option, ",") {
		key := item
		at := strings.LastIndexAny(item, ":=")
		if _, err := strconv.ParseUint(item[at+1:], 10, 64); err == nil {
			key = item[:at+1]
		}

		if i := slices.Index(keys, strings.TrimRight(key, ":=")); i >= 0 {
			last[i] = item
			continue
		}

		keys = append(keys, strings.TrimRight(key, ":="))
		last = append(last, item)
	}

	return strings.Join(last, ",")
}

// countGPUs counts the GPUs of an option such as --gpus: "8", "h100:8", "h100:4,a100:4". What cannot be read is no
// count.
func countGPUs(option string) int {
	total := 0
	for item := range strings.SplitSeq(keepLast(option), ",") {
		_, number, typed := strings.Cut(item, ":")
		if !typed {
			number = item
		}

		n, _ := strconv.ParseUint(number, 10, 16)
		total += int(n)
	}

	return total
}

// noVal stands in slurmctld for a number that was not given.
const noVal = 0xfffffffe

// parseCount reads the least number of nodes or tasks: "4", "4-8", "1k" (1024). It is 0 if none is given, which sbatch
// shows as "1-0" and slurmctld as 0xfffe or 0xfffffffe.
func parseCount(text string) int {
	if strings.HasSuffix(text, "-0") {
		return 0
	}

	digits := text[:len(text)-len(strings.TrimLeft(text, "0123456789"))]

	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n >= noVal {
		return 0
	}

	switch suffix := text[len(digits):]; {
	case strings.HasPrefix(suffix, "k"), strings.HasPrefix(suffix, "K"):
		n *= 1024
	case strings.HasPrefix(suffix, "m"), strings.HasPrefix(suffix, "M"):
		n *= 1024 * 1024
	}

	if n == 0xfffe {
		return 0
	}

	return int(n)
}
