package canary

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
)

// newFree is a free run against a simulator on whose clock it waits.
func newFree(t *testing.T) (*awssim.Sim, func() *Free) {
	t.Helper()
	sim, err := awssim.New(nil, awssim.NewClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sim.Close() })
	if _, err := sim.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	files := t.TempDir()
	for _, kv := range append(sim.Env(), "AWS_MAX_ATTEMPTS=1", "AWS_CONFIG_FILE="+filepath.Join(files, "config"), "AWS_SHARED_CREDENTIALS_FILE="+filepath.Join(files, "credentials")) {
		key, value, _ := strings.Cut(kv, "=")
		t.Setenv(key, value)
	}
	return sim, func() *Free {
		client, err := ec2.New(t.Context(), ec2.Options{Region: "us-east-2"})
		if err != nil {
			t.Fatal(err)
		}
		return &Free{EC2: client, Mark: Mark("ml"), InstanceType: SmallType, BlockType: "p5.48xlarge", ImageID: SmallImage, Subnet: "subnet-0e200000000000a01",
			Wait: func(ctx context.Context, d time.Duration) error {
				sim.Clock().Advance(d)
				return ctx.Err()
			}}
	}
}

// leftOf is what carries the mark and costs money.
func leftOf(sim *awssim.Sim) (left []string) {
	for _, r := range sim.Reservations("us-east-2") {
		if r.Tags["pcs-capacity:cluster"] == Mark("ml") && (r.State == "active" || r.State == "pending") {
			left = append(left, r.ID)
		}
	}
	for _, i := range sim.Instances("us-east-2") {
		if i.Tags["pcs-capacity:cluster"] == Mark("ml") && i.State != "terminated" && i.State != "shutting-down" {
			left = append(left, i.ID)
		}
	}
	return left
}

func TestFree(t *testing.T) {
	sim, free := newFree(t)
	report, err := free().Run(t.Context())
	if err != nil || len(report.Answers) != len(Questions) {
		t.Fatal(err, report)
	}
	for _, a := range report.Answers {
		t.Logf("%s %s: %s", a.ID, a.Outcome, a.Evidence)
		if a.Outcome != Confirmed {
			t.Errorf("%+v", a)
		}
	}
	if left := leftOf(sim); left != nil {
		t.Error("left:", left)
	}
}

// TestFreeOtherwise has EC2 otherwise in one thing at a time: the run says what it saw, each other
// answer is confirmed or was not asked, and nothing is left.
func TestFreeOtherwise(t *testing.T) {
	for _, c := range []struct {
		name, id, evidence string
		otherwise          awssim.Otherwise
		unasked            []string
	}{
		{"no blocks", "block-quota", "CapacityBlockDescribeLimitExceeded: Your existing service limits", awssim.Otherwise{NoBlocks: true}, []string{"purchase-tags"}},
		{"plain purchases", "purchase-tags", "InvalidParameterValue: TagSpecifications are not supported", awssim.Otherwise{PlainPurchases: true}, nil},
		{"one interface", "all-interfaces", "InvalidParameterCombination: p5.48xlarge takes one", awssim.Otherwise{OneInterface: true}, nil},
		{"long holds", "short-odcr", "must be at least an hour ahead", awssim.Otherwise{LongHolds: true},
			[]string{"topology", "odcr-settles", "tags-settle", "full-code", "place-returns", "token-ends", "cancel-settles"}},
		{"no topology", "topology", "UnsupportedOperation: ", awssim.Otherwise{NoTopology: true}, nil},
		{"slow holds", "odcr-settles", "after 1m", awssim.Otherwise{SlowHolds: true}, nil},
		{"slow tags", "tags-settle", "after 1m", awssim.Otherwise{SlowTags: true}, nil},
		{"other full code", "full-code", "InsufficientInstanceCapacity: ", awssim.Otherwise{OtherFullCode: true}, nil},
		{"takes more", "full-code", "EC2 took it: i-…", awssim.Otherwise{TakesMore: true}, nil},
		{"tokens show", "token-ends", "EC2 took it: i-…, that of before", awssim.Otherwise{TokensShow: true}, nil},
		{"tokens renew", "token-ends", "EC2 took it: i-…, a new one", awssim.Otherwise{TokensRenew: true}, nil},
		{"slow places", "place-returns", "after 6m", awssim.Otherwise{SlowPlaces: true}, nil},
		{"slow cancels", "cancel-settles", "after 1m", awssim.Otherwise{SlowCancels: true}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			sim, free := newFree(t)
			sim.SetOtherwise(c.otherwise)
			report, err := free().Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range report.Answers {
				want := Confirmed
				switch {
				case a.ID == c.id:
					want = Refuted
				case slices.Contains(c.unasked, a.ID):
					want = Unknown
				}
				if a.Outcome != want || want == Refuted && !strings.Contains(a.Evidence, c.evidence) || want == Unknown && !strings.HasPrefix(a.Evidence, "not asked: ") {
					t.Errorf("want %s: %+v", want, a)
				}
			}
			if left := leftOf(sim); left != nil {
				t.Error("left:", left)
			}
			sim.Clock().Advance(10 * time.Minute)
			if left := leftOf(sim); left != nil {
				t.Error("left later:", left)
			}
		})
	}
}

