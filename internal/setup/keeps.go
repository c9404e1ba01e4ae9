package setup

import "strings"

// checkUnknown keeps an update from losing what cannot be expressed, and says what is not
// copied. Slurm settings of a node group that is there are not touched at all.
func (in *inspection) checkUnknown(slot slotState, action Action) {
	if action == Update || action == Replace {
		if names := slot.group.Unknown; len(names) > 0 && !in.request.DropUnknown {
			in.problem("unknown-settings", "change it in PCS, or give --drop-unknown if these may be lost",
				"node group %s has settings that this version of pcs-capacity does not know, and this change could lose them: %s", slot.name, strings.Join(names, ", "))
		}
	}
	if slot.group != nil && !slot.failed() || in.like.ID == "" {
		return
	}
	if names := in.like.Unknown; len(names) > 0 {
		in.warn("node group %s has settings that this version of pcs-capacity does not know; they are not copied: %s", in.like.Name, strings.Join(names, ", "))
	}
	if _, dropped := in.like.SettingsFor(in.reservation.InstanceType); len(dropped) > 0 {
		in.warn("Slurm settings of %s describe %s and are not copied: %s", in.like.Name, strings.Join(in.like.InstanceTypes, ", "), strings.Join(dropped, ", "))
	}
}
