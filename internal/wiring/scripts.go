package wiring

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/hooks/submit"
)

// Scripts of Slurm's Lua plugins.
const (
	CLIFilter = "cli_filter"
	JobSubmit = "job_submit"
)

// Script is one of them at its place.
type Script struct {
	Hook string
	// Path is where Slurm reads it.
	Path string
	// Text is our script.
	Text string
}

// beside is where ours is if the site has one of its own at Path.
func (s Script) beside() string {
	return filepath.Join(filepath.Dir(s.Path), "pcs-capacity-"+s.Hook+".lua")
}

// LoadLine is the line that the site's own script then has near its end.
func (s Script) LoadLine() string { return submit.LoadLine(s.beside()) }

// State is what there is at the place of a script or of settings.
type State string

// The states. Loaded: the site's own script loads ours. Old: it is not what this program
// would write. Foreign: it is the site's own, and does not load ours.
const (
	Installed State = "installed"
	Loaded    State = "loaded"
	Old       State = "old"
	Missing   State = "missing"
	Foreign   State = "foreign"
)

// State looks at the file. Without Text nothing is old.
func (s Script) State() (State, error) {
	text, there, err := read(s.Path)
	switch {
	case err != nil:
		return "", err
	case !there:
		return Missing, nil
	case marked(text):
		return s.current(text, Installed), nil
	}
	if ours, ok := loads(text); ok {
		return s.current(ours, Loaded), nil
	}
	return Foreign, nil
}

func (s Script) current(text []byte, good State) State {
	if s.Text != "" && withoutFilter(string(text)) != withoutFilter(s.Text) {
		return Old
	}
	return good
}

// filterPath matches the filter's path in a script, and nothing else.
var filterPath = regexp.MustCompile(`\blocal FILTER(, QUOTED_FILTER)? = "[^"]*"(, "[^"]*")?`)

// withoutFilter is a script without where the filter is: whoever looks may be another copy
// of the program, in another folder.
func withoutFilter(text string) string { return filterPath.ReplaceAllString(text, "") }

// loads is the script of ours that a site's own one names in the line that LoadLine gives.
func loads(text []byte) (ours []byte, ok bool) {
	path := loaded(text)
	if path == "" {
		return nil, false
	}
	ours, there, err := read(path)
	return ours, err == nil && there && marked(ours)
}

func loaded(text []byte) (path string) {
	for line := range strings.Lines(string(text)) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), `pcall(dofile, "`)
		if path, _, found := strings.Cut(rest, `"`); ok && found {
			return path
		}
	}
	return ""
}

// Install plans the script. One of the site's own stays: ours goes beside it, or where it
// is loaded from, and the line that loads it is left to a person, who knows where the
// site's script ends.
func (p *Plan) Install(s Script) error {
	err := p.Write(s)
	if !errors.Is(err, ErrForeign) {
		return err
	}
	text, _, err := read(s.Path)
	if err != nil {
		return err
	}
	if path := loaded(text); path != "" {
		return p.Write(Script{s.Hook, path, s.Text})
	}
	if err := p.Write(Script{s.Hook, s.beside(), s.Text}); err != nil {
		return err
	}
	p.ByHand = append(p.ByHand, fmt.Sprintf("%s is your own: make this its last line, or the last one before a final return:\n  %s", s.Path, s.LoadLine()))
	return nil
}

// Write plans the script at its place only; it fails with ErrForeign if the site has one.
// Nobody reads the diff of a program.
func (p *Plan) Write(s Script) error {
	before := len(p.Changes)
	err := p.write(s.Path, s.Text)
	if len(p.Changes) > before {
		p.Changes[before].Diff = ""
	}
	return err
}

// removedSuffix is where a script of ours goes that has other lines than we wrote.
const removedSuffix = ".removed"

// Remove plans the end of the script. A site's own that loads it works on without it; one that
// would not keeps it from being removed. off is asked right before the file goes, and its error
// keeps the file; nil asks nobody. With Text, a file that has other lines is renamed: they may
// be the site's.
func (p *Plan) Remove(s Script, off func(context.Context) error) error {
	text, there, err := read(s.Path)
	if err != nil {
		return err
	}
	path := s.Path
	if there && !marked(text) {
		path = s.beside()
		if to := loaded(text); to != "" {
			path = to
		}
		if demands(text, path) {
			return fmt.Errorf("%s does not run without %s; take the line that loads it out first", s.Path, path)
		}
		if loaded(text) != "" {
			p.ByHand = append(p.ByHand, fmt.Sprintf("take the line that loads %s out of %s", path, s.Path))
		}
	}
	if text, there, err = read(path); err != nil || !there || !marked(text) {
		return err
	}
	take := os.Remove
	if s.Text != "" && s.current(text, Installed) == Old {
		kept := path + removedSuffix
		take = func(path string) error { return os.Rename(path, kept) }
		p.ByHand = append(p.ByHand, fmt.Sprintf("%s has lines that this version does not write, and is kept as %s; delete it if none of them are yours", path, kept))
	}
	p.Changes = append(p.Changes, Change{"remove", path, "", func(ctx context.Context) error {
		if now, there, err := read(path); err != nil || !there || !marked(now) {
			return err
		}
		if off != nil {
			if err := off(ctx); err != nil {
				return err
			}
		}
		return take(path)
	}})
	return nil
}

// pcsRoot has a folder for each version of Slurm that AWS PCS has installed. From 25.11 on
// Slurm reads its script in the one without a version, which newer agents of PCS link: AWS
// PCS User Guide, "Slurm CLI filter plugins".
const pcsRoot = "/etc/aws/pcs/scheduler"

// Folders are where Slurm looks for its scripts on this host: the one given; else that of
// SLURM_CONF; else those of all versions of AWS PCS that are installed, since each reads its
// own; else /etc/slurm.
func Folders(given string) []string {
	if given != "" {
		return []string{given}
	}
	if conf := os.Getenv("SLURM_CONF"); conf != "" {
		return []string{filepath.Dir(conf)}
	}
	dirs := pcsFolders(pcsRoot)
	if len(dirs) == 0 {
		if _, err := os.Stat("/etc/slurm"); err == nil {
			dirs = []string{"/etc/slurm"}
		}
	}
	return dirs
}

// pcsFolders are those below a root, each once, whatever links there are.
func pcsFolders(root string) []string {
	versions, _ := filepath.Glob(filepath.Join(root, "slurm-*")) // the pattern is valid
	var dirs, seen []string
	for _, dir := range append(versions, filepath.Join(root, "slurm")) {
		real, err := filepath.EvalSymlinks(dir)
		if err == nil && !slices.Contains(seen, real) {
			dirs, seen = append(dirs, dir), append(seen, real)
		}
	}
	return dirs
}
