package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// demoCmd is "capacity-lab demo": a block from its offer to its report, on PCS. Every command
// is run as it is shown, by a shell. More is run than shown, and all of it is verified.
type demoCmd struct {
	Bin    string `type:"path" placeholder:"DIR" help:"Folder of the product's programs; default: that of capacity-lab."`
	All    bool   `help:"Show every command that is run, and all its output."`
	Keep   bool   `help:"Leave the lab running, to go on there."`
	Unkind bool   `help:"AWS is slow to show new things, and its clock is wrong."`
}

func (cmd *demoCmd) Run() error {
	ctx, interrupted := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer interrupted()
	// A lab has unix sockets, whose paths must be short.
	dir, err := os.MkdirTemp("", "capacity-demo-")
	if err != nil {
		return err
	}

	began := time.Now()

	out := terminal.Standard()
	if out.OutWidth == 0 || out.OutWidth > widest {
		out.OutWidth = widest
	}

	out.Print("AWS is simulated and costs nothing; Slurm is real. … stands for lines that are left out.")

	t := &script{Terminal: out, ctx: ctx, all: cmd.All, unkind: cmd.Unkind, work: filepath.Join(dir, "work")}

	t.bin, err = programs(cmd.Bin)
	if err != nil {
		return err
	}

	args := []string{"up", "--bare", "--dir", filepath.Join(dir, "lab"), "--bin", t.bin}
	if cmd.Unkind {
		args = append(args, "--unkind")
	}

	lab, err := startLab(filepath.Join(dir, "lab"), args...)
	if err == nil {
		err = os.Mkdir(t.work, 0o755)
	}

	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}

	t.env = lab.env
	t.play()

	end := func(err error) error {
		_ = lab.process.Signal(syscall.SIGTERM)
		return errors.Join(err, ctx.Err(), <-lab.ended, os.RemoveAll(dir))
	}
	summary := fmt.Sprintf("%d commands in %s", t.commands, time.Since(began).Round(time.Second))
	if t.failed {
		return end(fmt.Errorf("demo: %s, and the last is not as it should be", summary))
	}

	out.Print("\ndemo: %s, all did what they say (--all shows them).", summary)

	if !cmd.Keep {
		out.Print("To go on in such a lab: capacity-lab demo --keep")
		return end(nil)
	}

	out.Print("Picture: %s", t.picture())
	out.Print("In five minutes the next block opens, and the job goes on there: pcs-capacity sync; squeue")
	out.Print(
		"The lab still runs. To stop it:\n  kill %d\nTo go on in it:\n  . %s; pcs-capacity status",
		lab.process.Pid,
		t.env,
	)

	return nil
}

// aDay moves the lab's AWS on to the last two minutes before the fence of a block of a day, which opened some seconds
// ago: it ends two and a half minutes before the block, and a job leaves its nodes a minute and a half before that.
const aDay = "23h56m45s"

