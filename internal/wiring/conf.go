package wiring

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Conf has the settings of slurm.conf and its includes, but for the one that we write.
type Conf struct {
	// values are by key in lower case, as Slurm compares them; of several the last counts.
	values map[string]string
	// Nodes are the nodes that have a line.
	Nodes map[string]bool
	// Partitions are those that have a line, with its options by key in lower case. What
	// PartitionName=DEFAULT says is in all that follow it, and under its own name.
	Partitions map[string]map[string]string
	// Included: slurm.conf includes ours.
	Included bool
	// later are the keys that have a line after ours is included, so that ours does not count.
	later map[string]bool
	text  string
}

// ReadConf reads slurm.conf at path, and what it includes. It fails on names of nodes that
// cannot be told apart, since a node with two lines keeps slurmctld from starting.
func ReadConf(path string) (Conf, error) {
	c := newConf()
	text, err := os.ReadFile(path)
	if err != nil {
		return c, err
	}
	c.text = string(text)
	return c, c.read(filepath.Dir(path), string(text))
}

func newConf() Conf {
	return Conf{values: map[string]string{}, Nodes: map[string]bool{}, Partitions: map[string]map[string]string{}, later: map[string]bool{}}
}

// deepest is how many files may include each other.
const deepest = 8

// eachLine hands do the words of each line of a text of Slurm's configuration, and of the files
// that it includes, but for ours: included tells of that.
func eachLine(dir, text, ours string, included *bool, depth int, do func(words []string) error) error {
	text = strings.ReplaceAll(text, "\\\n", " ")
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
			continue
		case len(words) == 1 || !strings.EqualFold(words[0], "include"):
			if err := do(words); err != nil {
				return err
			}
			continue
		case filepath.Base(words[1]) == ours:
			*included = true
			continue
		}
		name := words[1]
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) || depth == deepest {
			continue // Slurm says so
		}
		if err == nil {
			err = eachLine(dir, string(text), ours, included, depth+1, do)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Conf) read(dir, text string) error {
	return eachLine(dir, text, IncludeFile, &c.Included, 0, func(words []string) error {
		key, value, _ := strings.Cut(strings.Join(words, " "), "=")
		key, value = strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)
		first, _, _ := strings.Cut(value, " ")
		switch key {
		case "nodename":
			names, err := slurm.Expand(first)
			if err != nil {
				return err
			}
			for _, name := range names {
				if name != defaults {
					c.Nodes[name] = true
				}
			}
		case "partitionname":
			options := maps.Clone(c.Partitions[defaults])
			if options == nil {
				options = map[string]string{}
			}
			_, rest, _ := strings.Cut(value, " ")
			for _, word := range strings.Fields(rest) {
				key, value, _ := strings.Cut(word, "=")
				options[strings.ToLower(key)] = value
			}
			c.Partitions[first] = options
		default:
			c.values[key] = strings.Trim(value, `"`)
			c.later[key] = c.Included
		}
		return nil
	})
}

// defaults is the name on lines of NodeName and PartitionName that hold for those after them.
const defaults = "DEFAULT"

// Value is that of a key; "" if there is none.
func (c Conf) Value(key string) string { return c.values[strings.ToLower(key)] }

// list is a value that has commas.
func (c Conf) list(key string) []string {
	return strings.FieldsFunc(c.Value(key), func(r rune) bool { return r == ',' })
}
