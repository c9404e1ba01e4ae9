// Package hookinstall tells Slurm to run our hooks, for `pcs-capacity hooks install` and `remove`: the Lua scripts
// (scripts.go), and the settings that name them (settings.go, include.go). restart.go restarts slurmctld where a
// setting demands it, and puts the former files back if it does not start.
//
// What is to be written is shown as a plan first. It can be killed at any point and run again (R5): a script is there
// before the setting that needs it, and goes after it. Only files that begin with [Header] are changed or removed (R9),
// and one line at the end of the site's slurm.conf and gres.conf is ours.
package hookinstall

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/google/renameio/v2"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// Header begins the first line of all that we write into the folder of slurm.conf; what
// lacks it is never changed or removed.
const Header = "Written by `pcs-capacity hooks install`"

// World has the calls that changes make beside the files that they write.
type World interface {
	Systemctl(ctx context.Context, args ...string) error
	ChangeClusterSettings(ctx context.Context, cluster string, change map[string]string) error
	// CheckUnused returns an error while Slurm runs the script of a hook; with waits it asks again for the time that a
	// restart of slurmctld takes.
	CheckUnused(ctx context.Context, hook string, waits bool) error
}

// Change is an action with what a plan shows of it. Its code is write, remove, set or restart, and its text begins with
// it: "write /etc/slurm/job_submit.lua".
type Change struct {
	capacity.Action[World]

	Diff string // has a line for each that comes (+) and goes (-)

	undo func() error // puts a file back; nil for what is no file
}

// Plan has the changes, in this order.
type Plan struct {
	World   World
	Changes []Change
	ByHand  []string // lists the steps left to a person, a sentence each

	err error // the first error of planning; what follows it plans nothing
}

// Apply makes the changes. The first that fails ends it, and all before it stay. Only where slurmctld does not start
// with them, the former files go back, and it is started again.
func (p Plan) Apply(ctx context.Context, done func(Change)) error {
	for i, c := range p.Changes {
		if err := ctx.Err(); err != nil {
			return err
		}

		err := c.Do(ctx, p.World)

		// The cluster has no slurmctld now: that is put right even if the person has pressed Ctrl-C.
		var down *notStarted
		if errors.As(err, &down) {
			return down.restore(context.WithoutCancel(ctx), p.World, p.Changes[:i])
		}

		if err != nil {
			return fmt.Errorf("%s: %w; run this again to continue", c.Text, err)
		}

		done(c)
	}

	return nil
}

// Restarts reports whether slurmctld is restarted.
func (p Plan) Restarts() bool {
	return slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Code == "restart" })
}

// add plans a change, and returns it.
func (p *Plan) add(code, what string, do func(ctx context.Context, w World) error) *Change {
	p.Changes = append(p.Changes, Change{Action: capacity.Action[World]{Code: code, Text: code + " " + what, Do: do}})
	return &p.Changes[len(p.Changes)-1]
}

func (p *Plan) addByHand(sentence string, args ...any) {
	p.ByHand = append(p.ByHand, fmt.Sprintf(sentence, args...))
}

// isOurs reports whether a text is ours.
func isOurs(text string) bool {
	first, _, _ := strings.Cut(text, "\n")
	return strings.Contains(first, Header)
}

// read returns the text of a file; there is false without one, and after an error.
func (p *Plan) read(path string) (text string, there bool) {
	if p.err == nil {
		text, there, p.err = read(path)
	}
	return text, there && p.err == nil
}

// read returns the text of a file; there is false without one.
func read(path string) (text string, there bool, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}

	return string(b), err == nil, err
}

// write plans a file of ours.
func (p *Plan) write(path, text string) {
	// A file of the site's own stays, unless it already has what ours would.
	before, there := p.read(path)
	if there && before != text && !isOurs(before) {
		p.err = fmt.Errorf("%s: it was not written by pcs-capacity and is left as it is", path)
	}

	p.edit(path, before, text, "")
}

