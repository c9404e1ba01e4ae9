package lifecycle

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// What people read of the Slurm reservations of ours; that nodes are drained matters only where they are checked.
func TestSentencesOfGuards(t *testing.T) {
	r := func(kind, node string) capacity.SlurmReservation {
		return reservation("pcs-capacity-"+kind+"-gpu"+node+".cr-0."+me, []string{"gpu-1"}, at("1h"), at("2h"))
	}
	for _, c := range []struct {
		do, kind, node string
		want           string
	}{
		{"create", "fence", "", "place the fence %, no job runs on gpu-1 after 2026-11-20 13:00 UTC until 2026-11-20 14:00 UTC, when the next block opens"},
		{"delete", "fence", "", "remove the fence %, no reservation needs it"},
		{"create", "wait", "", "place the wait %, no job starts on gpu-1 before 2026-11-20 14:00 UTC"},
		{"delete", "wait", "", "remove the wait %, nothing holds jobs back from gpu-1 any more"},
		{"update", "surplus", "", "move %, no job starts on gpu-1: there are no instances for more nodes, or max_nodes allows no more"},
		{"delete", "surplus", "", "remove %, jobs get gpu-1 again"},
	} {
		e := ChangeGuard{Do: c.do, Slot: "gpu", R: r(c.kind, c.node)}
		want := "slot gpu: " + strings.Replace(c.want, "%", e.R.Name, 1)
		if diff := cmp.Diff(want, e.Sentence(capacity.Will)); diff != "" {
			t.Error(diff)
		}
	}
}
