// Package filter is pcs-capacity-filter: it judges a job while it is being submitted.
// Only the Lua shims call it; see package hooks. It links no AWS SDK and cannot reach
// the network.
package filter

import (
	"os"
	"time"

	"github.com/pcs-capacity/pcs-capacity/hooks"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Main is the whole program. It returns the exit status: 1 when the answer cannot be
// written. After [hooks.FilterDeadline] it ends the process without an answer.
func Main(args []string) int {
	time.AfterFunc(hooks.FilterDeadline, func() { os.Exit(1) })
	answer := hooks.Answer(args, hooks.SlurmText{Limit: slurm.ParseLimit, GPUs: slurm.GPUs}, time.Now(), hooks.FilterLog())
	if _, err := os.Stdout.WriteString(answer); err != nil {
		return 1
	}
	return 0
}
