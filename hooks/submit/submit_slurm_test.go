package submit_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/hooks/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/hooks/submit"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// site is a real Slurm cluster with one of our shims in it.
type site struct {
	cluster *slurmlab.Cluster
	state   state.Dir
	filter  string // where the shim looks for the filter
	shim    string // cli_filter or job_submit
	forgets *int   // how often forget was called
}

// startSite starts a cluster with one shim; change, if not nil, changes its settings.
func startSite(t *testing.T, shim string, change func(*slurmlab.Config)) site {
	t.Helper()
	dir := hookstest.ShortDir(t)

	s := site{
		state:   state.Dir(filepath.Join(dir, "it's \"state\"")),
		filter:  filepath.Join(dir, "it's a filter", "pcs-capacity-filter"),
		shim:    shim,
		forgets: new(int),
	}
	cfg := slurmlab.Config{Dir: filepath.Join(dir, "lab"), CloudGroups: []slurmlab.NodeGroup{
		{Prefix: "gpu-", Count: 4, Partition: "gpu"},
		{Prefix: "other-", Count: 4, Partition: "other"},
	}}
	if shim == "cli_filter" {
		cfg.CLIFilterLua = s.script()
	} else {
		cfg.JobSubmitLua = s.script()
	}

	if change != nil {
		change(&cfg)
	}

	var err error
	if s.cluster, err = slurmlab.Start(hookstest.Deadline(t), cfg); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := s.cluster.Stop(); err != nil {
			t.Error(err)
		}
	})

	if err := os.Mkdir(filepath.Dir(s.filter), 0o755); err != nil {
		t.Fatal(err)
	}

	s.restore(t)

	return s
}

// script is that of the site. That of slurmctld is patient: a busy machine is no filter that hangs.
func (s site) script() string {
	if s.shim == "cli_filter" {
		return submit.CLIFilter(s.state.RosterPath(), string(s.state), s.filter)
	}
	return submit.Patient(s.impatient())
}

// impatient is job_submit.lua as sites have it.
func (s site) impatient() string {
	return submit.JobSubmit(s.state.RosterPath(), string(s.state), s.filter)
}

