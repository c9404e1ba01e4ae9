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

	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// Header begins the first line of all that we write into the folder of slurm.conf; what
// lacks it is never changed or removed.
const Header = "Written by `pcs-capacity hooks install`"

// Change is one step of a plan.
type Change struct {
	Do   string // write, remove, set or restart
	What string // a path, a PCS cluster or a service
	Diff string // Diff has a line for each that comes (+) and goes (-)

	do   func(context.Context) error
	undo func() error // puts a file back; nil for what is no file
}

// Plan has the steps, in this order.
type Plan struct {
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

		err := c.do(ctx)

		var down *notStarted
		if errors.As(err, &down) {
			return down.restore(context.WithoutCancel(ctx), p.Changes[:i])
		}

		if err != nil {
			return fmt.Errorf("%s %s: %w; run this again to continue", c.Do, c.What, err)
		}

		done(c)
	}

	return nil
}

// Restarts reports whether slurmctld is restarted.
func (p Plan) Restarts() bool {
	return slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Do == "restart" })
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
	before, there := p.read(path)
	if there && before != text && !isOurs(before) {
		p.err = fmt.Errorf("%s: it was not written by pcs-capacity and is left as it is", path)
	}

	p.edit(path, before, text, nil)
}

// remove plans the end of a file of ours.
func (p *Plan) remove(path string, runs func(ctx context.Context, waits bool) error) {
	if before, _ := p.read(path); isOurs(before) {
		p.edit(path, before, "", runs)
	}
}

// edit plans a change of a file, which goes if nothing is left in it, unless what runs it keeps it then.
func (p *Plan) edit(path, before, text string, runs func(ctx context.Context, waits bool) error) {
	if before == text || p.err != nil {
		return
	}

	change := Change{
		Do:   "write",
		What: path,
		do: func(ctx context.Context) error {
			if runs != nil {
				if err := runs(ctx, true); err != nil {
					return err
				}
			}

			return replace(path, before, text)
		},
		undo: func() error { return replace(path, text, before) },
	}
	if text == "" {
		change.Do = "remove"
	} else if filepath.Ext(path) != ".lua" { // nobody reads that of a program
		change.Diff = diff(before, text)
	}

	p.Changes = append(p.Changes, change)
}

// replace writes a file whole or not at all, with the mode and the owner that it had; a link stays one. A file without
// text goes. It fails if the file is no longer what the plan was made from.
func replace(path, before, text string) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}

	now, there, err := read(path)
	switch {
	case err != nil:
		return err
	case now != before:
		return errors.New("it has changed since it was shown; run this again")
	case text == "" && there:
		return os.Remove(path)
	}

	f, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithPermissions(0o644),
		renameio.IgnoreUmask(), renameio.WithExistingPermissions())
	if err != nil {
		return err
	}
	defer f.Cleanup() //nolint:errcheck // what is left of a file that was not written

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

// SetPlugin plans the setting of a PCS cluster that runs cli_filter.lua, or its end; do changes it.
func (p *Plan) SetPlugin(c pcs.Inventory, on bool, do func(ctx context.Context, change map[string]string) error) error {
	change := map[string]string{}
	if on {
		change[pluginKey] = pluginValue
	} else if hasLua(strings.Split(c.Cluster.SlurmSettings[pluginKey], ",")) {
		change[pluginKey] = ""
	}

	before := pcs.SettingsText(c.Cluster.SlurmSettings, "\n")
	after := pcs.SettingsText(pcs.ChangedSettings(c.Cluster.SlurmSettings, change), "\n")
	if before == after && c.Cluster.Status == pcs.Active {
		return nil
	}

	if why, fix := c.NotSettled(); why != "" {
		return fmt.Errorf("%s, and PCS changes the settings of a cluster only while everything in it is ACTIVE; %s",
			why, fix)
	}

	p.Changes = append(p.Changes, Change{
		Do:   "set",
		What: "PCS cluster " + c.Cluster.Name,
		Diff: diff(before, after),
		do:   func(ctx context.Context) error { return do(ctx, change) },
	})

	return nil
}
