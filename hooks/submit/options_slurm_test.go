package submit_test

import (
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/hooks/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/hooks/submit"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

var update = flag.Bool("update", false, "write what Slurm shows to its filters into testdata")

// recorder stands before our scripts and writes down what Slurm shows them: a line a job, "cli_filter NAME=HEX …", with
// "#" for "=" before a number.
const recorder = `
local function record(who, job, names)
  local line, now = who, os.time()
  for name in names:gmatch("%S+") do
    local ok, value = pcall(function() return job[name] end)
    if ok and value ~= nil and value ~= "" then
      local kind = type(value) == "number" and "#" or "="
      if type(value) == "number" then value = string.format("%.0f", value) end
      line = line .. " " .. name .. kind .. (tostring(value):gsub(".", function(c) return string.format("%02x", c:byte()) end))
    end
  end
  local file = io.open("@RECORD@", "a")
  file:write(line, "\n")
  file:close()
end
function slurm_cli_setup_defaults() return slurm.SUCCESS end
function slurm_cli_post_submit() return slurm.SUCCESS end
function slurm_cli_pre_submit(options)
  local set = slurm.json_cli_options(options):match('"ntasks": *"[^"]*"') or "" -- the rest is in options
  record("cli_filter", setmetatable({ json = set }, { __index = function(_, name) return options[name] end }), [[json @CLI@]])
  return slurm.SUCCESS
end
function slurm_job_submit(job)
  record("job_submit", job, [[@JOB@]])
  return slurm.SUCCESS
end
function slurm_job_modify() return slurm.SUCCESS end
`

// What is recorded: all that could decide about a job.
const (
	cliOptions = "type partition account comment clusters qos time time-min begin deadline nodes ntasks " +
		"ntasks-per-node " +
		"ntasks-per-gpu ntasks-per-core ntasks-per-socket cpus-per-task cpus-per-gpu mincpus gpus gpus-per-node " +
		"gpus-per-task " +
		"gpus-per-socket gres tres-per-task constraint requeue exclusive overcommit parsable jobid array " +
		"sockets-per-node threads-per-core mem"
	jobFields = "partition account default_account comment clusters user_name qos time_limit time_min begin_time " +
		"deadline min_nodes " +
		"max_nodes num_tasks ntasks_per_node ntasks_per_socket ntasks_per_core ntasks_per_tres cpus_per_task " +
		"cpus_per_tres " +
		"min_cpus max_cpus pn_min_cpus tres_per_job tres_per_node tres_per_socket tres_per_task features requeue " +
		"shared overcommit array_inx sockets_per_node threads_per_core het_job_offset script"
)

// Slurm shows its filters what testdata has of it; and a job that the same Slurm without us would start before the
// fence is never refused, and keeps to one block.
func TestLong_OptionsOnSlurm(t *testing.T) {
	dir := hookstest.ShortDir(t)
	record, snapshot := filepath.Join(dir, "record"), state.Dir(filepath.Join(dir, "state"))
	if err := os.WriteFile(record, nil, 0o666); err != nil {
		t.Fatal(err)
	}

	script := strings.NewReplacer("@RECORD@", record, "@CLI@", cliOptions, "@JOB@", jobFields).Replace(recorder)
	group := func(name, partition, features string) slurmlab.NodeGroup {
		return slurmlab.NodeGroup{
			Prefix:    name + "-",
			Count:     4,
			CPUs:      192,
			MemoryMB:  2000,
			GPUs:      8,
			Features:  features + "h100",
			Partition: partition,
		}
	}

	cluster, err := slurmlab.Start(
		hookstest.Deadline(t),
		slurmlab.Config{
			Dir: filepath.Join(dir, "lab"), CLIFilterLua: script, JobSubmitLua: script, Accounting: true,
			Static: slurmlab.NodeGroup{Partition: "static,cpu"},
			CloudGroups: []slurmlab.NodeGroup{
				group("gpu", "gpu", ""),
				group("other", "other", ""),
				group("two-a", "two", "two-a,"),
				group("two-b", "two", "two-b,"),
			},
		},
	)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})

	slurm := func(args ...string) string {
		out, err := cluster.Command(hookstest.Deadline(t), args[0], args[1:]...)
		if err != nil {
			t.Fatalf("%q: %v: %s", args, err, out)
		}

		return out
	}
	fence := time.Now().Add(10*time.Hour + 10*time.Minute)
	slurm(
		"scontrol",
		"create",
		"reservation",
		"ReservationName=fence",
		"Nodes=gpu-[1-4],other-[1-4],two-a-[1-4],two-b-[1-4]",
		"StartTime="+fence.Format("2006-01-02T15:04:05"),
		"Duration=infinite",
		"Flags=MAINT,IGNORE_JOBS",
		"Users=root",
	)
	slurm(
		"scontrol",
		"update",
		"nodename=two-a-[1-2]",
		"state=drain",
		"reason=so that large jobs of two would be split",
	)
	slurm("sacctmgr", "--immediate", "add", "cluster", "other")
	slurm("sacctmgr", "--immediate", "add", "qos", "metered")
	slurm("sacctmgr", "--immediate", "modify", "user", "root", "set", "qos+=metered")
	// run is what Slurm says of a command, and when the job would start; zero if never.
	run := func(o submit.Option) (out string, start time.Time) {
		out, err := cluster.Command(
			hookstest.Deadline(t),
			"sh",
			"-c",
			o.With("--test-only --output=/dev/null --wrap=true"),
		)
		if m := regexp.MustCompile(`to start at (\S+) (?:a )?using`).FindStringSubmatch(out); m != nil {
			start, err = time.ParseInLocation("2006-01-02T15:04:05", m[1], time.Local)
		} else if strings.Contains(out, "Granted job allocation") {
			start = time.Now()

			slurm("scancel", "--user=root")
		}

		if err != nil && !start.IsZero() {
			t.Fatalf("%s: %v: %s", o.Command, err, out)
		}

		return out, start
	}
	// submitted returns a command's job as it starts, or as it waits for its --begin.
	submitted := func(o submit.Option) map[string]string {
		id, err := cluster.Command(
			hookstest.Deadline(t),
			"sh",
			"-c",
			o.With("--parsable --output=/dev/null --wrap='sleep 1000'"),
		)
		if err != nil {
			t.Fatalf("%s: %v: %s", o.Command, err, id)
		}
		defer slurm("scancel", "--user=root")

		states := []string{"CONFIGURING", "RUNNING"}
		switch {
		case strings.Contains(o.Command, "--begin"):
			states = []string{"PENDING"}
		case strings.Contains(o.Command, "--array"):
			id += "_0"
		}

		job, err := cluster.WaitJob(hookstest.Deadline(t), id, states...)
		if err != nil {
			t.Errorf("%s: %v", o.Command, err)
		}

		return job
	}

	options := submit.Options(t)

	var records []submit.Record

	starts := map[string]time.Time{}
	for _, o := range options {
		began := time.Now()
		_, starts[o.Command] = run(o)

		text, err := os.ReadFile(record)
		if err == nil {
			err = os.Truncate(record, 0)
		}

		if err != nil {
			t.Fatal(err)
		}

		records = append(records, recordOf(t, o.Command, string(text), began))
	}

	path := "testdata/options-" + regexp.MustCompile(`\d+\.\d+`).FindString(slurm("sbatch", "--version")) + ".json"
	text := submit.FormatRecords(t, records)
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	if recorded, err := os.ReadFile(path); err != nil || string(recorded) != text {
		t.Errorf("Slurm shows its filters something else than %s says: run this test with -update (%v)", path, err)
	}

	submit.WriteOptionsSnapshot(t, snapshot)

	filter := hookstest.Program(t, "pcs-capacity-filter")
	for name, script := range map[string]string{
		"cli_filter": submit.CLIFilter(snapshot.RosterPath(), string(snapshot), filter),
		"job_submit": submit.Patient(submit.JobSubmit(snapshot.RosterPath(), string(snapshot), filter)),
	} {
		path, later := filepath.Join(cluster.Dir(), "etc", name+".lua"), time.Now().Add(time.Hour)
		if err := errors.Join(os.WriteFile(path, []byte(script), 0o644), os.Chtimes(path, later, later)); err != nil {
			t.Fatal(err)
		}
	}

	for i, o := range options {
		if len(records[i].Jobs) == 0 {
			continue // this Slurm does not know an option
		}

		plain := starts[o.Command]
		inTime := !plain.IsZero() && plain.Before(fence)

		out, start := run(o)
		refused := strings.Contains(out, "error: lua: pcs-capacity: ") || strings.Contains(out, "error: pcs-capacity: ")
		if refused != o.Refused() {
			t.Errorf("%s: refused %t: %s", o.Command, refused, out)
		}
		// Slurm would run it elsewhere than it asks, or in two blocks.
		if elsewhere := slices.Contains(o.CLI, "wrong-partition"); inTime && !elsewhere &&
			(start.IsZero() || start.After(fence)) {
			t.Errorf("%s: Slurm starts it at %s without us, and not with us: %s", o.Command, plain, out)
		}

		starts := !start.IsZero() && start.Before(fence)
		if starts && strings.HasPrefix(o.Command, "sbatch -p two") {
			out = submitted(o)["NodeList"] // --test-only does not look at [a|b]
		}

		// Nor at --time-min, with which the job starts before the fence.
		if strings.Contains(o.CLI[0], "to-fence") && len(o.CLI) == 1 {
			job := submitted(o)

			out = job["NodeList"]
			if job["TimeMin"] != "00:32:00" || job["AdminComment"] == "" {
				t.Errorf("%s: %v", o.Command, job)
			}
		}

		if strings.Contains(out, "two-a-") && strings.Contains(out, "two-b-") && !strings.Contains(o.Command, " : ") {
			t.Errorf("%s: in two blocks: %s", o.Command, out)
		}
	}
}

