package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// The settings name commands that root's service runs. So, as sshd does with its files, we read
// none that others can write, nor any from a folder in which others could put one in its place.

// trusted reports whether others can write a file of settings, or a folder of them. A missing
// one is no error here. The file's folder is only looked at where the file is there.
func trusted(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() && !info.Mode().IsRegular() { // /dev/null has no settings
		return nil
	}
	who, may := "everyone", "o-w"
	switch mode := info.Mode().Perm(); {
	case mode&0o002 != 0:
		if mode&0o020 != 0 {
			may = "go-w"
		}
	case mode&0o020 != 0 && !ownGroup(info):
		who, may = "its group", "g-w"
	default:
		return nil
	}
	can := "write it, and name the commands that sync runs"
	if info.IsDir() {
		can = "put settings into it, and name the commands that sync runs"
	}
	return fmt.Errorf("%s has mode %04o: %s can %s; chmod %s %s", path, info.Mode().Perm(), who, can, may, path)
}

// ownGroup reports whether a file's group is root's, or that of its owner alone, which has the
// owner's number.
func ownGroup(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && (s.Gid == 0 || s.Gid == s.Uid)
}

// trust looks at the file of settings, the files in conf.d, and the folders that they are in.
func trust(path string, more []string) (errs []error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	dir := filepath.Dir(path)
	for _, p := range append([]string{path, dir, filepath.Join(dir, "conf.d")}, more...) {
		if err := trusted(p); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}
