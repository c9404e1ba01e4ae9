package main

import (
	"bytes"
	"fmt"

	"github.com/BurntSushi/toml"

	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// ConfigCmd shows the settings in effect.
type ConfigCmd struct{}

func (ConfigCmd) Help() string {
	return `Checks all files of the settings, and prints them as TOML with every default. What may be a
secret is not shown.`
}

// Run checks the settings, all files of them, and shows them with every default.
func (c *ConfigCmd) Run(g *Globals, t *terminal.Terminal) error {
	cfg, err := readConfig(g)
	if err != nil {
		return err
	}

	if t.Format == terminal.CSV {
		return usage("settings have no rows; leave -o out for TOML, or use -o json or -o yaml")
	}

	var text bytes.Buffer
	if err := toml.NewEncoder(&text).Encode(cfg.Redacted()); err != nil {
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