// play buys two blocks, makes a queue of them, and runs a job that is longer than the first.
func (t *script) play() {
	t.print("\n# What is for sale?")
	t.run("pcs-capacity offerings --instance-type p5.48xlarge --count 2 --duration 1d",
		expectation{output: `use2-az1.* 1d .*1,512.00 USD`, shows: `^ID| 1d  `})
	first := t.find(`(?m)^(cb-[0-9a-f]+) .*use2-az1.* 1d `)
	fee := strings.ReplaceAll(t.find(`(?m)^`+first+`.* ([0-9.,]+) USD`), ",", "")
	second := t.find(`(?m)^(cb-[0-9a-f]+) .* 1,512.00 USD`) // it opens three minutes after the first has ended

	t.print("\n# Buying cannot be undone, so the fee has to be stated.")
	t.run("pcs-capacity purchase "+first+" -t p5.48xlarge -n 2 -d 1d --confirm-fee "+fee,
		expectation{output: `scheduled|active`, shows: `fence|reclaim|end  |fee  |is scheduled`})
	block := t.find(`\bcr-[0-9a-f]{17}\b`)

	t.run("pcs-capacity purchase "+second+" -t p5.48xlarge -n 2 -d 1d --confirm-fee 1512",
		expectation{output: `scheduled|active`})
	next := t.find(`\bcr-[0-9a-f]{17}\b`)

	setup := "pcs-capacity setup --queue gpu --reservation "

	t.note("\n# A subnet in another zone than the block's is refused, before anything is created.")
	t.run(setup+block+" --like compute --dynamic --yes --subnet-ids subnet-01ab00000000000b2", expectation{
		status: 1,
		output: `is in us-east-2a \(use2-az1\)`,
	})
	t.print("\n# One command makes a queue of it. A second block joins the queue in the same way.")
	t.run(setup+block+" --like compute --dynamic --yes", expectation{
		output: `Users can submit`,
		shows:  `^create +(launch|compute|Slurm|queue)|Users can submit|sbatch`,
	})
	t.run(setup+next+" --like compute --dynamic --yes", expectation{output: next, shows: `Queue gpu`})
	t.waitFor("pcs-capacity sync", expectation{}) // the first may come while slurmctld starts again
	t.run("sinfo", expectation{output: `(?m)^gpu +up .* idle~ gpu-a-\[1-2\]`})
	t.run("pcs-capacity status", expectation{output: block})

	t.print("\n# Users submit before the block opens, even a job that is longer: it goes on in the next one.")
	t.run(`sbatch -p gpu -N2 -t 1-12:00:00 --comment on_end=requeue -o train.out --wrap 'srun hostname; sleep 600'`,
		expectation{output: `(?s)runs until .*goes on\s+from .*Submitted batch job`, shows: "."})
	train := t.find(`batch job (\d+)`)
	t.waitFor("pcs-capacity sync; squeue -o '%5i %8T %12N %l'", expectation{
		output: `RUNNING .* 23:5\d:00`,
		shows:  `RUNNING|TIME_LIMIT`,
	})

	t.print("\n# A job that cannot end in time is refused, and told what it can do.")
	t.run("sbatch -p gpu -t 3-00:00:00 --wrap hostname",
		expectation{status: 1, output: `Use --time=23:5\d:00 or less`, shows: "capacity"})
	t.print("\n# Slurm itself keeps jobs out of the end of a block, by a fence.")
	t.run("scontrol show reservation", expectation{output: `fence-gpu-a`, shows: "fence-gpu-a|Nodes=gpu-a"})
	t.run("capacity-lab sim instances", expectation{output: `(?s)("running".*` + block + `.*"capacity-block".*){2}`})

	t.print("\n# The lab's AWS jumps ahead, to the block's last minutes: the job leaves its nodes in time.")
	t.run("capacity-lab sim clock advance="+aDay, expectation{shows: "^$"})
	t.waitFor("pcs-capacity sync", expectation{output: `requeue job ` + train, shows: "requeue job"})
	t.waitFor("pcs-capacity explain "+train, expectation{
		output: `(?s)was requeued.*waits\s+for\s+the\s+next\s+block.*` + next,
		shows:  "Job|the next block|time limit",
	})

	t.print("\n# Where did the paid hours go?")

	useful := `(9[0-9]|100)\.[0-9]% of them useful`
	if t.unkind { // when the job left its nodes, nobody knows: a clock that is wrong has jumped in between
		useful = `% of them useful`
	}

	t.run("pcs-capacity report "+block, expectation{
		output: useful,
		shows:  "% of them useful|^CLASS|^useful|^RESERVATION|^cr-",
	})
	t.run("pcs-capacity timeline --weeks 1 --svg "+t.picture(), expectation{
		output: `(?s)gpu.*` + block,
		shows:  "Nov|Dec|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|gap|█",
	})
	t.run("cat "+t.picture(), expectation{output: `(?s)<svg .*` + block + `.*</svg>`})
}

// picture returns the path of the drawn timeline.
func (t *script) picture() string { return filepath.Join(t.work, "timeline.svg") }

// patience bounds the tries of waitFor, and each command.
const patience = 60 * time.Second

// widest bounds the columns of the demo, and of its commands where nothing else does.
const widest = 100

