// Command pcs-capacity is the administrator's command: it finds and buys reserved EC2
// capacity, makes it usable in Slurm, and keeps the two in step.
//
// Results go to stdout, everything else to stderr. Exit status: 0 yes or done, 1 no
// or failed, 2 usage or configuration, 3 later (only of when).
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/manual"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

const description = `Reserved GPU capacity, made native to Slurm.

Find a Capacity Block, buy it, and let users queue jobs for it:

  pcs-capacity offerings --instance-type p5.48xlarge --count 4 --duration 7d
  pcs-capacity purchase cb-0123456789abcdef0 -t p5.48xlarge -n 4 -d 7d
  pcs-capacity setup --reservation cr-0123456789abcdef0 --queue gpu
  sbatch --partition=gpu --nodes=4 train.sh

Settings are in /etc/pcs-capacity/config.toml. AWS credentials, region and
AWS_ENDPOINT_URL come from the environment, as for the AWS CLI.
"pcs-capacity help COMMAND" explains a command.`

// CLI is the command line.
type CLI struct {
	Globals

	List      ListCmd       `cmd:"" group:"buy" help:"List reservations, in one region or all."`
	Fit       FitCmd        `cmd:"" group:"buy" help:"Show whether there is capacity for a job, or what to buy."`
	Offerings OfferingsCmd  `cmd:"" group:"buy" help:"List Capacity Blocks for sale."`
	Purchase  PurchaseCmd   `cmd:"" group:"buy" help:"Buy a Capacity Block that offerings listed, at most once."`
	Extend    ExtendCmd     `cmd:"" group:"buy" help:"Extend a Capacity Block."`
	Reserve   ReserveCmd    `cmd:"" group:"buy" help:"Hold capacity on demand for a while, or probe whether there is room."`
	Release   ReleaseCmd    `cmd:"" group:"buy" help:"Release held capacity."`
	Setup     SetupCmd      `cmd:"" group:"use" help:"Make a reservation usable: launch template, node group, queue, settings."`
	Teardown  TeardownCmd   `cmd:"" group:"use" help:"Remove what setup made for a queue, or for a node group in it."`
	Hooks     HooksCmd      `cmd:"" group:"use" help:"Install, show or remove the scripts and settings with which Slurm runs our hooks."`
	Status    StatusCmd     `cmd:"" group:"run" help:"Show each partition: reservation, window, nodes, jobs, next event."`
	Explain   ExplainCmd    `cmd:"" group:"run" help:"Explain why a job, node or partition does not start, or what a code means, and what to do."`
	When      WhenCmd       `cmd:"" group:"run" help:"Show when a job could start: now, in the next block, or not at all."`
	Left      LeftCmd       `cmd:"" group:"run" help:"Print the longest time limit that fits now, for sbatch --time."`
	Sync      SyncCmd       `cmd:"" group:"run" help:"Reconcile Slurm with the reservations: one pass, or --watch."`
	Check     CheckCmd      `cmd:"" group:"run" help:"Check everything, and say how to fix what is wrong."`
	Notify    NotifyCmd     `cmd:"" group:"run" help:"Test notifications."`
	Timeline  TimelineCmd   `cmd:"" group:"run" help:"Draw the coming weeks: blocks, fences, gaps."`
	Report    ReportCmd     `cmd:"" group:"run" help:"Show where every paid node-hour went, and what it cost."`
	Topology  TopologyCmd   `cmd:"" group:"other" help:"Print topology.conf or topology.yaml from where EC2 says the reservations are."`
	IAMPolicy IAMPolicyCmd  `cmd:"" group:"other" help:"Print the IAM policy of an administrator, of the service, or of Slurm's controller." name:"iam-policy"`
	Settings  ConfigCmd     `cmd:"" group:"other" help:"Show the settings in effect, defaults included." name:"config"`
	Complete  CompletionCmd `cmd:"" group:"other" help:"Print the completion script of a shell." name:"completion"`

	Manual manual.Command `cmd:"" hidden:"" help:"Write the manual pages, as Markdown."`
}

// Globals are the flags of every subcommand.
type Globals struct {
	Config   string          `group:"global" help:"Settings file. Default: pcs-capacity/config.toml beside the file that SLURM_CONF names, else /etc/pcs-capacity/config.toml." placeholder:"FILE" predictor:"file"`
	Region   string          `group:"global" help:"AWS region. Default: the settings, then the AWS SDK's own chain."`
	Profile  string          `group:"global" help:"AWS profile of the shared configuration files."`
	Output   terminal.Format `group:"global" help:"Output format: ${enum}." short:"o" enum:"table,json,yaml,csv" default:"table"`
	Wide     bool            `group:"global" help:"Show every column of a table, however wide. Piped output always has all."`
	UTC      bool            `group:"global" help:"Show times in tables in UTC instead of local time." name:"utc"`
	Yes      bool            `group:"global" help:"Answer yes to questions; needed where there is no terminal. Does not confirm a purchase." short:"y"`
	LogLevel slog.Level      `group:"global" help:"Lowest level to log to stderr: debug, info, warn or error." default:"warn"`

	aws *ec2.Client // the command's client of EC2; nil if it has asked for none

	// WritesConfig: the command writes the settings file if it is not there, so that --config may name a new one.
	WritesConfig bool `kong:"-"`

	Version versionFlag `name:"version" group:"global" help:"Show the version and exit."`
}

