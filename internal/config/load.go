package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Load reads the file at path and conf.d/*.toml beside it. A missing file is an
// error that wraps fs.ErrNotExist; bad settings are one error that joins them all, and so are
// files that others own or could replace.
func Load(path string) (*Config, error) {
	c := Default()
	c.Path = path
	errs := decode(path, c)
	if len(errs) == 1 && errors.Is(errs[0], fs.ErrNotExist) {
		return nil, fmt.Errorf("reading settings: %w; `pcs-capacity setup` writes the file, --config names another", errs[0])
	}
	for i := range c.Partitions {
		c.Partitions[i].File = path
	}
	more, err := filepath.Glob(filepath.Join(filepath.Dir(path), "conf.d", "*.toml"))
	if err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, trust(path, more)...)
	for _, file := range more {
		var fragment struct {
			Partitions []capacity.PartitionSettings `toml:"partition"`
		}
		errs = append(errs, decode(file, &fragment)...)
		for _, p := range fragment.Partitions {
			p.File = file
			c.Partitions = append(c.Partitions, p)
		}
	}
	for i := range c.Partitions {
		applyDefaults(&c.Partitions[i])
	}
	if len(errs) == 0 {
		errs = c.validate()
	}
	return c, errors.Join(errs...)
}

// decode reads one file into the value, strictly.
func decode(path string, into any) []error {
	text, err := os.ReadFile(path)
	if err != nil {
		return []error{err}
	}
	return decodeText(path, string(text), into)
}

// decodeText decodes the text of the file at path.
func decodeText(path, text string, into any) []error {
	meta, err := toml.Decode(text, into)
	if err != nil {
		var parse toml.ParseError
		if errors.As(err, &parse) {
			// At the end of the file the library may give the number of the line before or
			// after, even if there is none.
			line := min(max(parse.Position.Line, 1), strings.Count(text, "\n")+1)
			return []error{fmt.Errorf("%s:%d: %s", path, line, parse.Message)}
		}
		return []error{fmt.Errorf("%s: %w", path, err)}
	}
	var errs []error
	for _, key := range meta.Undecoded() {
		errs = append(errs, unknownKey(path, text, key, into))
	}
	return errs
}
