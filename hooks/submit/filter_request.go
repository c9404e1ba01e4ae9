package submit

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hook"
)

// The callers, as the shims name them in the field "from": job_submit, or one of these, job_modify for a change of a
// queued job.
const (
	fromCLIFilter = "cli_filter"
	fromJobModify = "job_modify"
)

// decodeFields reads key=hex arguments.
func decodeFields(args []string) (map[string]string, error) {
	fields := map[string]string{}
	for _, arg := range args {
		key, value, found := strings.Cut(arg, "=")
		if !found {
			return nil, fmt.Errorf("argument %q is not key=hex; only the Lua shims call this program", hook.Clip(arg, 40))
		}
		text, err := hex.DecodeString(value)
		if err != nil {
			return nil, fmt.Errorf("argument %s: %w", hook.Clip(key, 40), err)
		}
		fields[key] = string(text)
	}
	return fields, nil
}

// Request turns the fields of a shim into a job. Times are in the machine's clock.
func Request(fields map[string]string) (capacity.Request, error) {
	gpus, cli := gpus, fields["from"] == fromCLIFilter
	if !cli { // slurmctld has lists of TRES
		gpus = capacity.GPUs
	}
	partitions := strings.FieldsFunc(fields["partition"], func(r rune) bool { return r == ',' })
	req := capacity.Request{Partitions: partitions, Account: fields["account"],
		AccountKnown: !cli, User: fields["user"],
		QOS: fields["qos"], Comment: fields["comment"], Was: fields["was"], Started: fields["started"] != "",
		Begin: moment(fields["begin"]), Deadline: moment(fields["deadline"]), Constraint: fields["constraint"], Reservation: fields["reservation"],
		Nodes:   count(fields["nodes"]),
		OneNode: fields["nodes"] == "1-1" || fields["nodes"] == "1" && cli, Component: count(fields["component"]) > 0,
		Tasks: count(fields["ntasks"]), TasksPerNode: count(fields["ntasks-per-node"]),
		CPUsPerTask: count(fields["cpus-per-task"]), Overcommit: fields["overcommit"] == "set", GPUs: gpus(fields["gpus"]),
		GPUsPerNode: max(gpus(fields["gpus-per-node"]), capacity.GPUs(fields["gres"])),
		GPUsPerTask: max(gpus(fields["gpus-per-task"]), capacity.GPUs(fields["tres-per-task"]))}
	if text := fields["signal"]; text != "" && text != "0@0" {
		req.Signal = time.Minute // which sbatch does not show
		if _, seconds, given := strings.Cut(text, "@"); given {
			req.Signal = time.Duration(count(seconds)) * time.Second
		}
	}
	switch fields["requeue"] {
	case "no-requeue", "0":
		req.Requeue = capacity.RequeueNo
	case "invalid-context": // of srun and salloc, which have no such option
		req.Requeue = capacity.RequeueNever
	case "unset", "65534":
		req.Requeue = capacity.RequeueUnsaid
	}
	var err error
	if req.TimeLimit, err = capacity.ParseLimit(fields["time"]); err != nil {
		return req, err
	}
	if req.TimeLimit.Unlimited { // sync fits such a job too
		req.TimeLimit = capacity.Limit{}
	}
	req.TimeMin, err = capacity.ParseLimit(fields["time-min"])
	return req, err
}

// moment reads a time: seconds since 1970 from slurmctld, local time without a zone from sbatch. It is zero if none
// is given ("Unknown", 0), and if SLURM_TIME_FORMAT changes sbatch's form: then the job is judged as if it began at
// once, and Slurm itself delays it.
func moment(text string) time.Time {
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil && seconds > 0 && seconds < noVal {
		return time.Unix(seconds, 0)
	}
	t, err := time.ParseInLocation("2006-01-02T15:04:05", text, time.Local)
	if err != nil {
		return time.Time{}
	}
	return t
}

// gpus counts the GPUs of an option such as --gpus: "8", "h100:8", "h100:4,a100:4". What cannot be read is no count.
func gpus(option string) int {
	total := 0
	for item := range strings.SplitSeq(option, ",") {
		_, number, typed := strings.Cut(item, ":")
		if !typed {
			number = item
		}
		n, _ := strconv.ParseUint(number, 10, 16)
		total += int(n)
	}
	return total
}

// noVal is what slurmctld has in the place of a number that was not given.
const noVal = 0xfffffffe

// count reads the least number of nodes or tasks: "4", "4-8", "1k" (1024). It is 0 if
// none is given, which sbatch shows as "1-0" and slurmctld as 0xfffe or 0xfffffffe.
func count(text string) int {
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
