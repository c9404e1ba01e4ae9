package pcs_test

import (
	"bytes"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/mail"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim/shapes"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// Things of the simulator's default scenario, in us-east-2; its cluster is ml, with one
// node group that is not ours, compute.
const (
	openBlock  = "cr-0e2000000000000a1" // 16 × p5.48xlarge in use2-az1
	laterBlock = "cr-0e2000000000000a2" // the same, for the week after
	gpuODCR    = "cr-0e200000000000a11" // 4 × g6.12xlarge in use2-az1
	sharedODCR = "cr-0e200000000000a16" // of another account: 2 × p5.48xlarge in use2-az1
	subnetA    = "subnet-0e200000000000a01"
)

// account is a simulator whose clock stands still, and what talks to it over the wire.
type account struct {
	*testing.T
	sim         *awssim.Sim
	ec2         *ec2.Client
	provisioner pcs.Provisioner
}

func newAccount(t *testing.T, changes ...func(*awssim.Scenario)) *account {
	t.Helper()

	scenario := awssim.DefaultScenario()
	scenario.PCSDelay = 0
	for _, change := range changes {
		change(scenario)
	}

	sim, err := awssim.New(scenario, awssim.NewClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), 0))
	if err != nil {
		t.Fatal(err)
	}

	sim.OnResponse(func(service, operation string, status int, body []byte) {
		if err := shapes.CheckAnswer(service, operation, status, body); err != nil {
			t.Errorf("%v\nanswer (HTTP %d): %s", err, status, body)
		}
	})
	t.Cleanup(func() { _ = sim.Close() })

	if err := sim.Serve(t.Setenv, "AWS_MAX_ATTEMPTS=1"); err != nil {
		t.Fatal(err)
	}

	a := &account{T: t, sim: sim}
	if a.ec2, err = ec2.New(t.Context(), ec2.Options{}); err != nil {
		t.Fatal(err)
	}

	a.provisioner = pcs.Provisioner{PCS: pcs.From(a.ec2.Shared()), EC2: a.ec2, Poll: time.Millisecond}

	return a
}

// addGroup makes a node group of ours for the open block, with its launch template, as `pcs-capacity setup` does.
func (a *account) addGroup(name string) {
	a.Helper()
	compute := a.group("compute")
	tags := map[string]string{capacity.TagCluster: "ml", capacity.TagReservation: openBlock}

	template, err := a.ec2.EnsureLaunchTemplate(
		a.Context(),
		capacity.LaunchTemplateSpec{
			Name:          capacity.TemplateName("ml", name),
			From:          compute.TemplateID,
			FromVersion:   "1",
			ImageID:       compute.AMI,
			InstanceType:  "p5.48xlarge",
			ReservationID: openBlock,
			Kind:          capacity.CapacityBlock,
			Tags:          tags,
		},
	)
	if err != nil {
		a.Fatal(err)
	}

	_, _, err = a.provisioner.EnsureNodeGroup(
		a.Context(),
		pcs.NodeGroup{
			Name:           name,
			ClusterID:      compute.ClusterID,
			PurchaseOption: capacity.CapacityBlock,
			InstanceTypes: []string{
				"p5.48xlarge",
			},
			SubnetIDs:       []string{subnetA},
			AMI:             compute.AMI,
			InstanceProfile: compute.InstanceProfile,
			TemplateID:      template.ID,
			TemplateVersion: template.Version,
			Min:             4,
			Max:             4,
			Tags:            tags,
		},
		true,
	)
	if err != nil {
		a.Fatal(err)
	}
}

func (a *account) group(name string) pcs.NodeGroup {
	a.Helper()

	inv, err := a.provisioner.PCS.Inventory(a.Context(), "ml")
	if err != nil {
		a.Fatal(err)
	}

	g, found := inv.Group(name)
	if !found {
		a.Fatalf("there is no node group %s", name)
	}

	return g
}

