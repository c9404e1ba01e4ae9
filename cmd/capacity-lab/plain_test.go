package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/lab/installed"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/machine"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
)

// plain is a lab with --plain. With a folder of packages it has none of the product's programs
// yet; else those of this checkout.
type plain struct {
	*testing.T
	*upProcess
	ctx      context.Context
	packaged bool
}

func startPlain(t *testing.T, args ...string) *plain {
	t.Helper()

	if err := machine.Possible(); err != nil {
		t.Skip(err)
	}

	bin, dist := t.TempDir(), os.Getenv(installed.FolderVariable)
	if dist == "" {
		build := exec.Command("go", "build", "-o", bin, "../...")

		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	p := &plain{
		T:         t,
		upProcess: startUp(t, "", append([]string{"--plain", "--bin", bin}, args...)...),
		ctx:       ctx,
		packaged:  dist != "",
	}
	p.waitReady(t)

	if p.packaged {
		deb, err := installed.Package(dist, installed.DEB)
		if err == nil {
			err = exec.Command("cp", deb, filepath.Join(p.dir, "home")).Run()
		}

		if err != nil {
			t.Fatal(err)
		}
	}

	return p
}

// on runs a command line on the controller, as an administrator at a terminal who types yes.
func (p *plain) on(line string) (string, error) {
	cmd := exec.CommandContext(p.ctx, filepath.Join(p.dir, "bin", onHead), "script", "-qec", line, "/dev/null")
	cmd.Stdin = strings.NewReader("yes\n")
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()

	return string(out), err
}

func (p *plain) do(line string) string {
	p.Helper()

	out, err := p.on(line)
	if err != nil {
		p.Fatalf("%s: %v: %s\n%s", line, err, out, p.consoles())
	}

	return out
}

// consoles are what all machines have printed.
func (p *plain) consoles() string {
	var all strings.Builder

	logs, _ := filepath.Glob(filepath.Join(p.dir, "machines", "*", "console.log"))
	for _, path := range logs {
		text, _ := os.ReadFile(path)
		all.WriteString(path + ":\n" + string(text))
	}

	return all.String()
}

// until waits until a command prints what is wanted.
func (p *plain) until(line, want string) string {
	p.Helper()

	ctx, cancel := context.WithTimeout(p.ctx, 2*time.Minute)
	defer cancel()

	var out string
	if slurmlab.WaitUntil(ctx, func() bool {
		said, err := p.on(line)
		out = said
		return err == nil && strings.Contains(out, want)
	}) != nil {
		log, _ := p.on("tail -n 20 /var/log/slurm/slurmctld.log")
		p.Fatalf("%s says %s, not %s\n%s\n%s", line, out, want, log, p.consoles())
	}

	return out
}

// quickStart is the settings that a page of the docs has written, and its commands.
func quickStart(t *testing.T, page string) (settings string, commands []string) {
	t.Helper()

	text, err := os.ReadFile(filepath.Join("../../docs", page))
	if err != nil {
		t.Fatal(err)
	}

	for _, block := range regexp.MustCompile("(?s)```(toml|sh)\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		if block[1] == "toml" {
			settings += block[2]
			continue
		}

		for line := range strings.Lines(strings.ReplaceAll(block[2], "\\\n", " ")) {
			commands = append(commands, strings.TrimSpace(line))
		}
	}

	return settings, commands
}

// mostCommands is how many an administrator types from the package to the first job.
const mostCommands = 5

