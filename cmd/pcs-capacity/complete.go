package main

import (
	"cmp"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// completeLine answers a shell that wants a command line completed; then it is true. The line is in COMP_LINE. It asks
// neither AWS nor Slurm: ids and names come from what sync saw last.
func completeLine(parser *kong.Kong) bool {
	line := os.Getenv("COMP_LINE")
	if line == "" {
		return false
	}

	known := map[string][]string{} // by the predictor tags of flags and arguments
	for _, m := range capacity.Codes {
		known["explained"] = append(known["explained"], string(m.Code))
	}

	if cfg, err := config.Load(config.Find(configFlag(strings.Fields(line)))); err == nil {
		if snap, err := state.Dir(cfg.StateDir).ReadSnapshot(); err == nil {
			for _, r := range snap.Reservations {
				known["reservation"] = append(known["reservation"], r.ID)
			}

			for _, p := range snap.Partitions {
				known["partition"] = append(known["partition"], p.Name)
				known["explained"] = append(known["explained"], p.Name)
				for _, g := range p.Groups {
					known["node-group"] = append(known["node-group"], g.Name)
				}
			}
		}
	}

	if point, err := strconv.Atoi(os.Getenv("COMP_POINT")); err == nil && point < len(line) {
		line = line[:point] // the cursor is there
	}

	for _, word := range completeWords(parser, line, known) {
		fmt.Println(word)
	}

	return true
}

// completeWords returns the words that may stand in place of the last one of a line, which may be "".
func completeWords(parser *kong.Kong, line string, known map[string][]string) (all []string) {
	words := strings.Fields(line)
	if strings.HasSuffix(line, " ") || len(words) < 2 {
		words = append(words, "")
	}

	done := words[:len(words)-1]

	before := done[len(done)-1]
	last := words[len(done)]
	if flag, value, cut := strings.Cut(last, "="); cut {
		before = flag
		last = value
	}

	// That the line is not whole is an error, and the trace still has the commands and arguments up to there.
	trace, _ := kong.Trace(parser, done[1:])
	command := cmp.Or(trace.Selected(), parser.Model.Node)
	left := command.Positional
	for _, step := range trace.Path {
		if step.Positional != nil {
			left = left[1:]
		}
	}

	flags := slices.Concat(command.AllFlags(true)...)
	valued := slices.IndexFunc(flags, func(f *kong.Flag) bool {
		return !f.IsBool() && (before == "--"+f.Name || before == "-"+string(f.Short))
	})
	values := func(v *kong.Value) []string {
		if v.Tag.Get("predictor") == "file" {
			files, _ := filepath.Glob(last + "*")
			return files
		}

		return append(v.EnumSlice(), known[v.Tag.Get("predictor")]...)
	}

	switch {
	case valued >= 0:
		all = values(flags[valued].Value)
	case strings.HasPrefix(last, "-"):
		for _, f := range flags {
			all = append(all, "--"+f.Name)
		}
	case len(left) > 0:
		all = values(left[0])
	default:
		for _, c := range command.Children {
			if !c.Hidden {
				all = append(all, c.Name)
			}
		}
	}

	return slices.DeleteFunc(all, func(word string) bool { return word == "" || !strings.HasPrefix(word, last) })
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
