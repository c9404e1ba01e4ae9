package pcs

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim/awssimtest"
)

// However long PCS takes, its end is noticed within a tenth of that and a fifth of a second, and
// asking for it takes few calls.
func TestPace(t *testing.T) {
	for _, test := range []struct {
		takes time.Duration
		looks int
	}{
		{0, 1},
		{500 * time.Millisecond, 4},
		{2 * time.Second, 11},
		{30 * time.Second, 40},
		{4 * time.Minute, 67},
		{20 * time.Minute, 163},
	} {
		var p Pace

		looks, at := 1, time.Duration(0) // the first is at once
		for ; at < test.takes; looks++ {
			at += p.Next(0)
		}

		if late := at - test.takes; late > min(test.takes/pollShare+minPoll, maxPoll) || looks > test.looks ||
			p.Waited() != at {
			t.Errorf("what takes %s is noticed %s late, by %d looks, want %d", test.takes, late, looks, test.looks)
		}
	}

	var fixed Pace
	for range 2 {
		if every := fixed.Next(time.Second); every != time.Second {
			t.Errorf("a fixed pace has become %s", every)
		}
	}

	if fixed.Waited() != 2*time.Second {
		t.Errorf("two seconds were %s", fixed.Waited())
	}
}

// A suspended cluster does not become ACTIVE by waiting.
func TestClusterThatIsNotActive(t *testing.T) {
	for status, want := range map[Status]string{
		Active:       "",
		Updating:     "run this again once it is ACTIVE",
		"RESUMING":   "run this again once it is ACTIVE",
		Suspending:   "move it to a newer Slurm",
		Suspended:    "move it to a newer Slurm",
		UpdateFailed: "fix what the update failed on",
		DeleteFailed: "name another cluster",
	} {
		what, fix := Cluster{Name: "ml", Status: status}.NotActive()
		if !strings.HasPrefix(fix, want) || (fix == "") != (want == "") ||
			want != "" && !strings.HasPrefix(what, "cluster ml is "+string(status)) {
			t.Errorf("%s: %s; %s", status, what, fix)
		}
	}
}

// reads are the calls without an effect.
func reads(ctx context.Context, shared *awsconfig.Shared) {
	c := From(shared)
	_, _ = c.Clusters(ctx)
	_, _ = c.Cluster(ctx, "ml")
	_, _ = c.Inventory(ctx, "ml")
	_, _, _ = c.NodeGroup(ctx, "ml", "compute")
	_, _, _ = c.Slots(ctx, "ml", []string{"compute"})
}

// FuzzAnswers: the client reads or refuses every answer of PCS.
func FuzzAnswers(f *testing.F) {
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	refusal := `{"__type":"ConflictException","message":"x"}`
	awssimtest.FuzzAnswers(f, now, "application/x-amz-json-1.0", refusal, reads, reads)
}
