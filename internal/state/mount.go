package state

import (
	"path/filepath"
	"slices"

	"github.com/moby/sys/mountinfo"
)

// Mount is the file system that a folder is on.
type Mount struct {
	Point  string // the mount point; "" if unknown
	Type   string // as the kernel names it: nfs4
	Source string // as the kernel names it: fs-0123.efs.us-east-2.amazonaws.com:/
}

// Mount returns the file system that the state_dir is on, or will be. The later of two at one point hides the other.
func (d Dir) Mount() Mount {
	all, _ := mountinfo.GetMounts(mountinfo.ParentsFilter(resolvePath(string(d))))
	return mountOf(all)
}

func mountOf(parents []*mountinfo.Info) (found Mount) {
	for _, m := range parents {
		if len(m.Mountpoint) >= len(found.Point) {
			found = Mount{m.Mountpoint, m.FSType, m.Source}
		}
	}

	return found
}

// local are the types of file systems on a disk of the machine; inMemory those that end with it.
var (
	local    = []string{"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "overlay"}
	inMemory = []string{"tmpfs", "ramfs"}
	shared   = []string{
		"nfs",
		"nfs4",
		"lustre",
		"ceph",
		"cifs",
		"smb3",
		"gpfs",
		"beegfs",
		"beegfs_nodev",
		"glusterfs",
		"fuse.glusterfs",
		"wekafs",
		"afs",
	}
)

// Local reports whether only this machine has the file system.
func (m Mount) Local() bool { return slices.Contains(local, m.Type) || m.InMemory() }

// InMemory reports whether the files are gone after a boot.
func (m Mount) InMemory() bool { return slices.Contains(inMemory, m.Type) }

// Shared reports whether a server keeps the files. A type that is not known is neither shared nor local.
func (m Mount) Shared() bool { return slices.Contains(shared, m.Type) }

// String says what it is.
func (m Mount) String() string {
	if m.Point == "" {
		return "an unrecognized file system"
	}

	if m.Local() {
		return m.Type + " at " + filepath.Clean(m.Point)
	}

	return m.Type + " of " + m.Source
}
