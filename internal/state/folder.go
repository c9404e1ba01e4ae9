package state

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// A state_dir may belong to SlurmUser, whose hooks write there, while root, as `sync`, works in it as well. So every
// file in it is opened through an os.Root, which follows no symbolic link out of it, and files that root makes are
// given to the owner of the folder. Only folder's methods open, make and remove.

// privateFolder holds the files that only the programs of the service and of the hooks read and lock. No other user can
// open a file in it, and so none can lock one.
const privateFolder = "private"

// folder is an open folder in a state_dir, or the state_dir itself.
type folder struct {
	root *os.Root
	path string
	// uid and gid are those of its owner.
	uid, gid int
}

// PrivatePath returns the path of a file that only our own programs read.
func (d Dir) PrivatePath(name string) string {
	return filepath.Join(string(d), privateFolder, name)
}

func (d Dir) open() (*folder, error) {
	root, err := os.OpenRoot(string(d))
	if err != nil {
		return nil, err
	}

	return newFolder(root, string(d))
}

func newFolder(root *os.Root, path string) (*folder, error) {
	f := &folder{root: root, path: path}

	info, err := root.Stat(".")
	if err != nil {
		root.Close()
		return nil, err
	}

	f.uid, f.gid = ownerOf(info)

	return f, nil
}

func ownerOf(info fs.FileInfo) (uid, gid int) {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid), int(s.Gid)
	}
	return os.Getuid(), os.Getgid()
}

// OwnerUID returns the user id of the state_dir's owner: root gives the files that it makes there to this user.
func (d Dir) OwnerUID() (int, error) {
	info, err := os.Stat(string(d))
	if err != nil {
		return 0, err
	}

	uid, _ := ownerOf(info)

	return uid, nil
}

func (f *folder) close() { _ = f.root.Close() }

// wrapError adds the whole path to an error.
func (f *folder) wrapError(name string, err error) error {
	if l := (*os.LinkError)(nil); errors.As(err, &l) {
		err = &fs.PathError{Op: l.Op, Err: l.Err}
	}

	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		err = &fs.PathError{Op: p.Op, Path: filepath.Join(f.path, name), Err: p.Err}
	}

	return err
}

// createPrivate opens the folder of our own files, and makes it if it is not there.
func (d Dir) createPrivate() (*folder, error) {
	if err := d.Create(); err != nil {
		return nil, err
	}

	top, err := d.open()
	if err != nil {
		return nil, err
	}
	defer top.close()

	if err := top.root.Mkdir(privateFolder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, addPermissionHint(top.wrapError(privateFolder, err))
	}

	return top.openOwned(privateFolder)
}

// openOwned opens a folder in this one that is ours alone.
func (f *folder) openOwned(name string) (*folder, error) {
	path := filepath.Join(f.path, name)

	info, err := f.root.Lstat(name)
	if err != nil {
		return nil, addPermissionHint(f.wrapError(name, err))
	}

	if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a folder; remove it", path)
	}

	if uid, _ := ownerOf(info); uid != f.uid && uid != os.Geteuid() && uid != 0 {
		return nil, fmt.Errorf("%s belongs to user %d, not to the owner of %s; remove it", path, uid, f.path)
	}

	root, err := f.root.OpenRoot(name)
	if err != nil {
		return nil, addPermissionHint(f.wrapError(name, err))
	}

	in, err := newFolder(root, path)
	if err != nil {
		return nil, f.wrapError(name, err)
	}

	if err := errors.Join(in.restrict(info), in.chownTo(f)); err != nil {
		in.close()
		return nil, addPermissionHint(in.wrapError("", err))
	}

	return in, nil
}

// restrict closes a folder to other users.
func (f *folder) restrict(info fs.FileInfo) error {
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	return f.root.Chmod(".", 0o700)
}

// chownTo gives a folder of root's to the owner of the folder around it: root has just made it, or was ended before it
// could give it away. Until then nobody else could put anything in it.
func (f *folder) chownTo(parent *folder) error {
	if os.Geteuid() != 0 || f.uid == parent.uid || f.uid != 0 {
		return nil
	}

	// The folder itself is last: as long as it is root's, this is not done.
	err := fs.WalkDir(f.root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		return f.root.Lchown(name, parent.uid, parent.gid)
	})
	if err = errors.Join(err, f.root.Chown(".", parent.uid, parent.gid)); err != nil {
		return err
	}

	f.uid, f.gid = parent.uid, parent.gid

	return nil
}

// addPermissionHint adds the remedy where this user has no right.
func addPermissionHint(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w; run it as root, or as the user that state_dir belongs to", err)
	}
	return err
}

