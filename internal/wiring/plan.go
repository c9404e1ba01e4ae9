// Package wiring tells Slurm to run our hooks: the Lua scripts, and the settings that name
// them. What is to be written is shown as a plan first. It can be killed at any point and
// run again (R5): a script is there before the setting that needs it, and goes after it.
// Only files with Mark in their first line are changed or removed (R9), and one line of the
// site's slurm.conf is ours.
package wiring

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
)

// Change is one step of a plan.
type Change struct {
	// Do is write, remove, set, drain or restart.
	Do string `json:"do"`
	// What is a path, a PCS cluster or a service.
	What string `json:"what"`
	// Diff has a line for each that comes (+) and goes (-).
	Diff string `json:"diff,omitempty"`

	do func(context.Context) error
}

// Plan has the steps, in this order.
type Plan struct {
	Changes []Change `json:"changes"`
	// Warnings are points to consider before the steps, a sentence each.
	Warnings []string `json:"warnings,omitempty"`
	// ByHand lists the steps left to a person, a sentence each.
	ByHand []string `json:"by_hand,omitempty"`
	// Ends are the jobs that end with nodes and partitions that go.
	Ends []string `json:"ends,omitempty"`
}

// Apply makes the changes. The first that fails ends it; all before it stay.
func (p Plan) Apply(ctx context.Context, done func(Change)) error {
	for _, c := range p.Changes {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.do(ctx); err != nil {
			return fmt.Errorf("%s %s: %w", c.Do, c.What, err)
		}
		done(c)
	}
	return nil
}

// has reports whether anything of the plan is done so.
func (p Plan) has(do string) bool {
	for _, c := range p.Changes {
		if c.Do == do {
			return true
		}
	}
	return false
}

// Restarts reports whether slurmctld is restarted.
func (p Plan) Restarts() bool { return p.has("restart") }

// marked reports whether a text is ours.
func marked(text []byte) bool {
	first, _, _ := strings.Cut(string(text), "\n")
	return strings.Contains(first, Mark)
}

// read is the text of a file; there is false without one.
func read(path string) (text []byte, there bool, err error) {
	text, err = os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	return text, err == nil, err
}

// ErrForeign is returned for a file of the site where ours has to be.
var ErrForeign = errors.New("it was not written by pcs-capacity and is left as it is")

// write plans a file of ours.
func (p *Plan) write(path, text string) error {
	before, there, err := read(path)
	switch {
	case err != nil:
		return err
	case there && string(before) == text:
		return nil
	case there && !marked(before):
		return fmt.Errorf("%s: %w", path, ErrForeign)
	}
	p.Changes = append(p.Changes, Change{"write", path, diff(string(before), text), func(context.Context) error { return replace(path, string(before), text) }})
	return nil
}

// remove plans the end of a file of ours.
func (p *Plan) remove(path string) error {
	before, there, err := read(path)
	if err != nil || !there || !marked(before) {
		return err
	}
	p.Changes = append(p.Changes, Change{"remove", path, "", func(context.Context) error {
		if now, there, err := read(path); err != nil || !there || !marked(now) {
			return err
		}
		return os.Remove(path)
	}})
	return nil
}

// edit plans a change of a file of the site's.
func (p *Plan) edit(path, before, text string) {
	if before != text {
		p.Changes = append(p.Changes, Change{"write", path, diff(before, text), func(context.Context) error { return replace(path, before, text) }})
	}
}

// replace writes a file whole or not at all, with the mode and the owner that it had; a
// link stays one. It fails if the file is no longer what the plan was made from.
func replace(path, before, text string) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	now, there, err := read(path)
	if err != nil {
		return err
	}
	if string(now) != before {
		return errors.New("it has changed since it was shown; run this again")
	}
	options := []renameio.Option{renameio.WithTempDir(filepath.Dir(path)), renameio.WithPermissions(0o644), renameio.IgnoreUmask(), renameio.WithExistingPermissions()}
	f, err := renameio.NewPendingFile(path, options...)
	if err != nil {
		return err
	}
	defer f.Cleanup() //nolint:errcheck // what is left of a file that was not written
	if there {
		if err := keepOwner(f.File, path); err != nil {
			return err
		}
	}
	if _, err := f.WriteString(text); err != nil {
		return err
	}
	return f.CloseAtomicallyReplace()
}

// diff has the lines that differ, between those that are the same at begin and end, with
// one of these on each side.
func diff(before, after string) string {
	old, now := lines(before), lines(after)
	same := 0
	for same < min(len(old), len(now)) && old[same] == now[same] {
		same++
	}
	tail := 0
	for tail < min(len(old), len(now))-same && old[len(old)-1-tail] == now[len(now)-1-tail] {
		tail++
	}
	var b strings.Builder
	put := func(sign string, some []string) {
		for _, line := range some {
			fmt.Fprintf(&b, "%s%s\n", sign, line)
		}
	}
	put(" ", old[max(0, same-1):same])
	put("-", old[same:len(old)-tail])
	put("+", now[same:len(now)-tail])
	put(" ", old[len(old)-tail:min(len(old), len(old)-tail+1)])
	return b.String()
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}
