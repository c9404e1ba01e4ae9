package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// CheckHookAccess returns why the programs that slurmctld starts cannot read their settings or their environment:
// they run as SlurmUser, and look beside slurmctld's slurm.conf first. Each error ends with its remedy. Where
// slurm.conf is not on this host, or to another user than root and SlurmUser, nothing is known, and nothing is
// returned.
func CheckHookAccess(slurmConf string, slurmUser int) (errs []error) {
	if _, err := os.Stat(slurmConf); err != nil {
		return nil
	}

	// As Find does for a hook, whose SLURM_CONF is slurmctld's.
	path := SystemPath
	if beside, there := pathBesideSlurm(slurmConf); there {
		path = beside
	}

	runAs(slurmUser, func() {
		errs = checkReadable(path)
	})

	return errs
}

// runAs runs do with the access to files that a user has, if this process may.
func runAs(uid int, do func()) {
	switch os.Geteuid() {
	case uid:
		do()
		return
	case 0:
	default:
		return
	}

	done := make(chan struct{})
	go func() {
		defer close(done)

		// The kernel keeps these three for each thread. Nobody else gets this one: it ends with its goroutine, which
		// does not unlock it.
		runtime.LockOSThread()

		gid, groups := groupsOf(uid)

		err := errors.Join(unix.Setgroups(groups), syscall.Setfsgid(gid), syscall.Setfsuid(uid))
		if err == nil {
			do()
		}
	}()

	<-done
}

// groupsOf returns a user's group and all groups, as far as this host knows the user.
func groupsOf(uid int) (gid int, all []int) {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return uid, nil
	}

	gid, _ = strconv.Atoi(u.Gid)
	names, _ := u.GroupIds()
	for _, name := range names {
		if id, err := strconv.Atoi(name); err == nil {
			all = append(all, id)
		}
	}

	return gid, all
}

// checkReadable reads all files of the settings at path, and the environment.
func checkReadable(path string) (errs []error) {
	confD := filepath.Join(filepath.Dir(path), "conf.d")
	files := []string{path}

	more, err := os.ReadDir(confD)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, explainUnreadable(confD, err))
	}

	// Load reads no other file of conf.d.
	for _, one := range more {
		if filepath.Ext(one.Name()) == ".toml" {
			files = append(files, filepath.Join(confD, one.Name()))
		}
	}

	files = append(files, EnvironmentPath(path))

	for _, file := range files {
		f, err := os.Open(file)
		switch {
		case err == nil:
			f.Close()
		case file == path || !errors.Is(err, fs.ErrNotExist):
			errs = append(errs, explainUnreadable(file, err))
		}
	}

	return errs
}

// explainUnreadable adds to the error of reading a file or a folder what keeps this user from it.
func explainUnreadable(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no %s, which they read; put the settings there", path)
	}

	if !errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w; make it readable for SlurmUser", err)
	}

	// From the top down: the first folder that is closed hides all below it.
	for _, p := range slices.Backward(pathsTo(path)) {
		if _, err := os.Lstat(p); errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("SlurmUser cannot read %s, because %s is closed to it; chmod 755 %s", path,
				filepath.Dir(p), filepath.Dir(p))
		}
	}

	switch filepath.Base(path) {
	case "conf.d":
		return fmt.Errorf("SlurmUser cannot read %s; chmod 755 %s", path, path)
	case filepath.Base(EnvironmentPath(path)):
		return fmt.Errorf(
			"SlurmUser cannot read %s; give it to SlurmUser's group, such as with `chgrp slurm %s`, and chmod 640 %s",
			path, path, path)
	default:
		return fmt.Errorf("SlurmUser cannot read %s; chmod 644 %s", path, path)
	}
}
