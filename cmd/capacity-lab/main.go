// Command capacity-lab is AWS and Slurm on one machine: for newcomers, for
// tests and to rehearse. It costs nothing and touches no account.
package main

import (
	"cmp"
	"os"

	"github.com/alecthomas/kong"

	"github.com/pcs-capacity/pcs-capacity/internal/manual"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// cli is the command line.
type cli struct {
	Demo demoCmd `cmd:"" help:"Show a block from its offer to its report, with real commands."`
	Up   upCmd   `cmd:"" help:"Run simulated AWS and a real Slurm together."`
	AWS  awsCmd  `cmd:"" help:"Run simulated AWS alone." name:"aws"`
	Sim  simCmd  `cmd:"" help:"Control simulated AWS: its clock, its faults, its records."`

	Manual manual.Command `cmd:"" hidden:"" help:"Write the manual pages, as Markdown."`
}

func main() { os.Exit(run(os.Args[1:])) }

// run runs the program and returns its exit status, 2 for a mistake in the arguments.
func run(args []string) int {
	if len(args) == 0 {
		args = []string{"--help"}
	}

	parser := kong.Must(
		&cli{},
		kong.Name("capacity-lab"),
		kong.Description("AWS and Slurm on one machine, to learn, test and rehearse."),
	)
	t := terminal.Standard()

	command, err := parser.Parse(args)
	if err != nil {
		t.Say("capacity-lab: %s; see %s --help", err, manual.CommandOf(err, "capacity-lab"))
		return 2
	}

	if err := cmp.Or(command.Run(), t.WriteErr()); err != nil {
		t.Say("capacity-lab: error: %s", err)
		return 1
	}

	return 0
}
