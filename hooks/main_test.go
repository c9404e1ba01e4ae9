package hooks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/program/filter"
	powerprogram "github.com/pcs-capacity/pcs-capacity/internal/program/power"
	"github.com/pcs-capacity/pcs-capacity/internal/program/prolog"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/internal/wire"
)

// TestMain makes the test program the hook programs as well: called by one of these names
// it is that program. So the tests run what they are compiled with, and a change in it is
// a change of the test, which `go test` would not see in programs that are built apart.
func TestMain(m *testing.M) {
	os.Setenv("GORACE", "atexit_sleep_ms=0") // a program built with -race sleeps for a second when it ends
	testscript.Main(m, map[string]func(){
		"pcs-capacity-filter":  func() { os.Exit(filter.Main(os.Args[1:])) },
		"pcs-capacity-prolog":  func() { os.Exit(prolog.Main(os.Args[1:])) },
		"pcs-capacity-resume":  func() { os.Exit(powerprogram.Resume(os.Args[1:])) },
		"pcs-capacity-suspend": func() { os.Exit(powerprogram.Suspend(os.Args[1:])) },
		"sync-pass":            syncPass,
		"one-pass":             func() { os.Exit(onePass()) },
		"sync-watch":           func() { os.Exit(syncWatch(os.Args[1])) },
	})
}

// syncPass is one pass of sync, or what sync does for instances that it is called with, which EC2
// takes back; it prints the report.
func syncPass() {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	cfg, err := config.Load(config.Find(""))
	fail(err)
	aws, err := ec2.New(context.Background(), ec2.Options{Region: cfg.Region})
	fail(err)
	var report lifecycle.Report
	if len(os.Args) > 1 {
		report, err = lifecycle.Interrupt(context.Background(), wire.Sources(cfg, aws, nil), os.Args[1:])
	} else {
		_, report, err = lifecycle.Pass(context.Background(), wire.Sources(cfg, aws, nil))
	}
	fail(err)
	fail(json.NewEncoder(os.Stdout).Encode(report))
}

// program is the path of a hook program. Its last part must stay when it is linked to.
func program(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// deadline ends a test that hangs, with what it waited for as its error.
func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// shortDir is a temporary folder with a short name: Slurm's Unix sockets lie in it.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "h")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

const (
	blockID = "cr-0aaaaaaaaaaaaaaa1" // of partition gpu, open, 10 hours and a boot to the fence
	otherID = "cr-0aaaaaaaaaaaaaaa2" // of partition other
)

// snapshot has partitions gpu and other with a block each, in which a job has time for 10
// hours from now until the fence, when its nodes have booted.
func snapshot(now time.Time) *capacity.Snapshot {
	block := func(id string) capacity.Reservation {
		return capacity.Reservation{ID: id, Kind: capacity.CapacityBlock, State: capacity.StateActive,
			InstanceType: "p5.48xlarge", Region: "us-east-2", AZID: "use2-az1", AZ: "us-east-2a",
			Total: 4, Available: 4, Platform: "Linux/UNIX", Tenancy: "default",
			Start: now.Add(-time.Hour), End: now.Add(10*time.Hour + 50*time.Minute)}
	}
	partition := func(name, id string) capacity.Partition {
		return capacity.Partition{Name: name, Provider: capacity.ProviderEC2,
			MinTime: capacity.Duration{Duration: 30 * time.Minute},
			Groups: []capacity.NodeGroup{{Name: name, InstanceType: "p5.48xlarge", PurchaseOption: capacity.CapacityBlock, MaxNodes: 4, GPUs: 8,
				Subnets: []capacity.Subnet{{ID: "subnet-0a1", AZID: "use2-az1", AZ: "us-east-2a"}},
				Slots:   []capacity.Slot{{Name: name, ReservationIDs: []string{id}, Nodes: name + "-[1-8]"}}}}}
	}
	minutes := func(n int) capacity.Duration { return capacity.Duration{Duration: time.Duration(n) * time.Minute} }
	return &capacity.Snapshot{TakenAt: now, Region: "us-east-2", DefaultPartition: "static",
		Submit:       capacity.Submit{Strict: true, StaleAfter: minutes(600)},
		Timing:       capacity.Timing{DrainMargin: minutes(10), BootAllowance: minutes(10), ReclaimLead: minutes(30), ReclaimLeadUltraServer: minutes(60)},
		Partitions:   []capacity.Partition{partition("gpu", blockID), partition("other", otherID)},
		Reservations: []capacity.Reservation{block(blockID), block(otherID)}}
}

func writeSnapshot(t testing.TB, dir state.Dir) {
	t.Helper()
	if err := dir.WriteSnapshot(snapshot(time.Now())); err != nil {
		t.Fatal(err)
	}
}
