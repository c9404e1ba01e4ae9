package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Load reads the file at path and conf.d/*.toml beside it. A missing file is an error that wraps fs.ErrNotExist; bad
// settings are one error that joins them all, and so are files that others own or could replace.
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

// unknownKey says where a key stands that is not known, and which known key of the same table is nearest.
func unknownKey(path, text string, key toml.Key, into any) error {
	known := keysAt(reflect.TypeOf(into), key[:len(key)-1])
	last := key[len(key)-1]
	hint := ""
	if near := nearest(last, known); near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	} else if len(known) > 0 {
		hint = "; known here: " + strings.Join(known, ", ")
	}
	return fmt.Errorf("%s:%d: unknown key %q%s", path, lineOf(text, key), key.String(), hint)
}

// keysAt lists the toml keys of the table that a path leads to.
func keysAt(t reflect.Type, path toml.Key) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var names []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("toml"), ",")
		if name == "" || name == "-" {
			continue
		}
		if len(path) > 0 && path[0] == name {
			return keysAt(t.Field(i).Type, path[1:])
		}
		names = append(names, name)
	}
	if len(path) > 0 {
		return nil
	}
	return names
}

// lineOf finds the line of a key. The toml library keeps positions to itself, so this looks for the key's last part, as
// a key or in a table header, below the last header that names its table.
func lineOf(text string, key toml.Key) int {
	table, last := key[:len(key)-1].String(), key[len(key)-1]
	inTable := table == ""
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			header := strings.Trim(strings.SplitN(line, "#", 2)[0], "[] \t")
			if header == key.String() {
				return n + 1
			}
			inTable = header == table
			continue
		}
		if name, _, found := strings.Cut(line, "="); found {
			name = strings.Trim(strings.TrimSpace(name), `"'`)
			if inTable && name == last || name == key.String() || strings.Contains(line, last) && strings.HasPrefix(table, name) {
				return n + 1
			}
		}
	}
	return 1
}

// nearest is the known word that is at most a third of its letters away, or "".
func nearest(word string, known []string) string {
	best, bestDistance := "", len(word)/3+2
	for _, k := range known {
		if d := capacity.EditDistance(word, k); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}
