package pcs_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

func offeringQuery() ec2.OfferingQuery {
	return ec2.OfferingQuery{InstanceType: "p5.48xlarge", Count: 4, Duration: 48 * time.Hour}
}

func (w *world) configureRequest(id string) pcs.ConfigureRequest {
	w.Helper()
	r, err := w.ec2.Reservation(w.Context(), id)
	if err != nil {
		w.Fatal(err)
	}
	return pcs.ConfigureRequest{Cluster: "ml", Group: "gpu-a", Reservation: r, SubnetIDs: []string{subnetA}, MaxNodes: 4}
}

func TestConfigure(t *testing.T) {
	w := newWorld(t, nil)
	w.run(w.request(openBlock))
	w.written()
	if changed, err := w.setup.Configure(t.Context(), w.configureRequest(openBlock)); changed || err != nil || len(w.written()) > 0 {
		t.Errorf("what is right: %v, %v", changed, err)
	}
	if changed, err := w.setup.Configure(t.Context(), w.configureRequest(laterBlock)); !changed || err != nil {
		t.Errorf("another block: %v, %v", changed, err)
	}
	g := w.group("gpu-a")
	if template := w.template(g); template.ReservationID != laterBlock || template.Version != "2" || g.Tags[capacity.TagReservation] != laterBlock || !template.UserData {
		t.Errorf("%+v with %+v", g, template)
	}
	dynamic := w.configureRequest(sharedODCR)
	dynamic.Dynamic, dynamic.MaxNodes = true, 0
	if changed, err := w.setup.Configure(t.Context(), dynamic); !changed || err != nil {
		t.Errorf("an ODCR: %v, %v", changed, err)
	}
	if g := w.group("gpu-a"); g.PurchaseOption != capacity.OnDemand || g.Min != 0 || g.Max != 2 {
		t.Errorf("%+v", g)
	}
	if changed, err := w.setup.Configure(t.Context(), dynamic); changed || err != nil {
		t.Errorf("again: %v, %v", changed, err)
	}
}

func TestConfigureLeavesRunningNodes(t *testing.T) {
	w := newWorld(t, nil)
	w.run(w.request(openBlock))
	if _, err := w.sim.LaunchForNodeGroup("ml", "gpu-a", "gpu-a-1"); err != nil {
		t.Fatal(err)
	}
	w.written()
	if changed, err := w.setup.Configure(t.Context(), w.configureRequest(laterBlock)); changed || !errors.Is(err, pcs.ErrInUse) || len(w.written()) > 0 {
		t.Errorf("%v, %v", changed, err)
	}
	if changed, err := w.setup.Configure(t.Context(), w.configureRequest(openBlock)); changed || err != nil {
		t.Errorf("what is right: %v, %v", changed, err)
	}
}

func TestR9_ConfigureLeavesForeignGroups(t *testing.T) {
	w := newWorld(t, nil)
	r := w.configureRequest(openBlock)
	r.Group = "compute"
	if changed, err := w.setup.Configure(t.Context(), r); changed || !errors.Is(err, pcs.ErrNotOurs) || len(w.written()) > 0 {
		t.Errorf("%v, %v", changed, err)
	}
	r.Group = "gpu-a"
	if _, err := w.setup.Configure(t.Context(), r); err == nil || len(w.written()) > 0 {
		t.Errorf("a group that is not there: %v", err)
	}
	w.run(w.request(openBlock))
	w.written()
	if _, err := w.setup.Configure(t.Context(), w.configureRequest(gpuODCR)); err == nil || len(w.written()) > 0 {
		t.Errorf("another instance type: %v", err)
	}
}
