// Package filter is pcs-capacity-filter: it judges a job while it is being submitted.
// Only the Lua shims call it; see package hooks/submit. It links no AWS SDK and cannot reach
// the network.
package filter

import (
	"os"
	"time"

	"github.com/pcs-capacity/pcs-capacity/hooks/submit"
	"github.com/pcs-capacity/pcs-capacity/internal/hook"
)

// Main is the whole program. It returns the exit status: 1 when the answer cannot be
// written. After [submit.FilterDeadline] it ends the process without an answer.
func Main(args []string) int {
	time.AfterFunc(submit.FilterDeadline, func() { os.Exit(1) })
	answer := submit.Answer(args, time.Now(), hook.FilterLog())
	if _, err := os.Stdout.WriteString(answer); err != nil {
		return 1
	}
	return 0
}
