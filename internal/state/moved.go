package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// All files were once in the state_dir itself, where any user can open and lock them. The first use
// moves them, above all the intents, which stand for money.

// intentsFolder is where package market keeps its intents.
const intentsFolder = "intents"

// oldLocks are no longer used.
var oldLocks = []string{"sync.lock", "watch.lock", "held.json.lock", "hooks.jsonl.lock", filepath.Join(intentsFolder, "lock")}

// old are the names of files in a state_dir that belong into the private folder.
func (f *folder) old() ([]string, error) {
	names, err := f.list(".")
	return slices.DeleteFunc(names, func(name string) bool {
		return !slices.Contains([]string{heldFile, fullFile, marksFile, noticesFile, setbacksFile, lastSampleFile, recordFile, recordFile + ".1", intentsFolder}, name) &&
			begins(name).IsZero() && !slices.Contains(oldLocks, name)
	}), err
}

// moveOld moves old files from the state_dir into the private folder. Files that are there already
// are newer and stay; two folders of intents are merged.
func (f *folder) moveOld(in *folder) error {
	names, err := f.old()
	errs := []error{err}
	for _, name := range names {
		errs = append(errs, f.move(in, name))
	}
	return errors.Join(errs...)
}

func (f *folder) move(in *folder, name string) error {
	if slices.Contains(oldLocks, name) {
		return f.remove(name)
	}
	info, err := f.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another program has moved it
	}
	if err != nil {
		return f.at(name, err)
	}
	if _, err := in.root.Lstat(name); err == nil {
		if !info.IsDir() {
			return nil
		}
		return f.moveInto(in, name)
	}
	err = f.root.Rename(name, filepath.Join(privateFolder, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return f.at(name, err)
	}
	return in.take(name)
}

// moveInto merges the files of a folder that exists in both.
func (f *folder) moveInto(in *folder, name string) error {
	names, err := f.list(name)
	errs := []error{err}
	for _, file := range names {
		errs = append(errs, f.move(in, filepath.Join(name, file)))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	_ = f.root.Remove(name) // stays if a file of both names is in it
	return nil
}

// take gives the moved files to the owner of the folder, who otherwise could not read root's files.
// A file with a second name may be a file elsewhere, and stays as it is.
func (f *folder) take(name string) error {
	if os.Geteuid() != 0 || f.uid == 0 {
		return nil
	}
	return fs.WalkDir(f.root.FS(), name, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if links := linksOf(info); !info.IsDir() && (links > 1 || !info.Mode().IsRegular()) {
			return nil
		}
		return f.root.Lchown(name, f.uid, f.gid)
	})
}
