package ec2

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
)

func TestReservationsAreTranslated(t *testing.T) {
	_, c := newSim(t)
	found, missing, err := c.Reservations(t.Context(), []string{openBlock, gpuODCR, borrowed, ultraBlock, sharedODCR})
	if err != nil || len(missing) > 0 || len(found) != 5 {
		t.Fatalf("found %v, missing %v, %v", found, missing, err)
	}

	want := capacity.Reservation{
		ID:   openBlock,
		ARN:  "arn:aws:ec2:us-east-2:111122223333:capacity-reservation/" + openBlock,
		Kind: capacity.CapacityBlock, State: capacity.StateActive, InstanceType: "p5.48xlarge", Region: homeRegion,
		AZID: "use2-az1", AZ: "us-east-2a", Total: 16, Available: 16, Platform: "Linux/UNIX", Tenancy: "default",
		OwnerID: "111122223333", MatchCriteria: "targeted", Created: time.Date(2026, 11, 18, 11, 30, 0, 0, time.UTC),
		Start: time.Date(2026, 11, 18, 11, 30, 0, 0, time.UTC), End: time.Date(2026, 11, 25, 11, 30, 0, 0, time.UTC),
	}
	if diff := cmp.Diff(want, found[0], cmpopts.IgnoreFields(capacity.Reservation{}, "Tags", "CapacityBlockIDs")); diff != "" {
		t.Errorf("open block (-want +got):\n%s", diff)
	}

	if found[0].Tags["team"] != "nlp" {
		t.Errorf("tags %v", found[0].Tags)
	}

	kinds := []capacity.Kind{found[1].Kind, found[2].Kind, found[3].Kind}
	if !slices.Equal(kinds, []capacity.Kind{capacity.ODCR, capacity.InterruptibleODCR, capacity.CapacityBlock}) {
		t.Errorf("kinds %v", kinds)
	}

	if !found[1].End.IsZero() {
		t.Errorf("an ODCR without end ends at %s", found[1].End)
	}

	if u := found[3]; !u.UltraServer || len(u.CapacityBlockIDs) != 2 || found[0].UltraServer {
		t.Errorf(
			"UltraServers: %v with blocks %v, plain block %v",
			u.UltraServer,
			u.CapacityBlockIDs,
			found[0].UltraServer,
		)
	}
}

// The owner of a shared reservation may know its zone by another name; the zone ID decides.
func TestR10_SharedReservationHasTheZoneID(t *testing.T) {
	_, c := newSim(t)

	r, err := Reservation(t.Context(), c, sharedODCR)
	if err != nil {
		t.Fatal(err)
	}

	subnets, _, err := c.Subnets(t.Context(), []string{subnetA})
	if err != nil {
		t.Fatal(err)
	}

	if r.AZID != "use2-az1" || subnets[0].AZID != r.AZID {
		t.Errorf("reservation in %s (%s), subnet in %s (%s)", r.AZID, r.AZ, subnets[0].AZID, subnets[0].AZ)
	}
}

func TestR8_OneBadIDNeverHidesTheOthers(t *testing.T) {
	_, c := newSim(t)
	ids := []string{openBlock, "cr-0ffffffffffffffff", "nonsense", gpuODCR, openBlock, ""}

	found, missing, err := c.Reservations(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}

	if len(found) != 2 || found[0].ID != openBlock || found[1].ID != gpuODCR {
		t.Errorf("found %v", found)
	}

	codes := map[string]string{}
	for _, m := range missing {
		codes[m.ID] = Code(m.Err)
	}

	want := map[string]string{
		"cr-0ffffffffffffffff": "InvalidCapacityReservationId.NotFound",
		"nonsense":             "InvalidCapacityReservationId.Malformed",
	}
	if diff := cmp.Diff(want, codes); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
}

// EC2's message need not name the bad id.
func TestR8_UnnamedBadIDIsFoundOneByOne(t *testing.T) {
	sim, c := newSim(t)
	fault(t, sim, awssim.Fault{
		Effect: awssim.FailBefore, Operation: "DescribeCapacityReservations",
		Code: "InvalidCapacityReservationId.NotFound", Message: "one of them", Count: 1,
	})

	found, missing, err := c.Reservations(t.Context(), []string{openBlock, "cr-0ffffffffffffffff", gpuODCR})
	if err != nil || len(found) != 2 || len(missing) != 1 {
		t.Errorf("found %v, missing %v, %v", found, missing, err)
	}
}

