package submit

import (
	"os"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/hook"
)

// Main is pcs-capacity-filter, which only the Lua shims call. It returns the exit status: 1 when the answer cannot be
// written. After [FilterDeadline] it ends the process without an answer.
func Main(args []string) int {
	time.AfterFunc(FilterDeadline, func() { os.Exit(1) })
	if _, err := os.Stdout.WriteString(Answer(args, time.Now(), hook.FilterLog())); err != nil {
		return 1
	}
	return 0
}
