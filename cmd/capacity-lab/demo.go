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
	"sync"
	"syscall"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// demoCmd is "capacity-lab demo": a block from its offer to its report, on PCS. Every command
// is run as it is shown, by a shell. More is run than shown, and all of it is verified.
type demoCmd struct {
	Bin    string `type:"path" placeholder:"DIR" help:"Folder of the product's programs; default: that of capacity-lab."`
	All    bool   `help:"Show every command that is run, with all that it prints."`
	Keep   bool   `help:"Leave the lab running, to go on there."`
	quirks `embed:""`
}

// act is a part of the demo, in a lab of its own.
type act struct {
	name, title string
	start       func(t *teller, self, bin, dir string) (stop func() error, err error)
	play        func(*teller)
}

// acts are the parts; the first one is for readers.
var acts = []act{
	{"pcs", "AWS PCS: a Capacity Block becomes a queue", raiseLab, playPCS},
	{"aws", "A block is found, compared with the cluster's zones, bought and drawn", serveAWS, playBuying},
	{"ec2", "Slurm that launches its own nodes: our ResumeProgram launches into the block", raiseLab, playEC2},
}

// Run is called by kong.
func (cmd *demoCmd) Run() error {
	ctx, interrupted := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer interrupted()
	// A lab has unix sockets, whose paths must be short.
	dir, err := os.MkdirTemp("", "capacity-demo-")
	if err != nil {
		return err
	}
	began := time.Now()
	out := *terminal.Standard()
	if out.OutWidth == 0 || out.OutWidth > widest {
		out.OutWidth = widest
	}
	out.Tell("AWS is simulated and costs nothing; Slurm is real. … stands for lines that are left out.")
	told := cmd.play(ctx, out, dir)
	commands, mistakes := 0, 0
	for _, t := range told {
		commands += t.commands
		mistakes += t.mistakes
	}
	summary := fmt.Sprintf("%d commands in %s", commands, time.Since(began).Round(time.Second))
	if mistakes > 0 {
		return errors.Join(fmt.Errorf("demo: %s, but %d things were not as they should be", summary, mistakes), told[0].end(), os.RemoveAll(dir))
	}
	out.Tell("\ndemo: %s, all did what they say. Not shown: a block of 24 nodes, a subnet in the wrong zone, and "+
		"Slurm that launches its own nodes (--all shows them).", summary)
	if !cmd.Keep {
		out.Tell("To go on in such a lab: capacity-lab demo --keep")
		return errors.Join(told[0].end(), os.RemoveAll(dir))
	}
	out.Tell("Picture: %s", told[0].picture("timeline"))
	out.Tell("Go on in the same lab:\n  . %s; pcs-capacity status\n  kill %d   # stops it", told[0].env, told[0].lab)
	return nil
}

// play plays all acts: one after the other where all is shown, else side by side, since only
// the first one has something to say. The lab of the first one still runs.
func (cmd *demoCmd) play(ctx context.Context, out terminal.Terminal, dir string) []*teller {
	told := make([]*teller, len(acts))
	said := make([]strings.Builder, len(acts))
	var playing sync.WaitGroup
	for i, a := range acts {
		screen := out
		t := &teller{Terminal: &screen, ctx: ctx, quirks: cmd.quirks, all: cmd.All}
		told[i] = t
		perform := func() {
			if err := t.act(a, cmd.Bin, filepath.Join(dir, a.name)); err != nil {
				t.wrong("%s", err)
			}
			if i > 0 {
				if err := t.end(); err != nil {
					t.wrong("%s", err)
				}
			}
		}
		switch {
		case cmd.All:
			t.title(a.title)
			perform()
		case i == 0:
			playing.Go(perform)
		default:
			screen.Out = &said[i]
			playing.Go(perform)
		}
	}
	playing.Wait()
	for i := range acts {
		if said[i].Len() > 0 {
			told[i].Out = out.Out
			told[i].title(acts[i].title)
			fmt.Fprint(out.Out, said[i].String())
		}
	}
	return told
}