func TestR8_FailedQueryIsNotNone(t *testing.T) {
	sim, c := newSim(t)
	fault(
		t,
		sim,
		awssim.Fault{
			Effect:    awssim.FailBefore,
			Operation: "DescribeCapacityReservations",
			Code:      "UnauthorizedOperation",
		},
	)

	if _, _, err := c.Reservations(t.Context(), []string{openBlock}); Code(err) != "UnauthorizedOperation" {
		t.Errorf("by id: %v", err)
	}

	if _, err := c.FindReservations(t.Context(), ReservationQuery{Tags: map[string]string{"team": "nlp"}}); Code(
		err,
	) != "UnauthorizedOperation" {
		t.Errorf("by tag: %v", err)
	}

	_, err := Reservation(t.Context(), c, "")
	if err == nil {
		t.Error("an empty id is described")
	}
}

// An empty list of ids never selects every reservation.
func TestNoIDsAskNothing(t *testing.T) {
	sim, c := newSim(t)
	found, missing, err := c.Reservations(t.Context(), nil)
	if len(found)+len(missing) > 0 || err != nil || calls(sim, "DescribeCapacityReservations") > 0 {
		t.Errorf("found %v, missing %v, %v, %d calls", found, missing, err, calls(sim, "DescribeCapacityReservations"))
	}
}

func TestFindReservations(t *testing.T) {
	_, c := newSim(t)
	nlp, err := c.FindReservations(t.Context(), ReservationQuery{Tags: map[string]string{"team": "nlp"}})
	if err != nil || len(nlp) != 2 {
		t.Errorf("by tag: %v, %v", nlp, err)
	}

	all, err := c.FindReservations(t.Context(), ReservationQuery{})
	if err != nil || len(all) != 12 {
		t.Errorf("all: %d, %v", len(all), err)
	}
}

func TestUnhealthyHostsOfAnOpenBlock(t *testing.T) {
	sim, c := newSim(t)

	launched, err := c.Launch(
		t.Context(),
		capacity.Launch{
			ClientToken: "t", LaunchTemplate: nodes, InstanceType: "p5.48xlarge", SubnetID: subnetA,
			ReservationID: openBlock, Kind: capacity.CapacityBlock, Count: 2,
		},
	)
	if err != nil {
		t.Fatal(err)
	}

	if err := sim.FailHost(homeRegion, launched[0].ID); err != nil {
		t.Fatal(err)
	}

	r, err := Reservation(t.Context(), c, openBlock)
	if err != nil || r.Unhealthy != 1 || r.UsableSize() != 15 {
		t.Errorf("unhealthy %d, usable %d, %v", r.Unhealthy, r.UsableSize(), err)
	}
}

func TestImpairedInterconnect(t *testing.T) {
	for status, want := range map[types.CapacityBlockInterconnectStatus]bool{"impaired": true, "ok": false, "": false} {
		r := capacity.Reservation{}
		blocks{
			statuses: []types.CapacityBlockStatus{
				{InterconnectStatus: status, CapacityReservationStatuses: []types.CapacityReservationStatus{
					{CapacityReservationId: aws.String("cr-0")},
				}},
			},
		}.addHealth(
			map[string]*capacity.Reservation{"cr-0": &r},
		)

		if r.Interconnect != want {
			t.Errorf("%q: %t", status, r.Interconnect)
		}
	}
}

// A caller who may only call DescribeCapacityReservations still gets them. The type marks a block as an UltraServer,
// which EC2 reclaims earlier.
func TestBlocksWithoutPermissionForTheirStatus(t *testing.T) {
	t.Setenv("AWS_MAX_ATTEMPTS", "1") // the SDK would wait between its own attempts

	sim, c := newSim(t)
	for _, operation := range []string{"DescribeCapacityBlocks", "DescribeCapacityBlockStatus"} {
		fault(t, sim, awssim.Fault{Effect: awssim.FailBefore, Operation: operation, Code: "UnauthorizedOperation"})
	}

	found, _, err := c.Reservations(t.Context(), []string{openBlock, ultraBlock})
	if err != nil || len(found) != 2 || found[0].UltraServer || !found[1].UltraServer {
		t.Errorf("found %v, %v", found, err)
	}

	sim.ClearFaults()
	fault(t, sim, awssim.Fault{Effect: awssim.FailBefore, Operation: "DescribeCapacityBlocks", Code: "InternalError"})

	if _, _, err := c.Reservations(t.Context(), []string{openBlock}); Code(err) != "InternalError" {
		t.Errorf("a failed query is passed over: %v", err)
	}
}