// install puts another script in the place of the site's.
func (s site) install(t *testing.T, script string) {
	t.Helper()

	if err := os.WriteFile(filepath.Join(s.cluster.Dir(), "etc", s.shim+".lua"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}

	s.forget(t)
}

// restore makes the site whole again after a test broke a part of it.
func (s site) restore(t *testing.T) {
	t.Helper()

	if err := os.RemoveAll(string(s.state)); err != nil {
		t.Fatal(err)
	}

	hookstest.WriteSnapshot(t, s.state)
	s.install(t, s.script())
	os.Remove(s.filter)

	text := fmt.Sprintf(
		"#!/bin/sh\nGORACE='%s' exec %s \"$@\"\n",
		os.Getenv("GORACE"),
		hookstest.Program(t, "pcs-capacity-filter"),
	)
	if err := os.WriteFile(s.filter, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}

	s.forget(t)
}

// forget makes slurmctld load its script anew, with nothing in memory of what it read
// before: it does so when the script is newer.
func (s site) forget(t *testing.T) {
	t.Helper()

	if s.shim != "job_submit" {
		return
	}

	*s.forgets++
	later := time.Now().Add(time.Duration(*s.forgets) * time.Hour)
	if err := os.Chtimes(filepath.Join(s.cluster.Dir(), "etc", "job_submit.lua"), later, later); err != nil {
		t.Fatal(err)
	}
}

// submit submits a job that stays held; it returns what sbatch printed and the job's id.
func (s site) submit(t *testing.T, args ...string) (out, id string, err error) {
	t.Helper()

	out, err = s.cluster.Command(
		hookstest.Deadline(t),
		"sbatch",
		append([]string{"--hold", "--output=/dev/null", "--wrap=true"}, args...)...)
	if _, after, found := strings.Cut(out, "Submitted batch job "); found {
		id = strings.TrimSpace(after)
	}

	return out, id, err
}

func (s site) job(t *testing.T, id string) map[string]string {
	t.Helper()

	job, err := s.cluster.Job(hookstest.Deadline(t), id)
	if err != nil {
		t.Fatal(err)
	}

	return job
}

// With sbatch, srun and salloc before a job is submitted.
func TestSlurm_CLIFilter(t *testing.T) {
	t.Parallel()
	testShim(t, startSite(t, "cli_filter", nil))
}

// In slurmctld.
func TestSlurm_JobSubmit(t *testing.T) {
	t.Parallel()
	s := startSite(t, "job_submit", func(cfg *slurmlab.Config) { cfg.CLIFilterLua = emptyCLIFilter })
	testShim(t, s)
	t.Run("both scripts", func(t *testing.T) { testBoth(t, s) })
	t.Run("R6 something hangs", func(t *testing.T) { testHangs(t, s) })
}

const emptyCLIFilter = `function slurm_cli_setup_defaults(options, early) return slurm.SUCCESS end
function slurm_cli_pre_submit(options, offset) return slurm.SUCCESS end
function slurm_cli_post_submit(offset, job_id, step_id) return slurm.SUCCESS end
`

// A job that both scripts see is told each thing once.
func testBoth(t *testing.T, s site) {
	defer s.restore(t)

	cliFilter := filepath.Join(s.cluster.Dir(), "etc", "cli_filter.lua")

	none, err := os.ReadFile(cliFilter)
	if err == nil {
		err = os.WriteFile(cliFilter, []byte(submit.CLIFilter(s.state.RosterPath(), string(s.state), s.filter)), 0o644)
	}

	if err != nil {
		t.Fatal(err)
	}

	defer os.WriteFile(cliFilter, none, 0o644)

	snap := hookstest.Snapshot(time.Now())
	snap.Partitions = snap.Partitions[:1]
	snap.Partitions[0].Groups[0].Slots[0].ReservationIDs = []string{hookstest.BlockID, hookstest.OtherID}
	next := &snap.Reservations[1]
	next.State, next.Start, next.End = capacity.StateScheduled, time.Now().
		Add(12*time.Hour),
		time.Now().
			Add(60*time.Hour)

	if err := s.state.WriteSnapshot(snap); err != nil {
		t.Fatal(err)
	}

	s.forget(t)

	for options, says := range map[string]string{
		"":           "job ",
		"--time=1-0": "waits for " + hookstest.OtherID,
		"--time=5-0": "Use --time=",
	} {
		out, id, err := s.submit(t, append([]string{"--partition=gpu"}, strings.Fields(options)...)...)
		if (err != nil) != (options == "--time=5-0") || strings.Count(out, says) != 1 {
			t.Errorf("%s: %v: %s", options, err, out)
		}

		if options == "" && (out != "Submitted batch job "+id || s.job(t, id)["TimeMin"] != "00:31:00") {
			t.Errorf("a job without a limit: %s", out)
		}
	}
}

func testShim(t *testing.T, s site) {
	t.Run("submission", func(t *testing.T) { testSubmission(t, s) })
	t.Run("R6 without us", func(t *testing.T) { testWithoutUs(t, s) })
	t.Run("R7 hostile input", func(t *testing.T) { testHostileInput(t, s) })
	t.Run("a site's script loads ours", func(t *testing.T) { testSiteScript(t, s) })
}

func testSubmission(t *testing.T, s site) {
	t.Run("a limit is fitted", func(t *testing.T) {
		out, id, err := s.submit(t, "--partition=gpu", "--comment=mine")
		if err != nil {
			t.Fatal(err)
		}

		job := s.job(t, id)
		// A minute of the ten hours may have begun since the snapshot was written.
		if limit := job["TimeLimit"]; limit != "09:59:00" && limit != "10:00:00" || job["TimeMin"] != "00:31:00" {
			t.Errorf("limit %s, least %s; sbatch said %s", limit, job["TimeMin"], out)
		}

		text, err := s.cluster.Command(hookstest.Deadline(t), "scontrol", "show", "job", id)
		if err != nil || !strings.Contains(strings.ReplaceAll(text, " \n", "\n"), "Comment=mine\n") {
			t.Errorf("comment: %v %s", err, text)
		}
	})
	t.Run("a job that fits is left alone", func(t *testing.T) {
		out, id, err := s.submit(
			t,
			"--partition=gpu",
			"--time=60",
			"--nodes=2",
			"--comment=capacity_reservation_id="+hookstest.BlockID,
		)
		if err != nil || strings.Contains(out, "pcs-capacity") {
			t.Fatalf("%v: %s", err, out)
		}

		if job := s.job(t, id); job["TimeLimit"] != "01:00:00" || job["TimeMin"] != "N/A" {
			t.Errorf("changed: %v", job)
		}
	})

	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"a limit past the fence": {[]string{"--partition=gpu", "--time=1-00:00:00"}, "Use --time="},
		"too many nodes": {
			[]string{"--partition=gpu", "--time=60", "--nodes=5"},
			"the job asks for 5 nodes",
		},
		"begins, and too little is left": {
			[]string{"--partition=gpu", "--time=60", "--begin=now+570minutes"},
			"(--begin), and jobs on " + hookstest.BlockID,
		},
		"GPUs per node": {
			[]string{"--partition=gpu", "--time=60", "-N1", "--gpus-per-node=16"},
			"asks for 16 GPUs on one node",
		},
		"another's reservation": {
			[]string{"--partition=gpu", "--time=60", "--comment=capacity_reservation_id=" + hookstest.OtherID},
			"submit with --partition=other",
		},
		"our key, unmanaged partition": {
			[]string{"--comment=capacity_reservation_id=" + hookstest.BlockID},
			"submit with --partition=gpu",
		},
		"our key, value cannot be right": {
			[]string{"--partition=gpu", "--comment=capacity_reservation_id=block"},
			"write it like",
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, _, err := s.submit(t, test.args...)
			if err == nil || !strings.Contains(out, "pcs-capacity: ") || !strings.Contains(out, test.want) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}

	for _, command := range []string{"srun", "salloc"} {
		t.Run(command, func(t *testing.T) {
			out, err := s.cluster.Command(
				hookstest.Deadline(t),
				command,
				"--partition=gpu",
				"--time=1-00:00:00",
				"true",
			)
			if err == nil || !strings.Contains(out, "pcs-capacity: ") || !strings.Contains(out, "Use --time=") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}

	t.Run("one that is requeued at the fence may start with less", func(t *testing.T) {
		out, id, err := s.submit(t, "--partition=gpu", "--time=2-0", "--comment=on_end=requeue")
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}

		job := s.job(t, id)
		if job["TimeLimit"] != "2-00:00:00" || job["TimeMin"] != "00:32:00" {
			t.Errorf("%v", job)
		}

		// Only slurmctld can set an AdminComment.
		text, err := s.cluster.Command(hookstest.Deadline(t), "scontrol", "show", "job", id)
		if err != nil || strings.Contains(text, "this job's own limit is 2-00:00:00;") != (s.shim == "job_submit") {
			t.Errorf("%v: %s", err, text)
		}
	})

	for _, options := range []string{"--time=60 --no-requeue", "--time=20"} {
		t.Run("not with "+options, func(t *testing.T) {
			args := append(strings.Fields(options), "--partition=gpu", "--comment=on_end=requeue")

			out, id, err := s.submit(t, args...)
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}

			if job := s.job(t, id); job["TimeMin"] != "N/A" || job["AdminComment"] != "" {
				t.Errorf("%v", job)
			}
		})
	}

	for _, command := range []string{"srun", "salloc"} {
		t.Run("nor one of "+command, func(t *testing.T) {
			const show = " --partition=gpu --time=60 --comment=on_end=requeue sh -c 'scontrol show job $SLURM_JOB_ID'"

			out, err := s.cluster.Command(hookstest.Deadline(t), "sh", "-c", command+show)
			if err != nil || !strings.Contains(out, "TimeMin=N/A") || strings.Contains(out, "AdminComment") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}

	t.Run("each component of a heterogeneous job", func(t *testing.T) {
		out, _, err := s.submit(t, "--partition=static", "--time=60", ":", "--partition=gpu", "--time=1-00:00:00")
		if err == nil || !strings.Contains(out, "Use --time=") {
			t.Errorf("%v: %s", err, out)
		}
	})
	t.Run("srun runs in its allocation, and a job submits another", func(t *testing.T) {
		script := `srun --time=5-00:00:00 true && sbatch --hold --output=/dev/null --partition=gpu ` +
			`--time=5-00:00:00 --wrap=true`

		id, err := s.cluster.Submit(hookstest.Deadline(t), script, "--time=60")
		if err != nil {
			t.Fatal(err)
		}

		if _, err := s.cluster.WaitJob(hookstest.Deadline(t), id, "FAILED"); err != nil {
			t.Fatal(err)
		}

		out, _ := os.ReadFile(filepath.Join(s.cluster.Dir(), "jobs", id+".out"))
		if strings.Count(string(out), "Use --time=") != 1 {
			t.Errorf("the step must run and the job be refused: %s", out)
		}
	})
}

// Whatever of ours is missing or broken, jobs are submitted as if we were not there.
func testWithoutUs(t *testing.T, s site) {
	write := func(t *testing.T, path, text string, mode os.FileMode) {
		t.Helper()
		os.Remove(path)

		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	breakages := map[string]func(t *testing.T, s site){
		"plan missing":   func(t *testing.T, s site) { os.Remove(s.state.RosterPath()) },
		"plan empty":     func(t *testing.T, s site) { write(t, s.state.RosterPath(), "", 0o644) },
		"plan is binary": func(t *testing.T, s site) { write(t, s.state.RosterPath(), "\x00\xff\n\n", 0o644) },
		"plan of tomorrow": func(t *testing.T, s site) {
			write(t, s.state.RosterPath(), "version 2\npartition gpu\n", 0o644)
		},
		"plan is a directory": func(t *testing.T, s site) {
			os.Remove(s.state.RosterPath())
			os.Mkdir(s.state.RosterPath(), 0o755)
		},
		"state_dir missing": func(t *testing.T, s site) { os.RemoveAll(string(s.state)) },
		"snapshot missing":  func(t *testing.T, s site) { os.Remove(s.state.SnapshotPath()) },
		"snapshot corrupt":  func(t *testing.T, s site) { write(t, s.state.SnapshotPath(), `{"version":1`, 0o644) },
		"snapshot hangs": func(t *testing.T, s site) {
			os.Remove(s.state.SnapshotPath())
			syscall.Mkfifo(s.state.SnapshotPath(), 0o644)
		},
		"plan is a FIFO": func(t *testing.T, s site) {
			if s.shim == "cli_filter" {
				t.Skip("hangs sbatch alone, as the file server of its working folder would")
			}

			os.Remove(s.state.RosterPath())
			syscall.Mkfifo(s.state.RosterPath(), 0o644)
		},
		"filter missing":      func(t *testing.T, s site) { os.Remove(s.filter) },
		"filter not runnable": func(t *testing.T, s site) { write(t, s.filter, "#!/bin/sh\necho end\n", 0o644) },
		"filter crashes":      func(t *testing.T, s site) { write(t, s.filter, "#!/bin/sh\nkill -SEGV $$\n", 0o755) },
		"filter is cut off": func(t *testing.T, s site) {
			write(t, s.filter, "#!/bin/sh\necho refuse 6e6f\nkill -9 $$\n", 0o755)
		},
		"filter says nonsense": func(t *testing.T, s site) {
			write(t, s.filter, "#!/bin/sh\necho set time zz; echo set; echo warn; echo end\n", 0o755)
		},
	}
	jobs := map[string][]string{
		"unmanaged": {"--time=60"},
		"refused":   {"--partition=gpu", "--time=5-00:00:00"},
		"edited":    {"--partition=gpu", "--comment=mine"},
	}
	for name, damage := range breakages {
		t.Run(name, func(t *testing.T) {
			s.restore(t)
			damage(t, s)
			s.forget(t)

			for kind, args := range jobs {
				out, id, err := s.submit(t, args...)
				// Without a plan nobody knows which partitions are ours.
				planless := strings.HasPrefix(name, "plan ") || name == "state_dir missing"

				if err != nil {
					t.Errorf("%s: %s", kind, out)
					continue
				}

				job := s.job(t, id)
				if kind == "edited" &&
					(job["TimeLimit"] != "UNLIMITED" || job["TimeMin"] != "N/A" || job["Comment"] != "mine") {
					t.Errorf("edited without us: %v", job)
				}

				if kind == "unmanaged" && out != "Submitted batch job "+id {
					t.Errorf("an unmanaged job hears of us: %s", out)
				}

				warned := strings.Contains(out, "pcs-capacity: ") &&
					strings.Contains(out, "; the job is let through unchecked; tell an administrator")
				if kind != "unmanaged" && warned != (s.shim == "cli_filter" && !planless) {
					t.Errorf("%s: warned %v: %s", kind, warned, out)
				}
			}
		})
	}

	s.restore(t)

	if out, _, err := s.submit(t, jobs["refused"]...); err == nil {
		t.Errorf("the restored site must refuse: %s", out)
	}
}

// Nothing that a user types reaches a shell, and every submission has an answer.
func testHostileInput(t *testing.T, s site) {
	canaries := filepath.Join(s.cluster.Dir(), "canaries")
	if err := os.Mkdir(canaries, 0o777); err != nil {
		t.Fatal(err)
	}

	touch := func(n int) string { return fmt.Sprintf("touch %s/%d", canaries, n) }
	values := map[string]string{
		"substitution":     "$(" + touch(1) + ")",
		"backticks":        "`" + touch(2) + "`",
		"single quote":     "'; " + touch(3) + "; '",
		"double quote":     "\"; " + touch(4) + "; \"",
		"newline":          "x\n" + touch(5) + "\n",
		"carriage return":  "x\r" + touch(6) + "\r",
		"pipe":             "| " + touch(7) + " ;& " + touch(7) + " && " + touch(7),
		"redirect":         "> " + canaries + "/8",
		"lua":              `"..os.execute("` + touch(9) + `").."`,
		"lua escapes":      `\"]] os.execute([[` + touch(10) + `]]) --`,
		"forged field":     "x state-dir=2f746d70 partition=73746174696300 comment=",
		"forged answer":    "x\nset time ff\nend\n",
		"our key, hostile": "capacity_reservation_id=$(" + touch(11) + ")",
		"our key, twice": "capacity_reservation_id=" + hookstest.BlockID + " capacity_reservation_id=" +
			hookstest.BlockID,
		"binary":         "\x01\x02\x7f\x80\xfe\xff\xc3\x28",
		"terminal codes": "\x1b]0;x\x07\x1b[2J",
		"format":         "%s%s%s%n%n%100000000d",
		"lua pattern":    "%1%z(.-)*[",
		"unicode":        "\u202e\u2028\U0001f4a5",
		"option":         "--partition=other -p other",
		"spaces":         "   \t  ",
		"empty":          "",
		"limit":          strings.Repeat("a", 1024),
		"past the limit": strings.Repeat("b", 1025),
		"long":           strings.Repeat("$("+touch(12)+")", 1000),
		"over 100 KB":    strings.Repeat("'", 120_000),
	}
	// The options whose text the shims hand on; numbers are Slurm's own to parse. Each value is tried in the comment
	// and in three others, each of these with four values.
	options := []string{
		"partition",
		"account",
		"constraint",
		"time",
		"time-min",
		"begin",
		"deadline",
		"nodes",
		"ntasks",
		"ntasks-per-node",
		"gpus",
		"gpus-per-node",
		"gpus-per-task",
		"gres",
		"job-name",
		"reservation",
	}
	for i, name := range slices.Sorted(maps.Keys(values)) {
		value := values[name]
		t.Run(name, func(t *testing.T) {
			for _, option := range []string{
				"comment",
				options[3*i%len(options)],
				options[(3*i+1)%len(options)],
				options[(3*i+2)%len(options)],
			} {
				args := []string{"--partition=gpu", "--" + option + "=" + value}
				if option != "comment" { // makes the shim call the filter, whatever the partition
					args = append(args, "--comment=capacity_reservation_id="+hookstest.BlockID)
				}

				out, id, err := s.submit(t, args...)
				accepted := err == nil && id != ""
				refused := err != nil && (strings.Contains(out, "error: ") || strings.Contains(out, "sbatch: fatal: "))
				if !accepted && !refused {
					t.Errorf("--%s: %v: %.200q", option, err, out)
				}

				for _, ours := range []string{"gave no answer", "let through unchecked", ".lua:"} {
					if strings.Contains(out, ours) {
						t.Errorf("--%s breaks the shim: %.200q", option, out)
					}
				}

				if accepted && option == "comment" && len(value) > 1024 {
					t.Errorf("a comment of %d bytes was accepted", len(value))
				}
			}
		})
	}

	found, err := os.ReadDir(canaries)
	if err != nil || len(found) > 0 {
		t.Errorf("commands ran: %v %v", found, err)
	}
	// The table proves nothing unless a command that does run leaves its mark.
	if err := exec.Command("sh", "-c", touch(99)).Run(); err != nil {
		t.Fatal(err)
	}

	if found, _ := os.ReadDir(canaries); len(found) != 1 {
		t.Errorf("the canary does not sing: %v", found)
	}
}

// A site's own scripts: one rule that refuses, and one that sends jobs elsewhere.
const (
	siteCLIFilter = `
function slurm_cli_setup_defaults(options, early) return slurm.SUCCESS end
function slurm_cli_pre_submit(options, offset)
  if options["job-name"] == "refused" then
    slurm.log_error("the site refuses")
    return slurm.ERROR
  end
  if options["job-name"] == "moved" then options["partition"] = "gpu" end
  if options["job-name"] == "broken" then error("the site's own bug") end
  return slurm.SUCCESS
end
function slurm_cli_post_submit(offset, job_id, step_id)
  io.stderr:write("the site's post_submit\n")
  return slurm.SUCCESS
end
`
	siteJobSubmit = `
function slurm_job_submit(job, partitions, uid)
  if job.name == "refused" then
    slurm.log_user("the site refuses")
    return slurm.ERROR
  end
  if job.name == "moved" then job.partition = "gpu" end
  if job.name == "broken" then error("the site's own bug") end
  return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, uid)
  if job.comment == "refused" then return slurm.ERROR end
  return slurm.SUCCESS
end
`
)

// A site's own script loads ours with one line: the site's word comes first, then ours, and each can refuse.
func testSiteScript(t *testing.T, s site) {
	s.restore(t)

	ours, own := filepath.Join(
		hookstest.ShortDir(t),
		"ours.lua",
	), map[string]string{"cli_filter": siteCLIFilter, "job_submit": siteJobSubmit}[s.shim]
	if err := os.WriteFile(ours, []byte(s.script()), 0o644); err != nil {
		t.Fatal(err)
	}

	s.install(t, own+submit.LoadLine(ours)+"\nreturn slurm.SUCCESS\n") // as Slurm's own examples end

	if out, _, err := s.submit(t, "--job-name=refused", "--partition=gpu", "--time=1-00:00:00"); err == nil ||
		!strings.Contains(out, "the site refuses") ||
		strings.Contains(out, "pcs-capacity") {
		t.Errorf("the site does not come first: %v: %s", err, out)
	}

	if out, _, err := s.submit(t, "--partition=gpu", "--time=1-00:00:00"); err == nil ||
		!strings.Contains(out, "pcs-capacity: ") {
		t.Errorf("ours does not refuse: %v: %s", err, out)
	}

	if out, _, err := s.submit(t, "--job-name=moved", "--time=1-00:00:00"); err == nil ||
		!strings.Contains(out, "pcs-capacity: ") {
		t.Errorf("ours does not see what the site changed: %v: %s", err, out)
	}

	out, id, err := s.submit(t, "--job-name=moved")
	if err != nil {
		t.Fatal(err)
	}

	if job := s.job(t, strings.Fields(id)[0]); job["Partition"] != "gpu" || job["TimeMin"] != "00:31:00" {
		t.Errorf("both edit: %v", job)
	}

	if s.shim == "cli_filter" && !strings.Contains(out, "the site's post_submit") {
		t.Errorf("the site's other functions are lost: %s", out)
	}

	if s.shim == "job_submit" {
		out, err := s.cluster.Command(hookstest.Deadline(t), "scontrol", "update", "jobid="+id, "comment=refused")
		if err == nil {
			t.Errorf("the site's slurm_job_modify is lost: %s", out)
		}
	}
	// The site's bug has the effect that it would have without us.
	out, _, err = s.submit(t, "--job-name=broken", "--partition=gpu", "--time=1-00:00:00")
	if s.shim == "cli_filter" && (err != nil || !strings.Contains(out, "the site's own bug")) {
		t.Errorf("the site's bug: %v: %s", err, out)
	}

	// Without our file the site's script works on alone.
	if err := os.Remove(ours); err != nil {
		t.Fatal(err)
	}

	s.forget(t)

	if out, _, err := s.submit(t, "--job-name=refused"); err == nil || !strings.Contains(out, "the site refuses") {
		t.Errorf("%v: %s", err, out)
	}

	if out, _, err := s.submit(t, "--partition=gpu", "--time=1-00:00:00"); err != nil ||
		strings.Contains(out, "pcs-capacity") {
		t.Errorf("%v: %s", err, out)
	}
}

// hang mounts a file system that never answers over a folder, as a file server does that is gone: every access waits
// until the process is killed. It is a FUSE mount whose other end nobody serves.
func hang(t *testing.T, dir string) {
	t.Helper()

	fuse, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no file system can be made to hang here: %v", err)
	}

	if err := syscall.Mount("hung", dir, "fuse.hung", 0,
		fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fuse.Fd())); err != nil {
		fuse.Close()
		t.Skipf("no file system can be made to hang here: %v", err)
	}

	t.Cleanup(func() { // closing the other end sets free what waits
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}

		fuse.Close()
	})
}

// Each submission is answered, though what hangs does so for good. How often slurmctld asks what has hung is counted in
// [TestJobSubmitRestsAfterAHang].
func testHangs(t *testing.T, s site) {
	for name, test := range map[string]struct {
		damage  func(t *testing.T)
		managed string // what slurmctld's log has of a job in a partition of ours
	}{
		"the file system": {func(t *testing.T) { hang(t, string(s.state)) }, ""},
		"the file system, after the plan was read": {func(t *testing.T) {
			if out, _, err := s.submit(t, "--partition=gpu", "--time=60"); err != nil || strings.Contains(out,
				"pcs-capacity") {
				t.Fatalf("%v: %s", err, out)
			}

			hang(t, string(s.state))
		}, "the job is let through unchecked"},
		"the filter": {func(t *testing.T) {
			os.Remove(s.filter)

			if err := os.WriteFile(s.filter, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}, "the job is let through unchecked"},
	} {
		t.Run(name, func(t *testing.T) {
			s.restore(t)
			s.install(t, s.impatient())
			test.damage(t)

			for range 5 {
				if out, id, err := s.submit(t, "--time=60"); err != nil || out != "Submitted batch job "+id {
					t.Fatalf("unmanaged: %v: %s", err, out)
				}

				out, id, err := s.submit(t, "--partition=gpu")
				if err != nil {
					t.Fatalf("managed: %v: %s", err, out)
				}

				log, err := os.ReadFile(s.cluster.Log("slurmctld"))
				if err != nil || out != "Submitted batch job "+id || !strings.Contains(string(log), test.managed) {
					t.Fatalf("managed: %v: %s", err, out)
				}
			}
		})
	}
}
