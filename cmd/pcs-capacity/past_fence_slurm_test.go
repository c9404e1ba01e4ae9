package main

import (
	"os/user"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// TestLong_SiteReservations: a site's Slurm reservation can be made over a fence, and its jobs heed the fence like any;
// with MAINT they do not, which sync says, and it lowers their limits.
func TestLong_SiteReservations(t *testing.T) {
	if !ownProcess(t) {
		return
	}

	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}

	r := newRehearsal(t)
	r.sync()

	create := func(name, node string, more ...string) {
		t.Helper()
		r.scontrol(append([]string{
			"create",
			"reservation",
			"ReservationName=" + name,
			"Nodes=" + node,
			"StartTime=now",
			"Duration=infinite",
			"Users=daemon," + me.Username,
		}, more...)...)
	}
	named := func() bool {
		doc := r.document()
		for _, p := range doc.Problems {
			if p.Code == "past-fence" {
				return true
			}
		}

		return false
	}

	create("plain", "gpu-1")

	const fourHours = "240"

	waits := r.submit("-C", "gpu", "-t", fourHours, "--reservation=plain")
	starts := r.submit("-C", "gpu", "-t", "30", "--reservation=plain")
	r.running(starts)
	r.sync()

	if j := r.job(waits); !j.Pending() || named() {
		t.Errorf("a job past the fence is %s; its reservation is named: %t", j.State, named())
	}

	create("heedless", "gpu-2", "Flags=MAINT")

	past := r.submit("-C", "gpu", "-t", fourHours, "--reservation=heedless")
	fence := r.fence("cr-0e2000000000000a1")
	if j := r.running(past); !j.End.After(fence) {
		t.Errorf("a job with MAINT ends at %s, before the fence at %s", j.End, fence)
	}

	r.sync()

	if !named() {
		t.Error("status does not name the reservation with MAINT")
	}

	if j := r.job(past); j.End.After(fence) || fence.Sub(j.End) > 2*time.Minute {
		t.Errorf("the job with MAINT ends at %s, the fence is at %s", j.End, fence)
	}

	snap, _, err := readSnapshot(r.cfg)
	if err != nil {
		t.Fatal(err)
	}

	v := capacity.Admit(capacity.Request{Partitions: []string{"gpu"}, Reservation: "heedless"}, snap, snap.TakenAt)
	if len(v.Warnings) == 0 {
		t.Error("a job that asks for it gets no word")
	}
}