// recordOf decodes what the recorder wrote about a command. Moments near now become "now+SECONDS".
func recordOf(t *testing.T, command, text string, now time.Time) submit.Record {
	record := submit.Record{Command: command}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		job := submit.Shown{By: words[0], Fields: map[string]string{}}
		for _, word := range words[1:] {
			at := strings.IndexAny(word, "=#")

			value, err := hex.DecodeString(word[at+1:])
			if err != nil {
				t.Fatal(err)
			}

			name, text := word[:at], string(value)
			if name == "begin" || name == "deadline" || name == "begin_time" {
				text = parseRelative(text, now)
			}

			job.Fields[name] = word[at:at+1] + text
		}

		record.Jobs = append(record.Jobs, job)
	}

	return record
}

// parseRelative writes a moment by its distance from now, in whole minutes.
func parseRelative(text string, now time.Time) string {
	at, err := time.ParseInLocation("2006-01-02T15:04:05", text, time.Local)
	if seconds, notNumber := strconv.ParseInt(text, 10, 64); notNumber == nil && seconds > 0 {
		at, err = time.Unix(seconds, 0), nil
	}

	if err != nil {
		return text
	}

	return fmt.Sprintf("now+%dm", int(at.Sub(now).Round(time.Minute)/time.Minute))
}
