package state

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Mount is the file system that a folder is on.
type Mount struct {
	// Point is where it is mounted; "" if that is not known. Type and Source are the kernel's words:
	// nfs4, fs-0123.efs.us-east-2.amazonaws.com:/.
	Point, Type, Source string
}

// Mount is the file system that the state_dir is on, or will be.
func (d Dir) Mount() Mount {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	return mountOf(string(text), settled(string(d)))
}

// mountOf finds the mount of a path in the text of /proc/self/mountinfo. The later of two at one point hides the other.
func mountOf(mountinfo, path string) (found Mount) {
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		fields, fs := strings.Fields(before), strings.Fields(after)
		if len(fields) < 5 || len(fs) < 2 {
			continue
		}
		point := unescape(fields[4])
		within := path == point || strings.HasPrefix(path, strings.TrimSuffix(point, "/")+"/")
		if within && len(point) >= len(found.Point) {
			found = Mount{point, fs[0], unescape(fs[1])}
		}
	}
	return found
}

// unescape undoes the kernel's \040 for a blank.
func unescape(text string) string {
	var b strings.Builder
	for {
		before, after, more := strings.Cut(text, `\`)
		b.WriteString(before)
		if !more {
			return b.String()
		}
		code, err := strconv.ParseUint(after[:min(3, len(after))], 8, 8)
		if err != nil {
			b.WriteByte('\\')
			text = after
			continue
		}
		b.WriteByte(byte(code))
		text = after[3:]
	}
}

// local are the types of file systems on a disk of the machine; inMemory those that end with it.
var (
	local    = []string{"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "overlay"}
	inMemory = []string{"tmpfs", "ramfs"}
	shared   = []string{"nfs", "nfs4", "lustre", "ceph", "cifs", "smb3", "gpfs", "beegfs", "beegfs_nodev", "glusterfs", "fuse.glusterfs", "wekafs", "afs"}
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