// remove plans the end of a file of ours. A script stays while Slurm runs its hook, which is "" for other files.
func (p *Plan) remove(path, hook string) {
	if before, _ := p.read(path); isOurs(before) {
		p.edit(path, before, "", hook)
	}
}

// edit plans a change of a file, which goes if nothing is left in it.
func (p *Plan) edit(path, before, text, hook string) {
	if before == text || p.err != nil {
		return
	}

	code := "write"
	if text == "" {
		code = "remove"
	}

	change := p.add(code, path, func(ctx context.Context, w World) error {
		if hook != "" {
			if err := w.CheckUnused(ctx, hook, true); err != nil {
				return err
			}
		}

		return replace(path, before, text)
	})
	change.undo = func() error { return replace(path, text, before) }
	if text != "" && filepath.Ext(path) != ".lua" { // nobody reads the lines of a program
		change.Diff = diff(before, text)
	}
}

// replace writes a file whole or not at all, with the mode and the owner that it had; a link stays one. A file without
// text goes. It fails if the file is no longer what the plan was made from.
func replace(path, before, text string) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}

	// Somebody may have edited the file while the plan was shown.
	now, there, err := read(path)
	switch {
	case err != nil:
		return err
	case now != before:
		return errors.New("it has changed since it was shown; run this again")
	case text == "" && there:
		return os.Remove(path)
	}

	// Slurm reads the file as SlurmUser, and users' commands as anybody.
	f, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithPermissions(0o644),
		renameio.IgnoreUmask(), renameio.WithExistingPermissions())
	if err != nil {
		return err
	}
	defer f.Cleanup() //nolint:errcheck // what is left of a file that was not written

	// The new file belongs to us; the old one may have been SlurmUser's.
	if info, err := os.Stat(path); err == nil {
		owner := info.Sys().(*syscall.Stat_t)
		mine := os.Geteuid()
		if int(owner.Uid) != mine || int(owner.Gid) != os.Getegid() {
			if err := f.Chown(int(owner.Uid), int(owner.Gid)); err != nil {
				return err
			}
		}
	}

	if _, err := f.WriteString(text); err != nil {
		return err
	}

	return f.CloseAtomicallyReplace()
}

// diff has the lines that go and those that come.
func diff(before, after string) (text string) {
	without := func(sign, lines, others string) {
		have := strings.Split(others, "\n")
		for line := range strings.Lines(lines) {
			line = strings.TrimSuffix(line, "\n")
			if !slices.Contains(have, line) {
				text += sign + line + "\n"
			}
		}
	}
	without("-", before, after)
	without("+", after, before)

	return text
}

// Plugin is the setting of a cluster that switches cli_filter.lua on: AWS PCS User Guide, "Slurm CLI filter plugins".
const Plugin, pluginKey, pluginValue = pluginKey + "=" + pluginValue, "CliFilterPlugins", "cli_filter/lua"

// SetPlugin plans the setting of a PCS cluster that runs cli_filter.lua, or its end.
func (p *Plan) SetPlugin(c pcs.Inventory, on bool) error {
	// An empty value takes a setting away; one without lua is not ours.
	change := map[string]string{}
	if on {
		change[pluginKey] = pluginValue
	} else if hasLua(strings.Split(c.Cluster.SlurmSettings[pluginKey], ",")) {
		change[pluginKey] = ""
	}

	// PCS shows settings that it is still applying.
	before := pcs.SettingsText(c.Cluster.SlurmSettings, "\n")
	after := pcs.SettingsText(pcs.ChangedSettings(c.Cluster.SlurmSettings, change), "\n")
	if before == after && c.Cluster.Status == pcs.Active {
		return nil
	}

	if why, fix := c.NotSettled(); why != "" {
		return fmt.Errorf("%s, and PCS changes the settings of a cluster only while everything in it is ACTIVE; %s",
			why, fix)
	}

	p.add("set", "PCS cluster "+c.Cluster.Name, func(ctx context.Context, w World) error {
		return w.ChangeClusterSettings(ctx, c.Cluster.Name, change)
	}).Diff = diff(before, after)

	return nil
}
