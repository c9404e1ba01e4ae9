package setup_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

func TestSetupOfABlock(t *testing.T) {
	w := newAccount(t, nil)
	p := w.run(w.request(openBlock))
	if p.Slot != "gpu-a" || actions(p) != "create create create create create" || len(p.Warnings) > 0 {
		t.Errorf("slot %s, %s, warnings %v", p.Slot, actions(p), p.Warnings)
	}
	g := w.group("gpu-a")
	if g.Status != pcs.Active || g.PurchaseOption != capacity.CapacityBlock || g.Min != 4 || g.Max != 4 || !slices.Equal(g.SubnetIDs, []string{subnetA}) ||
		g.AMI != image || g.InstanceProfile != "arn:aws:iam::111122223333:instance-profile/AWSPCS-nodes" ||
		g.Tags[capacity.TagReservation] != openBlock || g.Tags[capacity.TagCluster] != "ml" || !slices.Equal(g.InstanceTypes, []string{"p5.48xlarge"}) {
		t.Errorf("node group %+v", g)
	}
	template := w.template(g)
	if template.Name != "pcs-capacity-ml-gpu-a" || template.ReservationID != openBlock || template.InstanceType != "p5.48xlarge" || len(template.UserData) == 0 || len(template.SecurityGroupIDs) != 1 {
		t.Errorf("launch template %+v", template)
	}
	q, found := w.inventory().Queue("gpu")
	if !found || !slices.Equal(q.GroupIDs, []string{g.ID}) || q.Tags[capacity.TagCluster] != "ml" {
		t.Errorf("queue %+v", q)
	}
	c := w.config()
	part, _ := c.Partition("gpu")
	if c.Cluster != "ml" || c.Region != region || part.File != filepath.Join(w.dir, "etc", "conf.d", "gpu.toml") {
		t.Errorf("settings %+v", c)
	}
	want := []capacity.GroupSettings{{Name: "gpu", InstanceType: "p5.48xlarge", SubnetIDs: []string{subnetA}, PurchaseOption: capacity.CapacityBlock,
		ReservationIDs: []string{openBlock}, MaxNodes: 4}}
	if diff := cmp.Diff(want, part.Groups); diff != "" {
		t.Errorf("node groups (-want +got):\n%s", diff)
	}
	if _, found := w.inventory().Group("gpu-b"); found {
		t.Error("the other slot was filled too")
	}
}

// The next block goes into the other slot, and a third one into the slot whose block
// has ended; all share one queue and one entry of the settings.
func TestSetupOfTheNextBlocks(t *testing.T) {
	w := newAccount(t, nil)
	w.run(w.request(openBlock))
	second := w.request(laterBlock)
	second.Like, second.MaxNodes = "", 6 // the other slot serves
	if p := w.run(second); p.Slot != "gpu-b" || actions(p) != "create create update nothing update" {
		t.Errorf("second: slot %s, %s", p.Slot, actions(p))
	}
	if b := w.group("gpu-b"); b.AMI != image || w.template(b).ReservationID != laterBlock {
		t.Errorf("second %+v", b)
	}
	if q, _ := w.inventory().Queue("gpu"); len(q.GroupIDs) != 2 {
		t.Errorf("queue %+v", q)
	}
	part, _ := w.config().Partition("gpu")
	if len(part.Groups) != 1 || !slices.Equal(part.Groups[0].ReservationIDs, []string{openBlock, laterBlock}) || part.Groups[0].MaxNodes != 6 {
		t.Errorf("settings %+v", part)
	}
	bought := w.buyNextWeek()
	third := w.request(bought)
	third.MaxNodes = 2
	if p := w.plan(third); !slices.Equal(codes(p), []string{"slots-taken"}) || !strings.Contains(p.Mismatches[0].Sentence, "gpu-a has "+openBlock+" until 2026-11-25 11:30 UTC") {
		t.Errorf("third: %v", p.Mismatches)
	}
	w.sim.Clock().Advance(6 * 24 * time.Hour)
	p := w.run(third)
	if p.Slot != "gpu-a" || actions(p) != "update update nothing nothing update" {
		t.Errorf("third: slot %s, %s", p.Slot, actions(p))
	}
	a := w.group("gpu-a")
	if template := w.template(a); a.Max != 2 || a.Tags[capacity.TagReservation] != bought || template.ReservationID != bought || template.Version != "2" {
		t.Errorf("third: %+v with %+v", a, template)
	}
	// One entry stands for both slots, so it has the larger size.
	if part, _ := w.config().Partition("gpu"); part.Groups[0].MaxNodes != 6 {
		t.Errorf("settings %+v", part)
	}
	if p := w.plan(third); !p.Done() {
		t.Errorf("again: %s", actions(p))
	}
}

