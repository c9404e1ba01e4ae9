package check

import (
	"context"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// changeTime is how long a setup or teardown may take before check reports it.
const changeTime = time.Hour

// change looks for a setup or teardown that keeps others out, and is dead or takes long.
func (r *run) change(ctx context.Context) {
	if r.cluster == nil {
		return
	}
	change, found, err := r.EC2.ChangeOf(ctx, r.cluster.ID)
	if err == nil && found && r.EC2.Now().Sub(change.Since) > changeTime { // leftovers reports an error
		r.warn("change", "end that process, or, if it is dead, delete what it has left: "+change.EndCommand(r.EC2.Region()),
			"a `setup` or `teardown` keeps others from changing the cluster: %s", change)
	}
}

// leftovers looks for things that setup made and that the settings do not name.
func (r *run) leftovers(ctx context.Context) {
	made, err, cluster := r.made, r.madeErr, ""
	mark, _ := state.Dir(r.Config.StateDir).Mark() // without one, setup has made nothing
	if r.onPCS() {
		if r.cluster == nil {
			return
		}
		mark, cluster = r.cluster.Name, r.cluster.ID
	}
	if mark != "" && err == nil {
		var templates []capacity.Made
		templates, err = r.EC2.MadeTemplates(ctx, mark, pcs.TemplateName(mark, ""))
		made = append(made, templates...)
	}
	if err != nil {
		r.unread(ctx, "leftover", "what the settings do not name", err)
	}
	for _, m := range capacity.OfLeftovers(capacity.Leftovers(made, r.settings, cluster)) {
		r.problem("leftover", Fail, m)
	}
}