// writeTemp makes a file beside that of name, on disk and not only in the cache, with the folder's owner.
func (f *folder) writeTemp(name string, text []byte, mode fs.FileMode) (called string, err error) {
	dir, base := filepath.Split(name)
	called = dir + "." + base + rand.Text()

	file, err := f.root.OpenFile(called, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return "", f.wrapError(name, err)
	}

	// Whatever the umask is.
	err = file.Chmod(mode)
	if err == nil && os.Geteuid() == 0 && f.uid != 0 {
		err = file.Chown(f.uid, f.gid)
	}

	if err == nil {
		_, err = file.Write(text)
	}

	// Before it gets its name: a crash leaves the old file or the new one, whole.
	if err == nil {
		err = file.Sync()
	}

	if err = errors.Join(err, file.Close()); err != nil {
		_ = f.root.Remove(called)
		return "", f.wrapError(name, err)
	}

	return called, nil
}

// write replaces a file as a whole.
func (f *folder) write(name string, text []byte, mode fs.FileMode) error {
	called, err := f.writeTemp(name, text, mode)
	if err != nil {
		return err
	}

	if err := f.root.Rename(called, name); err != nil {
		_ = f.root.Remove(called)
		return f.wrapError(name, err)
	}

	return nil
}

// writeOnce writes a whole file, unless another program is faster.
func (f *folder) writeOnce(name string, text []byte, mode fs.FileMode) error {
	called, err := f.writeTemp(name, text, mode)
	if err != nil {
		return err
	}
	defer f.root.Remove(called)

	if err := f.root.Link(called, name); err != nil && !errors.Is(err, fs.ErrExist) {
		return f.wrapError(name, err)
	}

	return nil
}

// openForWrite opens a file to be written in place, and makes it if it is missing. Two callers at once get the same
// file.
func (f *folder) openForWrite(name string, flag int, mode fs.FileMode) (*os.File, error) {
	for {
		file, _, err := f.openFile(name, flag)
		if !errors.Is(err, fs.ErrNotExist) {
			return file, err
		}

		// Made by whoever is first, then opened again.
		if err := f.writeOnce(name, nil, mode); err != nil {
			return nil, err
		}
	}
}

// openFile opens a regular file, and does not wait for the other end of a FIFO. It writes none of another user's that
// has a second name: that may be elsewhere, where the folder's owner may not write. While writeOnce makes a file, it
// has two.
func (f *folder) openFile(name string, flag int) (*os.File, fs.FileInfo, error) {
	file, err := f.root.OpenFile(name, flag|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, f.wrapError(name, err)
	}

	info, err := file.Stat()
	if err == nil {
		s, ok := info.Sys().(*syscall.Stat_t)
		if twice := ok && s.Nlink > 1 && int(s.Uid) != f.uid; !info.Mode().IsRegular() || twice && flag != os.O_RDONLY {
			err = fmt.Errorf("%s is not a regular file with one name; remove it", filepath.Join(f.path, name))
		}
	}

	if err != nil {
		_ = file.Close()
		return nil, nil, err
	}

	return file, info, nil
}

func (f *folder) read(name string) ([]byte, error) {
	file, info, err := f.openFile(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer file.Close()

	// Room for all of it: a large file would be copied again and again.
	var b bytes.Buffer
	b.Grow(int(info.Size()) + bytes.MinRead)

	_, err = b.ReadFrom(file)

	return b.Bytes(), err
}

func (f *folder) remove(name string) error {
	if err := f.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f.wrapError(name, err)
	}
	return nil
}

// list returns the names in a folder, sorted; none if it is not there.
func (f *folder) list(name string) ([]string, error) {
	dir, err := f.root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}

	if err != nil {
		return nil, f.wrapError(name, err)
	}

	defer dir.Close()

	names, err := dir.Readdirnames(-1)
	slices.Sort(names)

	return names, err
}

// mkdirAll makes a folder, and missing folders above it: in a state_dir for all users, whatever the
// umask is, in the private folder for nobody else.
func (f *folder) mkdirAll(name string, mode fs.FileMode) error {
	if name == "." {
		return nil
	}

	if err := f.mkdirAll(filepath.Dir(name), mode); err != nil {
		return err
	}

	err := f.root.Mkdir(name, mode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}

	// The umask may have taken rights away.
	if err == nil {
		err = f.root.Chmod(name, mode)
	}

	if err == nil && os.Geteuid() == 0 && f.uid != 0 {
		err = f.root.Lchown(name, f.uid, f.gid)
	}

	return f.wrapError(name, err)
}

func (f *folder) sync(name string) error {
	dir, err := f.root.Open(name)
	if err != nil {
		return f.wrapError(name, err)
	}
	defer dir.Close()

	return dir.Sync()
}
