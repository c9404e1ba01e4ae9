package config

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// unknownKey says where a key stands that is not known, and which known key of the
// same table is nearest.
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

// lineOf finds the line of a key. The toml library keeps positions to itself, so
// this looks for the key's last part, as a key or in a table header, below the
// last header that names its table.
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
