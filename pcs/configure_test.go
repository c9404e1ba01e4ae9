package pcs_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

func (a *account) request(id string) pcs.ConfigureRequest {
	a.Helper()

	r, err := ec2.Reservation(a.Context(), a.ec2, id)
	if err != nil {
		a.Fatal(err)
	}

	return pcs.ConfigureRequest{
		Cluster:     "ml",
		Group:       "gpu-a",
		Reservation: r,
		SubnetIDs:   []string{subnetA},
		MaxNodes:    4,
	}
}

func TestConfigure(t *testing.T) {
	a := newAccount(t)
	a.addGroup("gpu-a")

	before := a.writes()
	if changed, err := a.provisioner.Configure(t.Context(), a.request(openBlock)); changed || err != nil ||
		a.writes() > before {
		t.Errorf("what is right: %v, %v", changed, err)
	}

	if changed, err := a.provisioner.Configure(t.Context(), a.request(laterBlock)); !changed || err != nil {
		t.Errorf("another block: %v, %v", changed, err)
	}

	g := a.group("gpu-a")
	template, _, err := a.ec2.LaunchTemplate(t.Context(), g.TemplateID, g.TemplateVersion)
	if err != nil || template.ReservationID != laterBlock || template.Version != "2" ||
		g.Tags[capacity.TagReservation] != laterBlock ||
		len(template.UserData) == 0 {
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
	if changed, err := a.provisioner.Configure(t.Context(), a.request(laterBlock)); changed ||
		!errors.Is(err, pcs.ErrInUse) ||
		a.writes() > before {
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
	if changed, err := a.provisioner.Configure(t.Context(), r); changed || !errors.Is(err, pcs.ErrNotOurs) ||
		a.writes() > 0 {
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
			answer = bytes.Replace(
				answer,
				[]byte(`"customLaunchTemplate":{`),
				[]byte(`"customLaunchTemplate":{`+mode),
				1,
			)
			answer = bytes.Replace(
				answer,
				[]byte(`"status":`),
				[]byte(`"nodeLifecycleActions":{"nodeReady":[]},"status":`),
				1,
			)
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
	if changed || !errors.Is(err, pcs.ErrUnknown) ||
		!strings.Contains(err.Error(), "lose them: customLaunchTemplate.mode;") ||
		a.writes() > before {
		t.Errorf("%v, %v", changed, err)
	}

	mode = ""

	if changed, err := a.provisioner.Configure(t.Context(), a.request(laterBlock)); !changed || err != nil {
		t.Errorf("without it: %v, %v", changed, err)
	}
}

// PCS takes no change of what is being changed; that is waited for, within reason.
func TestConflictsAreWaitedFor(t *testing.T) {
	a := newAccount(t)
	a.addGroup("gpu-a")

	p, cluster := a.provisioner, pcs.Cluster{ID: a.group("gpu-a").ClusterID, Name: "ml"}
	queue := pcs.Queue{Name: "gpu", ClusterID: cluster.ID, Tags: map[string]string{capacity.TagCluster: "ml"}}
	with := func(group string) pcs.Queue {
		q := queue
		q.GroupIDs = []string{a.group(group).ID}
		return q
	}
	for _, c := range []struct {
		call string
		do   func() error
	}{
		{"CreateComputeNodeGroup", func() error { a.addGroup("gpu-b"); return nil }},
		{"CreateQueue", func() error { return p.EnsureQueue(t.Context(), with("gpu-a")) }},
		{"UpdateQueue", func() error { return p.EnsureQueue(t.Context(), with("gpu-b")) }},
		{
			"UpdateComputeNodeGroup",
			func() error { _, err := p.Configure(t.Context(), a.request(laterBlock)); return err },
		},
		{
			"UpdateCluster",
			func() error { return p.ChangeClusterSettings(t.Context(), "ml", map[string]string{"Prolog": "/x"}) },
		},
		{"DeleteQueue", func() error {
			return p.ReleaseQueue(t.Context(), cluster, "gpu",
				append(with("gpu-a").GroupIDs, with("gpu-b").GroupIDs...), true)
		}},
		{"DeleteComputeNodeGroup", func() error { return p.DeleteNodeGroup(t.Context(), cluster, "gpu-a") }},
	} {
		if _, err := a.sim.AddFault(
			awssim.Fault{
				Service:   "pcs",
				Effect:    awssim.FailBefore,
				Operation: c.call,
				Code:      "ConflictException",
				Count:     20,
			}); err != nil {
			t.Fatal(err)
		}

		if err := c.do(); err != nil {
			t.Errorf("%s: %v", c.call, err)
		}
	}

	if _, err := a.sim.AddFault(
		awssim.Fault{
			Service:   "pcs",
			Effect:    awssim.FailBefore,
			Operation: "UpdateCluster",
			Code:      "ConflictException",
		}); err != nil {
		t.Fatal(err)
	}

	if err := p.ChangeClusterSettings(t.Context(), "ml", map[string]string{"Prolog": "/y"}); pcs.Code(
		err,
	) != "ConflictException" {
		t.Errorf("for ever: %v", err)
	}
}

// What lacks our tag, by the time that it is to be changed, is left as it is.
func TestR9_OthersAreLeftAlone(t *testing.T) {
	a := newAccount(t)
	a.addGroup("gpu-a")
	p, g, ctx := a.provisioner, a.group("gpu-a"), t.Context()
	cluster := pcs.Cluster{ID: g.ClusterID, Name: "ml"}

	queue := pcs.Queue{
		Name:      "gpu",
		ClusterID: cluster.ID,
		GroupIDs:  []string{g.ID},
		Tags:      map[string]string{capacity.TagCluster: "ml"},
	}
	if err := p.EnsureQueue(ctx, queue); err != nil {
		t.Fatal(err)
	}

	inv, err := p.PCS.Inventory(ctx, "ml")
	q, _ := inv.Queue("gpu")
	other := map[string]string{capacity.TagCluster: "other"}
	if err := errors.Join(err, p.PCS.Tag(ctx, g.ARN, other), p.PCS.Tag(ctx, q.ARN, other)); err != nil {
		t.Fatal(err)
	}

	before := a.writes()
	bigger := g
	bigger.Max, queue.GroupIDs = 6, []string{a.group("compute").ID}
	for what, do := range map[string]func() error{
		"update a group": func() error { _, _, err := p.EnsureNodeGroup(ctx, bigger, true); return err },
		"delete a group": func() error { return p.DeleteNodeGroup(ctx, cluster, "gpu-a") },
		"update a queue": func() error { return p.EnsureQueue(ctx, queue) },
		"release it":     func() error { return p.ReleaseQueue(ctx, cluster, "gpu", []string{g.ID}, true) },
	} {
		if err := do(); !errors.Is(err, pcs.ErrNotOurs) || a.writes() != before {
			t.Errorf("%s: %v, %d writes", what, err, a.writes()-before)
		}
	}
}

// Whatever becomes of an answer, the same again comes to the same end.
func TestR5_ChangesThatFail(t *testing.T) {
	for _, call := range []string{
		"CreateComputeNodeGroup", "CreateQueue", "TagResource", "UpdateComputeNodeGroup", "UpdateQueue", "DeleteQueue",
		"DeleteComputeNodeGroup",
	} {
		for _, effect := range []awssim.Effect{awssim.FailBefore, awssim.FailAfter, awssim.CutBefore, awssim.CutAfter} {
			a := newAccount(t)
			a.addGroup("gpu-b")
			one := a.group("gpu-b")
			one.Name, one.ID, one.ARN = "gpu-a", "", ""
			cluster := pcs.Cluster{ID: one.ClusterID, Name: "ml"}

			if _, err := a.sim.AddFault(
				awssim.Fault{
					Service:   "pcs",
					Operation: call,
					Effect:    effect,
					Count:     1,
					Code:      "AccessDeniedException",
				}); err != nil {
				t.Fatal(err)
			}

			until := func(what string, do func() error) {
				t.Helper()

				if err := do(); err != nil {
					if err = do(); err != nil {
						t.Errorf("%s of %s, %s again: %v", effect, call, what, err)
					}
				}
			}
			p, ctx := a.provisioner, t.Context()
			until("made", func() error { _, _, err := p.EnsureNodeGroup(ctx, one, true); return err })

			ids := []string{a.group("gpu-a").ID, a.group("gpu-b").ID}
			for _, id := range ids {
				until("queued", func() error {
					return p.EnsureQueue(
						ctx,
						pcs.Queue{
							Name:      "gpu",
							ClusterID: cluster.ID,
							GroupIDs:  []string{id},
							Tags:      map[string]string{capacity.TagCluster: "ml"},
						},
					)
				})
			}

			until("another block", func() error { _, err := p.Configure(ctx, a.request(laterBlock)); return err })

			if g := a.group("gpu-a"); g.Tags[capacity.TagReservation] != laterBlock ||
				g.TemplateVersion != "2" && g.TemplateID == one.TemplateID {
				t.Errorf("%s of %s: %+v", effect, call, g)
			}

			until("released", func() error { return p.ReleaseQueue(ctx, cluster, "gpu", ids, true) })
			until("deleted", func() error { return p.DeleteNodeGroup(ctx, cluster, "gpu-a") })

			if inv, err := p.PCS.Inventory(ctx, "ml"); err != nil || len(inv.Groups) != 2 || len(inv.Queues) != 1 {
				t.Errorf("%s of %s: left are %+v, %v", effect, call, inv, err)
			}
		}
	}
}