// calls counts the calls of an operation; one that ends in * is any that begins so.
func (a *account) calls(operation string) int {
	prefix, any := strings.CutSuffix(operation, "*")
	n := 0
	for key, count := range a.sim.Calls() {
		if key.Operation == operation || any && strings.HasPrefix(key.Operation, prefix) {
			n += count
		}
	}

	return n
}

// writes counts the calls that change something.
func (a *account) writes() int {
	return a.calls("*") - a.calls("Describe*") - a.calls("Get*") - a.calls("List*")
}

// Of the cluster's custom settings, of which PCS takes the whole list only, those stay that are not meant.
func TestChangeClusterSettings(t *testing.T) {
	a := newAccount(t)
	for _, step := range []struct{ change, want map[string]string }{
		{
			map[string]string{"MinJobAge": "60", "Prolog": "/site/prolog"},
			map[string]string{"MinJobAge": "60", "Prolog": "/site/prolog"},
		},
		{
			map[string]string{"CliFilterPlugins": "cli_filter/lua"},
			map[string]string{"MinJobAge": "60", "Prolog": "/site/prolog", "CliFilterPlugins": "cli_filter/lua"},
		},
		{
			map[string]string{"CliFilterPlugins": "cli_filter/lua"},
			map[string]string{"MinJobAge": "60", "Prolog": "/site/prolog", "CliFilterPlugins": "cli_filter/lua"},
		},
		{map[string]string{"CliFilterPlugins": "", "Prolog": ""}, map[string]string{"MinJobAge": "60"}},
		{map[string]string{"MinJobAge": ""}, nil},
	} {
		if err := a.provisioner.ChangeClusterSettings(t.Context(), "ml", step.change); err != nil {
			t.Fatal(err)
		}

		c, err := a.provisioner.PCS.Cluster(t.Context(), "ml")
		if diff := cmp.Diff(step.want, c.SlurmSettings); err != nil || diff != "" || c.Status != pcs.Active {
			t.Errorf("%v: %s, %v\n%s", step.change, c.Status, err, diff)
		}
	}

	if n := a.calls("UpdateCluster"); n != 4 {
		t.Errorf("%d updates", n)
	}
}

// An update whose answer was lost is found to be done.
func TestChangeClusterSettingsAgain(t *testing.T) {
	a := newAccount(t)
	if _, err := a.sim.AddFault(awssim.Fault{Operation: "UpdateCluster", Effect: "fail-after", Count: 1}); err != nil {
		t.Fatal(err)
	}

	change := map[string]string{"CliFilterPlugins": "cli_filter/lua"}
	_ = a.provisioner.ChangeClusterSettings(t.Context(), "ml", change)
	n := a.calls("UpdateCluster")
	if err := a.provisioner.ChangeClusterSettings(t.Context(), "ml", change); err != nil ||
		a.calls("UpdateCluster") != n {
		t.Errorf("%v, %d updates after %d", err, a.calls("UpdateCluster"), n)
	}
}

// All slots of a cluster are read in one go, whatever their number: one list, and the tags of those that are asked for.
func TestSlots(t *testing.T) {
	a := newAccount(t)
	for _, name := range []string{"gpu-a", "gpu-b", "other-a"} {
		a.addGroup(name)
	}

	lists, tags, all := a.calls("ListComputeNodeGroups"), a.calls("ListTagsForResource"), a.calls("*")

	slots, failed, err := a.provisioner.PCS.Slots(
		t.Context(),
		"ml",
		[]string{"gpu-a", "gpu-b", "other-a", "other-b", "compute"},
	)
	want := map[string]string{"compute": "", "gpu-a": openBlock, "gpu-b": openBlock, "other-a": openBlock}
	if err != nil || !maps.Equal(slots, want) || len(failed) > 0 {
		t.Errorf("%+v, %v", slots, err)
	}

	if n := a.calls("ListComputeNodeGroups") - lists; n != 1 {
		t.Errorf("%d lists", n)
	}

	if n := a.calls("ListTagsForResource") - tags; n != 4 {
		t.Errorf("the tags of %d groups were read", n)
	}

	if n := a.calls("*") - all; n != 6 { // and GetCluster
		t.Errorf("%d calls", n)
	}
}

