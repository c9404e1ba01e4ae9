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
		for _, err := range []error{client.CreateReservation(context.Background(), r), client.UpdateReservation(context.Background(), r)} {
			if err == nil || errorsAsCall(err) {
				t.Errorf("%s: %v; want it refused before any call", name, err)
			}
		}
	}
}
