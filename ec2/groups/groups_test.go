package groups_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/ec2/groups"
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim/awssimtest"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim/shapes"
	"github.com/pcs-capacity/pcs-capacity/internal/permissions"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// name is the group of these tests.
var name = capacity.HoldGroupName("ml", "cpu")

// account is a simulator whose clock stands still, and what talks to it over the wire.
type account struct {
	*testing.T
	sim    *awssim.Sim
	ec2    *ec2.Client
	groups *groups.Client
}

func newAccount(t *testing.T) *account {
	t.Helper()

	scenario := awssim.DefaultScenario()
	scenario.PageSize = 4

	sim, err := awssim.New(scenario, awssim.NewClock(noon, 0))
	if err != nil {
		t.Fatal(err)
	}

	sim.OnResponse(func(service, operation string, status int, body []byte) {
		if err := shapes.CheckAnswer(service, operation, status, body); err != nil {
			t.Errorf("%v\nanswer (HTTP %d): %s", err, status, body)
		}
	})
	t.Cleanup(func() { _ = sim.Close() })

	if err := sim.Serve(t.Setenv); err != nil {
		t.Fatal(err)
	}

	client, err := ec2.New(t.Context(), ec2.Options{})
	if err != nil {
		t.Fatal(err)
	}

	return &account{t, sim, client, groups.From(client.Shared())}
}

// hold makes n ODCRs of one instance each.
func (a *account) hold(n int) (all []capacity.Reservation) {
	a.Helper()

	for i := range n {
		made, err := a.ec2.CreateODCR(a.Context(), capacity.HoldOrder{
			ClientToken:  string(rune('a' + i)),
			InstanceType: "c7i.4xlarge",
			AZID:         "use2-az1",
			Platform:     capacity.LinuxUNIX,
			Count:        1,
			End:          noon.Add(time.Hour),
			Tags:         map[string]string{capacity.TagCluster: "ml", capacity.TagHold: "jobs 1/0"},
		})
		if err != nil {
			a.Fatal(err)
		}

		all = append(all, made)
	}

	return all
}

func arnsOf(all []capacity.Reservation) (arns []string) {
	for _, r := range all {
		arns = append(arns, r.ARN)
	}
	return arns
}

func TestLifeOfAGroup(t *testing.T) {
	a := newAccount(t)
	tags := map[string]string{capacity.TagCluster: "ml"}

	if _, found, err := a.groups.Find(t.Context(), name); err != nil || found {
		t.Errorf("before: found %v, %v", found, err)
	}

	made, err := a.groups.Create(t.Context(), name, tags)
	if err != nil || made.Name != name || !strings.HasSuffix(made.ARN, ":group/"+name) {
		t.Errorf("created %+v, %v", made, err)
	}

	found, is, err := a.groups.Find(t.Context(), name)
	if diff := cmp.Diff(made, found); err != nil || !is || diff != "" || found.Tags[capacity.TagCluster] != "ml" {
		t.Errorf("found %v, %v\n%s", is, err, diff)
	}

	if _, err := a.groups.Create(t.Context(), name, tags); awsconfig.Code(err) != "BadRequestException" {
		t.Errorf("created again: %v", err)
	}

	for range 2 {
		if err := a.groups.Delete(t.Context(), name); err != nil {
			t.Error(err)
		}
	}

	_, listed := a.groups.Members(t.Context(), name)
	added := a.groups.Add(t.Context(), name, arnsOf(a.hold(1)))

	if !groups.IsNotFound(listed) || !groups.IsNotFound(added) {
		t.Errorf("without a group: %v, %v", listed, added)
	}
}

// All pages are read; AWS takes 10 reservations a call, and one that it refuses keeps no other out.
func TestMembers(t *testing.T) {
	a := newAccount(t)
	if _, err := a.groups.Create(t.Context(), name, nil); err != nil {
		t.Fatal(err)
	}

	holds := a.hold(12)
	if err := a.ec2.CancelODCR(t.Context(), holds[3].ID); err != nil {
		t.Fatal(err)
	}

	err := a.groups.Add(t.Context(), name, arnsOf(holds))
	if awsconfig.Code(err) == "" || !strings.Contains(err.Error(), holds[3].ARN) {
		t.Errorf("the error %v does not name %s", err, holds[3].ID)
	}

	if err := a.groups.Add(t.Context(), name, arnsOf(holds[:1])); err != nil {
		t.Errorf("added again: %v", err)
	}

	var want []string
	for _, r := range slices.Delete(slices.Clone(holds), 3, 4) {
		want = append(want, r.ID)
	}

	ids, err := a.groups.Members(t.Context(), name)
	if diff := cmp.Diff(want, ids); err != nil || diff != "" {
		t.Errorf("members: %v\n%s", err, diff)
	}

	if err := a.groups.Add(t.Context(), name, nil); err != nil {
		t.Errorf("added nothing: %v", err)
	}
}