// The extra calls for blocks can fail only where a block is live.
func TestBlocksThatAreExpected(t *testing.T) {
	t.Setenv("AWS_MAX_ATTEMPTS", "1")

	sim, c := newSim(t)
	asked := func(ids ...string) int {
		t.Helper()
		sim.ResetCalls()

		found, _, err := c.Reservations(t.Context(), ids)
		if err != nil || len(found) != len(ids) || len(c.Withheld()) != 0 {
			t.Fatalf("%v: %v, %v", ids, found, err)
		}

		calls := sim.Calls()

		return calls[awssim.CallKey{Service: "ec2", Operation: "DescribeCapacityBlocks", Region: homeRegion}] +
			calls[awssim.CallKey{Service: "ec2", Operation: "DescribeCapacityBlockStatus", Region: homeRegion}]
	}
	if n := asked(gpuODCR); n != 0 {
		t.Errorf("an ODCR costs %d questions about blocks", n)
	}

	if n := asked(openBlock); n != 2 {
		t.Errorf("a block costs %d", n)
	}

	if n := asked(); n != 0 {
		t.Errorf("nothing costs %d", n)
	}

	for _, operation := range []string{"DescribeCapacityBlocks", "DescribeCapacityBlockStatus"} {
		fault(t, sim, awssim.Fault{Effect: awssim.FailBefore, Operation: operation, Code: "InternalError"})
	}

	asked(gpuODCR)
	// They are asked for at once: neither waits for the reservations.
	sim.ClearFaults()
	fault(
		t,
		sim,
		awssim.Fault{
			Effect:    awssim.Delay,
			Operation: "DescribeCapacityReservations",
			Latency:   awssim.Duration(time.Hour),
		},
	)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	sim.ResetCalls()

	ended := make(chan error)
	go func() {
		_, _, err := c.Reservations(ctx, []string{openBlock})
		ended <- err
	}()

	for len(sim.Calls()) < 2 { // else the test ends by its deadline
		time.Sleep(time.Millisecond)
	}

	cancel()

	if err := <-ended; err == nil {
		t.Error("an answer that did not come")
	}
}

// renamed gives an instance type of a scenario another name.
func renamed(s *awssim.Scenario, from, to string) {
	for i := range s.InstanceTypes {
		if s.InstanceTypes[i].Name == from {
			s.InstanceTypes[i].Name = to
		}
	}

	for _, region := range s.Regions {
		for i := range region.Reservations {
			if region.Reservations[i].Type == from {
				region.Reservations[i].Type = to
			}
		}

		for i := range region.Offerings {
			if region.Offerings[i].Type == from {
				region.Offerings[i].Type = to
			}
		}

		for i := range region.Capacity {
			if region.Capacity[i].Type == from {
				region.Capacity[i].Type = to
			}
		}
	}
}

// EC2 reclaims UltraServers an hour before the end. If no answer marks a block as one, its type does.
func TestUltraServerIsKnownByItsType(t *testing.T) {
	_, c := newSim(t)
	half := capacity.Duration{Duration: 30 * time.Minute}
	timing := capacity.Timing{ReclaimLead: half}
	for instanceType, lead := range map[string]time.Duration{
		"trn2u.48xlarge":     time.Hour,
		"p6e-gb200.36xlarge": time.Hour,
		"trn2.48xlarge":      30 * time.Minute,
		"p6-b200.48xlarge":   30 * time.Minute,
		"p5.48xlarge":        30 * time.Minute,
	} {
		r := c.reservation(
			types.CapacityReservation{
				ReservationType: types.CapacityReservationTypeCapacityBlock,
				InstanceType:    aws.String(instanceType),
				EndDate:         aws.Time(noon),
			},
		)
		if got := r.End.Sub(timing.Window(r).Reclaim); got != lead {
			t.Errorf("%s is taken back %s before the end, want %s", instanceType, got, lead)
		}
	}
}

