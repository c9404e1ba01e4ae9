// Package submit judges a job while it is being submitted: the filter, and the Lua scripts that call it.
//
//	sbatch, srun, salloc → cli_filter.lua → pcs-capacity-filter   [Answer]
//	slurmctld            → job_submit.lua → pcs-capacity-filter   [Answer]
//
// It links no AWS SDK, and whatever is wrong with our files, the job goes on.
package submit

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/hooks/internal/hook"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// FilterDeadline bounds the filter; then it ends without an answer and the job goes on. Lua cannot put a deadline on
// a program that it runs, and a state_dir on a shared file system can hang. The filter normally takes milliseconds.
// job_submit.lua kills it after the same time, and then does not call it for a while.
const FilterDeadline = 2 * time.Second

// Main runs pcs-capacity-filter, which only the Lua shims call. It returns the exit status: 1 when the answer cannot be
// written. After [FilterDeadline] it ends the process without an answer.
func Main(args []string) int {
	time.AfterFunc(FilterDeadline, func() { os.Exit(1) })

	if _, err := os.Stdout.WriteString(Answer(args, time.Now(), hook.FilterLog())); err != nil {
		return 1
	}

	return 0
}

// Answer judges a job that is being submitted. args are the fields from a Lua shim, each as key=hex; machineNow is
// this machine's clock, which the snapshot's offset corrects to AWS's.
//
// The answer is for the shim: lines "set FIELD HEX", "warn HEX", "code CODE" and "refuse HEX", then "end". Two more are
// for cli_filter.lua and heterogeneous jobs: "needs HEX", the number of nodes, which it adds up, and "whole HEX", why
// the job is refused if it is a component of one. Limits are whole minutes; a time in a sentence is this machine's
// local one, as in squeue, followed by UTC. An error on our side is logged and reported, and the job is accepted as it
// is.
func Answer(args []string, machineNow time.Time, log *slog.Logger) string {
	began := time.Now()

	says, note, err := judge(args, machineNow)
	took := slog.Int64("ms", time.Since(began).Milliseconds())
	switch {
	case err != nil:
		log.Warn("the job is let through unchecked", "err", err, took)
		says = capacity.Verdict{
			Warnings: []string{fmt.Sprintf("%s; the job is let through unchecked; tell an administrator", err)},
		}
	case says.Refused:
		log.Info("the job is refused", "code", says.Code, "says", says.Sentence, took)
	default:
		log.Info("the job is let through", took)
	}

	return answerText(says, note)
}

// judge returns the verdict, and the AdminComment that the job gets; only slurmctld can set one.
func judge(args []string, machineNow time.Time) (v capacity.Verdict, note string, err error) {
	fields, err := decodeFields(args)
	if err != nil {
		return v, "", err
	}

	req, err := ParseRequest(fields)
	if err != nil {
		return v, "", err
	}

	snap, err := state.Dir(fields["state-dir"]).ReadSnapshot()
	if errors.Is(err, fs.ErrNotExist) {
		return v, "", fmt.Errorf("%w; `pcs-capacity sync` writes it", err)
	}

	if err != nil {
		return v, "", err
	}

	v = Decide(req, fields["from"], snap, machineNow)
	if text := beginWarning(fields["begin"]); text != "" && !v.Refused && v.Code != capacity.NotManaged {
		v.Warnings = append(v.Warnings, text)
	}

	if runs := capacity.DescribeRuns(req, v, snap, machineNow.Add(snap.ClockOffset.Duration)); runs != "" {
		v.Warnings = append(v.Warnings, "the job "+runs)
	}

	if fields["together"] == "" { // a script of an older version does not know this line
		v.Needs = 0
	}

	if stated, needed := capacity.NoteStatedLimit(req, v, snap); needed && fields["from"] == fromJobSubmit {
		note = stated.String()
	}

	// Only the script sees whether components follow.
	if fields["whole"] != "" && !v.Refused {
		req.Component = true
		req.TimeMin = capacity.Limit{}

		whole := Decide(req, fields["from"], snap, machineNow)
		if whole.Refused {
			v.Whole = whole.Sentence
		}
	}

	return v, note, nil
}

// Decide decides about a job with times in the machine's clock; from is the calling shim.
func Decide(req capacity.Request, from string, snap *capacity.Snapshot, machineNow time.Time) capacity.Verdict {
	offset := snap.ClockOffset.Duration
	for _, t := range []*time.Time{&req.Begin, &req.Deadline} {
		if !t.IsZero() {
			*t = t.Add(offset)
		}
	}

	if from == fromJobModify {
		return capacity.AdmitChange(req, snap, machineNow.Add(offset))
	}

	return capacity.Admit(req, snap, machineNow.Add(offset))
}

