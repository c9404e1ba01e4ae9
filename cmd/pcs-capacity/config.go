package main

import (
	"bytes"
	"fmt"

	"github.com/BurntSushi/toml"

	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// ConfigCmd shows the settings in effect.
type ConfigCmd struct{}

// Run checks the settings, all files of them, and shows them with every default.
func (c *ConfigCmd) Run(g *Globals, t *terminal.Terminal) error {
	cfg, err := readConfig(g)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := toml.NewEncoder(&text).Encode(cfg); err != nil {
		return fmt.Errorf("showing the settings: %w", err)
	}
	if t.Format == terminal.JSON || t.Format == terminal.YAML {
		// The names of the settings are those of the file, in every format.
		var settings map[string]any
		if _, err := toml.Decode(text.String(), &settings); err != nil {
			return fmt.Errorf("showing the settings: %w", err)
		}
		return t.Show(settings, nil, "")
	}
	fmt.Fprintf(t.Out, "# %s\n", cfg.Path)
	for _, p := range cfg.Partitions {
		if p.File != cfg.Path {
			fmt.Fprintf(t.Out, "# partition %s: %s\n", p.Name, p.File)
		}
	}
	_, err = text.WriteTo(t.Out)
	return err
}
