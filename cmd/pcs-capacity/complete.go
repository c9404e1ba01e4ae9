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

// completeLine answers a shell that wants a command line completed; then it is true. The line is in COMP_LINE.
func completeLine(parser *kong.Kong) bool {
	line := os.Getenv("COMP_LINE")
	if line == "" {
		return false
	}

	if point, err := strconv.Atoi(os.Getenv("COMP_POINT")); err == nil && point < len(line) {
		line = line[:point] // the cursor is there
	}

	words := strings.Fields(line)
	if strings.HasSuffix(line, " ") {
		words = append(words, "")
	}

	// A shell does not ask before the first blank, but a person may set COMP_LINE to anything.
	for len(words) < 2 {
		words = append(words, "")
	}

	done := words[:len(words)-1]

	before := done[len(done)-1]
	last := words[len(done)]
	if flag, value, cut := strings.Cut(last, "="); cut {
		before = flag
		last = value
	}

	for _, word := range nextWords(parser, done[1:], before, last) {
		if word != "" && strings.HasPrefix(word, last) {
			fmt.Println(word)
		}
	}

	return true
}

// nextWords returns what may follow the words of a line, of which before is the last, or the flag that begins the word
// that is being written.
func nextWords(parser *kong.Kong, words []string, before, begun string) (all []string) {
	// That the line is not whole is an error, and the trace still has the flags and arguments up to there.
	trace, _ := kong.Trace(parser, words)

	command := cmp.Or(trace.Selected(), parser.Model.Node)
	arguments := command.Positional
	settings := ""
	for _, step := range trace.Path {
		switch {
		case step.Positional != nil:
			arguments = arguments[1:]
		case step.Flag != nil && step.Flag.Name == "config":
			settings = trace.Value(step).String()
		}
	}

	for _, f := range slices.Concat(command.AllFlags(true)...) {
		if !f.IsBool() && (before == "--"+f.Name || before == "-"+string(f.Short)) {
			return knownValues(f.Value, begun, settings)
		}

		if begun != "" {
			all = append(all, "--"+f.Name)
		}
	}

	for _, c := range command.Children {
		if !c.Hidden {
			all = append(all, c.Name)
		}
	}

	if len(arguments) > 0 {
		all = append(all, knownValues(arguments[0], begun, settings)...)
	}

	return all
}

// knownValues returns the values of a flag or an argument that are known. It asks neither AWS nor Slurm: ids and names
// come from what sync saw last.
func knownValues(v *kong.Value, begun, settings string) []string {
	known := map[string][]string{"": v.EnumSlice()} // by the predictor tag
	known["file"], _ = filepath.Glob(begun + "*")
	for _, m := range capacity.Codes {
		known["explained"] = append(known["explained"], string(m.Code))
	}

	if cfg, err := config.Load(config.Find(settings)); err == nil {
		if snap, err := state.Dir(cfg.StateDir).ReadSnapshot(); err == nil {
			for _, r := range snap.Reservations {
				known["reservation"] = append(known["reservation"], r.ID)
			}

			for _, p := range snap.Partitions {
				known["partition"] = append(known["partition"], p.SlurmNames()...)
				known["explained"] = append(known["explained"], p.SlurmNames()...)
				for _, g := range p.Groups {
					known["node-group"] = append(known["node-group"], g.Name)
				}
			}
		}
	}

	return known[v.Tag.Get("predictor")]
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
