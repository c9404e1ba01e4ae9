package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

// file is a file of JSON with one value, which is replaced as a whole.
type file[T any] struct {
	dir  Dir
	name string
	// public: all may read it; else only our own programs.
	public bool
	// indent: people read it, too.
	indent bool
	// reading and keeping begin the errors; mend ends that of reading.
	reading, keeping, mend string
}

func (f file[T]) path() string {
	if f.public {
		return f.dir.path(f.name)
	}
	return f.dir.PrivatePath(f.name)
}

// load reads into a value. The error wraps fs.ErrNotExist if there is no file.
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

// read reads the value; the zero one if there is no file.
func (f file[T]) read() (T, error) {
	var value, none T
	err := f.load(&value)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("%s: %w%s", f.reading, err, f.mend)
	}
	return value, nil
}

// write writes the value.
func (f file[T]) write(value T) error {
	marshal, write := json.Marshal, f.dir.writePrivate
	if f.indent {
		marshal = func(v any) ([]byte, error) { return json.MarshalIndent(v, "", "  ") }
	}
	if f.public {
		write = f.dir.WritePublic
	}
	text, err := marshal(value)
	if err == nil {
		err = write(f.name, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.keeping, err)
	}
	return nil
}
