package submit

import (
	"bufio"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/hooks/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Option is a line of testdata/options.txt: a command, and what the two scripts decide about each component of its job.
type Option struct {
	Command  string
	CLI, Job []string
}

// Options reads testdata/options.txt.
func Options(t testing.TB) []Option {
	t.Helper()

	text, err := os.ReadFile("testdata/options.txt")
	if err != nil {
		t.Fatal(err)
	}

	var all []Option
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}

		command, decision, found := strings.Cut(line, " | ")
		if !found {
			t.Fatalf("no decision in %q", line)
		}

		cli, job, both := strings.Cut(decision, " | ")
		if !both {
			job = cli
		}

		all = append(all, Option{command, strings.Split(cli, " : "), strings.Split(job, " : ")})
	}

	return all
}

// Refused reports whether the job is refused where both scripts are installed: what cli_filter lets through fits
// job_submit, with its edits.
func (o Option) Refused() bool {
	return slices.Contains(o.CLI, "refused") || slices.ContainsFunc(o.CLI, func(decision string) bool {
		return slices.ContainsFunc(
			capacity.Codes,
			func(m capacity.Meaning) bool { return string(m.Code) == decision && decision != "ok" },
		)
	})
}

// With is the command so that it runs nothing of its own; sbatch has more options.
func (o Option) With(more string) string {
	for command, with := range map[string]string{
		"sbatch": more,
		"srun":   "--test-only",
		"salloc": "--no-shell --immediate=1",
	} {
		if env, rest, found := strings.Cut(o.Command, command+" "); found &&
			(env == "" || strings.HasSuffix(env, " ")) {
			return env + command + " " + with + " " + rest
		}
	}

	return o.Command
}

// Record is what a real Slurm shows its filters of a command; [Shown] of one job or component, by cli_filter or
// job_submit. A field's value begins with "=", or with "#" if it is a number.
type (
	Record struct {
		Command string
		Jobs    []Shown
	}
	Shown struct {
		By     string
		Fields map[string]string
	}
)

// FormatRecords writes records as testdata/options-VERSION.json: a line each.
func FormatRecords(t testing.TB, records []Record) string {
	var b strings.Builder
	for _, r := range records {
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}

		fmt.Fprintf(&b, "%s\n", line)
	}

	return b.String()
}

// readRecords reads what FormatRecords wrote, by command.
func readRecords(t *testing.T, path string) map[string]Record {
	t.Helper()

	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	all := map[string]Record{}
	for line := range strings.Lines(string(text)) {
		var r Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%s: %v", path, err)
		}

		all[r.Command] = r
	}

	return all
}

// optionsSnapshot is the world of testdata/options.txt.
func optionsSnapshot(now time.Time) *capacity.Snapshot {
	snap := hookstest.Snapshot(now)
	snap.TakenAt, snap.SlurmCluster = now, "lab"
	snap.Walls.QOS = map[string]capacity.Wall{"metered": {Metered: true}}

	two := capacity.Partition{Name: "two", Provider: capacity.ProviderEC2, MinTime: snap.Partitions[0].MinTime}
	group := snap.Partitions[0].Groups[0]
	group.Name, group.Slots = "two", nil
	for i, name := range []string{"two-a", "two-b"} {
		r := snap.Reservations[0]
		r.ID = fmt.Sprintf("cr-0bbbbbbbbbbbbbbb%d", i)
		snap.Reservations = append(snap.Reservations, r)
		group.Slots = append(
			group.Slots,
			capacity.Slot{Name: name, Feature: name, ReservationIDs: []string{r.ID}, Nodes: name + "-[1-4]"},
		)
	}

	two.Groups = []capacity.NodeGroup{group}
	snap.Partitions = append(snap.Partitions, two)
	for i := range snap.Partitions {
		snap.Partitions[i].Groups[0].CPUs = 192
	}

	return snap
}

// WriteOptionsSnapshot writes the snapshot of the world of testdata/options.txt.
func WriteOptionsSnapshot(t testing.TB, dir state.Dir) {
	t.Helper()

	if err := dir.WriteSnapshot(optionsSnapshot(time.Now())); err != nil {
		t.Fatal(err)
	}
}