// The SDK reads an answer whole or not at all: one reservation that it cannot read hides no other. When none can be
// read, EC2 has not been asked.
func TestWithoutBadLeavesOutWhatCannotBeRead(t *testing.T) {
	broken := &smithy.OperationError{Err: &smithy.DeserializationError{Err: errors.New("EndDate")}}
	for ids, want := range map[string]string{
		"a":     "",
		"a b c": "",
		"a x c": "x",
		"x":     "failed",
		"x y":   "failed",
		"x a y": "x y",
	} {
		bad, err := skipBadIDs(strings.Fields(ids), "Invalid", func(ids []string) error {
			if slices.ContainsFunc(ids, func(id string) bool { return id > "w" }) {
				return broken
			}
			return nil
		})
		got := strings.Join(slices.Sorted(maps.Keys(bad)), " ")
		if err != nil {
			got = "failed"
		}

		if got != want {
			t.Errorf("of %s: %s, want %s", ids, got, want)
		}
	}
}

// UltraServers are known by any one of three signs: a wrong no would move the fence 30 minutes too late.
func TestUltraServersAreKnownByAnySign(t *testing.T) {
	t.Setenv("AWS_MAX_ATTEMPTS", "1")

	for name, c := range map[string]struct {
		ofType             string // the type that is sold in UltraServers here
		hideStatus, denied bool
		want               bool
	}{
		"the type":              {"trn2u.48xlarge", true, true, true},
		"another such type":     {"p6e-gb200.36xlarge", true, true, true},
		"EC2's launch status":   {"p7.48xlarge", false, true, true},
		"EC2's list of blocks":  {"p7.48xlarge", true, false, true},
		"nothing, of a new one": {"p7.48xlarge", true, true, true},
		"no sign":               {"p5.48xlarge", true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			scenario := awssim.DefaultScenario()
			scenario.HideLaunchStatus = c.hideStatus
			renamed(scenario, "trn2u.48xlarge", c.ofType)

			sim, client, _ := simOf(t, scenario)
			if c.denied {
				fault(
					t,
					sim,
					awssim.Fault{
						Effect:    awssim.FailBefore,
						Operation: "DescribeCapacityBlocks",
						Code:      "UnauthorizedOperation",
					},
				)
			}

			if r, err := Reservation(t.Context(), client, ultraBlock); err != nil || r.InstanceType != c.ofType ||
				r.UltraServer != c.want {
				t.Errorf("%s: UltraServer %t, %v; want %t", r.InstanceType, r.UltraServer, err, c.want)
			}
		})
	}
}

func ids(rs []capacity.Reservation) []string {
	var all []string
	for _, r := range rs {
		all = append(all, r.ID)
	}

	slices.Sort(all)

	return all
}

// A region can have more reservations than EC2 puts on one page.
func TestEveryReservationOfEveryPageIsRead(t *testing.T) {
	const many = pageSize + 100

	scenario := awssim.DefaultScenario()

	home := &scenario.Regions[0]
	home.Capacity = append(home.Capacity, awssim.CapacityScenario{Zone: "us-east-2a", Type: "c7i.4xlarge", Count: many})

	var want []string
	for n := range many {
		id := fmt.Sprintf("cr-%017x", n+1)
		want = append(want, id)
		home.Reservations = append(
			home.Reservations,
			awssim.ReservationScenario{
				ID:    id,
				Type:  "c7i.4xlarge",
				Zone:  "us-east-2a",
				Count: 1,
				Tags:  map[string]string{"many": "yes"},
			},
		)
	}

	sim, c, _ := simOf(t, scenario)
	listed, err := c.FindReservations(
		t.Context(),
		ReservationQuery{Tags: map[string]string{"many": "yes"}, Plain: true},
	)
	if err != nil || !slices.Equal(ids(listed), want) {
		t.Errorf("listed %d of %d, %v", len(listed), many, err)
	}

	if n := calls(sim, "DescribeCapacityReservations"); n != 2 {
		t.Errorf("%d calls for 2 pages", n)
	}

	found, missing, err := c.Reservations(t.Context(), want[:3])
	if err != nil || len(missing) > 0 || !slices.Equal(ids(found), want[:3]) {
		t.Errorf("by id: %v, missing %v, %v", ids(found), missing, err)
	}
}

