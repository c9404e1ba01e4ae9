// Package hookstest is what the tests of several hooks share: the programs that Slurm runs,
// which are the test program itself, and a snapshot with two blocks.
package hookstest

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// Program returns the path of a hook program. Its last part must stay when it is linked to.
func Program(t testing.TB, name string) string {
	t.Helper()

	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}

	return path
}

// Deadline ends a test that hangs, with what it waited for as its error.
func Deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// ShortDir returns a temporary folder with a short name: Slurm's Unix sockets lie in it.
func ShortDir(t testing.TB) string {
	t.Helper()

	dir, err := os.MkdirTemp("", "h")
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { os.RemoveAll(dir) })

	return dir
}

// The reservations of [Snapshot].
const (
	BlockID = "cr-0aaaaaaaaaaaaaaa1" // of partition gpu, open, 10 hours and a boot to the fence
	OtherID = "cr-0aaaaaaaaaaaaaaa2" // of partition other
)

// Snapshot has partitions gpu and other with a block each, in which a job has time for 10
// hours from now until the fence, when its nodes have booted.
func Snapshot(now time.Time) *capacity.Snapshot {
	block := func(id string) capacity.Reservation {
		return capacity.Reservation{
			ID:           id,
			Kind:         capacity.CapacityBlock,
			State:        capacity.StateActive,
			InstanceType: "p5.48xlarge",
			Region:       "us-east-2",
			AZID:         "use2-az1",
			AZ:           "us-east-2a",
			Total:        4,
			Available:    4,
			Platform:     "Linux/UNIX",
			Tenancy:      "default",
			Start:        now.Add(-time.Hour),
			End:          now.Add(10*time.Hour + 50*time.Minute),
		}
	}
	partition := func(name, id string) capacity.Partition {
		return capacity.Partition{
			Name:     name,
			Provider: capacity.ProviderEC2,
			MinTime:  capacity.Duration{Duration: 30 * time.Minute},
			Groups: []capacity.NodeGroup{
				{
					Name:           name,
					InstanceType:   "p5.48xlarge",
					PurchaseOption: capacity.CapacityBlock,
					MaxNodes:       4,
					GPUs:           8,
					Subnets:        []capacity.Subnet{{ID: "subnet-0a1", AZID: "use2-az1", AZ: "us-east-2a"}},
					Slots:          []capacity.Slot{{Name: name, ReservationIDs: []string{id}, Nodes: name + "-[1-8]"}},
				},
			},
		}
	}
	minutes := func(n int) capacity.Duration { return capacity.Duration{Duration: time.Duration(n) * time.Minute} }

	return &capacity.Snapshot{
		TakenAt:          now,
		Region:           "us-east-2",
		DefaultPartition: "static",
		Submit: capacity.Submit{
			Strict:     true,
			StaleAfter: minutes(600),
		},
		Timing: capacity.Timing{
			DrainMargin:   minutes(10),
			BootAllowance: minutes(10),
			ReclaimLead:   minutes(30),
		},
		Partitions: []capacity.Partition{
			partition("gpu", BlockID),
			partition("other", OtherID),
		},
		Reservations: []capacity.Reservation{block(BlockID), block(OtherID)},
	}
}

// WriteSnapshot writes a [Snapshot] of now.
func WriteSnapshot(t testing.TB, dir state.Dir) {
	t.Helper()

	if err := dir.WriteSnapshot(Snapshot(time.Now())); err != nil {
		t.Fatal(err)
	}
}
