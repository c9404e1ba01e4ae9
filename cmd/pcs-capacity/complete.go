package main

import (
	"embed"
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"
	"github.com/posener/complete"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// completeLine answers a shell that wants a command line completed; then it is true. The line is in COMP_LINE. It asks
// neither AWS nor Slurm: ids and names come from what sync saw last.
func completeLine(parser *kong.Kong) bool {
	line, asked := os.LookupEnv("COMP_LINE")
	if !asked {
		return false
	}

	var reservations, partitions, groups, codes []string
	if cfg, err := config.Load(config.Find(configFlag(strings.Fields(line)))); err == nil {
		if snap, err := state.Dir(cfg.StateDir).ReadSnapshot(); err == nil {
			for _, r := range snap.Reservations {
				reservations = append(reservations, r.ID)
			}

			for _, p := range snap.Partitions {
				partitions = append(partitions, p.Name)
				for _, g := range p.Groups {
					groups = append(groups, g.Name)
				}
			}
		}
	}

	for _, m := range capacity.Codes {
		codes = append(codes, string(m.Code))
	}

	command, err := kongcompletion.Command(parser,
		kongcompletion.WithPredictor("reservation", complete.PredictSet(reservations...)),
		kongcompletion.WithPredictor("partition", complete.PredictSet(partitions...)),
		kongcompletion.WithPredictor("node-group", complete.PredictSet(groups...)),
		kongcompletion.WithPredictor("explained", complete.PredictSet(append(codes, partitions...)...)),
		kongcompletion.WithPredictor("file", complete.PredictFiles("*")))
	if err != nil {
		panic(err) // a mistake in the tags
	}

	global, _ := command.Args.(*kongcompletion.PositionalPredictor)
	passGlobal(command.Sub, global)

	return complete.New(parser.Model.Name, command).Complete()
}

// passGlobal tells commands of the global flags, so that they count arguments right: the
// library knows only a command's own.
func passGlobal(commands complete.Commands, global *kongcompletion.PositionalPredictor) {
	for _, c := range commands {
		if p, ok := c.Args.(*kongcompletion.PositionalPredictor); ok {
			p.ArgFlags = append(p.ArgFlags, global.ArgFlags...)
			p.BoolFlags = append(p.BoolFlags, global.BoolFlags...)
		}

		passGlobal(c.Sub, global)
	}
}

// configFlag returns the value of --config in a line.
func configFlag(line []string) string {
	for n, word := range line {
		if path, ok := strings.CutPrefix(word, "--config="); ok {
			return path
		}

		if word == "--config" && n+1 < len(line) {
			return line[n+1]
		}
	}

	return ""
}

// completions are the scripts with which shells ask the program; the packages install them.
//
//go:embed completions/pcs-capacity.*
var completions embed.FS

// CompletionCmd prints a shell's script.
type CompletionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

func (CompletionCmd) Help() string {
	return `Only needed if the program was not installed from a package: packages bring the scripts. Put into
the shell's startup file:

  bash  eval "$(pcs-capacity completion bash)"
  zsh   eval "$(pcs-capacity completion zsh)"      after compinit
  fish  pcs-capacity completion fish | source

Reservation ids and names of partitions and node groups are those that sync last saw.`
}

func (c *CompletionCmd) Run(t *terminal.Terminal) error {
	text, err := completions.ReadFile("completions/pcs-capacity." + c.Shell)
	if err != nil {
		return err
	}

	_, err = fmt.Fprint(t.Out, string(text))

	return err
}
