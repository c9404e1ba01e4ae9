package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// demoCmd is "capacity-lab demo": the main job, told in two acts. Every command is
// run as it is shown, by a shell, and what it prints is shown as it came.
type demoCmd struct {
	Bin    string `type:"path" placeholder:"DIR" help:"Folder of the product's programs; default: that of capacity-lab."`
	quirks `embed:""`
}

// Run is called by kong.
func (cmd *demoCmd) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// A lab has unix sockets, whose paths must be short.
	dir, err := os.MkdirTemp("", "capacity-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	began := time.Now()
	t := &teller{Terminal: terminal.Standard(), ctx: ctx, quirks: cmd.quirks}
	for _, act := range []struct {
		title string
		name  string
		start func(t *teller, self, bin, dir string) (stop func() error, err error)
		play  func(*teller)
	}{
		{"Before: a block is found, compared, bought and drawn.", "aws", serveAWS, playBuying},
		{"Act 1: AWS PCS. A Capacity Block becomes a queue.", "pcs", raiseLab, playPCS},
		{"Act 2: self-managed Slurm. Our ResumeProgram launches into the block.", "ec2", raiseLab, playEC2},
	} {
		t.title(act.title)
		if err := t.act(cmd.Bin, filepath.Join(dir, act.name), act.start, act.play); err != nil {
			t.wrong("%s", err)
		}
	}
	summary := fmt.Sprintf("%d commands in %s", t.commands, time.Since(began).Round(time.Second))
	if t.mistakes > 0 {
		return fmt.Errorf("demo: %s, but %d things were not as they should be", summary, t.mistakes)
	}
	t.Tell("\ndemo: %s, all did what they say: 3 blocks bought, 1 wrong zone and 1 too long job refused, jobs ran inside the blocks, 1 waited at a fence until an extension moved it.", summary)
	return nil
}

// act plays in a lab of its own, which is stopped on every way out.
func (t *teller) act(bin, dir string, start func(t *teller, self, bin, dir string) (func() error, error), play func(*teller)) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if bin == "" {
		bin = filepath.Dir(self)
	}
	t.bin, t.env, t.work, t.failed = bin, filepath.Join(dir, "env"), filepath.Join(dir, "work"), false
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	stop, err := start(t, self, bin, dir)
	if err != nil {
		return fmt.Errorf("the lab did not start: %w", err)
	}
	t.command(". " + t.env)
	if err := os.MkdirAll(t.work, 0o755); err != nil {
		return errors.Join(err, stop())
	}
	play(t)
	return errors.Join(stop(), t.ctx.Err())
}

// background starts a command that stays, and returns how it is stopped.
func (t *teller) background(stdout io.Writer, program string, args ...string) (stop func() error, err error) {
	c := exec.Command(program, args...)
	c.Stdout, c.Stderr = stdout, t.Out
	// Its own process group: a Ctrl-C at the terminal reaches us first, and we stop it.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		return nil, err
	}
	return func() error {
		_ = c.Process.Signal(syscall.SIGTERM)
		return c.Wait()
	}, nil
}

