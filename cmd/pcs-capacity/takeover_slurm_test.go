package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// TestTakeOver: of two settings for one cluster, the second ones change nothing, and say whose it
// is; `sync --take-over` makes the fences anew as theirs, those of slots that they do not name
// and an active one too, and the first change nothing until they take it back.
func TestTakeOver(t *testing.T) {
	if !ownProcess(t) {
		return
	}
	r := newRehearsalIn(t, strings.Replace(rehearsalWorld, `end = "+205s"`, `end = "+31m"`, 1),
		strings.Replace(rehearsalConfig, `drain_margin = "5s"`, `drain_margin = "30m"`, 1), func(*slurmlab.Config) {})
	r.sim.Clock().Advance(2 * time.Minute) // the fence of slot gpu has begun
	r.sync()
	text, err := os.ReadFile(r.path)
	if err != nil {
		t.Fatal(err)
	}
	// The others have slot long alone.
	head, groups, _ := strings.Cut(string(text), "[[partition.node_group]]\n")
	long := strings.Split(groups, "[[partition.node_group]]\n")[1]
	path := filepath.Join(t.TempDir(), "config.toml")
	text = []byte(strings.ReplaceAll(head, r.cfg.StateDir, r.cfg.StateDir+"-other") + "[[partition.node_group]]\n" + long)
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	second, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}

	sync := func(cfg *config.Config, takeOver bool) (string, error) {
		t.Helper()
		var out, errs strings.Builder
		err := (&SyncCmd{TakeOver: takeOver}).Run(r.ctx, &terminal.Terminal{Out: &out, Err: &errs, Format: terminal.Table}, &Globals{}, cfg)
		if err != nil && !errors.Is(err, errShown) {
			t.Fatalf("%v\n%s%s", err, out.String(), errs.String())
		}
		return out.String() + errs.String(), err
	}
	shown := func() (all []string) {
		t.Helper()
		out, err := r.cluster.Command(r.ctx, "scontrol", "-o", "show", "reservation")
		if err != nil {
			t.Fatal(out, err)
		}
		for line := range strings.Lines(out) {
			all = append(all, strings.Join(strings.Fields(line), " "))
		}
		slices.Sort(all)
		return all
	}
	names := func() (all []string) {
		t.Helper()
		for _, line := range shown() {
			all = append(all, strings.TrimPrefix(strings.Fields(line)[0], "ReservationName="))
		}
		return all
	}
	refused := func(who string, cfg *config.Config, owner string) {
		t.Helper()
		before := shown()
		said, err := sync(cfg, false)
		if after := shown(); err == nil || !slices.Equal(before, after) {
			t.Errorf("%s: %v, said %s\nbefore %q\nafter %q", who, err, said, before, after)
		}
		if !strings.Contains(said, "this cluster belongs to other settings, of owner "+owner) || !strings.Contains(said, "pcs-capacity sync --take-over") {
			t.Errorf("%s are told %q", who, said)
		}
	}
	ownerOf := func(name string) string {
		parts := strings.Split(strings.TrimSuffix(name, ".2"), ".")
		return parts[len(parts)-1]
	}

	first := names()
	fences := len(slices.DeleteFunc(slices.Clone(first), func(n string) bool { return !strings.Contains(n, "-fence-") }))
	if active := r.reservations()["pcs-capacity-fence-gpu"].Active; fences != 3 || !active {
		t.Fatalf("there are %q; the first is active: %t", first, active)
	}
	refused("the others", second, ownerOf(first[0]))
	if _, err := os.Stat(second.StateDir + "/snapshot.json"); err == nil {
		t.Error("the others wrote a snapshot")
	}

	if said, err := sync(second, true); err != nil {
		t.Errorf("taking over: %v, %s", err, said)
	}
	taken := names()
	owner := ownerOf(taken[0])
	if len(taken) != fences || owner == ownerOf(first[0]) || slices.ContainsFunc(taken, func(n string) bool { return ownerOf(n) != owner || !strings.Contains(n, "-fence-") }) {
		t.Errorf("taken over: %q, of %q", taken, first)
	}
	if fence := r.reservations()["pcs-capacity-fence-gpu"]; !fence.Active || slurm.Compress(fence.Nodes) != "gpu-[1-4]" || !fence.Infinite() {
		t.Errorf("the active fence, taken over: %+v", fence)
	}
	if said, err := sync(second, false); err != nil || !slices.Equal(names(), taken) {
		t.Errorf("the next pass of who took over: %v, %s, %q", err, said, names())
	}
	refused("the first", r.cfg, owner)

	if said, err := sync(r.cfg, true); err != nil {
		t.Errorf("taking it back: %v, %s", err, said)
	}
	back := names()
	if !slices.Equal(slices.Sorted(slices.Values(back)), first) {
		t.Errorf("taken back: %q, at first %q", back, first)
	}
	r.expect() // nothing is left to do
	refused("the others", second, ownerOf(first[0]))
}