func answerText(v capacity.Verdict, note string) string {
	var b strings.Builder

	says := func(text string) string { return hook.OneLine(addLocalTimes(text, time.Local)) }
	for _, warning := range v.Warnings {
		fmt.Fprintf(&b, "warn %x\n", says(warning))
	}

	if v.Refused {
		fmt.Fprintf(&b, "code %s\nrefuse %x\n", v.Code, says(v.Sentence))
	}

	set := func(field, value string) { fmt.Fprintf(&b, "set %s %x\n", field, value) }
	if v.Edits.TimeLimit.Bounded() {
		set("time", strconv.Itoa(v.Edits.TimeLimit.Minutes))
	}

	if v.Edits.TimeMin.Bounded() {
		set("time-min", strconv.Itoa(v.Edits.TimeMin.Minutes))
	}

	if v.Edits.Constraint != "" {
		set("constraint", v.Edits.Constraint)
	}

	if note != "" {
		set("admin-comment", note)
	}

	if v.Whole != "" {
		fmt.Fprintf(&b, "whole %x\n", says(v.Whole))
	}

	if v.Needs > 0 {
		fmt.Fprintf(&b, "needs %x\n", strconv.Itoa(v.Needs))
	}

	b.WriteString("end\n")

	return b.String()
}

// addLocalTimes puts the time as squeue writes it, in a zone, before each UTC time of a text: "2026-03-03T05:50 (10:50
// UTC)", with the date of both where they differ. Where the zone is UTC it leaves the text as it is.
func addLocalTimes(text string, zone *time.Location) string {
	return capacity.ReplaceTimes(text, func(utc string, t time.Time) string {
		local := t.In(zone)
		if _, offset := local.Zone(); offset == 0 {
			return utc
		}

		if t.Day() == local.Day() {
			utc = utc[len("2006-01-02 "):]
		}

		return fmt.Sprintf("%s (%s)", local.Format("2006-01-02T15:04"), utc)
	})
}

var (
	//go:embed ask.lua
	askLua string
	//go:embed cli_filter.lua
	cliFilterLua string
	//go:embed job_submit.lua
	jobSubmitLua string
)

// CLIFilter returns the text of cli_filter.lua for a site: rosterPath is the roster in stateDir, filterPath the absolute
// path of pcs-capacity-filter. Slurm refuses every submission on a host whose cli_filter.lua is missing or wrong, so
// write it beside its place and rename it.
func CLIFilter(rosterPath, stateDir, filterPath string) string {
	return renderScript(cliFilterLua, rosterPath, stateDir, filterPath)
}

// JobSubmit returns the text of job_submit.lua for a site; the paths are as in [CLIFilter], except that they are in
// local_dir, on a disk of slurmctld's own machine.
func JobSubmit(rosterPath, stateDir, filterPath string) string {
	return renderScript(jobSubmitLua, rosterPath, stateDir, filterPath)
}

// LoadLine returns the last line of a site's own cli_filter.lua or job_submit.lua; it loads our script from a file. Our
// script wraps the site's functions: they run first, and their refusals stand. Without the file, the site's script
// works alone.
func LoadLine(path string) string { return "pcall(dofile, " + quoteLua(path) + ")" }

// renderScript puts the shared part and the paths into a script.
func renderScript(text, rosterPath, stateDir, filterPath string) string {
	paths := strings.NewReplacer("@ROSTER@", quoteLua(rosterPath), "@QUOTED_ROSTER@", quoteLua(quoteShell(rosterPath)),
		"@STATE_DIR@", quoteLua(stateDir), "@FILTER@", quoteLua(filterPath), "@QUOTED_FILTER@",
		quoteLua(quoteShell(filterPath)))

	return paths.Replace(strings.Replace(text, "-- @ASK@\n", askLua, 1))
}

// quoteShell quotes text for sh.
func quoteShell(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// quoteLua quotes text for Lua 5.1. Everything but letters, digits and the usual punctuation of paths is written as
// \ddd, so that no byte can end the string.
func quoteLua(text string) string {
	var b strings.Builder
	b.WriteByte('"')

	for i := range len(text) {
		c := text[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("/._- +,:@=", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, `\%03d`, c)
		}
	}

	b.WriteByte('"')

	return b.String()
}