// script runs commands and compares their output with what is expected. It shows those that are worth a reader's
// time, or all of them.
type script struct {
	*terminal.Terminal
	ctx context.Context
	// env is the file to source before each command, work the folder to run it in, bin where the programs are.
	env, work, bin string
	all            bool   // shows every command, with all that it printed
	unkind         bool   // AWS is slow, and its clock is wrong
	last           string // the output of the last command
	failed         bool   // something went wrong: the rest makes no sense
	commands       int
}

// expectation is the expected result of a command: it ends with the status and prints a match of output.
type expectation struct {
	status int
	output string
	shows  string // matches the lines that are worth showing; "" if not even the command is
}

func (t *script) print(format string, args ...any) {
	if !t.failed {
		t.Print(format, args...)
	}
}

// note says what belongs to a command that is not shown.
func (t *script) note(format string, args ...any) {
	if t.all {
		t.print(format, args...)
	}
}

// command shows the command to run.
func (t *script) command(line string) {
	if !t.failed {
		fmt.Fprintln(t.Out, terminal.WrapCommand("$ "+line, t.OutWidth))
	}
}

func (t *script) fail(format string, args ...any) {
	t.Print("✗ "+format, args...)
	t.failed = true
}

// run runs a command, and compares.
func (t *script) run(command string, w expectation) { t.try(command, w, 0) }

// waitFor runs a command until its result is as expected, and shows its last run.
func (t *script) waitFor(command string, w expectation) { t.try(command, w, patience) }

func (t *script) try(command string, w expectation, most time.Duration) {
	if t.failed {
		return
	}

	if t.isShown(w) {
		t.command(command)
	}

	t.commands++
	began := time.Now()
	problem := w.unmet(t.sh(command), t.last)
	for problem != "" && time.Since(began) < most && t.ctx.Err() == nil {
		time.Sleep(300 * time.Millisecond)

		problem = w.unmet(t.sh(command), t.last)
	}

	if problem != "" && !t.isShown(w) {
		t.command(command)
	}

	t.show(w, problem)
}

// isShown reports whether a command is shown that does what it should.
func (t *script) isShown(w expectation) bool { return t.all || w.shows != "" }

// find returns the first match in the last output, or its first group.
func (t *script) find(pattern string) string {
	if t.failed {
		return ""
	}

	m := regexp.MustCompile(pattern).FindStringSubmatch(t.last)
	if m == nil {
		t.fail("the output has no match of %s", pattern)
		return ""
	}

	return m[len(m)-1]
}

func (w expectation) unmet(status int, output string) string {
	switch {
	case status != w.status:
		return fmt.Sprintf("it ended with status %d, not %d", status, w.status)
	case !regexp.MustCompile(w.output).MatchString(output):
		return fmt.Sprintf("the output has no match of %s", w.output)
	}

	return ""
}

// sh runs a command in the environment of the lab and keeps its output.
func (t *script) sh(command string) (status int) {
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()

	c := exec.CommandContext(ctx, "/bin/sh", "-c", `. "$0" && eval "$1"`, t.env, command)
	c.Dir = t.work
	// Tables are as wide as here, less what show indents.
	c.Env = append(
		os.Environ(),
		"PATH="+t.bin+":"+os.Getenv("PATH"),
		fmt.Sprintf("COLUMNS=%d", max(1, cmp.Or(t.OutWidth, widest)-2)),
	)
	// Its own process group: a command that hangs ends with its children.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }

	out, err := c.CombinedOutput()
	t.last = string(out)

	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		t.last += fmt.Sprintf("(no end within %s)\n", patience)
		return -1
	case errors.As(err, &exit):
		return exit.ExitCode()
	case err != nil:
		t.last += err.Error()
		return -1
	}

	return 0
}

// show shows what the last command printed: all of it where something is wrong, else the
// lines that are worth it, with a sign where some before them are left out.
func (t *script) show(w expectation, problem string) {
	whole := t.all || problem != ""
	if text := strings.TrimRight(t.last, "\n"); text != "" && (whole || w.shows != "") {
		worth := regexp.MustCompile(w.shows)
		begin := "  "
		for line := range strings.SplitSeq(text, "\n") {
			if whole || worth.MatchString(line) {
				t.Print("%s%s", begin, line)
				begin = "  "
			} else if line != "" {
				begin = "… "
			}
		}
	}

	if problem != "" {
		t.fail("%s", problem)
	}
}