// act plays in a lab of its own, which runs until end is called.
func (t *teller) act(a act, bin, dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if bin == "" {
		bin = filepath.Dir(self)
	}
	t.bin, t.env, t.work = bin, filepath.Join(dir, "env"), filepath.Join(dir, "work")
	if err := os.MkdirAll(t.work, 0o755); err != nil {
		return err
	}
	t.stop, err = a.start(t, self, bin, dir)
	if err != nil {
		return fmt.Errorf("the lab did not start: %w", err)
	}
	if t.all {
		t.command(". " + t.env)
	}
	a.play(t)
	return t.ctx.Err()
}

// end stops the lab of the act.
func (t *teller) end() error {
	if t.stop == nil {
		return nil
	}
	return t.stop()
}

// background starts a command that stays, and returns how it is stopped.
func (t *teller) background(stdout io.Writer, dir, program string, args ...string) (stop func() error, err error) {
	c := exec.Command(program, args...)
	log, err := os.Create(filepath.Join(dir, "stderr"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c.Stdout, c.Stderr = stdout, log
	// Its own process group: a Ctrl-C at the terminal reaches us first, and we stop it.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		return nil, err
	}
	t.lab = c.Process.Pid
	return func() error {
		_ = c.Process.Signal(syscall.SIGTERM)
		err := c.Wait()
		if said, _ := os.ReadFile(log.Name()); len(said) > 0 {
			t.Tell("%s", strings.TrimSpace(string(said)))
		}
		return err
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
	if t.all {
		t.command(fmt.Sprintf("capacity-lab %s > %s &", strings.Join(args, " "), t.env))
	}
	stop, err := t.background(env, dir, self, args...)
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
	args := append([]string{"up", "--bare", "--mode", mode, "--dir", dir}, t.quirks.flags()...)
	if t.all {
		t.command(fmt.Sprintf("capacity-lab %s &", strings.Join(args, " ")))
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	stop, err := t.background(write, dir, self, append(args, "--bin", bin, "--boot-delay", "1s")...)
	write.Close()
	if err != nil {
		return nil, err
	}
	ready, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	t.note("  %s", strings.TrimSpace(ready))
	return stop, nil
}

// playBuying finds a block, compares its zones with the cluster's, buys it, and draws it.
func playBuying(t *teller) {
	t.run(`printf 'cluster = "ml"\nstate_dir = "state"\n' > config.toml`, wants{})
	const cli = "pcs-capacity --config config.toml "
	t.note("\n# Is there room already for 24 instances, for 3 days?")
	t.run(cli+"fit --instance-type p5.48xlarge --count 24 --duration 3d", wants{status: 1, output: `cb-[0-9a-f]+`})
	t.note("\n# No. What is for sale, and in which zones does the cluster have a subnet?")
	t.run(cli+"offerings --instance-type p5.48xlarge --count 24 --duration 3d", wants{output: `cb-[0-9a-f]+ .* use2-az1 .* USD .* yes`})
	offering := t.find(`(?m)^(cb-[0-9a-f]+) .* use2-az1 +\d\d-\d\d 11:30 `)
	fee := strings.ReplaceAll(t.find(`(?m)^`+offering+`.* ([0-9.,]+) USD`), ",", "")
	t.run(cli+"purchase "+offering+" -t p5.48xlarge -n 24 -d 3d --confirm-fee "+fee, wants{output: `scheduled`})
	t.run(cli+"timeline", wants{output: `24 x p5.48xlarge, scheduled`})
}

// playPCS buys a block, makes a queue of it, and submits to it.
func playPCS(t *teller) {
	t.say("\n# What is for sale?")
	t.buy("use2-az1", wants{shows: `ID|use2-az1`}, wants{shows: `fence|reclaim|end  |fee  |is scheduled`})
	block := t.find(`\bcr-[0-9a-f]{17}\b`)
	setup := "pcs-capacity setup --queue gpu --node-group gpu --reservation " + block + " --like compute --dynamic --yes"

	t.note("\n# A subnet in another zone than the block's is refused, before anything is created.")
	t.run(setup+" --subnet-ids subnet-01ab00000000000b2", wants{status: 1, output: `is in us-east-2a \(use2-az1\)`})
	t.say("\n# One command makes a queue of it.")
	t.run(setup, wants{output: `Users can submit`, shows: `^create +(launch|compute|Slurm|queue)|market type|Users can submit|sbatch`})
	t.run("pcs-capacity sync", wants{})
	t.run("sinfo", wants{output: `(?m)^gpu +up .* idle~ gpu-a-\[1-2\]`})
	t.run("pcs-capacity status", wants{output: block})

	t.say("\n# A job needs no --time: it gets what fits.")
	t.run(`sbatch -p gpu -N2 -o train.out --wrap 'srun printenv SLURMD_NODENAME; sleep 20'`, wants{output: "Submitted batch job", shows: "."})
	train := t.find(`batch job (\d+)`)
	t.waitFor("squeue -h -t all -j "+train+" -o '%T on %N'", wants{output: `RUNNING on gpu-a-\[1-2\]`})
	t.waitFor("pcs-capacity sync; squeue -p gpu -o '%5i %8T %12N %l'", wants{output: `RUNNING .* 1:\d\d:00`, shows: "1-2|TIME"})
	t.say("\n# A job that cannot end before the block does is refused, with the time that fits.")
	t.run("sbatch -p gpu -t 3-00:00:00 --wrap hostname", wants{status: 1, output: `Use --time=0?1:\d\d:00 or less`, shows: "capacity"})
	t.say("\n# Slurm itself keeps jobs out of the end of the block, by a fence.")
	t.run("scontrol show reservation", wants{output: `pcs-capacity-fence-gpu-a`, shows: "Name="})
	t.run("capacity-lab sim instances", wants{output: `(?s)(running [^\n]*` + block + ` .*capacity-block.*){2}`})

	t.say("\n# A job is made longer than what is left.")
	t.run(`sbatch -p gpu --hold -t 10 -o long.out --wrap 'srun hostname; sleep 300'`, wants{output: "Submitted batch job"})
	long := t.find(`batch job (\d+)`)
	t.run("scontrol update jobid="+long+" timelimit=12:00:00 && scontrol release "+long, wants{shows: "."})
	t.run("pcs-capacity explain "+long, wants{output: `must end by`, shows: "Job|must|is open|Shorten"})
	t.say("\n# An extension of the block moves the fence, and lets it go.")
	t.run("pcs-capacity extend "+block+" --duration 1d --dry-run", wants{output: block})
	fee := strings.ReplaceAll(t.find(`([0-9][0-9.,]*) USD`), ",", "")
	t.run("pcs-capacity extend "+block+" --duration 1d --confirm-fee "+fee, wants{output: block, shows: "^  fence"})
	t.waitFor("pcs-capacity sync", wants{output: `move the fence`})
	t.waitFor("squeue -h -t all -j "+long+" -o 'job %i is %T'", wants{output: `is RUNNING`})
	t.run("pcs-capacity explain "+long, wants{output: `runs on gpu-a-1`, shows: "runs on"})
	t.run("cat train.out", wants{output: `gpu-a-2`})

	t.note("\n# A job that names the block runs on an instance inside it.")
	t.run(`sbatch --wait -p gpu --comment "capacity_reservation_id=`+block+`" -o job.out --wrap 'echo "ran on $SLURMD_NODENAME until $(date -u -d @$PCS_CAPACITY_FENCE +%H:%M)"'`, wants{output: "Submitted batch job"})
	t.run("cat job.out", wants{output: `ran on gpu-a-\d until \d\d:\d\d`})
	t.run("scancel "+long+"; pcs-capacity sync", wants{})

	t.say("\n# Where did the paid hours go so far?")
	t.run("pcs-capacity report", wants{output: `(?s)[1-9][0-9.]*% of them useful.*` + block, shows: "% of them useful|RESERVATION|^cr-"})
	t.run("pcs-capacity timeline --weeks 1 --svg "+t.picture("timeline"), wants{output: `(?s)gpu.*` + block + `.*extended`})
	t.run("cat "+t.picture("timeline"), wants{output: `(?s)<svg .*` + block + `.*</svg>`})
}

// picture is the file of a picture.
func (t *teller) picture(name string) string { return filepath.Join(t.work, name+".svg") }

// playEC2 lets Slurm call our ResumeProgram and SuspendProgram.
func playEC2(t *teller) {
	t.buy("use2-az1", wants{}, wants{})
	block := t.find(`\bcr-[0-9a-f]{17}\b`)
	t.note("\n# The block goes into the settings of the partition; a pass of sync tells Slurm.")
	t.run(`sed -i 's/capacity_reservation_ids = .*/capacity_reservation_ids = ["`+block+`"]/' "$(pcs-capacity config --path)"`, wants{})
	t.run("pcs-capacity sync", wants{output: `place the fence`})
	t.note("\n# The nodes wait until the block opens; then the next pass lets them go.")
	t.waitFor("pcs-capacity sync; pcs-capacity status", wants{output: block + ` .*active`})
	t.run("pcs-capacity check", wants{output: `reservation +(ok|warn)`})

	t.note("\n# Slurm powers two nodes up: one RunInstances call into the block, all or nothing.")
	t.run(`pcs-capacity sync; sbatch --wait -p gpu -N2 -t 10 -o job.out --wrap 'srun hostname >/dev/null && echo "ran on $SLURM_JOB_NODELIST"'`, wants{output: "Submitted batch job"})
	t.run("cat job.out", wants{output: `ran on gpu-\[1-2\]`})
	t.run("capacity-lab sim instances", wants{output: `(?s)(running [^\n]*` + block + `.*){2}`})

	t.note("\n# A job that waits is made longer than what is left of the block: the fence holds it back.")
	t.run(`sbatch -p gpu -w gpu-1 --hold -t 10 -o long.out --wrap 'srun hostname; sleep 300'`, wants{output: "Submitted batch job"})
	job := t.find(`batch job (\d+)`)
	t.run("scontrol update jobid="+job+" timelimit=12:00:00 && scontrol release "+job, wants{})
	t.run("pcs-capacity explain "+job, wants{output: `must end by`})
	t.note("\n# An extension of the block moves the fence, and lets it go.")
	t.run("pcs-capacity extend "+block+" --duration 1d --dry-run", wants{output: block})
	fee := strings.ReplaceAll(t.find(`([0-9][0-9.,]*) USD`), ",", "")
	t.run("pcs-capacity extend "+block+" --duration 1d --confirm-fee "+fee, wants{output: block})
	t.waitFor("pcs-capacity sync", wants{output: `move the fence`})
	t.waitFor("squeue -h -t all -j "+job+" -o 'job %i is %T'", wants{output: `is RUNNING`})
	t.run("pcs-capacity explain "+job, wants{output: `runs on gpu-1`})
	t.run("scancel "+job, wants{})

	t.note("\n# SuspendProgram gives the nodes back.")
	t.run("scontrol update nodename=gpu-[1-2] state=POWER_DOWN", wants{})
	t.waitFor("capacity-lab sim instances", wants{output: `(?s)terminated.*terminated`})

	t.note("\n# Where did the hours of the block go so far?")
	t.run("pcs-capacity sync; pcs-capacity report "+block, wants{output: `(?s)useful .*paid .*` + block})
}

// buy looks for blocks of two instances and buys the first one in the zone.
func (t *teller) buy(zone string, offers, bought wants) {
	t.note("\n# What is for sale?")
	offers.output = `cb-[0-9a-f]+ .*` + zone
	t.run("pcs-capacity offerings --instance-type p5.48xlarge --count 2 --duration 1d", offers)
	offering := t.find(`(?m)^(cb-[0-9a-f]+) .*` + zone)
	fee := strings.ReplaceAll(t.find(`(?m)^`+offering+`.* ([0-9.,]+) USD`), ",", "")
	say := t.note
	if bought.shows != "" {
		say = t.say
	}
	say("\n# Buying cannot be undone, so the fee has to be said.")
	bought.output = `scheduled|active`
	t.run("pcs-capacity purchase "+offering+" -t p5.48xlarge -n 2 -d 1d --confirm-fee "+fee, bought)
}
