package hookinstall

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/hooks/submit"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Scripts of Slurm's Lua plugins.
const (
	CLIFilter = "cli_filter"
	JobSubmit = "job_submit"
)

// Script is one of them at its place.
type Script struct {
	Hook string
	Path string // where Slurm reads it
	Text string // our script
}

// sibling returns the path of our script if the site has one of its own at Path.
func (s Script) sibling() string {
	return filepath.Join(filepath.Dir(s.Path), "pcs-capacity-"+s.Hook+".lua")
}

// State classifies what there is at the place of a script or of settings.
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

// filterPath matches the filter's path in a script, and nothing else: whoever looks may be another
// copy of the program, in another folder.
var filterPath = regexp.MustCompile(`\blocal FILTER(, QUOTED_FILTER)? = "[^"]*"(, "[^"]*")?`)

// State looks at the file. Without Text nothing is old.
func (s Script) State() (State, error) {
	text, there, err := read(s.Path)
	if err != nil || !there {
		return Missing, err
	}

	// Beside a script of the site's own, ours counts only if that one loads it.
	good := Installed
	if !isOurs(text) {
		good = Loaded

		loads := s.isLoadedBy(text)
		text, _, err = read(s.sibling())
		if err != nil || !loads || !isOurs(text) {
			return Foreign, nil
		}
	}

	if s.Text != "" && filterPath.ReplaceAllString(text, "") != filterPath.ReplaceAllString(s.Text, "") {
		return Old, nil
	}

	return good, nil
}

// isLoadedBy reports whether a site's own script names ours in a line that is no comment.
func (s Script) isLoadedBy(site string) bool {
	for line := range strings.Lines(site) {
		if code, _, _ := strings.Cut(line, "--"); strings.Contains(code,
			strings.TrimSuffix(filepath.Base(s.sibling()), ".lua")) {
			return true
		}
	}

	return false
}

// Install plans the script. One of the site's own stays: ours goes beside it, and the line that loads
// it is left to a person, who knows where the site's script ends.
func (p *Plan) Install(s Script) error {
	site, there := p.read(s.Path)
	path := s.Path
	if there && !isOurs(site) {
		path = s.sibling()
		if !s.isLoadedBy(site) {
			p.addByHand("%s is your own; make this its last line before any final return:\n  %s", s.Path,
				submit.LoadLine(path))
		}
	}

	p.write(path, s.Text)

	return p.err
}

// Remove plans the end of the script. It stays while a site's own one names it: some would not run without it, and
// Slurm would refuse every submission. So it would while it runs the script, which is asked right before the file goes,
// and at once where nothing before it in the plan may end that.
func (p *Plan) Remove(ctx context.Context, s Script) error {
	path := s.Path
	if site, there := p.read(path); there && !isOurs(site) {
		path = s.sibling()
		if s.isLoadedBy(site) {
			p.addByHand("remove the line that loads %s from %s, and run this again", path, s.Path)
			return p.err
		}
	}

	if ours, _ := p.read(path); isOurs(ours) && len(p.Changes) == 0 {
		p.err = p.World.CheckUnused(ctx, s.Hook, false)
	}

	p.remove(path, s.Hook)

	return p.err
}

// hasLua reports whether lua is among plugins, each of which may have its kind before it: cli_filter/lua.
func hasLua(plugins []string) bool {
	return slices.ContainsFunc(plugins,
		func(name string) bool { return filepath.Base(strings.TrimSpace(name)) == "lua" })
}

// CheckHookOff returns an error that refuses to remove the script of a hook that Slurm runs: slurmctld does, of which
// running is what it says (zero if it does not answer), or slurm.conf does.
func (s SlurmConf) CheckHookOff(hook string, running slurm.Config) error {
	key := "CliFilterPlugins"
	plugins := running.CliFilterPlugins
	who := ""

	if hook == JobSubmit {
		key = "JobSubmitPlugins"
		plugins = running.JobSubmitPlugins
	}

	// What runs comes first; slurm.conf says what the next start of slurmctld will run.
	switch {
	case hasLua(plugins):
		who = fmt.Sprintf("slurmctld has %s=lua", key)
	case hasLua(s.list(key)):
		who = fmt.Sprintf("%s has %s=lua", s.Path, key)
	case hook == JobSubmit && s.Included:
		who = fmt.Sprintf("%s includes %s, with %s=lua", s.Path, IncludeFile, key)
	default:
		return nil
	}

	return fmt.Errorf(
		"%s, and Slurm refuses every submission without the script; remove lua first (`pcs-capacity hooks remove "+
			"settings` does, if install wrote it), and restart slurmctld",
		who)
}

// ScriptPaths lists where Slurm reads the script of a hook on this host; dirs are its folders of slurm.conf.
// running is what slurmctld says, nil if it does not answer; then slurm.conf counts.
func ScriptPaths(hook string, running *slurm.Config, dirs []string) (paths []string) {
	for _, dir := range dirs {
		path := filepath.Join(dir, hook+".lua")
		named := ""
		if running != nil {
			named = running.CliFilterScript
		} else if site, err := ReadSlurmConf(filepath.Join(dir, "slurm.conf")); err == nil {
			named = slurm.CLIFilterScript(site.value("CliFilterParameters"))
		}

		if named != "" && hook == CLIFilter {
			path = named
		}

		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}

	return paths
}

// pcsRoot has a folder for each version of Slurm that AWS PCS has installed. From 25.11 on Slurm reads its script in
// the one without a version, which newer agents of PCS link: AWS PCS User Guide, "Slurm CLI filter plugins".
const pcsRoot = "/etc/aws/pcs/scheduler"

// Folders lists where Slurm looks for its scripts on this host: that of SLURM_CONF; else those of all
// versions of AWS PCS that are installed, since each reads its own; else /etc/slurm.
func Folders() []string {
	if conf := os.Getenv("SLURM_CONF"); conf != "" {
		return []string{filepath.Dir(conf)}
	}

	// A host of AWS PCS may have an /etc/slurm that nothing reads.
	dirs := pcsFolders(pcsRoot)
	if _, err := os.Stat("/etc/slurm"); err == nil && len(dirs) == 0 {
		dirs = []string{"/etc/slurm"}
	}

	return dirs
}

// pcsFolders lists those below a root, each once, whatever links there are.
func pcsFolders(root string) []string {
	versions, _ := filepath.Glob(filepath.Join(root, "slurm-*")) // the pattern is valid

	var dirs, seen []string
	for _, dir := range append(versions, filepath.Join(root, "slurm")) {
		real, err := filepath.EvalSymlinks(dir)
		if err == nil && !slices.Contains(seen, real) {
			dirs = append(dirs, dir)
			seen = append(seen, real)
		}
	}

	return dirs
}
