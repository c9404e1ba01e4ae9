package state

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/sys/mountinfo"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

func TestMisplaced(t *testing.T) {
	dir := Dir(t.TempDir())
	if all, err := dir.Misplaced(); len(all) != 0 || err != nil {
		t.Errorf("before there is any: %v %v", all, err)
	}

	one := Misplaced{
		"gpu-2",
		time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC),
		capacity.Metadata{InstanceID: "i-2", InstanceType: "g5.xlarge", AZID: "use2-az1", ReservationID: "cr-2"},
	}
	two := one
	two.Node = "gpu-10"
	for _, m := range []Misplaced{one, two, one} {
		if err := dir.SaveMisplaced(m); err != nil {
			t.Fatal(err)
		}
	}

	all, err := dir.Misplaced()
	if diff := cmp.Diff([]Misplaced{two, one}, all); diff != "" || err != nil {
		t.Error(err, diff)
	}
	// One that cannot be read does not hide the others, and nothing waits for a FIFO.
	if err := syscall.Mkfifo(dir.path(dir.misplaced("gpu-1").name), 0o644); err != nil {
		t.Fatal(err)
	}

	all, err = dir.Misplaced()
	if len(all) != 2 || err == nil || !strings.Contains(err.Error(), "gpu-1.json is not a regular file") {
		t.Errorf("%v %v", all, err)
	}

	for range 2 {
		for _, node := range []string{"gpu-1", "gpu-2"} {
			if err := dir.RemoveMisplaced(node); err != nil {
				t.Error(err)
			}
		}
	}

	if all, err := dir.Misplaced(); len(all) != 1 || err != nil {
		t.Errorf("%v %v", all, err)
	}
}

// Facts of a slot go with it. A mark that no hook has kept is not there.
func TestFactsGoWithTheirSlot(t *testing.T) {
	dir := Dir(t.TempDir())
	if _, err := dir.Mark(); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}

	err := errors.Join(
		dir.WriteJobFacts(map[string]JobFacts{"a": {Slot: "a"}, "b": {Slot: "b"}}),
		dir.WriteJobFacts(map[string]JobFacts{"a": {ReservationID: "cr-1"}}),
	)
	names, listErr := list(dir.open, factsFolder)
	if a, readErr := dir.jobFacts("a").Read(); errors.Join(err, listErr, readErr) != nil || len(names) != 1 ||
		a.ReservationID != "cr-1" {
		t.Errorf("%q, %+v, %v", names, a, errors.Join(err, listErr, readErr))
	}
}

// A state_dir that is not shared with the node is not made there.
func TestMisplacedWithoutStateDir(t *testing.T) {
	dir := Dir(filepath.Join(t.TempDir(), "state"))
	if err := dir.SaveMisplaced(Misplaced{Node: "gpu-1"}); err == nil {
		t.Error("no error")
	}

	if _, err := os.Stat(string(dir)); err == nil {
		t.Error("it was made")
	}
}

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
		all, err := mountinfo.GetMountsFromReader(strings.NewReader(info), mountinfo.ParentsFilter(path))
		if m := mountOf(all); err != nil || m.String() != c.says || m.Local() != c.local || m.InMemory() != c.memory ||
			m.Shared() != c.shared {
			t.Errorf("%s is on %s %+v", path, m, m)
		}
	}

	if m := mountOf(nil); m.Local() || m.Shared() || m.String() == "" {
		t.Errorf("without mountinfo: %+v", m)
	}

	if m := Dir(t.TempDir()).Mount(); m.Point == "" {
		t.Errorf("here it is %+v", m)
	}
}

// Hooks that find the file too large at the same time set it aside once, and lose nothing.
func TestRotationByManyHooks(t *testing.T) {
	dir := Dir(t.TempDir())

	const old = "{\"hook\":\"resume\",\"message\":\"before\"}\n"

	if err := dir.WritePrivate("any", nil); err != nil { // makes the folder
		t.Fatal(err)
	}

	for round := range 20 {
		text := bytes.Repeat([]byte(old), maxRecords/len(old)+1)
		if err := os.WriteFile(dir.PrivatePath(recordFile), text, 0o640); err != nil {
			t.Fatal(err)
		}

		var hooks sync.WaitGroup

		start := make(chan struct{})
		for i := range 16 {
			hooks.Go(func() {
				<-start

				if err := dir.AppendRecords(Record{Hook: "suspend", Message: fmt.Sprint(i)}); err != nil {
					t.Error(err)
				}
			})
		}

		close(start)
		hooks.Wait()

		aside, err := os.ReadFile(dir.PrivatePath(recordFile) + ".1")
		if err != nil || len(aside) <= maxRecords {
			t.Fatalf("round %d: %d bytes are set aside, %v", round, len(aside), err)
		}

		now, err := os.ReadFile(dir.PrivatePath(recordFile))
		if err != nil || bytes.Count(append(aside, now...), []byte(`"hook":"suspend"`)) != 16 {
			t.Fatalf(
				"round %d: of 16 records there are %d, %v",
				round,
				bytes.Count(append(aside, now...), []byte(`"hook":"suspend"`)),
				err,
			)
		}
	}
}
