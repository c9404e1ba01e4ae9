package state

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

func TestMisplaced(t *testing.T) {
	dir := Dir(t.TempDir())
	if all, err := dir.Misplaced(); len(all) != 0 || err != nil {
		t.Errorf("before there is any: %v %v", all, err)
	}
	one := Misplaced{"gpu-2", time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), capacity.Metadata{InstanceID: "i-2", InstanceType: "g5.xlarge", AZID: "use2-az1", ReservationID: "cr-2"}}
	two := one
	two.Node = "gpu-10"
	for _, m := range []Misplaced{one, two, one} {
		if err := dir.KeepMisplaced(m); err != nil {
			t.Fatal(err)
		}
	}
	all, err := dir.Misplaced()
	if diff := cmp.Diff([]Misplaced{two, one}, all); diff != "" || err != nil {
		t.Error(err, diff)
	}
	// One that cannot be read does not hide the others, and nothing waits for a FIFO.
	if err := syscall.Mkfifo(dir.misplaced("gpu-1").path(), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir.misplaced("gpu-3").path(), []byte(`{"node": "gpu-2"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	all, err = dir.Misplaced()
	if len(all) != 2 || err == nil || !strings.Contains(err.Error(), "gpu-1.json is not a regular file") || !strings.Contains(err.Error(), `gpu-3.json is about node "gpu-2"`) {
		t.Errorf("%v %v", all, err)
	}
	for range 2 {
		for _, node := range []string{"gpu-1", "gpu-2", "gpu-3"} {
			if err := dir.DropMisplaced(node); err != nil {
				t.Error(err)
			}
		}
	}
	if all, err := dir.Misplaced(); len(all) != 1 || err != nil {
		t.Errorf("%v %v", all, err)
	}
}

// A state_dir that is not shared with the node is not made there.
func TestMisplacedWithoutStateDir(t *testing.T) {
	dir := Dir(filepath.Join(t.TempDir(), "state"))
	if err := dir.KeepMisplaced(Misplaced{Node: "gpu-1"}); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(string(dir)); err == nil {
		t.Error("it was made")
	}
}
