package lifecycle

import (
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Slurm's own lock is compared for each partition that Slurm has; that accounts are free is said once, after them.
func TestUnlocked(t *testing.T) {
	nlp := []string{"nlp"}
	snap := &capacity.Snapshot{Partitions: []capacity.Partition{{Name: "all"}, {Name: "not-in-slurm", AllowAccounts: nlp}, {Name: "locked", AllowAccounts: nlp}, {Name: "open", AllowAccounts: nlp}}}
	got := unlocked(snap, &Cluster{Config: slurm.Config{Accounts: true}, Partitions: []capacity.SlurmPartition{{Name: "all"}, {Name: "locked", AllowAccounts: nlp}, {Name: "open"}}})
	if len(got) != 2 || !strings.HasPrefix(got[0].Text(), "partition open: ") || !strings.HasPrefix(got[1].Text(), "allow_accounts has no effect") {
		t.Errorf("%q", got)
	}
}
