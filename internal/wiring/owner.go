package wiring

import (
	"os"
	"syscall"
)

// keepOwner gives a new file the owner of the one that it replaces.
func keepOwner(f *os.File, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	was, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	if mine, err := f.Stat(); err == nil {
		if is, ok := mine.Sys().(*syscall.Stat_t); ok && is.Uid == was.Uid && is.Gid == was.Gid {
			return nil
		}
	}
	return f.Chown(int(was.Uid), int(was.Gid))
}
