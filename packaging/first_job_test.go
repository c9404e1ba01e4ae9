package packaging

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
)

// mostCommands is how many a new user types from the package to the first job.
const mostCommands = 5

// readmePath are the commands of the README from the package to the first job.
func readmePath(t *testing.T) []string {
	t.Helper()

	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}

	_, rest, _ := strings.Cut(string(text), "\n### From the packages to a job\n")
	_, rest, _ = strings.Cut(rest, "```sh\n")

	block, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the README has no path from the packages to a job")
	}

	var commands []string
	for line := range strings.Lines(block) {
		commands = append(commands, strings.TrimSpace(line))
	}

	return commands
}

// firstJob goes the README's way to a job on a simulated block, with the programs of this installation.
func (i *installation) firstJob() {
	i.Helper()

	commands := readmePath(i.T)
	if len(commands) > mostCommands || !strings.Contains(commands[0], "apt install") {
		i.Fatalf("the README has %d commands to a job: %q", len(commands), commands)
	}

	dir, err := os.MkdirTemp("", "j") // Slurm's sockets need a short path
	if err != nil {
		i.Fatal(err)
	}

	i.Cleanup(func() { os.RemoveAll(dir) })

	lab := filepath.Join(dir, "lab")
	// The root's own scontrol is played; the lab has a real Slurm.
	played := i.at("usr/bin/scontrol")
	if err := os.Rename(played, played+".away"); err != nil {
		i.Fatal(err)
	}
	defer func() { _ = os.Rename(played+".away", played) }()

	script := strings.ReplaceAll(
		strings.Join(commands[1:], "\n"),
		"capacity-lab up",
		"capacity-lab up --dir "+lab,
	) + "\nenv -0 >" + dir + "/env\n"
	cmd := exec.CommandContext(deadline(i.T), "bash", "-ec", script)
	cmd.Env = append(os.Environ(), "PATH="+i.at("usr/bin")+":"+os.Getenv("PATH")+":/usr/sbin:/sbin")
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.Output()
	said, _ := os.ReadFile(filepath.Join(lab, "log", "up.log"))
	environment, envErr := os.ReadFile(filepath.Join(dir, "env"))
	env := strings.Split(strings.TrimSuffix(string(environment), "\x00"), "\x00")
	i.Cleanup(func() { stopLab(i.T, env) })

	if err != nil || envErr != nil {
		i.Fatalf("%v %v: %s\n%s", err, envErr, out, said)
	}

	host, _ := os.Hostname()
	if !strings.HasSuffix(string(out), "\n"+host+"\n"+host+"\n") {
		i.Errorf("the job on two nodes said %s", out)
	}

	if found := i.checks(env); len(found) > 0 {
		i.Errorf("check finds wrong: %q", found)
	}
	// Without a limit, the job gets what fits.
	fitted := `id=$(sbatch --parsable -p gpu -N2 -o /dev/null --wrap "sleep 600"); until squeue -h -t R -j $id -o ` +
		`%l | grep -q '^1:..:..$'; do sleep 0.2; done`

	wait := exec.CommandContext(deadline(i.T), "bash", "-ec", fitted)
	wait.Env = env
	if out, err := wait.CombinedOutput(); err != nil {
		i.Errorf("a job without a limit does not get what is left of the block: %v: %s", err, out)
	}
	// A user sees no problem in what is not theirs to read.
	asUser := exec.CommandContext(
		deadline(i.T),
		"sh",
		"-ec",
		`chmod 755 "$0"; cp "$(command -v pcs-capacity)" "$0"; exec setpriv --reuid=games --clear-groups `+
			`"$0"/pcs-capacity status`,
		dir,
	)
	asUser.Env = env
	if out, err := asUser.CombinedOutput(); err != nil {
		i.Errorf("status as a user: %v: %s", err, out)
	}
}

// checks are the names of the checks that fail.
func (i *installation) checks(env []string) []string {
	i.Helper()
	cmd := exec.CommandContext(deadline(i.T), i.at("usr/bin/pcs-capacity"), "-o", "json", "check")
	cmd.Env = env

	out, _ := cmd.Output()

	var found struct {
		Findings []capacity.Problem
	}
	if err := json.Unmarshal(out, &found); err != nil {
		i.Fatalf("check: %v: %s", err, out)
	}

	var failed []string
	for _, f := range found.Findings {
		if f.Severity == capacity.Admin {
			failed = append(failed, f.About.Check)
			if f.Fix == "" {
				i.Errorf("%s fails without a fix", f.About.Check)
			}
		}
	}

	return failed
}

// stopLab stops the lab of an environment, and waits until it has.
func stopLab(t *testing.T, env []string) {
	for _, variable := range env {
		pid, found := strings.CutPrefix(variable, "CAPACITY_LAB_PID=")
		if !found {
			continue
		}

		var n int
		if err := json.Unmarshal([]byte(pid), &n); err != nil {
			t.Error(err)
			return
		}

		_ = syscall.Kill(n, syscall.SIGTERM)

		if err := slurmlab.WaitUntil(context.Background(), func() bool {
			program, err := os.Readlink("/proc/" + pid + "/exe") // a zombie has none
			return err != nil || program == ""
		}); err != nil {
			t.Error(err)
		}
	}
}
