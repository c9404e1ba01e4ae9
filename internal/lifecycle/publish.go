package lifecycle

import (
	"fmt"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// publish writes the snapshot and the plan for those who read them: slurmctld's own
// copy first, because state_dir may be on a file server that hangs.
func (p *pass) publish() {
	write := func(what string, err error) {
		if err != nil {
			err = fmt.Errorf("%s: %w", what, err)
			p.problem(capacity.StateFile, err)
			p.fail(err)
		}
	}
	if p.Local != "" && p.Local != p.State {
		write("local_dir", p.Local.WriteSnapshot(p.snap))
	}
	write("state_dir", p.State.WriteSnapshot(p.snap))
	write("state_dir", p.State.WriteFacts(p.facts()))
}