// headings are those of the help, in its order.
var headings = kong.Groups{
	"buy":    "Find and buy",
	"use":    "Make it a queue",
	"run":    "Run it",
	"other":  "More",
	"global": "Global flags",
}

// versionFlag shows the version, wherever it stands.
type versionFlag bool

// BeforeReset prints the version. kong calls it before it reports missing arguments.
func (versionFlag) BeforeReset(app *kong.Kong) error {
	if _, err := fmt.Fprintf(app.Stdout, "pcs-capacity %s (commit %s, %s)\n", version, commit, date); err != nil {
		return err
	}

	app.Exit(0)

	return nil
}

func main() { os.Exit(run(os.Args[1:])) }

// run runs the program and returns its exit status.
func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// Whatever hangs after the first signal, the second one ends the program: it is no longer caught.
	context.AfterFunc(ctx, stop)

	if len(args) == 0 {
		args = []string{"--help"}
	} else if args[0] == "help" { // as git and Slurm's users know it
		args = append(slices.Clone(args[1:]), "--help")
	}

	var cli CLI

	parser, err := newParser(ctx, &cli)
	if err != nil {
		panic(err) // a mistake in the tags above
	}

	if completeLine(parser) {
		return 0
	}

	t := terminal.Standard()
	command, err := parser.Parse(args)
	failed := new(fs.PathError)
	switch {
	case errors.As(err, &failed) && failed.Op == "write": // the help or the version
		return exitStatus(t, failed)
	case err != nil:
		t.Say("pcs-capacity: %s; see %s --help", err, manual.CommandOf(err, "pcs-capacity"))
		return 2
	}

	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: cli.LogLevel})))

	err = command.Run()

	warnIncomplete(t, cli.aws)

	return exitStatus(t, err)
}

// newParser reads command lines into cli. An error is a mistake in the tags of its types.
func newParser(ctx context.Context, cli *CLI) (*kong.Kong, error) {
	return kong.New(
		cli,
		kong.Name("pcs-capacity"),
		kong.Description(description),
		kong.ConfigureHelp(
			kong.HelpOptions{
				Compact:        true,
				WrapUpperBound: 100,
			},
		),
		headings,
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(
			&cli.Globals),
		kong.BindSingletonProvider(newTerminal),
		kong.BindSingletonProvider(readConfig),
		kong.BindSingletonProvider(
			readConfigIfAny,
		),
		kong.BindSingletonProvider(newEC2),
		kong.BindSingletonProvider(newPCS),
	)
}

// warnIncomplete warns of what EC2 has not told. aws may be nil.
func warnIncomplete(t *terminal.Terminal, aws *ec2.Client) {
	if aws == nil {
		return
	}

	for _, words := range aws.Withheld() {
		t.Say("WARNING: %s", words)
	}
}

// usageError is a mistake in arguments or settings: exit status 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// errReported ends a command with status 1 when everything has been said already.
var errReported = errors.New("shown already")

// errLater ends a command with status 3: not now, but later.
var errLater = errors.New("later")

// exitStatus writes an error, each of several on its own line, and that the result could not be
// written, and returns the exit status.
func exitStatus(t *terminal.Terminal, err error) int {
	if lost := t.WriteErr(); lost != nil && !errors.Is(err, lost) { // else the error says so
		t.Say("pcs-capacity: writing the result: %s", lost)

		err = cmp.Or(err, errReported)
	}

	if err == nil {
		return 0
	}

	if errors.Is(err, errLater) {
		return 3
	}

	if !errors.Is(err, errReported) {
		for _, line := range errorLines(err) {
			t.Say("pcs-capacity: %s", line)
		}
	}

	if errors.As(err, new(usageError)) {
		return 2
	}

	return 1
}

// errorLines splits an error into its lines, each once. "interrupted" is the last one if a signal has stopped the
// command.
func errorLines(err error) (lines []string) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		line = strings.TrimSuffix(strings.TrimSuffix(line, context.Canceled.Error()), ": ")
		if line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}

	if errors.Is(err, context.Canceled) {
		lines = append(lines, "interrupted")
	}

	return lines
}

func newTerminal(ctx context.Context, g *Globals) *terminal.Terminal {
	t := terminal.Standard()
	t.Format = g.Output
	t.UTC = g.UTC
	t.Yes = g.Yes
	t.Interrupted = ctx.Done()
	t.Wide = g.Wide

	return t
}
