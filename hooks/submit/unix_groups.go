package submit

import (
	"os"
	"os/user"
	"slices"
	"strconv"
)

// outside reports whether a user is known not to be in the Unix group. Users and groups of a directory service, which
// this program does not ask, are unknown. root may use every partition: slurm.conf(5), AllowGroups.
func outside(uid int, group string) bool {
	g, err := user.LookupGroup(group)
	if err != nil || uid == 0 {
		return false
	}
	if gid, err := strconv.Atoi(g.Gid); err != nil || has(gid) {
		return false
	}
	who, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return false
	}
	groups, err := who.GroupIds()
	return err == nil && !slices.Contains(groups, g.Gid)
}

// has reports whether this process has a group.
func has(gid int) bool {
	groups, err := os.Getgroups()
	return err != nil || slices.Contains(append(groups, os.Getegid()), gid)
}
