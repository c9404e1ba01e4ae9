package hookinstall

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// service is slurmctld's unit of systemd.
const service = "slurmctld"

// startTime bounds the wait for slurmctld after a restart: before it answers, it resolves the names of its
// nodes, for up to 10 s each, and reads its state.
const startTime = 2 * time.Minute

// Slurmctld answers about its jobs and its configuration.
type Slurmctld interface {
	Jobs(ctx context.Context) ([]capacity.Job, error)
	Config(ctx context.Context) (slurm.Config, error)
}

// FindPlugin fails if Slurm on this host has no plugin that runs the hook's script. It looks into the PluginDir that
// slurmctld reports; where that is not on this host, nothing is known and nothing fails.
func FindPlugin(running slurm.Config, hook string) error {
	file := hook + "_lua.so"
	if folders, missing := running.LacksPlugin(file); missing {
		return fmt.Errorf(
			"this Slurm has no %s in %s, and does not work with %s; install the Slurm package that has it, or build "+
				"Slurm with Lua's headers installed, and run this again",
			file, strings.Join(folders, " or "), pluginSetting(hook))
	}

	return nil
}

func pluginSetting(hook string) string {
	if hook == JobSubmit {
		return "JobSubmitPlugins=lua"
	}

	return "CliFilterPlugins=lua"
}

// notStarted is the error of a restart after which slurmctld does not run. Its complaints are the last errors in
// slurmctld's log, the fatal one at the end; none if the log says nothing.
type notStarted struct {
	settings   Settings
	complaints []string
}

func (e *notStarted) Error() string {
	if len(e.complaints) == 0 {
		return "slurmctld does not start; see `journalctl -u slurmctld`"
	}

	return fmt.Sprintf("slurmctld does not start: its log says %q", e.complaints[len(e.complaints)-1])
}

// restart restarts slurmctld and waits until it answers. The error is a *notStarted if slurmctld has ended.
func (s Settings) restart(ctx context.Context, w World) error {
	began := time.Now()

	// Only what slurmctld writes from now on is about this start.
	path := s.Running.LogFile
	from := int64(0)
	if info, err := os.Stat(path); err == nil {
		from = info.Size()
	}

	failed := w.Systemctl(ctx, "restart", service)

	for {
		complaints := fatalLines(readLog(path, from))
		if len(complaints) > 0 || w.Systemctl(ctx, "is-active", "--quiet", service) != nil {
			if len(complaints) == 0 {
				// What is wrong with slurm.conf itself is said before there is a log file.
				complaints = fatalLines(readJournal(ctx, began))
			}

			return &notStarted{s, complaints}
		}

		if failed != nil || s.Slurm == nil {
			return failed
		}

		// systemd calls it active long before it answers.
		_, err := s.Slurm.Config(ctx)
		if err == nil {
			return nil
		}

		if time.Since(began) > startTime {
			return fmt.Errorf("slurmctld is running, but has not answered for %s since its restart: %w; see its log",
				capacity.FormatDuration(startTime), err)
		}

		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// restore puts back what the changes before the restart have replaced, and starts slurmctld again. It returns what
// became of the cluster.
func (e *notStarted) restore(ctx context.Context, w World, made []Change) error {
	var err error

	undone := false
	for _, change := range slices.Backward(made) {
		if change.undo != nil {
			err = errors.Join(err, change.undo())
			undone = true
		}
	}

	// Without a file of ours to put back, nothing of ours keeps slurmctld down.
	switch {
	case err != nil:
		return fmt.Errorf("%w. The former files could not be put back: %w", e, err)
	case !undone:
		return fmt.Errorf("%w%s", e, e.blame())
	}

	// Even the former files may not work: somebody may have changed a line that slurmctld had not read yet.
	err = e.settings.restart(ctx, w)

	var again *notStarted
	switch {
	case err == nil:
		return fmt.Errorf(
			"with this change %w. The former files are back, and slurmctld runs again; correct what it complains "+
				"about, and run this again",
			e)
	case errors.As(err, &again):
		return fmt.Errorf("%w. The former files are back, and it does not start with them either%s", e, again.blame())
	default:
		return fmt.Errorf("with this change %w. The former files are back; %w", e, err)
	}
}

// blame names the line that keeps slurmctld from starting without a change of ours.
func (e *notStarted) blame() string {
	where, text := e.settings.findComplaint(e.complaints)
	if where == "" {
		return "; correct what its log complains about, run `systemctl start slurmctld`, and run this again"
	}

	return fmt.Sprintf(
		", because of a line that slurmctld had not read yet, and that pcs-capacity did not write: %s: %s; correct "+
			"it, run `systemctl start slurmctld`, and run this again",
		where, text)
}

// findComplaint finds the line of the site's that slurmctld's complaints are about: the last complaint that shares a
// word with any line tells, and of the lines the one that shares most.
func (s SlurmConf) findComplaint(complaints []string) (where, text string) {
	// The last complaint is the fatal one, but it may name no line.
	for _, complaint := range slices.Backward(complaints) {
		said := strings.FieldsFunc(complaint, func(r rune) bool { return strings.ContainsRune(" \t\"'`:;,()=/", r) })
		most := 0

		look := func(place, line string) {
			shared := 0
			for word := range wordsOf(line) {
				if slices.Contains(said, word) {
					shared++
				}
			}

			if shared > 0 && shared >= most {
				most = shared
				where = place
				text = line
			}
		}

		_ = walk(s.Path, IncludeFile, look)
		_ = walk(s.sibling("gres.conf"), GresFile, look)

		if most > 0 {
			return where, text
		}
	}

	return "", ""
}

// wordsOf returns the values in a line as a complaint of slurmctld may name them, and its first key.
func wordsOf(line string) map[string]bool {
	// slurmctld names single nodes of a hostlist, plugins without their kind, and unknown keys without a value.
	words := map[string]bool{}
	for i, field := range strings.Fields(line) {
		key, value, _ := strings.Cut(field, "=")
		if i == 0 {
			words[key] = true
		}

		_ = addNames(value, words)
		for one := range strings.SplitSeq(value, ",") {
			words[filepath.Base(one)] = true
		}
	}

	// A complaint may have any number in it.
	maps.DeleteFunc(words, func(word string, _ bool) bool { return strings.Trim(word, ".0123456789") == "" })

	return words
}

// fatalLines returns the last fatal line of a log of slurmctld after the errors right before it, without their times.
func fatalLines(log string) (complaints []string) {
	const most = 10 // a line about each node of a partition may stand before the fatal one

	var errs []string
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		if at := strings.Index(line, "fatal: "); at >= 0 {
			complaints = append(errs, line[at+len("fatal: "):])
			errs = nil
		} else if at := strings.Index(line, "error: "); at >= 0 {
			errs = append(errs, line[at+len("error: "):])
			errs = errs[max(0, len(errs)-most):]
		}
	}

	return complaints
}

// readLog returns what a log has from a size on, or all if it was begun anew; "" if it cannot be read.
func readLog(path string, from int64) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}

	if from > int64(len(text)) {
		from = 0
	}

	return string(text[from:])
}

// readJournal returns what the service has written since then; "" where there is no journal.
func readJournal(ctx context.Context, since time.Time) string {
	out, _ := exec.CommandContext(ctx, "journalctl", "--unit", service, "--output", "cat", "--no-pager",
		"--since", fmt.Sprintf("@%d", since.Unix())).Output()

	return string(out)
}
