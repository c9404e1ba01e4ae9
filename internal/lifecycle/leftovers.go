package lifecycle

import (
	"context"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// leftoversTime is what a pass gives the lists of what was made.
const leftoversTime = 30 * time.Second

// keepLeftovers takes over those of the last pass, but for what the settings name again.
func (p *pass) keepLeftovers() {
	if p.seen.Old == nil {
		return
	}
	for _, l := range p.seen.Old.Leftovers {
		if !p.Settings.Names(l.Made) {
			p.seen.Snap.Leftovers = append(p.seen.Snap.Leftovers, l)
		}
	}
}

// lookForLeftovers lists what carries our tag. What cannot be asked is no failure: no job
// depends on it.
func (p *pass) lookForLeftovers(ctx context.Context) {
	if p.Made == nil || p.OldLeftovers || p.seen.NoAWS || p.seen.Cluster.Mark == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leftoversTime)
	defer cancel()
	made, cluster, err := p.Made(ctx, p.seen.Cluster.Mark)
	if err != nil {
		words, _ := p.EC2.Explain(err)
		p.say(capacity.LeftoversNotKnown, capacity.Subject{}, "", "looking for what the settings do not name: %s", words)
		return
	}
	p.seen.Snap.Leftovers = capacity.Leftovers(made, p.Settings, cluster)
}

// leftoverProblems names what carries our tag and the settings do not name.
func leftoverProblems(s Seen) []capacity.Problem { return capacity.OfLeftovers(s.Snap.Leftovers) }
