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

// completeLine answers a shell that wants a command line completed; then it is true. The line is in COMP_LINE. Ids and
// names are those that sync saw last, so that neither AWS nor Slurm is asked.
func completeLine(parser *kong.Kong) bool {
	line, asked := os.LookupEnv("COMP_LINE")
	if !asked {
		return false
	}
	seen := func(of func(*capacity.Snapshot) []string) complete.Predictor {
		return complete.PredictFunc(func(complete.Args) []string { return lastSeen(settingsOf(strings.Fields(line)), of) })
	}
	command, err := kongcompletion.Command(parser,
		kongcompletion.WithPredictor("reservation", seen(func(s *capacity.Snapshot) (ids []string) {
			for _, r := range s.Reservations {
				ids = append(ids, r.ID)
			}
			return ids
		})), kongcompletion.WithPredictor("partition", seen(seenPartitions)), kongcompletion.WithPredictor("explained",
			complete.PredictOr(seen(seenPartitions), complete.PredictFunc(func(complete.Args) (codes []string) {
				for _, m := range capacity.Codes {
					codes = append(codes, string(m.Code))
				}
				return codes
			}))), kongcompletion.WithPredictor("node-group", seen(func(s *capacity.Snapshot) (names []string) {
			for _, p := range s.Partitions {
				for _, g := range p.Groups {
					names = append(names, g.Name)
				}
			}
			return names
		})), kongcompletion.WithPredictor("file", complete.PredictFiles("*")))
	if err != nil {
		panic(err) // a mistake in the tags
	}
	global, _ := command.Args.(*kongcompletion.PositionalPredictor)
	passGlobal(command.Sub, global)
	return complete.New(parser.Model.Name, command).Complete()
}

func seenPartitions(s *capacity.Snapshot) (names []string) {
	for _, p := range s.Partitions {
		names = append(names, p.Name)
	}
	return names
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

// lastSeen takes something of the last snapshot; nothing if there is none.
func lastSeen(settings string, of func(*capacity.Snapshot) []string) []string {
	cfg, err := config.Load(config.Find(settings))
	if err != nil {
		return nil
	}
	snap, err := state.Dir(cfg.StateDir).ReadSnapshot()
	if err != nil {
		return nil
	}
	return of(snap)
}

// settingsOf is what a line has for --config.
func settingsOf(line []string) string {
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

// Help is shown below the flags.
func (CompletionCmd) Help() string {
	return `Only needed if the program was not installed from a package: packages bring the scripts. Put into
the shell's startup file:

  bash  eval "$(pcs-capacity completion bash)"
  zsh   eval "$(pcs-capacity completion zsh)"      after compinit
  fish  pcs-capacity completion fish | source

Reservation ids and names of partitions and node groups are those that sync last saw.`
}

// Run prints it.
func (c *CompletionCmd) Run(t *terminal.Terminal) error {
	text, err := completions.ReadFile("completions/pcs-capacity." + c.Shell)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(t.Out, string(text))
	return err
}
