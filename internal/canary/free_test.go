package canary

import (
	"context"
	"path/filepath"
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

func TestRedact(t *testing.T) {
	const said = "User: arn:aws:sts::111122223333:assumed-role/ops/me is not authorized with AKIAIOSFODNN7EXAMPLE on i-0123456789abcdef0, cr-0123456789abcdef0 of 111122223333. " +
		"Encoded authorization failure message: aGVsbG8 at 2026-11-20T12:00:00Z in pcs_0123456789 after 15m0s"
	const want = "User: ARN is not authorized with KEY on i-…, cr-… of ACCOUNT. Encoded authorization failure message: … at 2026-11-20T12:00:00Z in pcs_… after 15m0s"
	if got := Redact(said); got != want {
		t.Error(got)
	}
}
