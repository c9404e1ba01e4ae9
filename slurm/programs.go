package slurm

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
)

// pcsPrograms has a folder slurm-X.Y for each release that AWS PCS has installed. It installs several side by side, and
// its profile puts the oldest first into PATH, which may not understand the settings of a newer one.
var pcsPrograms = "/opt/aws/pcs/scheduler"

// IncludeFile names the file that `hooks install` writes beside slurm.conf, which includes it.
const IncludeFile = "pcs-capacity.conf"

// ProgramHints collects the hints about where Slurm's programs are. Folders puts them in order.
type ProgramHints struct {
	Release  string   // the folder of the PCS cluster's release; "" if it is not on PCS, or not known
	Path     []string // the entries of PATH. slurmctld starts its programs without one.
	Parent   string   // the executable of the parent process
	Recorded string   // the folder that `hooks install` wrote down
	PCS      []string // the folders of AWS PCS
}

// usualFolders have Slurm's programs on most hosts.
var usualFolders = []string{"/usr/bin", "/usr/local/bin", "/opt/slurm/bin"}

// Folders lists where to look for Slurm's programs, in this order: the PCS cluster's release; PATH; the folder of the
// slurmctld whose program this is; what was written down; the usual ones; the newest of PCS.
func (p ProgramHints) Folders() (all []string) {
	add := func(folders ...string) {
		for _, folder := range folders {
			if filepath.IsAbs(folder) && !slices.Contains(all, folder) { // a relative one would depend on where we run
				all = append(all, folder)
			}
		}
	}
	add(p.Release)
	add(p.Path...)

	if daemon, _ := strings.CutSuffix(p.Parent, " (deleted)"); isController(daemon) {
		add(filepath.Join(filepath.Dir(daemon), "../bin"))
	}

	add(p.Recorded)
	add(usualFolders...)

	newest := slices.Clone(p.PCS)
	slices.SortFunc(newest, func(a, b string) int { return hostlist.NaturalCompare(b, a) })
	add(newest...)

	return all
}

// isController: slurmctld, which Debian installs as slurmctld-wlm, or its process for scripts.
func isController(executable string) bool {
	name, _ := strings.CutSuffix(filepath.Base(executable), "-wlm")
	return name == "slurmctld" || name == "slurmscriptd"
}

// IsUsualFolder reports whether every program of ours looks in a folder by itself.
func IsUsualFolder(folder string) bool { return slices.Contains(usualFolders, folder) }

// folderPrefix begins the line of IncludeFile that has the folder of Slurm's programs.
const folderPrefix = "# Slurm's programs are in "

// FolderLine returns the line of IncludeFile that says where Slurm's programs are, for what slurmctld starts without a
// PATH.
func FolderLine(folder string) string { return folderPrefix + folder + "\n" }

// RecordedFolder returns the folder that IncludeFile beside the slurm.conf names; "" if none.
func RecordedFolder(conf string) string { return includedValue(conf, folderPrefix) }

// includedValue returns the rest of the line of IncludeFile that begins with word; "" if no line does.
func includedValue(conf, word string) string {
	text, err := os.ReadFile(filepath.Join(filepath.Dir(conf), IncludeFile))
	if err != nil {
		return ""
	}

	return valueAfter(string(text), word)
}

func valueAfter(text, word string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, word); ok {
			return strings.TrimSpace(rest)
		}
	}

	return ""
}

// IncludedNodes returns the nodes that IncludeFile beside the slurm.conf defines.
func IncludedNodes(conf string) (names []string) {
	text, _ := os.ReadFile(filepath.Join(filepath.Dir(conf), IncludeFile))
	for line := range strings.Lines(string(text)) {
		list, is := strings.CutPrefix(line, "NodeName=")
		if !is {
			continue
		}

		list, _, _ = strings.Cut(list, " ")
		some, _ := hostlist.Expand(list) // hooks install wrote it
		names = append(names, some...)
	}

	return names
}

// DefaultConf is slurm.conf where SLURM_CONF names none.
const DefaultConf = "/etc/slurm/slurm.conf"

// programHints looks at this process and this host.
func (c *Client) programHints(ctx context.Context) ProgramHints {
	conf := cmp.Or(c.Conf, os.Getenv("SLURM_CONF"), DefaultConf)
	p := ProgramHints{Path: filepath.SplitList(os.Getenv("PATH")), Recorded: RecordedFolder(conf), PCS: pcsFolders()}
	p.Parent, _ = os.Readlink(fmt.Sprintf("/proc/%d/exe", os.Getppid())) // "" without the right to see it
	if c.PCS {
		p.Release = c.releaseFolder(ctx, p.PCS)
	}

	return p
}

// pcsFolders lists the folders of all releases that AWS PCS has installed.
func pcsFolders() []string {
	found, _ := filepath.Glob(filepath.Join(pcsPrograms, "slurm-*", "bin", "scontrol")) // the pattern is valid
	for i, path := range found {
		found[i] = filepath.Dir(path)
	}

	return found
}

// PCSFolder returns the folder in which AWS PCS has installed a release such as "25.11"; "" if it has not.
func PCSFolder(release string) string {
	dir := filepath.Join(pcsPrograms, "slurm-"+release, "bin")
	if _, err := os.Stat(filepath.Join(dir, "scontrol")); err != nil {
		return ""
	}

	return dir
}

// releaseFolder returns the folder of the release that the PCS cluster runs. Where there are several,
// slurmctld is asked which release it is, by the oldest programs first: it understands older
// ones and refuses newer ones. "" if it does not answer.
func (c *Client) releaseFolder(ctx context.Context, folders []string) string {
	if len(folders) < 2 {
		return strings.Join(folders, "")
	}

	if known := c.folder.Load(); known != nil {
		return *known
	}

	slices.SortFunc(folders, hostlist.NaturalCompare)

	for _, folder := range folders {
		var out bytes.Buffer

		err := c.start(ctx, &out, nil, filepath.Join(folder, "scontrol"), "show", "config")
		if err == nil {
			running, err := parseConfig(out.Bytes())
			if err != nil {
				continue
			}

			if of := PCSFolder(running.Version.Release()); of != "" {
				folder = of
			}

			c.folder.Store(&folder)

			return folder
		}

		if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) ||
			strings.Contains(err.Error(), "Unable to contact") {
			break // no release would get an answer
		}
	}

	return ""
}

// Folder returns the folder from which this client runs Slurm's programs.
func (c *Client) Folder(ctx context.Context) (string, error) {
	path, err := c.findProgram(ctx, "scontrol")
	return filepath.Dir(path), err
}

// HookFolder returns the folder in which a program that slurmctld starts, without a PATH, finds scontrol. conf is
// slurmctld's slurm.conf, daemon its executable ("" if it is not known).
func HookFolder(conf, daemon string) (string, error) {
	path, err := findIn(ProgramHints{Parent: daemon, Recorded: RecordedFolder(conf), PCS: pcsFolders()}.Folders(),
		"scontrol")
	if err != nil {
		return "", err
	}

	return filepath.Dir(path), nil
}

// DaemonPath returns the executable of the slurmctld that runs on this host; "" if none does, or if
// those of several are different.
func DaemonPath() string {
	executables, _ := filepath.Glob("/proc/[0-9]*/exe") // the pattern is valid

	var one string
	for _, link := range executables {
		path, err := os.Readlink(link)
		if err != nil || !isController(path) {
			continue
		}

		if one != "" && one != path {
			return ""
		}

		one = path
	}

	return one
}