// serveAWS serves simulated AWS alone, a minute of its clock in a second.
func serveAWS(t *teller, self, bin, dir string) (func() error, error) {
	env, err := os.Create(t.env)
	if err != nil {
		return nil, err
	}
	defer env.Close()
	args := append([]string{"aws", "--speed", "60"}, t.quirks.flags()...)
	t.command(fmt.Sprintf("capacity-lab %s > %s &", strings.Join(args, " "), t.env))
	stop, err := t.background(env, self, args...)
	if err != nil {
		return nil, err
	}
	for t.ctx.Err() == nil {
		if text, _ := os.ReadFile(t.env); strings.Contains(string(text), "AWS_SECRET_ACCESS_KEY") {
			return stop, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, errors.Join(stop(), t.ctx.Err())
}

// raiseLab runs simulated AWS and a real Slurm together; the folder's name is the mode.
func raiseLab(t *teller, self, bin, dir string) (func() error, error) {
	mode := filepath.Base(dir)
	args := append([]string{"up", "--mode", mode, "--dir", dir}, t.quirks.flags()...)
	t.command(fmt.Sprintf("capacity-lab %s &", strings.Join(args, " ")))
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	stop, err := t.background(write, self, append(args, "--bin", bin, "--boot-delay", "1s")...)
	write.Close()
	if err != nil {
		return nil, err
	}
	ready, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	t.say("  %s", strings.TrimSpace(ready))
	return stop, nil
}

// playBuying finds a block, compares its zones with the cluster's, buys it, and draws it.
func playBuying(t *teller) {
	t.run(`printf 'cluster = "ml"\nstate_dir = "state"\n' > config.toml`, wants{})
	const cli = "pcs-capacity --config config.toml "
	t.say("\n# Is there room already for 24 instances, for 3 days?")
	t.run(cli+"fit --instance-type p5.48xlarge --count 24 --duration 3d", wants{status: 1, output: `cb-[0-9a-f]+`})
	t.say("\n# No. What is for sale, and in which zones does the cluster have a subnet?")
	t.run(cli+"offerings --instance-type p5.48xlarge --count 24 --duration 3d", wants{output: `cb-[0-9a-f]+ .* use2-az1 .* USD .* yes`})
	offering := t.find(`(?m)^(cb-[0-9a-f]+) .* use2-az1 +\d\d-\d\d 11:30 `)
	fee := strings.ReplaceAll(t.find(`(?m)^`+offering+`.* ([0-9.,]+) USD`), ",", "")
	t.run(cli+"purchase "+offering+" --confirm-fee "+fee, wants{output: `scheduled`})
	t.run(cli+"timeline", wants{output: `24 x p5.48xlarge, scheduled`})
}

// playPCS buys a block, makes a queue of it, and submits to it.
func playPCS(t *teller) {
	t.buy("use2-az1")
	block := t.find(`\bcr-[0-9a-f]{17}\b`)
	setup := "pcs-capacity setup --queue gpu --node-group gpu --reservation " + block + " --like compute --dynamic --yes"

	t.say("\n# A subnet in another zone than the block's is refused, before anything is created.")
	t.run(setup+" --subnet-ids subnet-01ab00000000000b2", wants{status: 1, output: `is in us-east-2a \(use2-az1\)`})
	t.say("\n# The right one goes through.")
	t.run(setup, wants{output: `Users can submit`})
	t.run("sinfo", wants{output: `(?m)^gpu +up .* idle~ gpu-a-\[1-2\]`})
	t.run("pcs-capacity status", wants{output: block})

	t.say("\n# A job that names the block runs on an instance inside it.")
	t.run(`sbatch --wait -p gpu --comment "capacity_reservation_id=`+block+`" -o job.out --wrap 'echo "ran on $SLURMD_NODENAME until $(date -u -d @$PCS_CAPACITY_FENCE +%H:%M)"'`, wants{output: "Submitted batch job"})
	t.run("cat job.out", wants{output: `ran on gpu-a-\d until \d\d:\d\d`})
	t.run("capacity-lab sim instances", wants{output: `running .* ` + block + ` .*capacity-block`})

	t.say("\n# A job that cannot end before the block does is refused, with the time that fits.")
	t.run("sbatch -p gpu -t 3-00:00:00 --wrap hostname", wants{status: 1, output: `Use --time=0?1:\d\d:00 or less`})
	t.run("scontrol show reservation", wants{output: `pcs-capacity-fence-gpu-a`})
}

// playEC2 lets Slurm call our ResumeProgram and SuspendProgram.
func playEC2(t *teller) {
	t.buy("use2-az1")
	block := t.find(`\bcr-[0-9a-f]{17}\b`)
	t.say("\n# The block goes into the settings of the partition; a pass of sync tells Slurm.")
	t.run(`sed -i 's/capacity_reservation_ids = .*/capacity_reservation_ids = ["`+block+`"]/' "$(pcs-capacity config --path)"`, wants{})
	t.run("pcs-capacity sync", wants{output: `placed the fence`})
	t.say("\n# The nodes wait until the block opens; then the next pass lets them go.")
	t.waitFor("pcs-capacity sync; pcs-capacity status", wants{output: block + ` .*active`})
	t.run("pcs-capacity check", wants{output: `reservation +(ok|warn)`})

	t.say("\n# Slurm powers two nodes up: one RunInstances call into the block, all or nothing.")
	t.run(`pcs-capacity sync; sbatch --wait -p gpu -N2 -t 10 -o job.out --wrap 'srun hostname >/dev/null && echo "ran on $SLURM_JOB_NODELIST"'`, wants{output: "Submitted batch job"})
	t.run("cat job.out", wants{output: `ran on gpu-\[1-2\]`})
	t.run("capacity-lab sim instances", wants{output: `(?s)(running [^\n]*` + block + `.*){2}`})

	t.say("\n# A job that waits is made longer than what is left of the block: the fence holds it back.")
	t.run(`sbatch -p gpu -w gpu-1 --hold -t 10 -o long.out --wrap 'srun hostname; sleep 300'`, wants{output: "Submitted batch job"})
	job := t.find(`batch job (\d+)`)
	t.run("scontrol update jobid="+job+" timelimit=12:00:00 && scontrol release "+job, wants{})
	t.run("pcs-capacity explain "+job, wants{output: `must end by`})
	t.say("\n# An extension of the block moves the fence, and lets it go.")
	t.run("pcs-capacity extend "+block+" --duration 1d --dry-run", wants{output: block})
	fee := strings.ReplaceAll(t.find(`([0-9][0-9.,]*) USD`), ",", "")
	t.run("pcs-capacity extend "+block+" --duration 1d --confirm-fee "+fee, wants{output: block})
	t.waitFor("pcs-capacity sync", wants{output: `moved the fence`})
	t.waitFor("squeue -h -t all -j "+job+" -o 'job %i is %T'", wants{output: `is RUNNING`})
	t.run("pcs-capacity explain "+job, wants{output: `runs on gpu-1`})
	t.run("scancel "+job, wants{})

	t.say("\n# SuspendProgram gives the nodes back.")
	t.run("scontrol update nodename=gpu-[1-2] state=POWER_DOWN", wants{})
	t.waitFor("capacity-lab sim instances", wants{output: `(?s)terminated.*terminated`})

	t.say("\n# Where did the hours of the block go so far?")
	t.run("pcs-capacity sync; pcs-capacity report "+block, wants{output: `(?s)useful .*paid .*` + block})
}

// buy looks for blocks of two instances and buys the first one in the zone.
func (t *teller) buy(zone string) {
	t.say("\n# What is for sale?")
	t.run("pcs-capacity offerings --instance-type p5.48xlarge --count 2 --duration 1d", wants{output: `cb-[0-9a-f]+ .*` + zone})
	offering := t.find(`(?m)^(cb-[0-9a-f]+) .*` + zone)
	fee := strings.ReplaceAll(t.find(`(?m)^`+offering+`.* ([0-9.,]+) USD`), ",", "")
	t.say("\n# Buying cannot be undone, so the fee has to be said.")
	t.run("pcs-capacity purchase "+offering+" --confirm-fee "+fee, wants{output: `scheduled|active`})
}
