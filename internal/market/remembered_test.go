package market

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

func TestRemembered(t *testing.T) {
	dir := state.Dir(t.TempDir())
	if got, err := ReadRemembered(dir); err != nil || len(got.Found) != 0 {
		t.Fatalf("nothing remembered yet: %+v, %v", got, err)
	}
	fee, _ := capacity.ParseMoney("12345.678", capacity.USD)
	want := Remembered{InstanceType: "p5.48xlarge", Count: 4, Duration: capacity.Duration{Duration: 36 * time.Hour}, Region: "us-east-2",
		At: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), Found: []capacity.Offering{{ID: "cb-1", Fee: fee}}}
	if err := Remember(dir, want); err != nil {
		t.Fatal(err)
	}
	got, err := ReadRemembered(dir)
	if err != nil {
		t.Fatal(err)
	}
	sameAmount := cmp.Comparer(func(a, b capacity.Money) bool { return a == b })
	if diff := cmp.Diff(want, got, sameAmount); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
