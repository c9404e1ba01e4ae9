package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
)

// withFolder works in a folder, which it opens.
func withFolder[T any](open func() (*folder, error), work func(*folder) (T, error)) (value T, err error) {
	in, err := open()
	if err != nil {
		return value, err
	}
	defer in.close()

	return work(in)
}

func inFolder(open func() (*folder, error), work func(*folder) error) error {
	_, err := withFolder(open, func(in *folder) (struct{}, error) { return struct{}{}, work(in) })
	return err
}

// list returns the names in a folder, sorted; none if it is not there.
func list(open func() (*folder, error), name string) ([]string, error) {
	names, err := withFolder(open, func(in *folder) ([]string, error) { return in.list(name) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}

	return names, err
}

// openPrivate opens the private folder to read in it. There may be none: fs.ErrNotExist.
func (d Dir) openPrivate() (*folder, error) {
	return withFolder(d.open, func(top *folder) (*folder, error) { return top.openOwned(privateFolder) })
}

// ReadPublic reads a file of the state_dir.
func (d Dir) ReadPublic(name string) ([]byte, error) {
	return withFolder(d.open, func(in *folder) ([]byte, error) { return in.read(name) })
}

// ReadPrivate reads a file that only our own programs may read.
func (d Dir) ReadPrivate(name string) ([]byte, error) {
	return withFolder(d.openPrivate, func(in *folder) ([]byte, error) { return in.read(name) })
}

// ListPrivate returns the names in a folder that only our own programs may read, sorted; none if it is not there.
func (d Dir) ListPrivate(name string) ([]string, error) { return list(d.openPrivate, name) }

// WritePublic replaces a file that all may read.
func (d Dir) WritePublic(name string, text []byte) error {
	if err := d.Create(); err != nil {
		return err
	}

	return inFolder(d.open, func(in *folder) error {
		if err := in.mkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		return in.write(name, text, 0o644)
	})
}

// WritePrivate replaces a file that only our own programs may read. Its text and its name are on disk before it
// returns.
func (d Dir) WritePrivate(name string, text []byte) error {
	err := inFolder(d.createPrivate, func(in *folder) error {
		dir := filepath.Dir(name)
		if err := in.mkdirAll(dir, 0o700); err != nil {
			return err
		}

		if err := in.write(name, text, 0o600); err != nil {
			return err
		}

		// The folders hold its name.
		return errors.Join(in.sync(dir), in.sync("."))
	})
	if err != nil {
		return err
	}

	return inFolder(d.open, func(top *folder) error { return top.sync(".") })
}

// remove removes a file that all may read, if it is there.
func (d Dir) remove(name string) error {
	err := inFolder(d.open, func(in *folder) error { return in.remove(name) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	return err
}

// AppendTo opens a file of a folder to append to it, and makes it if it is not there. The folder may belong to another
// user: no symbolic link leads out of it.
func AppendTo(dir, name string) (*os.File, error) {
	return withFolder(Dir(dir).open, func(in *folder) (*os.File, error) {
		return in.openForWrite(name, os.O_APPEND|os.O_WRONLY, 0o640)
	})
}

// appendLines adds values to a file of JSON lines in one write, on a line of its own even after one that was cut off.
// Several programs may append at the same time.
func appendLines[T any](in *folder, name string, values ...T) error {
	var text bytes.Buffer

	to := json.NewEncoder(&text)
	for _, v := range values {
		if err := to.Encode(v); err != nil {
			return err
		}
	}

	file, err := in.openForWrite(name, os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}

	// A line that a crash cut off stays a line of its own.
	line := text.Bytes()
	if info, err := file.Stat(); err == nil && info.Size() > 0 {
		end := make([]byte, 1)
		if _, err := file.ReadAt(end, info.Size()-1); err == nil && end[0] != '\n' {
			line = append([]byte{'\n'}, line...)
		}
	}

	_, err = file.Write(line)

	return errors.Join(err, file.Close())
}

// readLines returns the values of a file of JSON lines, oldest first. A line that was cut off is left out.
func readLines[T any](in *folder, name string) (all []T, err error) {
	text, err := in.read(name)
	for line := range bytes.Lines(text) {
		var v T
		if json.Unmarshal(line, &v) == nil {
			all = append(all, v)
		}
	}

	return all, err
}

// File is a file of JSON with one value, what, which is replaced as a whole.
type File[T any] struct {
	dir        Dir
	name, what string
	public     bool // all may read it; else only our own programs
}

// Read returns the value; zero if there is no file.
func (f File[T]) Read() (value T, err error) {
	read, path := f.dir.ReadPrivate, f.dir.PrivatePath(f.name)
	if f.public {
		read, path = f.dir.ReadPublic, f.dir.path(f.name)
	}

	text, err := read(f.name)
	if errors.Is(err, fs.ErrNotExist) {
		return value, nil
	}

	var found T
	if err == nil {
		err = json.Unmarshal(text, &found)
	}

	if err != nil {
		return value, fmt.Errorf("reading %s: %w; if %s is damaged, remove it", f.what, err, path)
	}

	return found, nil
}

// Save writes the value, unless it is there.
func (f File[T]) Save(value T) error {
	if was, err := f.Read(); err == nil && reflect.DeepEqual(was, value) {
		return nil
	}
	return f.write(value)
}

func (f File[T]) write(value T) error {
	write, marshal := f.dir.WritePrivate, json.Marshal
	if f.public {
		write, marshal = f.dir.WritePublic, func(v any) ([]byte, error) { return json.MarshalIndent(v, "", "  ") }
	}

	text, err := marshal(value)
	if err == nil {
		err = write(f.name, append(text, '\n'))
	}

	if err != nil {
		return fmt.Errorf("saving %s: %w", f.what, err)
	}

	return nil
}
