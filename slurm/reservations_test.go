package slurm_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

func reservation(t *testing.T, client *slurm.Client, name string) capacity.SlurmReservation {
	t.Helper()
	all, err := client.Reservations(deadline(t))
	check(t, err)
	at := slices.IndexFunc(all, func(r capacity.SlurmReservation) bool { return r.Name == name })
	if at < 0 {
		t.Fatalf("no reservation %s in %+v", name, all)
	}
	return all[at]
}

func TestReservationArguments(t *testing.T) {
	good := capacity.SlurmReservation{Name: "a", Nodes: []string{"gpu-1"}, Start: time.Now(), Users: []string{"root"}}
	for name, change := range map[string]func(r *capacity.SlurmReservation){
		"no name":          func(r *capacity.SlurmReservation) { r.Name = "" },
		"name with space":  func(r *capacity.SlurmReservation) { r.Name = "a nodes=ALL" },
		"no nodes":         func(r *capacity.SlurmReservation) { r.Nodes = nil },
		"bad nodes":        func(r *capacity.SlurmReservation) { r.Nodes = []string{"gpu-[1"} },
		"no users":         func(r *capacity.SlurmReservation) { r.Users = nil },
		"user with comma":  func(r *capacity.SlurmReservation) { r.Users = []string{"root,nobody"} },
		"flag with equals": func(r *capacity.SlurmReservation) { r.Flags = []string{"MAINT=x"} },
		"end before start": func(r *capacity.SlurmReservation) { r.End = r.Start.Add(-time.Second) },
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