// The policies of those who call allow what they call.
func TestPolicies(t *testing.T) {
	a := newAccount(t)
	steps := []struct {
		role string
		call func() error
	}{
		{"admin", func() error { _, err := a.groups.Create(t.Context(), name, nil); return err }},
		{"admin", func() error { _, _, err := a.groups.Find(t.Context(), name); return err }},
		{"sync", func() error { return a.groups.Add(t.Context(), name, arnsOf(a.hold(1))) }},
		{"sync", func() error { _, err := a.groups.Members(t.Context(), name); return err }},
		{"admin", func() error { return a.groups.Delete(t.Context(), name) }},
	}

	for _, step := range steps {
		a.sim.ResetCalls()

		if err := step.call(); err != nil {
			t.Error(err)
		}

		for _, action := range a.sim.CalledBy("AKIASIMULATED") {
			if !permissions.Allows(step.role, action) || !permissions.Allows("admin", action) {
				t.Errorf("the policy of %s does not allow %s", step.role, action)
			}
		}
	}

	if permissions.Allows("hooks", "resource-groups:GroupResources") {
		t.Error("hooks may change groups")
	}
}

// A reservation whose addition is pending takes no launch yet.
func TestPendingIsNoMember(t *testing.T) {
	a := newAccount(t)
	minute := awssim.Duration(time.Minute)
	a.sim.SetLag(awssim.Lag{Groups: &minute})

	if _, err := a.groups.Create(t.Context(), name, nil); err != nil {
		t.Fatal(err)
	}

	if err := a.groups.Add(t.Context(), name, arnsOf(a.hold(1))); err != nil {
		t.Errorf("added: %v", err)
	}

	for _, want := range []int{0, 1} {
		ids, err := a.groups.Members(t.Context(), name)
		if len(ids) != want || err != nil {
			t.Errorf("%d members, want %d: %v", len(ids), want, err)
		}

		a.sim.Clock().Advance(time.Minute)
	}
}

// What AWS denies is named as IAM names it; a call that it throttles is sent again.
func TestRefusals(t *testing.T) {
	a := newAccount(t)
	throttled := awssim.Fault{
		Effect: awssim.FailBefore,
		Code:   "TooManyRequestsException",
		Status: http.StatusTooManyRequests,
		Count:  1,
	}

	for _, f := range []awssim.Fault{throttled, awssim.Denies("resource-groups:CreateGroup")} {
		if _, err := a.sim.AddFault(f); err != nil {
			t.Fatal(err)
		}
	}

	if _, found, err := a.groups.Find(t.Context(), name); err != nil || found {
		t.Errorf("throttled once: %v, %v", found, err)
	}

	_, err := a.groups.Create(t.Context(), name, nil)

	var denied *awsconfig.Denied
	if !errors.As(err, &denied) || denied.Action != "resource-groups:CreateGroup" ||
		!strings.Contains(err.Error(), awsconfig.Allow) {
		t.Errorf("denied: %v", err)
	}
}

// FuzzAnswers: the client reads or refuses every answer of Resource Groups.
func FuzzAnswers(f *testing.F) {
	calls := func(ctx context.Context, shared *awsconfig.Shared) {
		c := groups.From(shared)
		_, _ = c.Create(ctx, name, nil)
		_, _, _ = c.Find(ctx, name)
		_ = c.Add(ctx, name, []string{"arn:aws:ec2:us-east-2:111122223333:capacity-reservation/cr-0e200000000000a11"})
		_, _ = c.Members(ctx, name)
		_ = c.Delete(ctx, name)
	}
	awssimtest.FuzzAnswers(f, noon, "application/json",
		`{"__type":"com.amazonaws.resourcegroups#NotFoundException","Message":"no"}`, calls, calls)
}
