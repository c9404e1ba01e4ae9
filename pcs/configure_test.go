package pcs_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

func (a *account) request(id string) pcs.ConfigureRequest {
	a.Helper()
	r, err := a.ec2.Reservation(a.Context(), id)
	if err != nil {
		a.Fatal(err)
	}
	return pcs.ConfigureRequest{Cluster: "ml", Group: "gpu-a", Reservation: r, SubnetIDs: []string{subnetA}, MaxNodes: 4}
}

func TestConfigure(t *testing.T) {
	a := newAccount(t)
	a.addGroup("gpu-a")
	before := a.writes()
	if changed, err := a.provisioner.Configure(t.Context(), a.request(openBlock)); changed || err != nil || a.writes() > before {
		t.Errorf("what is right: %v, %v", changed, err)
	}
	if changed, err := a.provisioner.Configure(t.Context(), a.request(laterBlock)); !changed || err != nil {
		t.Errorf("another block: %v, %v", changed, err)
	}
	g := a.group("gpu-a")
	template, _, err := a.ec2.LaunchTemplate(t.Context(), g.TemplateID, g.TemplateVersion)
	if err != nil || template.ReservationID != laterBlock || template.Version != "2" || g.Tags[capacity.TagReservation] != laterBlock || len(template.UserData) == 0 {
		t.Errorf("%+v with %+v, %v", g, template, err)
	}
	dynamic := a.request(sharedODCR)
	dynamic.Dynamic, dynamic.MaxNodes = true, 0
	if changed, err := a.provisioner.Configure(t.Context(), dynamic); !changed || err != nil {
		t.Errorf("an ODCR: %v, %v", changed, err)
	}
	if g := a.group("gpu-a"); g.PurchaseOption != capacity.OnDemand || g.Min != 0 || g.Max != 2 {
		t.Errorf("%+v", g)
	}
	if changed, err := a.provisioner.Configure(t.Context(), dynamic); changed || err != nil {
		t.Errorf("again: %v, %v", changed, err)
	}
}

func TestConfigureLeavesRunningNodes(t *testing.T) {
	a := newAccount(t)
	a.addGroup("gpu-a")
	if _, err := a.sim.LaunchForNodeGroup("ml", "gpu-a", "gpu-a-1"); err != nil {
		t.Fatal(err)
	}
	before := a.writes()
	if changed, err := a.provisioner.Configure(t.Context(), a.request(laterBlock)); changed || !errors.Is(err, pcs.ErrInUse) || a.writes() > before {
		t.Errorf("%v, %v", changed, err)
	}
	if changed, err := a.provisioner.Configure(t.Context(), a.request(openBlock)); changed || err != nil {
		t.Errorf("what is right: %v, %v", changed, err)
	}
}

func TestR9_ConfigureLeavesForeignGroups(t *testing.T) {
	a := newAccount(t)
	r := a.request(openBlock)
	r.Group = "compute"
	if changed, err := a.provisioner.Configure(t.Context(), r); changed || !errors.Is(err, pcs.ErrNotOurs) || a.writes() > 0 {
		t.Errorf("%v, %v", changed, err)
	}
	r.Group = "gpu-a"
	if _, err := a.provisioner.Configure(t.Context(), r); err == nil || a.writes() > 0 {
		t.Errorf("a group that is not there: %v", err)
	}
	a.addGroup("gpu-a")
	before := a.writes()
	if _, err := a.provisioner.Configure(t.Context(), a.request(gpuODCR)); err == nil || a.writes() > before {
		t.Errorf("another instance type: %v", err)
	}
}

// PCS says something that the SDK has no field for: an update loses it where it lies in a
// structure that is sent, such as the launch template, and not elsewhere.
func TestConfigureLosesNothingUnknown(t *testing.T) {
	a := newAccount(t)
	a.addGroup("gpu-a")
	mode := `"mode":"MERGE",`
	server := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		recorded := httptest.NewRecorder()
		a.sim.Handler().ServeHTTP(recorded, r)
		answer := recorded.Body.Bytes()
		if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".GetComputeNodeGroup") {
			answer = bytes.Replace(answer, []byte(`"customLaunchTemplate":{`), []byte(`"customLaunchTemplate":{`+mode), 1)
			answer = bytes.Replace(answer, []byte(`"status":`), []byte(`"nodeLifecycleActions":{"nodeReady":[]},"status":`), 1)
		}
		to.WriteHeader(recorded.Code)
		_, _ = to.Write(answer)
	}))
	defer server.Close()
	t.Setenv("AWS_ENDPOINT_URL", server.URL)
	shared, err := awsconfig.Load(t.Context(), awsconfig.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a.provisioner.PCS = pcs.From(shared)
	if changed, err := a.provisioner.Configure(t.Context(), a.request(openBlock)); changed || err != nil {
		t.Errorf("what is right: %v, %v", changed, err)
	}
	before := a.writes()
	changed, err := a.provisioner.Configure(t.Context(), a.request(laterBlock))
	if changed || !errors.Is(err, pcs.ErrUnknown) || !strings.Contains(err.Error(), "lose them: customLaunchTemplate.mode;") || a.writes() > before {
		t.Errorf("%v, %v", changed, err)
	}
	mode = ""
	if changed, err := a.provisioner.Configure(t.Context(), a.request(laterBlock)); !changed || err != nil {
		t.Errorf("without it: %v, %v", changed, err)
	}
}