// optionsDriver stands for sbatch and slurmctld: it reads "SCRIPT NAME=HEX …", gives the job to the script, and prints
// "done RESULT NAME=HEX …" with its edits. Before that it prints each message, "log HEX", and each call of the filter,
// "ask HEX", whose answer it reads as a line of hex.
const optionsDriver = `
local function hex(text) return (tostring(text):gsub(".", function(c) return string.format("%02x", c:byte()) end)) end
local function unhex(text) return (text:gsub("%x%x", function(h) return string.char(tonumber(h, 16)) end)) end
local function say(form, ...) print("log " .. hex(form:format(...))) end
slurm = { SUCCESS = 0, ERROR = -1, ESLURM_INVALID_ACCOUNT = 1, ESLURM_INVALID_TIME_LIMIT = 2, ESLURM_INVALID_NODE_COUNT = 3,
  log_info = say, log_error = say, log_user = say }
local given
function slurm.json_cli_options() return given["json"] or "{}" end
os.getenv = function() return nil end
io.popen = function(command)
  if command:find("timeout") and command:find("cat") then
    local file = io.open(arg[3])
    return { read = function() return file:read("*a") end, close = function() file:close() end }
  end
  print("ask " .. hex(command))
  io.stdout:flush()
  local answer = unhex(io.read("*l"))
  return { read = function() return answer end, close = function() end }
end
dofile(arg[1])
dofile(arg[2])
for line in io.lines() do
  given = {}
  for name, kind, value in line:gmatch("([%w_-]+)([=#])(%x*)") do
    given[name] = unhex(value)
    if kind == "#" then given[name] = tonumber(given[name]) end
  end
  local job, set = {}, ""
  setmetatable(job, { __index = given, __newindex = function(_, name, value) set = set .. " " .. name .. "=" .. hex(value) end })
  local result
  if line:find("^cli_filter") then result = slurm_cli_pre_submit(job, given.offset) else result = slurm_job_submit(job, 0, 0) end
  print("done " .. result .. set)
  io.stdout:flush()
end
`

// What people write is decided as testdata/options.txt says, by what each Slurm shows its filters.
func TestOptions(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	dir := state.Dir(t.TempDir())
	if err := dir.WriteSnapshot(optionsSnapshot(now)); err != nil {
		t.Fatal(err)
	}

	options := Options(t)
	if len(options) < 100 {
		t.Errorf("%d combinations of options", len(options))
	}

	recorded, err := filepath.Glob("testdata/options-*.json")
	if err != nil || len(recorded) < 2 {
		t.Errorf("%v: what Slurm shows is recorded of %q", err, recorded)
	}

	run := startDriver(t, dir, now)
	for _, path := range recorded {
		records := readRecords(t, path)
		for _, o := range options {
			wants := map[string][]string{"cli_filter": o.CLI, "job_submit": o.Job}
			got := map[string][]string{}

			shown, known := records[o.Command]
			if !known {
				t.Errorf("%s has no %s: run TestLong_OptionsOnSlurm with -update", path, o.Command)
			}

			for _, job := range shown.Jobs {
				job.Fields["offset"] = fmt.Sprintf("#%d", len(got[job.By]))
				got[job.By] = append(got[job.By], run(job))
			}

			for by, want := range wants {
				if len(got[by]) > 0 && !slices.Equal(got[by], want) { // else this Slurm does not know an option
					t.Errorf("%s, %s: %s\n\tdecides %q, want %q", filepath.Base(path), by, o.Command, got[by], want)
				}
			}
		}
	}
}

// The components of a heterogeneous job are added up from the first one on, those of each partition by themselves; a
// job for all clusters is for this one, too.
func TestAcrossComponents(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	dir := state.Dir(t.TempDir())
	if err := dir.WriteSnapshot(optionsSnapshot(now)); err != nil {
		t.Fatal(err)
	}

	run := startDriver(t, dir, now)
	for i, c := range []struct {
		offset, partition, nodes, clusters string
		want                               string
	}{
		{"0", "gpu", "2", "", "ok"},
		{"1", "gpu", "2", "", "ok"},
		{"2", "other", "2", "", "ok"},
		{"3", "gpu", "1", "", "warns"}, // there are 4
		{"0", "gpu", "1", "", "ok"},    // another job
		{"1", "gpu", "3", "", "ok"},
		{"0", "gpu", "5", "all", "too-many-nodes"},
		{"0", "gpu", "5", "elsewhere", "ok"},
	} {
		fields := map[string]string{
			"offset":    "#" + c.offset,
			"partition": "=" + c.partition,
			"nodes":     "=" + c.nodes,
			"time":      "=60",
		}
		if c.clusters != "" {
			fields["clusters"] = "=" + c.clusters
		}

		if got := run(Shown{By: "cli_filter", Fields: fields}); got != c.want {
			t.Errorf("%d: %+v: %s", i, c, got)
		}
	}
}

