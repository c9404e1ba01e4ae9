package pcs

import (
	"context"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim/awssimtest"
)

// reads are the calls without an effect.
func reads(ctx context.Context, shared *awsconfig.Shared) {
	c := From(shared)
	_, _ = c.Clusters(ctx)
	_, _ = c.Cluster(ctx, "ml")
	_, _ = c.Inventory(ctx, "ml")
	_, _, _ = c.NodeGroup(ctx, "ml", "compute")
	_, _ = c.Slots(ctx, "ml", []string{"compute"})
	_, _ = c.RoleOf(ctx, "arn:aws:iam::111122223333:instance-profile/AWSPCS-lab")
}

// FuzzAnswers: the client reads or refuses every answer of PCS.
func FuzzAnswers(f *testing.F) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	refusal := `{"__type":"ConflictException","message":"x"}`
	awssimtest.FuzzAnswers(f, now, "application/x-amz-json-1.0", refusal, reads, reads)
}
