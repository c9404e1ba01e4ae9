package state

import "testing"

func TestMount(t *testing.T) {
	const info = `21 1 259:1 / / rw,noatime shared:1 - xfs /dev/nvme0n1p1 rw
22 21 0:21 / /run rw - tmpfs tmpfs rw
30 21 0:50 / /home rw,relatime - nfs4 fs-0123.efs.us-east-2.amazonaws.com:/ rw
31 21 0:51 / /fsx rw - lustre 10.0.0.1@tcp:/abcd rw,flock
32 30 0:52 /x /home/a\040b rw - ext4 /dev/sdb rw
33 21 0:53 / /bucket rw - fuse.mount-s3 mountpoint-s3 rw
34 31 0:54 / /fsx rw - nfs4 127.0.0.1:/ rw
`
	for path, c := range map[string]struct {
		says                  string
		local, memory, shared bool
	}{
		"/var/lib/pcs-capacity": {"xfs at /", true, false, false},
		"/run/x":                {"tmpfs at /run", true, true, false},
		"/home":                 {"nfs4 of fs-0123.efs.us-east-2.amazonaws.com:/", false, false, true},
		"/home2/x":              {"xfs at /", true, false, false},
		"/home/a b/x":           {"ext4 at /home/a b", true, false, false},
		"/fsx/x":                {"nfs4 of 127.0.0.1:/", false, false, true},
		"/bucket/x":             {"fuse.mount-s3 of mountpoint-s3", false, false, false},
	} {
		if m := mountOf(info, path); m.String() != c.says || m.Local() != c.local || m.InMemory() != c.memory || m.Shared() != c.shared {
			t.Errorf("%s is on %s %+v", path, m, m)
		}
	}
	if m := mountOf("", "/x"); m.Local() || m.Shared() || m.String() == "" {
		t.Errorf("without mountinfo: %+v", m)
	}
	if m := Dir(t.TempDir()).Mount(); m.Point == "" {
		t.Errorf("here it is %+v", m)
	}
}
