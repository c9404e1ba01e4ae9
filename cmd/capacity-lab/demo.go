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

	t := &script{Terminal: out, ctx: ctx, all: cmd.All, work: filepath.Join(dir, "work")}

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
	out.Print(
		"The lab still runs. To stop it:\n  kill %d\nTo go on in it:\n  . %s; pcs-capacity status",
		lab.process.Pid,
		t.env,
	)

	return nil
}

// play buys a block, makes a queue of it, and submits to it.
func (t *script) play() {
	t.print("\n# What is for sale?")
	t.run(
		"pcs-capacity offerings --instance-type p5.48xlarge --count 2 --duration 1d",
		expectation{output: `cb-[0-9a-f]+ .*use2-az1`, shows: `ID|use2-az1`},
	)
	offering := t.find(`(?m)^(cb-[0-9a-f]+) .*use2-az1`)
	price := strings.ReplaceAll(t.find(`(?m)^`+offering+`.* ([0-9.,]+) USD`), ",", "")
	t.print("\n# Buying cannot be undone, so the fee has to be stated.")
	t.run("pcs-capacity purchase "+offering+" -t p5.48xlarge -n 2 -d 1d --confirm-fee "+price,
		expectation{output: `scheduled|active`, shows: `fence|reclaim|end  |fee  |is scheduled`})
	block := t.find(`\bcr-[0-9a-f]{17}\b`)
	setup := "pcs-capacity setup --queue gpu --node-group gpu --reservation " + block +
		" --like compute --dynamic --yes"

	t.note("\n# A subnet in another zone than the block's is refused, before anything is created.")
	t.run(setup+" --subnet-ids subnet-01ab00000000000b2", expectation{
		status: 1,
		output: `is in us-east-2a \(use2-az1\)`,
	})
	t.print("\n# One command makes a queue of it.")
	t.run(
		setup,
		expectation{
			output: `Users can submit`,
			shows:  `^create +(launch|compute|Slurm|queue)|market type|Users can submit|sbatch`,
		},
	)
	t.waitFor("pcs-capacity sync", expectation{}) // the first may come while slurmctld starts again
	t.run("sinfo", expectation{output: `(?m)^gpu +up .* idle~ gpu-a-\[1-2\]`})
	t.run("pcs-capacity status", expectation{output: block})

	t.print("\n# A job needs no --time: it gets what fits.")
	t.run(
		`sbatch -p gpu -N2 -o train.out --wrap 'srun printenv SLURMD_NODENAME; sleep 20'`,
		expectation{output: "Submitted batch job", shows: "."},
	)
	train := t.find(`batch job (\d+)`)
	t.waitFor("squeue -h -t all -j "+train+" -o '%T on %N'", expectation{output: `RUNNING on gpu-a-\[1-2\]`})
	t.waitFor(
		"pcs-capacity sync; squeue -p gpu -o '%5i %8T %12N %l'",
		expectation{output: `RUNNING .* 1:\d\d:00`, shows: "1-2|TIME"},
	)
	t.print("\n# A job that cannot end before the block does is refused, with the time that fits.")
	t.run(
		"sbatch -p gpu -t 3-00:00:00 --wrap hostname",
		expectation{status: 1, output: `Use --time=0?1:\d\d:00 or less`, shows: "capacity"},
	)
	t.print("\n# Slurm itself keeps jobs out of the end of the block, by a fence.")
	t.run("scontrol show reservation", expectation{output: `pcs-capacity-fence-gpu-a`, shows: "Name="})
	t.run("capacity-lab sim instances", expectation{output: `(?s)("running".*` + block + `.*"capacity-block".*){2}`})

	t.print("\n# A job gets a limit that crosses the end of the block.")
	t.run(
		`sbatch -p gpu --hold -t 10 -o long.out --wrap 'srun hostname; sleep 300'`,
		expectation{output: "Submitted batch job", shows: "."},
	)
	long := t.find(`batch job (\d+)`)
	t.run("scontrol update jobid="+long+" timelimit=12:00:00 && scontrol release "+long, expectation{shows: "."})
	t.run("pcs-capacity explain "+long, expectation{output: `must end by`, shows: "Job|must|is open|Shorten"})
	t.print("\n# An extension of the block moves the fence, and the job starts.")
	t.run("pcs-capacity extend "+block+" --duration 1d --dry-run", expectation{output: block})
	fee := strings.ReplaceAll(t.find(`([0-9][0-9.,]*) USD`), ",", "")
	t.run("pcs-capacity extend "+block+" --duration 1d --confirm-fee "+fee, expectation{
		output: block,
		shows:  "^  fence",
	})
	t.waitFor("pcs-capacity sync", expectation{output: `move the fence`})
	t.waitFor("squeue -h -t all -j "+long+" -o 'job %i is %T'", expectation{output: `is RUNNING`})
	t.run("pcs-capacity explain "+long, expectation{output: `runs on gpu-a-1`, shows: "runs on"})
	t.run("cat train.out", expectation{output: `gpu-a-2`})

	t.note("\n# A job that names the block runs on an instance inside it.")
	t.run(
		`sbatch --wait -p gpu --comment "capacity_reservation_id=`+block+
			`" -o job.out --wrap 'echo "ran on $SLURMD_NODENAME until $(date -u -d @$PCS_CAPACITY_FENCE +%H:%M)"'`,
		expectation{output: "Submitted batch job"},
	)
	t.run("cat job.out", expectation{output: `ran on gpu-a-\d until \d\d:\d\d`})
	t.run("scancel "+long+"; pcs-capacity sync", expectation{})

	t.print("\n# Where did the paid hours go so far?")
	t.run(
		"pcs-capacity report",
		expectation{output: `(?s)[1-9][0-9.]*% of them useful.*` + block, shows: "% of them useful|RESERVATION|^cr-"},
	)
	t.run("pcs-capacity timeline --weeks 1 --svg "+t.picture(), expectation{output: `(?s)gpu.*` + block})
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