// Lists are read to their last page.
func TestListsOfSeveralPages(t *testing.T) {
	a := newAccount(t, func(s *awssim.Scenario) { s.PageSize = 1 })
	a.addGroup("gpu-a")
	a.addGroup("gpu-b")

	inv, err := a.provisioner.PCS.Inventory(t.Context(), "ml")
	if err != nil || len(inv.Groups) != 3 || len(inv.Queues) != 1 {
		t.Errorf("%d node groups, %d queues, %v", len(inv.Groups), len(inv.Queues), err)
	}

	if clusters, err := a.provisioner.PCS.Clusters(t.Context()); err != nil || len(clusters) == 0 {
		t.Errorf("clusters %+v, %v", clusters, err)
	}

	if n := a.calls("ListComputeNodeGroups"); n < 4 {
		t.Errorf("%d lists: the pages are too long", n)
	}
}

// A mark of another cluster is not ours (R9).
func TestR9_SlotsOfAnotherMark(t *testing.T) {
	a := newAccount(t)
	a.addGroup("gpu-a")

	other := map[string]string{capacity.TagCluster: "other"}
	if err := a.provisioner.PCS.Tag(t.Context(), a.group("gpu-a").ARN, other); err != nil {
		t.Fatal(err)
	}

	slots, failed, err := a.provisioner.PCS.Slots(t.Context(), "ml", []string{"gpu-a"})
	if err != nil || len(failed) > 0 || !maps.Equal(slots, map[string]string{"gpu-a": ""}) {
		t.Errorf("%+v, %v", slots, err)
	}
}

func TestUserDataIsMultipart(t *testing.T) {
	for plain, want := range map[string]string{
		"#!/bin/sh\necho up\n":          "text/x-shellscript",
		"#cloud-config\nmounts: []\n":   "text/cloud-config",
		"#cloud-boothook\n#!/bin/sh\n":  "text/cloud-boothook",
		"#include\nhttps://example.com": "text/x-include-url",
	} {
		wrapped, err := pcs.UserData([]byte(plain))
		if err != nil {
			t.Fatal(err)
		}

		message, err := mail.ReadMessage(bytes.NewReader(wrapped))
		if err != nil {
			t.Fatal(err)
		}

		_, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
		if err != nil {
			t.Fatal(err)
		}

		parts := multipart.NewReader(message.Body, parameters["boundary"])

		part, err := parts.NextPart()
		if err != nil {
			t.Fatal(err)
		}

		kind, _, _ := mime.ParseMediaType(part.Header.Get("Content-Type"))
		text, err := io.ReadAll(part)
		if kind != want || string(text) != plain || err != nil {
			t.Errorf("%q: %s, %q, %v", plain, kind, text, err)
		}

		if _, err := parts.NextPart(); err != io.EOF {
			t.Errorf("%q: more than one part: %v", plain, err)
		}

		if again, err := pcs.UserData(wrapped); err != nil || !bytes.Equal(again, wrapped) {
			t.Errorf("%q: wrapped again: %q, %v", plain, again, err)
		}
	}

	for _, want := range [][]string{
		{"#!/bin/sh\necho up"},
		{"#!/bin/sh\necho up\n\n", "#cloud-config\nmounts: []\n"},
		{"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\n#!/bin/sh\n--b--\n", "#!/bin/sh\n"},
	} {
		var parts [][]byte
		for _, part := range want {
			parts = append(parts, []byte(part))
		}

		archive, err := pcs.Archive(parts...)
		if got := pcs.Parts(archive); !slices.EqualFunc(got, parts, bytes.Equal) || err != nil {
			t.Errorf("%q became %q, %v", parts, got, err)
		}
	}

	for _, bad := range []string{"echo up\n", "\x1f\x8b\x08", "Content-Type: text/plain\n\nhello"} {
		if _, err := pcs.UserData([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}

	if none, err := pcs.UserData(pcs.Parts(nil)...); len(none) > 0 || err != nil {
		t.Errorf("nothing became %q, %v", none, err)
	}
}
