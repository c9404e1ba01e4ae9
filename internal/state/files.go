package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

func within[T any](open func() (*folder, error), work func(*folder) (T, error)) (T, error) {
	in, err := open()
	if err != nil {
		var none T
		return none, err
	}
	defer in.close()
	return work(in)
}

func do(open func() (*folder, error), work func(*folder) error) error {
	_, err := within(open, func(in *folder) (struct{}, error) { return struct{}{}, work(in) })
	return err
}

func read(open func() (*folder, error), name string) ([]byte, error) {
	return within(open, func(in *folder) ([]byte, error) { return in.read(name) })
}

// list are the names in a folder, sorted; none if it is not there.
func list(open func() (*folder, error), name string) ([]string, error) {
	names, err := within(open, func(in *folder) ([]string, error) { return in.list(name) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return names, err
}

// ours opens the private folder to read in it. There may be none: fs.ErrNotExist.
func (d Dir) ours() (*folder, error) {
	top, err := d.open()
	if err != nil {
		return nil, err
	}
	defer top.close()
	return top.own(privateFolder)
}

// ReadPublic reads a file of the state_dir.
func (d Dir) ReadPublic(name string) ([]byte, error) { return read(d.open, name) }

// ReadPrivate reads a file that only our own programs may read.
func (d Dir) ReadPrivate(name string) ([]byte, error) { return read(d.ours, name) }

func (d Dir) listPublic(name string) ([]string, error) { return list(d.open, name) }

// ListPrivate returns the names in a folder that only our own programs may read, sorted; none if it is not there.
func (d Dir) ListPrivate(name string) ([]string, error) { return list(d.ours, name) }

// makePublic makes the state_dir, and a folder in it.
func (d Dir) makePublic(name string) error {
	if err := d.Create(); err != nil {
		return err
	}
	return do(d.open, func(in *folder) error { return in.make(name, 0o755) })
}

// WritePublic replaces a file that all may read.
func (d Dir) WritePublic(name string, text []byte) error {
	if err := d.makePublic(filepath.Dir(name)); err != nil {
		return err
	}
	return do(d.open, func(in *folder) error { return in.write(name, text, 0o644) })
}

func (d Dir) removePublic(name string) error {
	err := do(d.open, func(in *folder) error { return in.remove(name) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// createOnce writes a whole file that all may read, unless another program is faster.
func (d Dir) createOnce(name string, text []byte) error {
	return do(d.open, func(in *folder) error { return in.writeOnce(name, text, 0o644) })
}

func (d Dir) writePrivate(name string, text []byte) error {
	return do(d.private, func(in *folder) error { return in.write(name, text, 0o600) })
}

// WritePrivate replaces a file that only our own programs may read. Its text and its name are
// on disk before it returns.
func (d Dir) WritePrivate(name string, text []byte) error {
	err := do(d.private, func(in *folder) error {
		dir := filepath.Dir(name)
		if err := in.make(dir, 0o700); err != nil {
			return err
		}
		if err := in.write(name, text, 0o600); err != nil {
			return err
		}
		// The file is on disk; so must be its name, which the folder holds.
		if err := in.sync(dir); err != nil {
			return err
		}
		return in.sync(".")
	})
	if err != nil {
		return err
	}
	return do(d.open, func(top *folder) error { return top.sync(".") })
}

// AppendTo opens a file of a folder to append to it, and makes it if it is not there. The
// folder may belong to another user: no symbolic link leads out of it.
func AppendTo(dir, name string) (*os.File, error) {
	return within(Dir(dir).open, func(in *folder) (*os.File, error) {
		return in.edit(name, os.O_APPEND|os.O_WRONLY, 0o640)
	})
}

// file is a file of JSON with one value, what, which is replaced as a whole.
type file[T any] struct {
	dir        Dir
	name, what string
	public     bool // all may read it; else only our own programs
}

func (f file[T]) path() string {
	if f.public {
		return f.dir.path(f.name)
	}
	return f.dir.PrivatePath(f.name)
}

func (f file[T]) load(into any) error {
	read := f.dir.ReadPrivate
	if f.public {
		read = f.dir.ReadPublic
	}
	text, err := read(f.name)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

func (f file[T]) read() (value T, err error) {
	if err = f.load(&value); err != nil {
		var none T
		if value = none; errors.Is(err, fs.ErrNotExist) {
			return none, nil
		}
		err = fmt.Errorf("reading %s: %w; if %s is damaged, remove it", f.what, err, f.path())
	}
	return value, err
}

func (f file[T]) write(value T) error {
	write := f.dir.writePrivate
	if f.public {
		write = f.dir.WritePublic
	}
	text, err := json.Marshal(value)
	if err == nil {
		err = write(f.name, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("keeping %s: %w", f.what, err)
	}
	return nil
}
