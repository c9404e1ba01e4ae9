package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// The settings name commands that root's service runs. So, as sshd does with its files, we read none that others own or
// can write, nor any where others could put one in its place: in its folder, or in one that leads there.

// checkTrust looks at the file of settings, at the files in conf.d, and at all that leads to them.
func checkTrust(path string, more []string) (errs []error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	owners := trustedOwners()

	// Even a sticky bit does not keep others from adding a file to these.
	var folders []fs.FileInfo

	confD := filepath.Join(filepath.Dir(path), "conf.d")
	for _, dir := range []string{filepath.Dir(path), confD} {
		if info, err := os.Stat(dir); err == nil {
			folders = append(folders, info)
		}
	}

	seen := map[string]bool{}
	for _, file := range append([]string{path, confD}, more...) {
		for _, p := range pathsTo(file) {
			if seen[p] {
				continue
			}

			seen[p] = true

			info, err := os.Lstat(p)
			if err == nil {
				holds := slices.ContainsFunc(folders, func(f fs.FileInfo) bool { return os.SameFile(f, info) })
				err = checkTrusted(p, info, holds, owners)
			}

			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}

	return errs
}

// ReadTrusted reads a file that root, or who runs this, has for himself alone to change.
func ReadTrusted(path string) ([]byte, error) {
	for _, p := range pathsTo(path) {
		info, err := os.Lstat(p)
		if err != nil {
			return nil, err
		}

		err = checkTrusted(p, info, false, []int{0, os.Geteuid()})
		if err != nil {
			return nil, err
		}
	}

	return os.ReadFile(path)
}

// trustedOwners returns the users whose settings count: root, we ourselves, and the owner of the slurm.conf
// that SLURM_CONF names, which names programs that root's slurmd runs.
func trustedOwners() []int {
	all := []int{0, os.Geteuid()}
	if info, err := os.Stat(os.Getenv("SLURM_CONF")); err == nil {
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			all = append(all, int(s.Uid))
		}
	}

	return all
}

// pathsTo returns all that leads to a path, as it is written and without symbolic links, and itself.
func pathsTo(path string) (all []string) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return []string{path}
	}

	// Who can replace a link, or a folder on either way, can replace the file.
	real, _ := filepath.EvalSymlinks(abs) // "" where it is not there
	for _, p := range []string{abs, real} {
		for ; len(p) > 1; p = filepath.Dir(p) {
			all = append(all, p)
		}
	}

	return append(all, "/")
}

// checkTrusted returns an error where others own a file, a folder or a symbolic link on the way to settings, or can
// write it. In a sticky folder only owners can replace what is there; holds says that settings may be added to a
// folder.
func checkTrusted(path string, info fs.FileInfo, holds bool, owners []int) error {
	link := info.Mode()&fs.ModeSymlink != 0
	if !info.IsDir() && !link && !info.Mode().IsRegular() { // /dev/null has no settings
		return nil
	}

	can := "write it"
	switch {
	case holds:
		can = "put settings into it"
	case info.IsDir() || link:
		can = "replace what is in it"
	}

	can += ", and name the commands that sync runs"
	if s, ok := info.Sys().(*syscall.Stat_t); ok && !slices.Contains(owners, int(s.Uid)) {
		return fmt.Errorf("%s belongs to user %d, who can %s; chown -h root %s", path, s.Uid, can, path)
	}

	// The mode of a link means nothing, and in a sticky folder nobody replaces the file of another.
	mode := info.Mode().Perm()
	who := "everyone"
	may := "o-w"
	switch {
	case link || info.Mode()&fs.ModeSticky != 0 && !holds:
		return nil
	case mode&0o002 != 0:
		if mode&0o020 != 0 {
			may = "go-w"
		}
	case mode&0o020 != 0 && !ownGroup(info):
		who = "its group"
		may = "g-w"
	default:
		return nil
	}

	return fmt.Errorf("%s has mode %04o: %s can %s; chmod %s %s", path, mode, who, can, may, path)
}

// ownGroup reports whether a file's group is root's, or that of its owner alone, which has the owner's number.
func ownGroup(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && (s.Gid == 0 || s.Gid == s.Uid)
}

// EnvironmentPath returns the file beside the settings that has the environment of hooks: Slurm hands them none of its
// own.
func EnvironmentPath(settings string) string {
	return filepath.Join(filepath.Dir(settings), "environment")
}

// variable is a line of that file, as systemd's EnvironmentFile= takes it, without continuation.
var variable = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)=(.*)$`)

// LoadEnvironment sets the variables that the file at path has and this process has not. No file is no error. As with
// settings, one that others can write is not read.
func LoadEnvironment(path string) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	if err != nil {
		return err
	}

	if errs := checkTrust(path, nil); len(errs) > 0 {
		return fmt.Errorf("%s is not read: %w", path, errors.Join(errs...))
	}

	number := 0
	for line := range strings.Lines(string(text)) {
		number++

		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}

		pair := variable.FindStringSubmatch(line)
		if pair == nil {
			return fmt.Errorf("line %d of %s is not KEY=VALUE", number, path)
		}

		// Whoever started the program has set it on purpose.
		if _, has := os.LookupEnv(pair[1]); has {
			continue
		}

		if err := os.Setenv(pair[1], unquote(pair[2])); err != nil {
			return fmt.Errorf("line %d of %s: %w", number, path, err)
		}
	}

	return nil
}

// unquote returns a value without the quotes around it.
func unquote(value string) string {
	if n := len(value); n > 1 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		return value[1 : n-1]
	}
	return value
}