func TestAccount(t *testing.T) {
	sim, c := newSim(t)
	if id, err := c.Account(t.Context()); id != "111122223333" || err != nil {
		t.Errorf("account %q, %v", id, err)
	}

	t.Setenv("AWS_ACCOUNT_ID", "444455556666")

	told, err := New(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}

	if id, err := told.Account(t.Context()); id != "444455556666" || err != nil {
		t.Errorf("account %q, %v", id, err)
	}

	if n := calls(sim, "GetCallerIdentity"); n != 1 {
		t.Errorf("%d calls", n)
	}
}

func holdOrder(token string) capacity.HoldOrder {
	return capacity.HoldOrder{
		ClientToken:  token,
		InstanceType: "g6.12xlarge",
		AZID:         "use2-az1",
		Platform:     "Linux/UNIX",
		Count:        1,
		End:          noon.Add(5 * time.Minute),
		Tags:         map[string]string{capacity.TagCluster: "ml", capacity.TagHold: "jobs 1/0"},
	}
}

// An ODCR of ours is targeted and has an end, a token and our tags; an order that lacks one is not sent.
func TestR4_Hold(t *testing.T) {
	sim, c := newSim(t)
	for name, spoil := range map[string]func(*capacity.HoldOrder){
		"no token":   func(o *capacity.HoldOrder) { o.ClientToken = "" },
		"no end":     func(o *capacity.HoldOrder) { o.End = time.Time{} },
		"no cluster": func(o *capacity.HoldOrder) { delete(o.Tags, capacity.TagCluster) },
		"no purpose": func(o *capacity.HoldOrder) { delete(o.Tags, capacity.TagHold) },
	} {
		o := holdOrder("t")
		spoil(&o)

		if _, err := c.CreateODCR(t.Context(), o); err == nil || calls(sim, "CreateCapacityReservation") != 0 {
			t.Errorf("%s: %v, %d calls", name, err, calls(sim, "CreateCapacityReservation"))
		}
	}

	fault(t, sim, awssim.Fault{Operation: "CreateCapacityReservation", Effect: awssim.CutAfter, Count: 1})

	r, err := c.CreateODCR(t.Context(), holdOrder("t"))
	if err != nil {
		t.Fatal(err)
	}

	if r.MatchCriteria != "targeted" || !r.End.Equal(noon.Add(5*time.Minute)) || r.Tags[capacity.TagCluster] != "ml" ||
		r.AZID != "use2-az1" ||
		r.Total != 1 {
		t.Errorf("%+v", r)
	}

	held, err := c.FindReservations(t.Context(), HoldsQuery("ml"))
	if err != nil || len(held) != 1 || held[0].ID != r.ID { // one, though it was asked for twice
		t.Fatalf("held %+v, %v", held, err)
	}

	if others, err := c.FindReservations(t.Context(), HoldsQuery("m")); err != nil || len(others) != 0 {
		t.Errorf("of another cluster: %+v, %v", others, err)
	}

	end := noon.Add(time.Hour)
	err = c.ModifyODCR(t.Context(), r.ID, 2, end)

	held, _ = c.FindReservations(t.Context(), HoldsQuery("ml"))
	if err != nil || held[0].Total != 2 || !held[0].End.Equal(end) {
		t.Errorf("changed: %+v, %v", held, err)
	}

	if err := c.ModifyODCR(t.Context(), r.ID, 1000, end); Code(err) != "InsufficientInstanceCapacity" {
		t.Errorf("more than there is: %v", err)
	}

	other := holdOrder("t")
	other.Count = 2
	if _, err := c.CreateODCR(t.Context(), other); !errors.Is(err, capacity.ErrTokenUsed) {
		t.Errorf("another order under the same token: %v", err)
	}

	other.ClientToken, other.Count = "u", 1000
	if _, err := c.CreateODCR(t.Context(), other); !errors.Is(err, capacity.ErrNoRoom) ||
		Code(err) != "InsufficientInstanceCapacity" {
		t.Errorf("more than there is: %v", err)
	}

	for range 2 { // what is gone already is no error
		if err := c.CancelODCR(t.Context(), r.ID); err != nil {
			t.Fatal(err)
		}
	}

	if held, err := c.FindReservations(t.Context(), HoldsQuery("ml")); err != nil || len(held) != 0 {
		t.Errorf("held %+v, %v", held, err)
	}
}
