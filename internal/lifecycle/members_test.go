package lifecycle

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// regroup puts a reservation into the resource group of the world, or takes it out.
func (w *world) regroup(operation, id string) {
	w.Helper()
	r := httptest.NewRequest(http.MethodPost, "/"+operation, strings.NewReader(fmt.Sprintf(`{"Group": "solos", "ResourceArns": ["arn:aws:ec2:us-east-2:111122223333:capacity-reservation/%s"]}`, id)))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIDSIMULATED/20270101/us-east-2/resource-groups/aws4_request")
	answer := httptest.NewRecorder()
	if w.sim.Handler().ServeHTTP(answer, r); answer.Code != http.StatusOK {
		w.Fatal(answer.Body)
	}
}

// A block that a resource group chooses has its fence. While nobody can list the group EC2 is
// asked for what was in it, so that an extension still moves the fence; and what somebody takes
// out of the group keeps its fence until it ends.
func TestR11_MembersOfAGroup(t *testing.T) {
	w := newWorld(t, 1)
	w.slurm.boot = 0
	w.sources.Settings.Partitions[1].Groups[0].Select = &capacity.Select{Group: "solos"}
	for len(w.blocks) == 0 {
		w.buy("solo", 4, 24*time.Hour)
		w.goTo(w.now().Add(30 * time.Minute))
		w.seeBlocks()
	}
	var id string
	for id = range w.blocks {
		w.regroup("group-resources", id)
	}
	pass := func(fails bool) *capacity.Snapshot {
		t.Helper()
		snap, err := w.pass(false)
		if (err != nil) != fails {
			t.Fatal(err)
		}
		return snap
	}
	pass(false)
	w.goTo(w.blocks[id].start.Add(time.Second))
	snap := pass(false)
	fence := w.fence()
	if r, _ := snap.Reservation(id); fence.IsZero() || !fence.Equal(snap.Timing.Window(r).Fence) {
		t.Fatalf("the fence is at %s", fence)
	}
	// the latter would be AWS's as a whole
	for _, fault := range []awssim.Fault{{Code: "ForbiddenException", Status: 403, Message: "no"}, {Code: "OptInRequired", Status: 403}} {
		fault.Service, fault.Effect = "resource-groups", awssim.FailBefore
		if _, err := w.sim.AddFault(fault); err != nil {
			t.Fatal(err)
		}
		if !w.extend(id) {
			t.Fatal("no extension")
		}
		w.goToWithout(w.now().Add(30 * time.Minute)) // it is paid
		if snap := pass(true); len(snap.Former) > 0 || !snap.Partitions[1].Has(id) || !strings.Contains(strings.Join(snap.Problems, "\n"), "what was known before is kept") {
			t.Errorf("former slots %+v, problems %q", snap.Former, snap.Problems)
		}
		if moved := w.fence().Sub(fence); moved != 24*time.Hour {
			t.Errorf("the fence has moved by %s", moved)
		}
		fence = w.fence()
		w.sim.ClearFaults()
	}
	w.regroup("ungroup-resources", id)
	if snap := pass(false); len(snap.Former) != 1 || w.fence() != fence {
		t.Errorf("out of the group: former %+v, the fence moved by %s", snap.Former, w.fence().Sub(fence))
	}
}