// startDriver starts the scripts; the function that it returns gives them a job, and returns their decision in the
// words of testdata/options.txt.
func startDriver(t *testing.T, dir state.Dir, now time.Time) func(Shown) string {
	t.Helper()

	top := t.TempDir()

	var args []string
	for name, text := range map[string]string{
		"1": optionsDriver,
		"2": CLIFilter(dir.RosterPath(), string(dir), "/filter"),
		"3": JobSubmit(dir.RosterPath(), string(dir), "/filter"),
	} {
		path := filepath.Join(top, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}

		args = append(args, path)
	}

	cmd := exec.Command("lua5.1", append(slices.Sorted(slices.Values(args)), dir.RosterPath())...)
	in, lines := talk(t, cmd)

	return func(job Shown) string {
		line := job.By
		for name, value := range job.Fields {
			text := value[1:]
			if minutes, at := strings.CutPrefix(text, "now+"); at {
				n, _ := strconv.Atoi(strings.TrimSuffix(minutes, "m"))

				then := now.Add(time.Duration(n) * time.Minute)
				if text = strconv.FormatInt(then.Unix(), 10); job.By == "cli_filter" {
					text = then.Format("2006-01-02T15:04:05")
				}
			}

			line += fmt.Sprintf(" %s%s%x", name, value[:1], text)
		}

		fmt.Fprintln(in, line)

		var said []string

		code := ""
		for lines.Scan() {
			word, rest, _ := strings.Cut(lines.Text(), " ")
			switch word {
			case "log":
				said = append(said, decoded(t, rest))
			case "ask":
				command := decoded(t, rest)

				_, fields, _ := strings.Cut(strings.TrimSuffix(command, " </dev/null 2>/dev/null"), "'/filter' ")
				answer := Answer(strings.Fields(fields), now, slog.New(slog.DiscardHandler))
				if _, after, refused := strings.Cut(answer, "code "); refused {
					code, _, _ = strings.Cut(after, "\n")
				}

				fmt.Fprintf(in, "%x\n", answer)
			case "done":
				return decision(t, rest, code, said)
			}
		}

		t.Fatalf("no answer to %v", job)

		return ""
	}
}

// talk starts a program that answers each line with one, until the test ends.
func talk(t testing.TB, cmd *exec.Cmd) (io.Writer, *bufio.Scanner) {
	t.Helper()

	cmd.Stderr = os.Stderr

	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}

	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}

	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		in.Close()

		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})

	return in, bufio.NewScanner(out)
}

func decoded(t *testing.T, text string) string {
	t.Helper()

	plain, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}

	return string(plain)
}

// decision reads "RESULT NAME=HEX …"; code is the filter's, said are the messages.
func decision(t *testing.T, done, code string, said []string) string {
	result, edits, _ := strings.Cut(done, " ")
	if result != "0" {
		return cmp.Or(code, "refused")
	}

	var parts []string
	for edit := range strings.SplitSeq(edits, " ") {
		name, value, _ := strings.Cut(edit, "=")
		switch name {
		case "time", "time_limit":
			parts = append(parts, "fit")
		case "constraint", "features":
			parts = append(parts, decoded(t, value))
		case "comment":
			parts = append(parts, "comment")
		case "time-min", "time_min":
			parts = append(parts, "to-fence")
		case "admin_comment":
			parts = append(parts, "note")
		}
	}

	// A limit of ours comes with a --time-min.
	if slices.Contains(parts, "fit") {
		parts = slices.DeleteFunc(parts, func(part string) bool { return part == "to-fence" })
	}

	slices.Sort(parts)
	slices.Reverse(parts)

	if len(said) > 0 {
		parts = append(parts, "warns")
	}

	return cmp.Or(strings.Join(parts, " "), "ok")
}
