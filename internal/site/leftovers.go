package site

import (
	"context"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

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
