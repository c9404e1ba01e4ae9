package packaging

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
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

// firstJob goes the README's way to a job on a simulated block, with the programs of this
// installation, and breaks a few things then that check has to name.
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
	script := strings.ReplaceAll(strings.Join(commands[1:], "\n"), "/tmp/lab", lab) + "\nenv -0 >" + dir + "/env\n"
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
	settings := filepath.Join(lab, "etc", "pcs-capacity", "conf.d", "gpu.toml")
	filter := i.at("usr/libexec/pcs-capacity/pcs-capacity-filter")
	state := filepath.Join(lab, "state-pcs-capacity")
	for _, fault := range []struct{ what, breaks, mends, check string }{
		{"another zone", "cp " + settings + " saved && sed -i s/subnet-01ab00000000000a1/subnet-01ab00000000000b2/ " + settings, "cp saved " + settings, "reservation"},
		{"a reservation that there is not", "cp " + settings + " saved && sed -i s/00b1/00ff/ " + settings, "cp saved " + settings, "reservation"},
		{"a filter that does not run", "chmod 644 " + filter, "chmod 755 " + filter, "filter"},
		{"a script that is gone", "mv " + lab + "/etc/cli_filter.lua saved.lua", "mv saved.lua " + lab + "/etc/cli_filter.lua", "cli_filter"},
		{"no snapshot", "mv " + state + "/snapshot.json saved.json", "mv saved.json " + state + "/snapshot.json", "snapshot"},
		{"calls that are not allowed", "capacity-lab sim fault fail-before --operation DescribeCapacityReservations --code UnauthorizedOperation --status 403", "capacity-lab sim faults --clear", "permission"},
	} {
		i.sh(env, dir, fault.breaks)
		if found := i.checks(env); !strings.Contains(" "+strings.Join(found, " ")+" ", " "+fault.check+" ") {
			i.Errorf("%s: check finds wrong: %q", fault.what, found)
		}
		i.sh(env, dir, fault.mends)
	}
	if found := i.checks(env); len(found) > 0 {
		i.Errorf("all is mended, and check finds wrong: %q", found)
	}
	if i.keptAside == ".dpkg-dist" { // once is enough
		i.canary(env, dir, "confirmed")
		i.sh(env, dir, "capacity-lab sim otherwise --any-size --late-checks --drops-foreign --replaces-drained")
		i.canary(env, dir, "refuted")
	}
}

// canary asks the lab's PCS and Slurm twice, since some is seen in a later run only.
func (i *installation) canary(env []string, dir, want string) {
	i.Helper()
	outcomes := map[string]string{}
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(time.Second) {
		cmd := exec.CommandContext(deadline(i.T), i.at("usr/bin/pcs-capacity"), "-y", "-o", "json", "canary", "gpu-a", "--change", "--settle", "10s")
		cmd.Env, cmd.Dir = env, dir
		out, _ := cmd.Output()
		var report struct {
			Answers []struct{ ID, Outcome, Evidence string }
		}
		if err := json.Unmarshal(out, &report); err != nil {
			i.Fatalf("canary: %v: %s", err, out)
		}
		for _, a := range report.Answers {
			outcomes[a.ID] = a.Outcome + ": " + a.Evidence
		}
		if strings.HasPrefix(outcomes["foreign-reservation"], want) && strings.HasPrefix(outcomes["drained-node"], want) {
			break
		}
	}
	for _, id := range []string{"wrong-zone", "too-many-nodes", "foreign-reservation", "drained-node"} {
		if !strings.HasPrefix(outcomes[id], want) {
			i.Errorf("canary: %s is %s, want %s", id, outcomes[id], want)
		}
	}
	if !strings.HasPrefix(outcomes["scheduled-open"], "confirmed") {
		i.Errorf("canary: scheduled-open is %s", outcomes["scheduled-open"])
	}
}

func (i *installation) sh(env []string, dir, command string) {
	i.Helper()
	cmd := exec.CommandContext(deadline(i.T), "sh", "-c", command)
	cmd.Env, cmd.Dir = env, dir
	if out, err := cmd.CombinedOutput(); err != nil {
		i.Errorf("%s: %v: %s", command, err, out)
	}
}

// checks are the names of the checks that fail.
func (i *installation) checks(env []string) []string {
	i.Helper()
	cmd := exec.CommandContext(deadline(i.T), i.at("usr/bin/pcs-capacity"), "-o", "json", "check")
	cmd.Env = env
	out, _ := cmd.Output()
	var found struct {
		Findings []struct{ Check, Status, Fix string }
	}
	if err := json.Unmarshal(out, &found); err != nil {
		i.Fatalf("check: %v: %s", err, out)
	}
	var failed []string
	for _, f := range found.Findings {
		if f.Status == "fail" {
			failed = append(failed, f.Check)
			if f.Fix == "" {
				i.Errorf("%s fails without a fix", f.Check)
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
		for deadline := time.Now().Add(time.Minute); syscall.Kill(n, 0) == nil && time.Now().Before(deadline); {
			if program, err := os.Readlink("/proc/" + pid + "/exe"); err != nil || program == "" {
				return // ended, and not waited for by its parent
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}
