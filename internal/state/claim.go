package state

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"
)

// Claim is a lock that this program has taken. A network file system may lose the kernel's lock
// while its program is stopped or its host is cut off. So the file of the lock has the token of the
// last claim, and [Claim.Check] compares it.
type Claim struct {
	dir   Dir
	which Lock
	file  *os.File // has the kernel's lock

	mu     sync.Mutex
	holder Holder
	// said: the file has the holder. It lacks it on a full disk, and the lock still works.
	said bool
}

// LostError is the error of a claim that another program has taken over.
type LostError struct {
	Lock   Lock
	Holder Holder
}

func (e *LostError) Error() string {
	if e.Holder.PID == 0 {
		return fmt.Sprintf("%s was taken away while this program was stopped or cut off", e.Lock)
	}
	return fmt.Sprintf("%s has taken %s over while this program was stopped or cut off", e.Holder, e.Lock)
}

// Here is what locks depend on of this host; tests replace it, to be several.
var Here = struct {
	// Boot identifies the running kernel. Its dead processes have no lock.
	Boot func() string
	// Alone reports whether only this host has the file system of a state_dir.
	Alone func(Dir) bool
}{
	sync.OnceValue(func() string {
		text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
		return strings.TrimSpace(string(text))
	}),
	func(d Dir) bool { return d.Mount().Local() },
}

// claimed is the claim of a lock whose file this program has just locked.
func (d Dir) claimed(in *folder, which Lock, f *os.File) *Claim {
	host, _ := os.Hostname()
	var token [8]byte
	_, _ = rand.Read(token[:]) // never fails
	c := &Claim{dir: d, which: which, file: f}
	c.holder = Holder{PID: os.Getpid(), Host: host, Since: time.Now().UTC().Truncate(time.Second), Boot: Here.Boot(), Token: fmt.Sprintf("%x", token)}
	c.said = c.say(in, c.holder, func(*folder, *os.File) error { return nil }) == nil
	return c
}

// Check returns a [*LostError] if another program has taken the lock since, and another error if
// that cannot be read.
func (c *Claim) Check() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return do(c.dir.ours, func(in *folder) error {
		f, _, err := in.regular(string(c.which))
		if errors.Is(err, fs.ErrNotExist) {
			return &LostError{Lock: c.which}
		}
		if err != nil {
			return err
		}
		defer f.Close()
		return c.owned(in, f)
	})
}

// owned checks the file that has the lock's name now.
func (c *Claim) owned(in *folder, f *os.File) error {
	switch now := readHolder(f); {
	case now.Token == c.holder.Token:
		return nil
	case !c.said && c.file != nil && in.names(c.which, c.file):
		return nil
	default:
		return &LostError{c.which, now}
	}
}

// beat renews the claim.
func (c *Claim) beat() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := c.holder
	next.Beat++
	next.At = time.Now().UTC().Truncate(time.Second)
	err := do(c.dir.private, func(in *folder) error { return c.say(in, next, c.owned) })
	if err == nil {
		c.holder, c.said = next, true
	}
	return err
}

// Release gives the lock back, if this program still has it.
func (c *Claim) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file == nil {
		return
	}
	_ = do(c.dir.private, func(in *folder) error { return c.say(in, Holder{}, c.owned) })
	_ = c.file.Close()
	c.file = nil
}

// holderSize is the length of a holder in its file. It never changes: a full disk takes what
// replaces as many bytes.
const holderSize = 512

// say writes a holder into the file that has the lock's name now. A file that is closed can be read
// on other hosts as well.
func (c *Claim) say(in *folder, h Holder, may func(*folder, *os.File) error) error {
	text := []byte{}
	if h.PID != 0 {
		var err error
		if text, err = json.Marshal(h); err != nil {
			return err
		}
	}
	text = append(text, bytes.Repeat([]byte{' '}, max(0, holderSize-1-len(text)))...)
	f, err := in.edit(string(c.which), os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err = may(in, f); err == nil {
		_, err = f.WriteAt(append(text, '\n'), 0)
	}
	return errors.Join(err, f.Close())
}

func readHolder(f io.ReaderAt) (h Holder) {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 4096))
	if err != nil || json.Unmarshal(text, &h) != nil {
		return Holder{}
	}
	return h
}

// takeAway removes the file of a lock that a process has which is taken to be gone. Who has its
// lock then has nothing.
func (f *folder) takeAway(which Lock, gone func(Holder) bool) error {
	file, _, err := f.regular(string(which))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	now := readHolder(file)
	_ = file.Close()
	if !gone(now) {
		return nil
	}
	return f.remove(string(which))
}