// TestFreeUnclear has one call fail in a way that says nothing of its question: nothing is confirmed
// or refuted by it.
func TestFreeUnclear(t *testing.T) {
	for id, f := range map[string]awssim.Fault{
		"block-quota":    {Operation: "DescribeCapacityBlockOfferings", Effect: awssim.FailBefore, Code: "InvalidParameterValue", Message: "The instance type 'p5.48xlarge' is not supported for Capacity Blocks in 'us-east-2'."},
		"purchase-tags":  {Operation: "PurchaseCapacityBlock", Effect: awssim.FailBefore, Code: "UnauthorizedOperation", Message: "You are not authorized: arn:aws:iam::111122223333:user/ops"},
		"all-interfaces": {Operation: "DescribeInstanceTypes", Effect: awssim.CutBefore},
		"short-odcr":     {Operation: "CreateCapacityReservation", Effect: awssim.FailBefore, Code: "InsufficientInstanceCapacity", Status: 500},
		"topology":       {Operation: "DescribeCapacityReservationTopology", Effect: awssim.FailAfter, Code: "RequestLimitExceeded", Status: 503},
		"odcr-settles":   {Operation: "RunInstances", Skip: 1, Effect: awssim.FailBefore, Code: "VcpuLimitExceeded"},
		"full-code":      {Operation: "RunInstances", Skip: 2, Count: 1, Effect: awssim.CutAfter},
		"token-ends":     {Operation: "RunInstances", Skip: 3, Effect: awssim.FailBefore, Code: "ServiceUnavailable", Status: 503},
	} {
		t.Run(id, func(t *testing.T) {
			sim, free := newFree(t)
			if _, err := sim.AddFault(f); err != nil {
				t.Fatal(err)
			}
			report, err := free().Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range report.Answers {
				if a.Outcome == Refuted || (a.ID == id) != (a.Outcome == Unknown && !strings.HasPrefix(a.Evidence, "not asked: ")) {
					t.Errorf("%+v", a)
				}
			}
			text, err := json.Marshal(report)
			if err != nil || strings.Contains(string(text), "111122223333") || strings.Contains(string(text), "user/ops") {
				t.Error(err, string(text))
			}
			if left := leftOf(sim); left != nil {
				t.Error("left:", left)
			}
		})
	}
}

func TestRedact(t *testing.T) {
	const said = "User: arn:aws:sts::111122223333:assumed-role/ops/me is not authorized with AKIAIOSFODNN7EXAMPLE on i-0123456789abcdef0, cr-0123456789abcdef0 of 111122223333. " +
		"Encoded authorization failure message: aGVsbG8 at 2026-11-20T12:00:00Z in pcs_0123456789 after 15m0s"
	const want = "User: ARN is not authorized with KEY on i-…, cr-… of ACCOUNT. Encoded authorization failure message: … at 2026-11-20T12:00:00Z in pcs_… after 15m0s"
	if got := Redact(said); got != want {
		t.Error(got)
	}
}