// quickStart runs docs/quick-start-slurm.md word for word, up to a job on nodes that boot by the user data of their
// launch template: with one restart of slurmctld, and jobs of the site's own node go on.
func (p *plain) quickStart() {
	p.Helper()

	settings, commands := quickStart(p.T, "quick-start-slurm.md")
	if err := os.WriteFile(filepath.Join(p.dir, "home", "train.sh"),
		[]byte("#!/bin/sh\nsrun sh -c 'echo $SLURMD_NODENAME on $(hostname)' >train.out\n"), 0o755); err != nil {
		p.Fatal(err)
	}

	if len(commands) > mostCommands || !strings.HasPrefix(commands[0], "apt install ") {
		p.Fatalf("the page has %d commands: %q", len(commands), commands)
	}

	if p.packaged {
		p.do(commands[0])
	}

	if err := os.WriteFile(filepath.Join(p.dir, "home", "settings.toml"), []byte(settings), 0o644); err != nil {
		p.Fatal(err)
	}
	// In front of the sections that the package's file has.
	p.do("cd /etc/pcs-capacity && touch config.toml && cat /home/settings.toml config.toml >new && mv new config.toml")

	for _, line := range commands[1:] {
		out := p.do(line)
		p.Logf("$ %s\n%s", line, out)

		if line == "pcs-capacity hooks install" &&
			strings.Contains(strings.Join(strings.Fields(out), " "), "a copy of slurm.conf") {
			p.Errorf("hooks install says who needs a copy of slurm.conf, which slurmctld hands out:\n%s", out)
		}
	}

	p.until("squeue --noheader --states=all --format=%T", "COMPLETED")

	out, err := os.ReadFile(filepath.Join(p.dir, "home", "train.out"))
	for _, node := range []string{"gpu-1 on ip-10-0-1-", "gpu-2 on ", "gpu-3 on ", "gpu-4 on "} {
		if !strings.Contains(string(out), node) {
			p.Errorf("%v: the job says %s, without %s", err, out, node)
		}
	}

	if starts := p.do("grep -c 'slurmctld version .* started' /var/log/slurm/slurmctld.log"); !slices.Contains(
		strings.Fields(starts),
		"2",
	) {
		p.Errorf("slurmctld was started %s times, not once and once more", starts)
	}

	if out := p.do("srun -p debug hostname"); !strings.Contains(out, "cpu-1") {
		p.Errorf("the site's own node says %s", out)
	}

	if out := p.do("pcs-capacity check --output csv || :"); !strings.Contains(out, "hook-credentials,ok") {
		p.Errorf("check says\n%s", out)
	}
}

// TestLongQuickStart: on a Slurm that nobody prepared. Then GPUs are asked for with their type and without, slurmd is
// killed, a node is rebooted, and the site takes topology/tree: check names the line without which Slurm refuses each
// job, and with it jobs run.
func TestLongQuickStart(t *testing.T) {
	t.Parallel()
	p := startPlain(t)
	p.quickStart()

	for _, gpus := range []string{"gpu:8", "gpu:h100:8"} {
		if out := p.do("srun -p gpu --gres=" + gpus + " hostname"); !strings.Contains(out, "ip-10-0-1-") {
			t.Errorf("--gres=%s: %s", gpus, out)
		}
	}
	// slurmd that dies is started again, and its job goes on.
	slurmd := p.do("srun -p gpu -w gpu-1 pgrep -o -x slurmd")
	p.do("srun -p gpu -w gpu-1 sh -c 'pkill -KILL -x slurmd; until pgrep -x slurmd; do sleep 1; done'")

	if again := p.do("srun -p gpu -w gpu-1 pgrep -o -x slurmd"); again == slurmd {
		t.Errorf("slurmd is %s still", again)
	}
	// A node that is rebooted comes back by itself.
	booted := strings.TrimSpace(p.do("scontrol -o show node gpu-1 | grep -o 'BootTime=[^ ]*'"))
	p.do("scontrol reboot ASAP nextstate=RESUME gpu-1")
	p.until("scontrol -o show node gpu-1 | grep -v "+booted, "State=IDLE+CLOUD ")
	p.do("srun -p gpu -w gpu-1 hostname")

	restart := func(add string) {
		p.do(add + " && systemctl restart slurmctld")
		p.until("sinfo --noheader --format=%T --nodes cpu-1", "idle")
	}

	const (
		submit = "sbatch -p gpu -N2 --output=/dev/null --wrap hostname"
		fix    = "SwitchName=pcs-capacity Nodes=gpu-[1-4]"
	)

	restart(
		"echo TopologyPlugin=topology/tree >>/etc/slurm/slurm.conf && echo SwitchName=site Nodes=cpu-1 " +
			">/etc/slurm/topology.conf",
	)

	if out, err := p.on(submit); err == nil || !strings.Contains(out, " configuration is not available") {
		t.Errorf("without a switch for its nodes: %v %s", err, out)
	}

	if out := p.do("pcs-capacity check --output csv || :"); !strings.Contains(out, "add the line `"+fix+"`") {
		t.Errorf("check does not name the line:\n%s", out)
	}

	restart("echo '" + fix + "' >>/etc/slurm/topology.conf")
	p.do(submit)
	p.until("squeue --noheader --states=all --name=wrap --format=%T", "COMPLETED")
}
