package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/hooks/submit"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// rewrite changes the settings file.
func (r *rehearsal) rewrite(path string, change func(text string) string) {
	r.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(change(string(text))), 0o644)
	}
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rehearsal) snapshot() *capacity.Snapshot {
	r.Helper()
	snap, err := state.Dir(r.cfg.StateDir).ReadSnapshot()
	if err != nil {
		r.Fatal(err)
	}
	return snap
}

// passes waits until a watch with a poll of 1 s has made some more of them.
func (r *rehearsal) passes(n int) {
	r.Helper()
	r.until("a pass has been made", func() bool { _, err := os.Stat(state.Dir(r.cfg.StateDir).SnapshotPath()); return err == nil })
	for range n {
		last := r.snapshot().TakenAt
		r.until("another pass is made", func() bool { return r.snapshot().TakenAt.After(last) })
	}
}

// TestWatchFollowsTheSettings: `setup` adds a queue while `sync --watch` runs, somebody
// breaks the settings, mends them, and takes the queue out by hand.
func TestWatchFollowsTheSettings(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	filter, err := exec.LookPath("pcs-capacity-filter")
	if err != nil {
		t.Fatal(err)
	}
	r := newRehearsalOn(t, func(c *slurmlab.Config) {
		dir := state.Dir(filepath.Join(c.Dir, "capacity"))
		c.CLIFilterLua = submit.CLIFilter(dir.PlanPath(), string(dir), filter)
	})
	r.scontrol("create", "partitionname=more", "nodes=long-1")
	const fence, block = "pcs-capacity-fence-long", "cr-0e2000000000000b2"
	// One node group comes later, in a file of its own.
	var group string
	r.rewrite(r.path, func(text string) string {
		before, after, _ := strings.Cut(text, "[[partition.node_group]]\nname = \"long\"")
		long, rest, _ := strings.Cut(after, "[[partition.node_group]]")
		group = "[[partition.node_group]]\nname = \"long\"" + long
		return before + "[[partition.node_group]]" + rest
	})
	added := filepath.Join(filepath.Dir(r.path), "conf.d", "more.toml")
	if err := os.Mkdir(filepath.Dir(added), 0o755); err != nil {
		t.Fatal(err)
	}
	stop, said := r.watch()
	r.until("the first pass is made", func() bool { return r.has("pcs-capacity-fence-gpu") })
	tooLong := []string{"--hold", "-p", "more", "-t", "300-0"}
	if _, err := r.cluster.Submit(r.ctx, "true", tooLong...); err != nil {
		t.Errorf("a job of a partition that is not ours yet: %v", err)
	}

	if err := os.WriteFile(added, []byte("[[partition]]\nname = \"more\"\nprovider = \"ec2\"\nmin_time = \"1m\"\n"+group), 0o644); err != nil {
		t.Fatal(err)
	}
	r.until("the new partition has its fence", func() bool { return r.has(fence) })
	r.passes(10)
	if p, ok := r.snapshot().Partition("more"); !r.has(fence) || !ok || !p.Has(block) {
		t.Fatalf("the fence or the partition is gone again: %+v", r.snapshot().Partitions)
	}
	// Its users are filtered.
	if _, err := r.cluster.Submit(r.ctx, "true", tooLong...); err == nil || !strings.Contains(err.Error(), "pcs-capacity: ") || !strings.Contains(err.Error(), block) {
		t.Errorf("a job past the fence of the new partition: %v", err)
	}
	if id, err := r.cluster.Submit(r.ctx, "true", "--hold", "-p", "more"); err != nil {
		t.Error(err)
	} else if job, err := r.cluster.Job(r.ctx, id); err != nil || job["TimeLimit"] == "UNLIMITED" {
		t.Errorf("a job without a limit got none: %v, %v", job, err)
	}

	r.rewrite(added, func(text string) string { return text + "nonsense = 1\n" })
	r.passes(3)
	if n := strings.Count(said(), "nonsense"); n != 1 || !strings.Contains(said(), "the settings of before stay in use") {
		t.Errorf("broken settings were told of %d times:\n%s", n, said())
	}
	if _, ok := r.snapshot().Partition("more"); !r.has(fence) || !ok {
		t.Error("broken settings took the partition away")
	}

	// Taken out by hand, its fence stays while the block is live, and follows its end (R11).
	if err := os.Remove(added); err != nil {
		t.Fatal(err)
	}
	r.until("the partition has gone", func() bool { _, ok := r.snapshot().Partition("more"); return !ok })
	r.passes(3)
	if n := strings.Count(said(), "the settings no longer name reservation "+block); !r.has(fence) || n != 1 {
		t.Errorf("fence %t, told of %d times:\n%s", r.has(fence), n, said())
	}
	before := r.reservations()[fence].Start
	extend(r, block)
	r.until("the fence follows the extension", func() bool { return near(r.reservations()[fence].Start, before.Add(24*time.Hour)) })

	// As `sync` of another release or of cron would: nothing of it is kept in memory.
	stop()
	r.rewrite(r.path, func(text string) string {
		return strings.ReplaceAll(text, "cr-0e2000000000000a1", "cr-0e2000000000000d4")
	})
	stop, _ = r.watch()
	r.passes(2)
	if !r.has(fence) {
		t.Error("another program opened the fence")
	}
	// The open block of slot gpu was replaced by hand with one that opens later.
	if got := r.reservations()["pcs-capacity-fence-gpu"].Start; !near(got, r.fence("cr-0e2000000000000a1")) {
		t.Errorf("the fence of the open block moved to %s", got)
	}

	// Somebody takes the fence away: it does not come back.
	r.scontrol("delete", "reservationname="+r.reservations()[fence].Name)
	r.passes(3)
	if r.has(fence) || len(r.snapshot().Former) != 1 {
		t.Errorf("the fence is back: %t; former slots %+v", r.has(fence), r.snapshot().Former)
	}

	// The block that was replaced ends, and the next one counts.
	r.sim.Clock().Advance(10 * time.Minute)
	r.until("the fence is that of the next block", func() bool {
		return near(r.reservations()["pcs-capacity-fence-gpu"].Start, r.fence("cr-0e2000000000000d4").Add(-10*time.Minute))
	})
	// the snapshot comes after the fence
	r.until("no former slot is left", func() bool { return len(r.snapshot().Former) == 0 })
	stop()
}

// TestFenceOfAFormerSlotGoesWithItsBlock: nobody has to take it away.
func TestFenceOfAFormerSlotGoesWithItsBlock(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	r := newRehearsal(t)
	r.sync()
	r.cfg.Partitions[0].Groups = r.cfg.Partitions[0].Groups[1:]
	r.expect()
	r.sim.Clock().Advance(10 * time.Minute)
	if did := strings.Join(r.sync(), "; "); !strings.Contains(did, "delete-fence gpu") {
		t.Errorf("the pass did %q", did)
	}
}
