package main

import (
	"embed"
	"fmt"

	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

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
	return `For a program that no package installed; the packages bring the scripts. In the shell's
startup file:

  bash  eval "$(pcs-capacity completion bash)"
  zsh   eval "$(pcs-capacity completion zsh)"      after compinit
  fish  pcs-capacity completion fish | source

Ids of reservations and names of partitions and node groups are those that sync saw last.`
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
