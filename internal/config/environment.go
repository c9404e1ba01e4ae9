package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// EnvironmentPath is the file beside the settings that has the environment of hooks: Slurm hands
// them none of its own.
func EnvironmentPath(settings string) string {
	return filepath.Join(filepath.Dir(settings), "environment")
}

// variable is a line of that file, as systemd's EnvironmentFile= takes it, without continuation.
var variable = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)=(.*)$`)

// LoadEnvironment sets the variables that the file at path has and this process has not. No file
// is no error. As with settings, one that others can write is not read.
func LoadEnvironment(path string) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if errs := trust(path, nil); len(errs) > 0 {
		return fmt.Errorf("%s is not read: %w", path, errors.Join(errs...))
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		pair := variable.FindStringSubmatch(line)
		if pair == nil {
			return fmt.Errorf("line %d of %s is not KEY=VALUE", number, path)
		}
		if _, has := os.LookupEnv(pair[1]); has {
			continue
		}
		if err := os.Setenv(pair[1], unquoted(pair[2])); err != nil {
			return fmt.Errorf("line %d of %s: %w", number, path, err)
		}
	}
	return nil
}

// unquoted is a value without the quotes around it.
func unquoted(value string) string {
	if n := len(value); n > 1 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		return value[1 : n-1]
	}
	return value
}
