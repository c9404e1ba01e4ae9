package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// tried is how much is written on trial: files of settings and state are a few KB.
const tried = 16 << 10

// TryFolder reports whether files can be written into a folder, which is made when they are:
// it writes one there, or into the folder that is to have it, and removes it.
func TryFolder(dir string) error {
	for {
		info, err := os.Stat(dir)
		if err == nil {
			if !info.IsDir() {
				return fmt.Errorf("%s is no folder", dir)
			}
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if _, err := os.Lstat(dir); err == nil {
			return fmt.Errorf("%s is a symbolic link to nothing", dir)
		}
		dir = filepath.Dir(dir)
	}
	f, err := os.CreateTemp(dir, ".pcs-capacity-try-")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, tried))
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name()))
}
