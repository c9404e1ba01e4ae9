// Pcs-capacity-filter judges a job while it is being submitted. Only the Lua shims
// call it; see package hooks. It links no AWS SDK and cannot reach the network.
package main

import (
	"os"
	"time"

	"github.com/pcs-capacity/pcs-capacity/hooks"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

func main() {
	time.AfterFunc(hooks.FilterDeadline, func() { os.Exit(1) })
	answer := hooks.Answer(os.Args[1:], slurm.ParseLimit, time.Now(), hooks.FilterLog())
	if _, err := os.Stdout.WriteString(answer); err != nil {
		os.Exit(1)
	}
}
