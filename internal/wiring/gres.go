package wiring

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// GresFile is our file in slurm.conf's folder, and gresLine the line with which the site's
// gres.conf reads it. slurmctld hands both out to nodes that ask it for slurm.conf; gres.conf of an
// image is not read then.
const (
	GresFile = "pcs-capacity-gres.conf"
	gresLine = "Include " + GresFile
)

// Gres has the settings of gres.conf, but for the file that we write.
type Gres struct {
	// Included: gres.conf includes ours.
	Included bool
	// nodes are those that have a line for GPUs; all is one that holds for every node.
	nodes map[string]bool
	all   bool
	// detects is the AutoDetect for the nodes without one of their own; "" if it is off.
	detects string
	text    string
}

// ReadGres reads gres.conf at path, which need not be there, and what it includes.
func ReadGres(path string) (Gres, error) {
	g := Gres{nodes: map[string]bool{}}
	text, _, err := read(path)
	if err != nil {
		return g, err
	}
	g.text = string(text)
	return g, g.read(filepath.Dir(path), g.text)
}

func (g *Gres) read(dir, text string) error {
	return eachLine(dir, text, GresFile, &g.Included, 0, func(words []string) error {
		options := map[string]string{}
		for _, word := range words {
			key, value, _ := strings.Cut(word, "=")
			options[strings.ToLower(key)] = value
		}
		nodes, some := options["nodename"]
		switch {
		case some && (options["name"] == "gpu" || options["autodetect"] != ""):
			names, err := slurm.Expand(nodes)
			if err != nil {
				return err
			}
			for _, name := range names {
				g.nodes[name] = true
			}
		case !some && options["name"] == "gpu":
			g.all = true
		case !some && options["autodetect"] != "":
			if g.detects = options["autodetect"]; strings.EqualFold(g.detects, "off") {
				g.detects = ""
			}
		}
		return nil
	})
}

// Gres is the text of GresFile, "" if none of our nodes needs it, and what a person has to do
// beside it. It names the files: Slurm takes no AutoDetect for nodes with State=CLOUD, not even
// one that gres.conf has for all nodes, and slurmctld does not start with it (gres.conf(5)).
func (in Include) Gres(site Gres) (text string, notes []string) {
	var b strings.Builder
	for _, g := range in.groups() {
		t := in.Types[g.InstanceType]
		left := slices.DeleteFunc(in.names(g), func(name string) bool { return site.nodes[name] })
		if t.GPUs == 0 || len(left) == 0 {
			continue
		}
		list := slurm.Compress(left)
		switch {
		case site.all:
			notes = append(notes, "gres.conf has a line with Name=gpu and no NodeName, which holds for "+list+" as well: give it the NodeName of your own nodes, and run this again")
		case t.GPUFiles == "":
			notes = append(notes, fmt.Sprintf("write a line for the %d GPUs of %s (%s) into gres.conf: which files they have is not known", t.GPUs, list, g.InstanceType))
		default:
			fmt.Fprintf(&b, "NodeName=%s AutoDetect=off Name=gpu File=%s[0-%d]\n", list, t.GPUFiles, t.GPUs-1)
		}
	}
	if b.Len() == 0 {
		return "", notes
	}
	return "# " + Mark + "; do not edit, it is written anew.\n" + b.String(), notes
}

// exempt refuses to take nodes that slurm.conf has itself out of GresFile, which becomes after, while gres.conf detects
// GPUs on all nodes: slurmctld would not start.
func (s Settings) exempt(site Conf, after string) error {
	gres, err := ReadGres(s.beside("gres.conf"))
	if err != nil || !gres.Included || gres.detects == "" {
		return err
	}
	was, err := ReadGres(s.beside(GresFile))
	if err != nil {
		return err
	}
	is := Gres{nodes: map[string]bool{}}
	if err := is.read("", after); err != nil {
		return err
	}
	lost := slices.DeleteFunc(slices.Sorted(maps.Keys(was.nodes)), func(name string) bool { return !site.Nodes[name] || is.nodes[name] || gres.nodes[name] })
	if len(lost) == 0 {
		return nil
	}
	list := slurm.Compress(lost)
	return fmt.Errorf("slurm.conf has %s itself, and gres.conf has AutoDetect=%s for all nodes, with which slurmctld does not start once %s no longer exempts them; take these nodes out of slurm.conf, or write `NodeName=%s AutoDetect=off` into gres.conf",
		list, gres.detects, GresFile, list)
}

// withoutLine is a text without the lines that include a file.
func withoutLine(text, file string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 2 || !strings.EqualFold(words[0], "include") || words[1] != file {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// withLine is a text with a line at its end.
func withLine(text, line string) string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + line + "\n"
}
