package hooks

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// FilterDeadline is how long the filter may take in all; then it ends without an
// answer and the job goes on. Lua cannot put a deadline on a program that it runs,
// and a state_dir on a shared file system can hang. It normally takes milliseconds.
const FilterDeadline = 2 * time.Second

// ParseLimit reads a time limit as Slurm prints it; what stands for "not set" in
// any version of Slurm is the zero Limit.
type ParseLimit func(text string) (capacity.Limit, error)

// Answer judges a job that is being submitted. args are the fields from a Lua shim,
// each as key=hex; machineNow is this machine's clock, which is corrected by AWS's
// as the snapshot knows it.
//
// The answer is for the shim: lines "set FIELD HEX", "warn HEX" and "refuse HEX",
// then "end". Times are whole minutes. Whatever goes wrong on our side is logged,
// and the job is accepted as it is.
func Answer(args []string, parseLimit ParseLimit, machineNow time.Time, log *slog.Logger) string {
	verdict, err := judge(args, parseLimit, machineNow)
	if err != nil {
		log.Warn("the job is let through unchecked", "err", err)
	}
	return answerText(verdict)
}

func judge(args []string, parseLimit ParseLimit, machineNow time.Time) (capacity.Verdict, error) {
	fields, err := decodeFields(args)
	if err != nil {
		return capacity.Verdict{}, err
	}
	req, err := request(fields, parseLimit)
	if err != nil {
		return capacity.Verdict{}, err
	}
	snap, err := state.Dir(fields["state-dir"]).ReadSnapshot()
	if errors.Is(err, fs.ErrNotExist) {
		return capacity.Verdict{}, fmt.Errorf("%w; `pcs-capacity sync` writes it", err)
	}
	if err != nil {
		return capacity.Verdict{}, err
	}
	return capacity.Admit(req, snap, machineNow.Add(snap.ClockOffset.Duration)), nil
}

// decodeFields reads key=hex arguments.
func decodeFields(args []string) (map[string]string, error) {
	fields := map[string]string{}
	for _, arg := range args {
		key, value, found := strings.Cut(arg, "=")
		if !found {
			return nil, fmt.Errorf("argument %q is not key=hex; only the Lua shims call this program", clip(arg, 40))
		}
		text, err := hex.DecodeString(value)
		if err != nil {
			return nil, fmt.Errorf("argument %s: %w", clip(key, 40), err)
		}
		fields[key] = string(text)
	}
	return fields, nil
}

// request turns the fields of a shim into a job.
func request(fields map[string]string, parseLimit ParseLimit) (capacity.Request, error) {
	req := capacity.Request{
		Partitions: strings.FieldsFunc(fields["partition"], func(r rune) bool { return r == ',' }),
		Account:    fields["account"],
		Comment:    fields["comment"],
		Nodes:      count(fields["nodes"]),
		Tasks:      count(fields["ntasks"]),
		Constraint: fields["constraint"],
	}
	var err error
	if req.TimeLimit, err = parseLimit(fields["time"]); err != nil {
		return req, err
	}
	req.TimeMin, err = parseLimit(fields["time-min"])
	return req, err
}

// count reads the least number of nodes or tasks: "4", "4-8", "1k" (1024). It is 0 if
// none is given, which sbatch shows as "1-0" and slurmctld as 0xfffe or 0xfffffffe.
func count(text string) int {
	if strings.HasSuffix(text, "-0") {
		return 0
	}
	digits := text[:len(text)-len(strings.TrimLeft(text, "0123456789"))]
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0
	}
	switch suffix := text[len(digits):]; {
	case strings.HasPrefix(suffix, "k"), strings.HasPrefix(suffix, "K"):
		n *= 1024
	case strings.HasPrefix(suffix, "m"), strings.HasPrefix(suffix, "M"):
		n *= 1024 * 1024
	}
	const noVal = 0xfffffffe
	if n == 0xfffe || n >= noVal {
		return 0
	}
	return int(n)
}

func answerText(v capacity.Verdict) string {
	var b strings.Builder
	for _, warning := range v.Warnings {
		fmt.Fprintf(&b, "warn %x\n", oneLine(warning))
	}
	if v.Refused {
		fmt.Fprintf(&b, "refuse %x\n", oneLine(v.Message))
	}
	set := func(field, value string) { fmt.Fprintf(&b, "set %s %x\n", field, value) }
	if v.Edits.TimeLimit.Bounded() {
		set("time", strconv.Itoa(v.Edits.TimeLimit.Minutes))
	}
	if v.Edits.TimeMin.Bounded() {
		set("time-min", strconv.Itoa(v.Edits.TimeMin.Minutes))
	}
	if v.Edits.Comment != "" {
		set("comment", v.Edits.Comment)
	}
	if v.Edits.Constraint != "" {
		set("constraint", v.Edits.Constraint)
	}
	b.WriteString("end\n")
	return b.String()
}
