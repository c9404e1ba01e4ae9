package slurm_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/slurm"
)

func reservation(t *testing.T, client *slurm.Client, name string) slurm.Reservation {
	t.Helper()
	all, err := client.Reservations(deadline(t))
	check(t, err)
	at := slices.IndexFunc(all, func(r slurm.Reservation) bool { return r.Name == name })
	if at < 0 {
		t.Fatalf("no reservation %s in %+v", name, all)
	}
	return all[at]
}

// TestEnsureReservation walks one reservation through the life of a fence:
// placed ahead, moved, active, active and moved away, ended.
func TestEnsureReservation(t *testing.T) {
	cluster, client := start(t)
	ctx := deadline(t)
	now := time.Now().Truncate(time.Second)
	want := slurm.Reservation{
		Name: "pcscap-gpu.fence_1", Nodes: "gpu-[1-2]", Start: now.Add(time.Hour),
		Flags: []string{"MAINT", "IGNORE_JOBS"}, Users: []string{"root"}, Comment: "ours",
	}
	// A job that runs on the nodes: IGNORE_JOBS must let the fence over it.
	running := submit(t, cluster, "sleep 1000", "-p", "gpu", "-N4")
	waitJob(t, client, running, slurm.Job.Running)

	version, err := client.Version(ctx)
	check(t, err)
	ensure := func(expected slurm.Action, active bool) {
		t.Helper()
		got, err := client.EnsureReservation(ctx, want, now)
		if err != nil || got != expected {
			t.Fatalf("EnsureReservation = %v, %v; want %v", got, err, expected)
		}
		have := reservation(t, client, want.Name)
		nodes, _ := slurm.Expand(have.Nodes)
		wanted, _ := slurm.Expand(want.Nodes)
		if have.Active != active || !slices.Equal(nodes, wanted) || !slices.Contains(have.Flags, "MAINT") || !slices.Contains(have.Flags, "IGNORE_JOBS") || !slices.Equal(have.Users, want.Users) {
			t.Fatalf("have %+v, want %+v", have, want)
		}
		if !active && !have.Start.Equal(want.Start) || want.End.IsZero() != have.Infinite() || !want.End.IsZero() && !have.End.Equal(want.End) {
			t.Fatalf("have %v to %v, want %v to %v", have.Start, have.End, want.Start, want.End)
		}
		if comment := map[bool]string{true: want.Comment}[version.ReservationComments()]; have.Comment != comment {
			t.Errorf("comment %q, want %q", have.Comment, comment)
		}
		again, err := client.EnsureReservation(ctx, want, now)
		if err != nil || again != slurm.Unchanged {
			t.Fatalf("a second EnsureReservation = %v, %v", again, err)
		}
	}
	ensure(slurm.Created, false)
	want.Start = now.Add(2 * time.Hour) // the block was extended
	ensure(slurm.Updated, false)
	want.Nodes = "gpu-[1-4]"
	ensure(slurm.Updated, false)
	want.End = now.Add(30 * time.Hour) // the next block is known
	ensure(slurm.Updated, false)
	want.Start = now.Add(-time.Minute) // due
	ensure(slurm.Updated, true)
	want.Start = now.Add(-time.Second) // has begun: when exactly does not matter
	ensure(slurm.Unchanged, true)
	want.Nodes = "gpu-[2-4]"
	ensure(slurm.Updated, true)
	want.End = time.Time{}
	ensure(slurm.Updated, true)
	want.Start = now.Add(3 * time.Hour) // an active one cannot move
	ensure(slurm.Replaced, false)
	want.Users = []string{"root", "daemon"}
	ensure(slurm.Replaced, false)

	if jobs, err := client.Jobs(ctx); err != nil || len(jobs) == 0 || !jobs[0].Running() || jobs[0].Restarts != 0 {
		t.Errorf("the running job: %+v, %v", jobs, err)
	}
	wantError(t, client.CreateReservation(ctx, want), slurm.ErrReserved)
	check(t, client.DeleteReservation(ctx, want.Name))
	wantError(t, client.DeleteReservation(ctx, want.Name), slurm.ErrNoReserve)
}

// TestEnsureReservationAfterItsEnd: an ended reservation lingers in the list
// and must not be taken for the wanted one.
func TestEnsureReservationAfterItsEnd(t *testing.T) {
	_, client := start(t)
	ctx := deadline(t)
	now := time.Now().Truncate(time.Second)
	old := slurm.Reservation{
		Name: "pcscap-old", Nodes: "gpu-1", Start: now, End: now.Add(2 * time.Second),
		Flags: []string{"MAINT", "IGNORE_JOBS"}, Users: []string{"root"},
	}
	check(t, client.CreateReservation(ctx, old))
	poll(t, "the end of the reservation", func() (bool, bool) {
		all, err := client.Reservations(ctx)
		check(t, err)
		return true, len(all) == 0 || !all[0].Active && time.Now().After(old.End)
	})
	want := old
	want.Start, want.End = now.Add(time.Hour), now.Add(2*time.Hour)
	action, err := client.EnsureReservation(ctx, want, time.Now())
	if err != nil || action != slurm.Replaced && action != slurm.Created {
		t.Fatalf("EnsureReservation = %v, %v", action, err)
	}
	if have := reservation(t, client, want.Name); !have.Start.Equal(want.Start) || !have.End.Equal(want.End) || have.Active {
		t.Errorf("have %+v", have)
	}
}

func TestReservationArguments(t *testing.T) {
	good := slurm.Reservation{Name: "a", Nodes: "gpu-1", Start: time.Now(), Users: []string{"root"}}
	for name, change := range map[string]func(r *slurm.Reservation){
		"no name":          func(r *slurm.Reservation) { r.Name = "" },
		"name with space":  func(r *slurm.Reservation) { r.Name = "a nodes=ALL" },
		"no nodes":         func(r *slurm.Reservation) { r.Nodes = "" },
		"bad nodes":        func(r *slurm.Reservation) { r.Nodes = "gpu-[1" },
		"no users":         func(r *slurm.Reservation) { r.Users = nil },
		"user with comma":  func(r *slurm.Reservation) { r.Users = []string{"root,nobody"} },
		"flag with equals": func(r *slurm.Reservation) { r.Flags = []string{"MAINT=x"} },
		"end before start": func(r *slurm.Reservation) { r.End = r.Start.Add(-time.Second) },
	} {
		r := good
		change(&r)
		client := &slurm.Client{Dir: "/nonexistent"} // nothing may be run
		_, ensureErr := client.EnsureReservation(context.Background(), r, time.Now())
		for _, err := range []error{client.CreateReservation(context.Background(), r), client.UpdateReservation(context.Background(), r), ensureErr} {
			if err == nil || errorsAsCall(err) {
				t.Errorf("%s: %v; want it refused before any call", name, err)
			}
		}
	}
}
