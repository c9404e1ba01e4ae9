// Package power is pcs-capacity-resume and pcs-capacity-suspend: Slurm's ResumeProgram,
// and its SuspendProgram and ResumeFailProgram. What they do is in package hooks/power.
//
// slurmctld calls them with a hostlist and an environment of SLURM_CONF and, for the
// former, SLURM_RESUME_FILE only, and discards what they print: they log to resume.log
// and suspend.log in `[log] dir` and to syslog.
package power

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// hostlist is the one argument of both programs. For a person who calls one without it, it prints the usage: ok is
// false, and the exit status is 2.
func hostlist(args []string, program, whatFor string) (nodes string, ok bool) {
	if len(args) == 1 && !strings.HasPrefix(args[0], "-") {
		return args[0], true
	}
	fmt.Fprintf(os.Stderr, `usage: pcs-capacity-%s HOSTLIST

Slurm's %s: slurm.conf names it, and slurmctld calls it with
the nodes. It prints nothing: see %[1]s.log in the folder that [log] dir of the settings
names, and syslog.
`, program, whatFor)
	return "", false
}

// untilTerminated ends with the signals that end a hook. Slurm 23.02 and newer end a
// ResumeProgram with SIGTERM at ResumeTimeout.
func untilTerminated() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
}
