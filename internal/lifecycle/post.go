package lifecycle

import (
	"context"
	"fmt"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

// post is the post of the one service that makes the passes with a state_dir.
type post struct {
	Watch
	lease *state.Lease
}

// take waits until this service has the post. A wait ends with the settings as they are then, and with the result of
// reading them. A lease that cannot be read is no reason to wait: the pass will change nothing, and say why.
func (p *post) take(ctx context.Context, sources Sources, read error) (next Sources, waited bool, err error) {
	if p.lease != nil && p.lease.Dir != sources.State {
		p.leave()
	}
	if p.lease == nil {
		p.lease = &state.Lease{Dir: sources.State, After: p.LeaseTime}
	}
	said := ""
	for {
		held, holder, from, failed := p.lease.Try()
		if from.PID != 0 {
			p.Say(fmt.Sprintf("took over from %s, which was silent for %s", from, capacity.FormatDuration(p.lease.Silence())))
		}
		if held || failed != nil {
			if waited { // the other service has changed things since
				if next, read = p.Sources(ctx, true); read == nil {
					sources = next
				}
			}
			if sources.Still = p.lease.Check; failed != nil {
				sources.Still = func() error { return failed }
			}
			return sources, waited, read
		}
		waited = true
		if line := fmt.Sprintf("stands by: %s makes the passes", holder); line != said {
			said = line
			p.Say(said)
		}
		p.alive(said)
		select {
		case <-ctx.Done():
			return sources, waited, read
		case <-time.After(p.lease.Look()):
		}
	}
}

// leave lets another service take the post at once.
func (p *post) leave() {
	if p.lease != nil {
		p.lease.Release()
		p.lease = nil
	}
}