// PCS takes a minute for each thing; the run tells that it waits.
func TestSetupWaits(t *testing.T) {
	w := newAccount(t, func(s *awssim.Scenario) { s.PCSDelay = awssim.Duration(time.Minute) })
	var told []string
	w.setup.Progress = func(what, _, status string) {
		told = append(told, what+" "+status)
		if status == "wait" {
			w.sim.Clock().Advance(time.Minute)
		}
	}
	w.run(w.request(openBlock))
	want := []string{"file create", "file create", "launch template create", "compute node group create", "compute node group wait", "compute node group done",
		"queue create", "queue wait", "queue done"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

func TestSetupGivesUpWhenItsCallerDoes(t *testing.T) {
	w := newAccount(t, func(s *awssim.Scenario) { s.PCSDelay = awssim.Duration(time.Minute) })
	p := w.plan(w.request(openBlock))
	ctx, cancel := context.WithCancel(t.Context())
	w.setup.Progress = func(_, _, status string) {
		if status == "wait" {
			cancel()
		}
	}
	err := w.setup.Apply(ctx, p)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "CREATING") {
		t.Errorf("error %v", err)
	}
}

func TestSetupRepairsWhatPCSCouldNotCreate(t *testing.T) {
	w := newAccount(t, nil)
	w.sim.FailNodeGroups(2, "InternalError", "the block is gone")
	for range 2 { // the second failure is that of making it anew
		err := w.setup.Apply(t.Context(), w.plan(w.request(openBlock)))
		if err == nil || !strings.Contains(err.Error(), "PCS could not create node group gpu-a: InternalError: the block is gone") {
			t.Errorf("error %v", err)
		}
	}
	if g := w.group("gpu-a"); g.Status != pcs.CreateFailed {
		t.Fatalf("node group %+v", g)
	}
	p := w.run(w.request(openBlock))
	if actions(p) != "nothing replace create nothing nothing" || detail(p, "could not be created") != "InternalError: the block is gone" {
		t.Errorf("%s: %+v", actions(p), p.Steps())
	}
	if g := w.group("gpu-a"); g.Status != pcs.Active || len(w.inventory().Groups) != 2 {
		t.Errorf("node group %+v", g)
	}
	if p := w.plan(w.request(openBlock)); !p.Done() {
		t.Errorf("again: %s, %v", actions(p), p.Mismatches)
	}
}

func TestSetupRepairsWhatPCSCouldNotUpdate(t *testing.T) {
	w := newAccount(t, nil)
	w.run(w.request(openBlock))
	w.sim.FailNodeGroups(1, "InternalError", "no luck")
	r := w.request(openBlock)
	r.MaxNodes = 6
	if err := w.setup.Apply(t.Context(), w.plan(r)); err == nil || !strings.Contains(err.Error(), "PCS could not update node group gpu-a: InternalError: no luck") {
		t.Errorf("error %v", err)
	}
	p := w.run(r)
	if actions(p) != "nothing update nothing nothing nothing" || detail(p, "status") != "UPDATE_FAILED (InternalError: no luck) → ACTIVE" {
		t.Errorf("%s: %+v", actions(p), p.Steps())
	}
	if g := w.group("gpu-a"); g.Status != pcs.Active || g.Max != 6 {
		t.Errorf("node group %+v", g)
	}
}

func TestPlanWritesNothing(t *testing.T) {
	w := newAccount(t, nil)
	p := w.plan(w.request(openBlock))
	if writes := w.written(); len(writes) > 0 {
		t.Errorf("a plan sends %v", writes)
	}
	if _, err := os.Stat(filepath.Dir(w.configPath())); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a plan writes files: %v", err)
	}
	if len(p.Mismatches) > 0 || p.Done() || !strings.HasPrefix(p.DryRun, "EC2's dry run would launch a node of gpu-a") {
		t.Errorf("plan %+v", p)
	}
	w.fault(awssim.Fault{Effect: awssim.FailBefore, Operation: "RunInstances", Count: 1, Code: "UnauthorizedOperation"})
	p = w.plan(w.request(openBlock))
	if !strings.Contains(strings.Join(p.Warnings, "\n"), "whether EC2 would launch a node of gpu-a was not asked") || p.DryRun != "" {
		t.Errorf("without the right to ask: %q, %v", p.DryRun, p.Warnings)
	}
}

// An in-place change that is cut off goes on, too: here the slot of an ended block gets another one,
// time and again, with a fault at another call each time.
func TestR5_UpdateCanFailAtEveryWrite(t *testing.T) {
	w := newAccount(t, nil)
	w.run(w.request(openBlock))
	second := w.request(gpuODCR)
	second.Queue, second.NodeGroup = "other", "other"
	w.run(second)
	w.run(w.request(laterBlock))
	for _, operation := range []string{"CreateTags", "CreateLaunchTemplateVersion", "TagResource", "UpdateComputeNodeGroup"} {
		for _, effect := range []awssim.Effect{awssim.FailBefore, awssim.FailAfter, awssim.CutBefore, awssim.CutAfter} {
			next := w.request(w.buyNextWeek())
			w.sim.Clock().Advance(6 * 24 * time.Hour) // gpu-a is free
			if next.MaxNodes = 2; effect == awssim.FailAfter || effect == awssim.CutAfter {
				next.MaxNodes = 3
			}
			w.fault(awssim.Fault{Effect: effect, Operation: operation, Count: 1, Code: "AccessDeniedException"})
			_ = w.setup.Apply(t.Context(), w.plan(next))
			w.sim.ClearFaults()
			w.run(next)
			if p := w.plan(next); !p.Done() || p.Slot != "gpu-a" {
				t.Errorf("%s %s: slot %s, %s, %v", operation, effect, p.Slot, actions(p), p.Mismatches)
			}
			if a := w.group("gpu-a"); w.template(a).ReservationID != next.Reservation || a.Max != next.MaxNodes {
				t.Errorf("%s %s: node group %+v", operation, effect, a)
			}
			w.sim.Clock().Advance(5 * 24 * time.Hour) // that block has ended
		}
	}
}
