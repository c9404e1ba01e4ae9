package setup

import (
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// checkUnknown refuses changes that would lose settings unknown to this program, and warns about
// settings that are not copied. Slurm settings of an existing node group are never changed.
func (in *inspection) checkUnknown(want *wanted, slot slotState, template, group, queue Step) {
	if g := slot.group; slot.ours && !slot.failed() && g.TemplateID == "" {
		in.problem(capacity.UnknownSettings, "choose another --node-group, or delete it in PCS",
			"node group %s has no launch template of its own, so PCS launches it into no reservation", g.Name)
		return
	}
	switch group.Verb {
	case Update:
		in.mayLose("node group", slot.name, slot.group.LostBy(wantedGroup(want, slot, template)))
	case Replace:
		in.mayLose("node group", slot.name, slot.group.Unknown)
	}
	if q, found := in.inv.Queue(queue.Name); found && queue.Verb == Update {
		in.mayLose("queue", q.Name, q.LostBy(want.queueWith(q, nil)))
	}
	if slot.group != nil && !slot.failed() || in.like.ID == "" {
		return
	}
	if names := in.like.Unknown; len(names) > 0 {
		in.warn("node group %s has settings that this version of pcs-capacity does not know; they are not copied: %s",
			in.like.Name, strings.Join(names, ", "))
	}
	if gres := in.like.SlurmSettings[pcs.Gres]; gres != "" {
		in.warn(
			"%s=%s of %s is not copied: it needs records of gres.conf, which this version cannot write; PCS describes the GPUs of %s itself",
			pcs.Gres, gres, in.like.Name, in.reservation.InstanceType)
	}
	if _, dropped := in.like.SettingsFor(in.reservation.InstanceType); len(dropped) > 0 {
		in.warn("Slurm settings of %s describe %s and are not copied: %s", in.like.Name,
			strings.Join(in.like.InstanceTypes, ", "), strings.Join(dropped, ", "))
	}
}

// lifecycleActions returns the lifecycle actions of the nodes: of the node group named by --like,
// else of the slot changed last. Thus a change of one slot reaches the other.
func (in *inspection) lifecycleActions() pcs.LifecycleActions {
	from := in.like
	if in.request.Like == "" {
		for _, slot := range in.slots {
			if slot.ours && !slot.failed() && slot.group.Modified.After(from.Modified) {
				from = *slot.group
			}
		}
	}
	return from.Actions
}

func (in *inspection) mayLose(what, name string, lost []string) {
	if len(lost) > 0 {
		in.problem(capacity.UnknownSettings, "change it in PCS",
			"%s %s has settings that this version of pcs-capacity does not know, and this change could lose them: %s",
			what, name, strings.Join(lost, ", "))
	}
}
