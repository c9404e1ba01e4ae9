package wiring

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Conf is what slurm.conf and its includes say, but for the one that we write.
type Conf struct {
	// values are by key in lower case, as Slurm compares them; of several the last counts.
	values map[string]string
	// Nodes and Partitions are those that have a line.
	Nodes, Partitions map[string]bool
	// Included: slurm.conf includes ours.
	Included bool
	text     string
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
	return c, c.read(filepath.Dir(path), string(text), 0)
}

func newConf() Conf {
	return Conf{values: map[string]string{}, Nodes: map[string]bool{}, Partitions: map[string]bool{}}
}

// deepest is how many files may include each other.
const deepest = 8

func (c *Conf) read(dir, text string, depth int) error {
	text = strings.ReplaceAll(text, "\\\n", " ")
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if len(words) > 1 && strings.EqualFold(words[0], "include") {
			if filepath.Base(words[1]) == IncludeFile {
				c.Included = true
				continue
			}
			if err := c.include(dir, words[1], depth); err != nil {
				return err
			}
			continue
		}
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
				c.Nodes[name] = true
			}
		case "partitionname":
			c.Partitions[first] = true
		default:
			c.values[key] = strings.Trim(value, `"`)
		}
	}
	return nil
}

func (c *Conf) include(dir, name string, depth int) error {
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) || depth == deepest {
		return nil // Slurm says so
	}
	if err != nil {
		return err
	}
	return c.read(dir, string(text), depth+1)
}

// Value is that of a key; "" if there is none.
func (c Conf) Value(key string) string { return c.values[strings.ToLower(key)] }

// list is a value that has commas.
func (c Conf) list(key string) []string {
	return strings.FieldsFunc(c.Value(key), func(r rune) bool { return r == ',' })
}
